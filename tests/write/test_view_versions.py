"""What a view becomes, by the rules of Iceberg's view spec."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from views import COLUMNS, definition, simple_view

from esker.errors import InvalidInput, Unsupported
from esker.model.schema import Schema
from esker.model.types import Field, IntType
from esker.tree.view_metadata import SqlRepresentation
from esker.write.views.view_versions import DROP_DIALECT, HISTORY, QUERY_COLUMNS, replaced, with_properties

OTHER = Schema(fields=(Field(id=1, name="n", type=IntType()),))


def test_the_first_version_is_number_one_and_says_who_made_it() -> None:
    view = simple_view()
    assert (view.current_version_id, view.current_version.schema_id) == (1, 0)
    assert view.current_version.summary["engine-name"] == "esker"
    assert [entry.version_id for entry in view.version_log] == [1]


def test_another_query_is_another_version_and_its_columns_another_schema() -> None:
    base = simple_view()
    view = replaced(base, definition("SELECT n FROM t", OTHER))
    assert (view.current_version_id, view.current_version.sql()) == (2, "SELECT n FROM t")
    assert view.schema.fields == OTHER.fields
    assert [schema.schema_id for schema in view.schemas] == [0, 1]
    assert view.uuid == base.uuid
    assert view.versions[0] == base.current_version


def test_a_query_that_the_view_had_before_is_that_version_again() -> None:
    view = replaced(replaced(simple_view(), definition("SELECT 2")), definition())
    assert view.current_version_id == 1
    assert [entry.version_id for entry in view.version_log] == [1, 2, 1]
    assert len(view.versions) == 2


def test_the_same_query_changes_nothing() -> None:
    base = simple_view()
    assert replaced(base, definition()) == base


@given(st.lists(st.integers(0, 5), max_size=25), st.integers(1, 6))
def test_only_so_many_versions_are_kept_and_the_log_knows_all_of_its(numbers: list[int], kept: int) -> None:
    view = simple_view(**{HISTORY: str(kept)})
    for number in numbers:
        view = replaced(view, definition(f"SELECT {number}"))
        assert view.current_version.sql() == f"SELECT {number}"
        assert len(view.versions) <= kept
        ids = {version.version_id for version in view.versions}
        assert {entry.version_id for entry in view.version_log} <= ids
        assert view.version_log[-1].version_id == view.current_version_id
        assert {version.schema_id for version in view.versions} == {schema.schema_id for schema in view.schemas}


def test_a_dialect_of_another_engine_is_let_go_only_where_the_view_says_so() -> None:
    base = simple_view()
    trino = SqlRepresentation(sql="select 1", dialect="Trino")
    both = replace(base.current_version, representations=(*base.current_version.representations, trino))
    shared = replace(base, versions=(both,))
    with pytest.raises(Unsupported, match=r"also stored in trino.*replace\.drop-dialect\.allowed = true"):
        replaced(shared, definition("SELECT 2"))
    allowed = with_properties(shared, {DROP_DIALECT: "true"})
    assert replaced(allowed, definition("SELECT 2")).current_version.dialects == ("spark",)


def test_properties_are_set_and_removed_and_checked() -> None:
    view = with_properties(simple_view(a="1", b="2"), {"c": "3"}, ("a",))
    assert view.properties == {"b": "2", "c": "3"}
    with pytest.raises(InvalidInput, match=rf"cannot use {HISTORY} = '0': it takes a whole number from 1"):
        with_properties(view, {HISTORY: "0"})
    with pytest.raises(InvalidInput, match="keys and values must be text"):
        with_properties(view, {"a": 1})  # type: ignore[dict-item]


def test_what_the_query_calls_its_columns_is_forgotten_with_the_query() -> None:
    known = replaced(simple_view(), replace(definition("SELECT a, b"), query_columns=("a", "b")))
    assert known.properties[QUERY_COLUMNS] == "a,b"
    assert QUERY_COLUMNS not in replaced(known, definition("SELECT c, d", COLUMNS)).properties
