"""What of a merge's condition prunes: equalities with the source and terms on the table alone, and nothing doubtful."""

from __future__ import annotations

import pytest

from esker.model.predicates.predicate import TRUE
from esker.model.predicates.predicate_sql import to_sql
from esker.model.schema import Schema
from esker.model.types import LONG, STRING, Field
from esker.spark.rows.resolve_join_keys import Names, join_terms

SCHEMA = Schema(
    fields=(
        Field(id=1, name="id", type=LONG),
        Field(id=2, name="region", type=STRING),
        Field(id=3, name="s", type=STRING),
    )
)
NAMES = Names(schema=SCHEMA, target="t", source="n", source_columns=frozenset(("id", "code", "at")))


def keys(text: str, names: Names = NAMES) -> list[tuple[str, str, bool]]:
    return [(key.field.name, key.expression, key.null_safe) for key in join_terms(text, names, "UTC").keys]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("t.id = n.id", [("id", "n.id", False)]),
        ("n.id + 1 <=> t.id", [("id", "n.id + 1", True)]),
        ("(t.id = n.id AND (region = n.code))", [("id", "n.id", False), ("region", "n.code", False)]),
        ("t.id = n.id OR t.region = n.code", []),  # either may hold alone
        ("NOT t.id = n.id", []),
        ("t.id + 1 = n.id", []),
        ("t.id = id", []),  # whose id?
        ("t.id = n.id + t.id", []),
        ("t.id = (SELECT max(x) FROM y)", []),
        ("t.id > n.id", []),
        ("s.id = n.id", []),  # a column of the table's is called s
    ],
)
def test_only_plain_equalities_with_the_source_are_keys(text: str, expected: list[tuple[str, str, bool]]) -> None:
    assert keys(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("t.id = n.id AND t.region = 'eu' AND t.id > 5", "region = 'eu' AND id > 5"),
        ("t.id = n.id AND upper(t.region) = 'EU'", "true"),
        ("t.region = 'eu' OR n.id = 1", "true"),
        ("this is no condition", "true"),
        ("", "true"),
    ],
)
def test_terms_on_the_table_alone_prune_where_they_mean_the_same_to_esker(text: str, expected: str) -> None:
    assert to_sql(join_terms(text, NAMES, "UTC").alone) == expected


def test_without_a_source_every_name_is_the_tables() -> None:
    names = Names(schema=SCHEMA, target="orders")
    found = join_terms("orders.id IN (1, 2) AND length(region) = 2", names, "UTC")
    assert to_sql(found.alone) == "id IN (1, 2)"
    assert found.keys == ()
    assert join_terms("nosuch = 1", names, "UTC").alone == TRUE
