"""What users of other engines type: tables that may be there already, rows without a scan, names in another case."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import esker
from esker import Lake
from esker.catalogs.directory import DirectoryCatalog
from esker.errors import AlreadyExists, NoSuchTable
from esker.model.table_names import TableName
from esker.ports.catalog import Catalog, TableState
from esker.tree.table_metadata import TableMetadata


@pytest.fixture(params=["memory:", "sqlite:///{tmp}/catalog.db", "file://{tmp}/lake"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return esker.connect(request.param.format(tmp=tmp_path))


@pytest.mark.parametrize("option", ["if_not_exists", "exist_ok"])
def test_a_namespace_that_may_be_there_is_left_as_it_is(lake: Lake, option: str) -> None:
    may_exist = {option: True}
    lake.create_namespace("sales", **may_exist)  # type: ignore[arg-type]
    kept = lake.namespace_properties("sales")
    if not isinstance(lake.catalog, DirectoryCatalog):  # a folder has no properties
        lake.create_namespace("sales", {"owner": "other"}, **may_exist)  # type: ignore[arg-type]
    lake.create_namespace("sales", **may_exist)  # type: ignore[arg-type]
    assert lake.namespace_properties("sales") == kept
    lake.create_namespace("sales.eu", **may_exist)  # type: ignore[arg-type]
    assert lake.namespaces() == ["sales", "sales.eu"]


def test_a_table_that_is_there_comes_back(lake: Lake) -> None:
    lake.create_namespace("sales")
    made = lake.create_table("sales.orders", "id int")
    assert lake.create_table("sales.orders", "id int", if_not_exists=True).uuid == made.uuid
    assert lake.create_table("sales.new", "id int", if_not_exists=True).uuid == lake.table("sales.new").uuid
    with pytest.raises(AlreadyExists):
        lake.create_table("sales.orders", "id int")


def test_a_table_that_grew_still_fits_what_was_asked(lake: Lake) -> None:
    lake.create_namespace("sales")
    asked = "id int, s struct<a: int, b: array<int>>, price decimal(9,2)"
    table = lake.create_table("sales.t", asked)
    with table.alter() as change:
        change.widen_column("id", "bigint")
        change.widen_column("s.a", "bigint")
        change.add_column("more", "string")
    assert lake.create_table("sales.t", asked, partition_by=["id"], if_not_exists=True).uuid == table.uuid


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ("id int, city string", "it has no column 'city'"),
        ("id string", "its column 'id' is int, not string"),
        ("s struct<a: int, c: int>", r"it has no column 's\.c'"),
        ("s map<string, int>", "its column 's' is struct, not map"),
        ("n int", "it has no column 'n'"),
    ],
)
def test_a_table_of_another_shape_is_not_taken_for_the_one_asked_for(lake: Lake, asked: str, why: str) -> None:
    lake.create_namespace("sales")
    lake.create_table("sales.t", "id int, s struct<a: int, b: int>")
    with pytest.raises(AlreadyExists, match=rf"cannot use the existing table sales\.t with this schema: {why}"):
        lake.create_table("sales.t", asked, if_not_exists=True)


def test_a_table_that_another_made_meanwhile_comes_back(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.create_namespace("sales")
    create, others = type(lake.catalog).create, []

    def late(catalog: Catalog, name: TableName, metadata: TableMetadata) -> TableState:
        if not others:
            others.append(create(catalog, name, metadata))
        return create(catalog, name, metadata)

    monkeypatch.setattr(type(lake.catalog), "create", late)
    assert lake.create_table("sales.t", "id int", if_not_exists=True).uuid == others[0].metadata.uuid


def test_a_name_in_another_case_is_suggested(lake: Lake) -> None:
    lake.create_namespace("sales")
    lake.create_table("sales.orders", "id int")
    with pytest.raises(NoSuchTable, match=r"did you mean sales\.orders\?"):
        lake.table("sales.ORDERS")
    with pytest.raises(NoSuchTable, match=r"did you mean sales\.orders\?"):
        lake.table("SALES.Orders")


@pytest.mark.parametrize("verb", ["to_arrow", "to_pandas", "to_polars", "to_duckdb"])
def test_a_table_gives_its_rows_as_a_scan_does(lake: Lake, verb: str) -> None:
    lake.create_namespace("sales")
    table = lake.create_table("sales.t", "id int, n string")
    first = table.append(pa.table({"id": pa.array([1, 2, 3], pa.int32()), "n": ["a", "b", "c"]}))
    table.append(pa.table({"id": pa.array([4], pa.int32()), "n": ["d"]}))

    def ids(found: Any) -> list[int]:
        plain = found.to_arrow_table() if verb == "to_duckdb" else pa.table(found)
        assert plain.column_names == ["id"]
        return sorted(plain["id"].to_pylist())

    assert ids(getattr(table, verb)(columns=["id"])) == [1, 2, 3, 4]
    assert ids(getattr(table, verb)("id > 1", columns=["id"], snapshot_id=first.snapshot_id)) == [2, 3]
    assert len(ids(getattr(table, verb)(columns=["id"], limit=1))) == 1


def test_a_name_that_a_view_has_is_no_table_that_may_be_there() -> None:
    lake = esker.connect("memory:")
    lake.create_namespace("sales")
    lake.create_view("sales.v", "SELECT 1 AS id", schema="id int")
    with pytest.raises(AlreadyExists, match="view"):
        lake.create_table("sales.v", "id int", if_not_exists=True)


def test_a_table_that_may_be_there_is_dropped(lake: Lake) -> None:
    lake.drop_table("sales.t", if_exists=True)  # without a namespace too
    lake.create_namespace("sales")
    lake.drop_table("sales.t", if_exists=True)
    lake.create_table("sales.t", "id int")
    lake.drop_table("sales.t", if_exists=True)
    assert lake.tables() == []
    with pytest.raises(NoSuchTable):
        lake.drop_table("sales.t")
