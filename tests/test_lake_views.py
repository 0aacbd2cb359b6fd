"""Views as a user of a lake holds them, with no Spark in sight."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import esker
from esker.catalogs.memory import memory_catalog
from esker.errors import AlreadyExists, InvalidInput, NoSuchNamespace, NoSuchTable, NoSuchView, Unsupported
from esker.lake import Lake
from esker.model.table_names import TableName
from esker.tree.view_metadata import SqlRepresentation
from esker.write.views.view_versions import commit_view

SQL = "SELECT id FROM orders"


@pytest.fixture
def lake() -> Lake:
    lake = esker.connect("memory:")
    lake.create_namespace("sales")
    lake.create_table("sales.orders", "id bigint")
    return lake


def test_a_view_is_made_listed_opened_renamed_and_dropped(lake: Lake) -> None:
    made = lake.create_view("sales.v", f"  {SQL} ; ", schema="id bigint", comment="mine", properties={"a": "b"})
    assert (made.name, made.sql, made.comment, made.properties) == (
        "sales.v",
        SQL,
        "mine",
        {"a": "b", "comment": "mine"},
    )
    assert (lake.views(), lake.views("sales"), lake.tables("sales")) == (["sales.v"], ["sales.v"], ["sales.orders"])
    found = lake.view("sales.v")
    assert (found.uuid, found.location, found.metadata_location) == (made.uuid, made.location, made.metadata_location)
    assert repr(found) == "<esker.View sales.v>"
    assert lake.rename_view("sales.v", "sales.w").uuid == made.uuid
    lake.drop_view("sales.w")
    assert lake.views() == []


def test_a_view_that_may_exist_is_left_as_it_is(lake: Lake) -> None:
    made = lake.create_view("sales.v", SQL, schema="id bigint", if_not_exists=True)
    again = lake.create_view("sales.v", "SELECT 2 AS other", schema="other int", if_not_exists=True)
    assert (again.uuid, again.sql) == (made.uuid, SQL)
    with pytest.raises(AlreadyExists):  # of a table
        lake.create_view("sales.orders", SQL, schema="id bigint", if_not_exists=True)
    with pytest.raises(InvalidInput, match="not both"):
        lake.create_view("sales.v", SQL, schema="id bigint", if_not_exists=True, replace=True)


@pytest.mark.parametrize(
    "schema",
    ["id bigint, tags array<string>", pa.schema([("id", pa.int64()), ("tags", pa.list_(pa.string()))])],
    ids=["ddl", "arrow"],
)
def test_the_columns_are_given_as_those_of_a_table(lake: Lake, schema: object) -> None:
    view = lake.create_view("sales.v", SQL, schema=schema)
    assert [str(field.type) for field in view.schema.fields] == ["long", "list<string>"]
    assert len({field.id for field in view.schema.by_id.values()}) == 3


def test_another_query_is_another_version(lake: Lake) -> None:
    lake.create_view("sales.v", SQL, schema="id bigint", properties={"kept": "yes"})
    view = lake.create_view("sales.v", "SELECT 1 AS a", schema="a int", replace=True, comment="new")
    assert [version.version_id for version in view.versions] == [1, 2]
    assert [entry.version_id for entry in view.history] == [1, 2]
    assert view.properties == {"kept": "yes", "comment": "new"}
    assert lake.create_view("sales.fresh", SQL, schema="id bigint", replace=True).current_version.version_id == 1


def test_a_view_of_another_dialect_is_replaced_only_where_it_says_so(lake: Lake) -> None:
    view = lake.create_view("sales.v", SQL, schema="id bigint")
    trino = SqlRepresentation(sql="select 1", dialect="trino")
    both = replace(view.current_version, representations=(*view.current_version.representations, trino))
    name = TableName.parse("sales.v")
    commit_view(lake.catalog.view_catalog(), name, lambda base: replace(base, versions=(both,)))
    assert lake.view("sales.v").dialects == ("spark", "trino")
    with pytest.raises(Unsupported, match=r"cannot replace view sales\.v: it is also stored in trino"):
        lake.create_view("sales.v", "SELECT 2 AS id", schema="id bigint", replace=True)
    allowed = {"replace.drop-dialect.allowed": "true"}
    lake.create_view("sales.v", "SELECT 2 AS id", schema="id bigint", replace=True, properties=allowed)
    assert lake.view("sales.v").dialects == ("spark",)


def test_properties_are_set_and_removed_one_commit_each(lake: Lake) -> None:
    view = lake.create_view("sales.v", SQL, schema="id bigint", properties={"a": "1"})
    view.set_properties({"b": "2"})
    view.remove_properties("a", "never there")
    assert lake.view("sales.v").properties == view.properties == {"b": "2"}
    with pytest.raises(InvalidInput, match=r"cannot use version\.history\.num-entries = 'x'"):
        view.set_properties({"version.history.num-entries": "x"})


def test_what_is_missing_is_said_with_what_is_there(lake: Lake) -> None:
    lake.create_view("sales.europe", SQL, schema="id bigint")
    with pytest.raises(NoSuchView, match=r"no view sales\.eurpoe: .*; did you mean sales\.europe\?"):
        lake.view("sales.eurpoe")
    with pytest.raises(NoSuchView, match="there is no such namespace either; the catalog has sales"):
        lake.drop_view("nowhere.v")
    with pytest.raises(
        NoSuchTable, match=r"no table sales\.europe: it is a view; lake\.sql reads it and lake\.view opens"
    ):
        lake.table("sales.europe")
    for call in (lambda: lake.views("nowhere"), lambda: lake.create_view("nowhere.v", SQL, schema="id int")):
        with pytest.raises(NoSuchNamespace, match="no namespace nowhere; the catalog has sales"):
            call()


def test_a_table_in_the_way_stays(lake: Lake) -> None:
    for replaces in (False, True):
        with pytest.raises(AlreadyExists, match=r"cannot create view sales\.orders: a table of that name exists"):
            lake.create_view("sales.orders", SQL, schema="id bigint", replace=replaces)
    assert lake.table("sales.orders").schema.fields[0].name == "id"


@pytest.mark.parametrize(
    ("sql", "schema", "why"),
    [
        ("", "id int", "cannot create a view without a query"),
        (None, None, "cannot create a view without a query"),
        ("x" * (1 << 20) + "x", "id int", "cannot create a view of a query of 1,048,577 characters"),
        (SQL, "id int, id int", "column 'id' is there twice"),
        (SQL, 7, "cannot make columns of a int"),
    ],
)
def test_what_is_no_view_is_refused(lake: Lake, sql: str, schema: object, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        lake.create_view("sales.v", sql, schema=schema)
    assert lake.views() == []


def test_without_spark_the_columns_must_be_given() -> None:
    lake = Lake(catalog=memory_catalog(), open_table=lambda name, state: None)  # type: ignore[arg-type,return-value]
    lake.create_namespace("sales")
    with pytest.raises(
        Unsupported, match=r"cannot determine the columns of view sales\.v: .*without Spark; give schema"
    ):
        lake.create_view("sales.v", SQL)


def test_a_directory_makes_none_and_says_why(tmp_path: Path) -> None:
    lake = esker.connect(str(tmp_path))
    lake.create_namespace("sales")
    with pytest.raises(Unsupported, match=r"cannot create view sales\.v: a directory catalog has only tables"):
        lake.create_view("sales.v", SQL, schema="id bigint")
    assert lake.views() == []


def test_looking_at_views_loads_neither_arrow_nor_spark(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/catalog.db"
    lake = esker.connect(uri)
    lake.create_namespace("sales")
    lake.create_view("sales.v", SQL, schema="id bigint")
    code = (
        f"import sys, esker; view = esker.connect({uri!r}).view('sales.v'); view.sql, view.schema, view.versions;"
        "print({'numpy', 'pyarrow', 'pyspark', 'sqlglot'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "set()\n"
