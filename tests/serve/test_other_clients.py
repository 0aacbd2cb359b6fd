"""Clients that others wrote use the server: PyIceberg and DuckDB. Esker reads what they wrote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("uvicorn")

from duckdb_iceberg import duckdb_with_iceberg
from esker_server import serving
from pyiceberg.types import StringType

import esker
from esker.lake import Lake

pytestmark = pytest.mark.interop
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", None]})


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))


@pytest.fixture
def uri(lake: Lake) -> Iterator[str]:
    with serving(lake) as address:
        yield address


def test_pyiceberg_does_its_whole_round(lake: Lake, uri: str) -> None:
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.exceptions import NamespaceNotEmptyError, NoSuchTableError, TableAlreadyExistsError
    from pyiceberg.transforms import IdentityTransform

    catalog = RestCatalog("esker", uri=uri)
    catalog.create_namespace("sales", {"owner": "ann"})
    catalog.create_namespace("sales.eu")
    assert catalog.list_namespaces() == [("sales",)]
    assert catalog.list_namespaces("sales") == [("sales", "eu")]
    assert catalog.load_namespace_properties("sales")["owner"] == "ann"
    catalog.update_namespace_properties("sales", {"owner"}, {"team": "x"})
    assert catalog.load_namespace_properties("sales") == {"team": "x"}

    table = catalog.create_table("sales.orders", ROWS.schema)
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table("sales.orders", ROWS.schema)
    table.append(ROWS)
    table.append(ROWS.slice(0, 1))
    assert lake.table("sales.orders").scan().count() == 4
    table.delete("id = 1")
    assert sorted(lake.table("sales.orders").to_arrow()["id"].to_pylist()) == [2, 3]
    with table.update_schema() as update:
        update.add_column("note", StringType())
    with table.update_spec() as update:
        update.add_field("name", IdentityTransform(), "name_part")
    table.append(pa.table({"id": [7], "name": ["n"], "note": ["x"]}))
    assert lake.table("sales.orders").scan("note = 'x'").to_arrow()["id"].to_pylist() == [7]
    table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, "first").commit()
    assert "first" in lake.table("sales.orders").refs
    with table.transaction() as change:
        change.set_properties(owner="bob")
        change.append(pa.table({"id": [8], "name": ["n"], "note": ["y"]}))
    assert lake.table("sales.orders").properties["owner"] == "bob"

    with catalog.create_table_transaction("sales.staged", ROWS.schema) as staged:
        assert lake.tables("sales") == ["sales.orders"]
        staged.append(ROWS)
    assert lake.table("sales.staged").scan().count() == 3

    catalog.rename_table("sales.orders", "sales.eu.orders")
    assert catalog.list_tables("sales.eu") == [("sales", "eu", "orders")]
    location = catalog.load_table("sales.eu.orders").metadata_location
    catalog.drop_table("sales.eu.orders")
    with pytest.raises(NoSuchTableError):
        catalog.load_table("sales.eu.orders")
    catalog.register_table("sales.again", location)
    assert catalog.load_table("sales.again").scan().to_arrow().num_rows == 4
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace("sales")
    catalog.purge_table("sales.again")
    catalog.purge_table("sales.staged")
    catalog.drop_namespace("sales.eu")
    catalog.drop_namespace("sales")
    assert lake.namespaces() == []


def test_pyiceberg_reads_what_esker_wrote_and_conflicts_are_conflicts(lake: Lake, uri: str) -> None:
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.exceptions import CommitFailedException

    lake.create_namespace("sales")
    ours = lake.create_table("sales.orders", ROWS.schema)
    ours.append(ROWS)
    table = RestCatalog("esker", uri=uri).load_table("sales.orders")
    assert table.scan().to_arrow().sort_by("id") == ROWS
    late = RestCatalog("esker", uri=uri, **{"commit.retry.num-retries": "0"}).load_table("sales.orders")
    update = late.update_schema().add_column("note", StringType())
    with ours.alter() as change:
        change.add_column("other", "int")
    with pytest.raises(CommitFailedException):
        update.commit()
    assert [field.name for field in lake.table("sales.orders").schema] == ["id", "name", "other"]


def test_duckdb_attaches_reads_and_writes(lake: Lake, uri: str) -> None:
    lake.create_namespace("sales")
    lake.create_table("sales.orders", ROWS.schema).append(ROWS)
    connection: Any = duckdb_with_iceberg("httpfs")
    connection.execute(f"ATTACH '' AS lake (TYPE iceberg, ENDPOINT '{uri}', AUTHORIZATION_TYPE 'none')")
    found = connection.execute("SELECT id, name FROM lake.sales.orders ORDER BY id").fetchall()
    assert found == [(1, "a"), (2, "b"), (3, None)]
    connection.execute("INSERT INTO lake.sales.orders VALUES (4, 'd')")
    connection.execute("CREATE TABLE lake.sales.made (id BIGINT)")
    connection.execute("INSERT INTO lake.sales.made VALUES (1)")
    assert lake.table("sales.orders").scan("id = 4").to_arrow()["name"].to_pylist() == ["d"]
    assert lake.table("sales.made").to_arrow().to_pylist() == [{"id": 1}]
