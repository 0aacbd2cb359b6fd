"""Clients that others wrote use the server: PyIceberg, DuckDB and Polars. Esker reads what they wrote."""

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
from esker.model.table_names import TableName

pytestmark = pytest.mark.interop
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", None]})


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))


@pytest.fixture
def uri(lake: Lake) -> Iterator[str]:
    with serving(lake) as address:
        yield address


def test_nothing_is_lost_by_a_commit_of_a_client_that_loaded_refs_only(lake: Lake, uri: str) -> None:
    from pyiceberg.catalog.rest import RestCatalog

    lake.create_namespace("sales")
    mine = lake.create_table("sales.orders", ROWS.schema)
    for _ in range(5):
        mine.append(ROWS)
    before = lake.catalog.load(TableName(("sales",), "orders")).metadata
    table = RestCatalog("esker", uri=uri, **{"snapshot-loading-mode": "refs"}).load_table("sales.orders")
    assert len(table.metadata.snapshots) == 1
    assert [entry.snapshot_id for entry in table.history()] == [entry.snapshot_id for entry in before.snapshot_log]
    table.append(ROWS)
    after = lake.catalog.load(TableName(("sales",), "orders")).metadata
    assert after.snapshot_log[:-1] == before.snapshot_log
    assert [one.snapshot_id for one in after.snapshots][:-1] == [one.snapshot_id for one in before.snapshots]
    assert len(RestCatalog("esker", uri=uri).load_table("sales.orders").metadata.snapshots) == 6


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


def test_duckdb_changes_rows_and_tables(lake: Lake, uri: str) -> None:
    lake.create_namespace("sales")
    lake.create_table("sales.orders", ROWS.schema).append(ROWS)
    before = lake.table("sales.orders").current_snapshot
    assert before is not None
    connection: Any = duckdb_with_iceberg("httpfs")
    connection.execute(f"ATTACH '' AS lake (TYPE iceberg, ENDPOINT '{uri}', AUTHORIZATION_TYPE 'none')")
    for statement in (
        "UPDATE lake.sales.orders SET name = 'A' WHERE id = 1",
        "DELETE FROM lake.sales.orders WHERE id = 2",
        "MERGE INTO lake.sales.orders t USING (SELECT 3::BIGINT AS id, 'C' AS name UNION ALL SELECT 9, 'z') s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.name)",
        "CREATE TABLE lake.sales.made AS SELECT id, name FROM lake.sales.orders WHERE id > 1",
        "ALTER TABLE lake.sales.made ADD COLUMN note VARCHAR",
        "ALTER TABLE lake.sales.made RENAME TO kept",
        "BEGIN",
        "INSERT INTO lake.sales.orders VALUES (20, 'x')",
        "INSERT INTO lake.sales.kept VALUES (20, 'x', 'both')",
        "COMMIT",
        "BEGIN",
        "INSERT INTO lake.sales.orders VALUES (21, 'x')",
        "ROLLBACK",
        "CREATE SCHEMA lake.eu",
        "CREATE TABLE lake.eu.x (id BIGINT)",
        "DROP TABLE lake.eu.x",
        "DROP SCHEMA lake.eu",
    ):
        connection.execute(statement)
    rows = sorted(tuple(row.values()) for row in lake.table("sales.orders").to_arrow().to_pylist())
    assert rows == [(1, "A"), (3, "C"), (9, "z"), (20, "x")]
    kept = sorted(tuple(row.values()) for row in lake.table("sales.kept").to_arrow().to_pylist())
    assert kept == [(3, "C", None), (9, "z", None), (20, "x", "both")]
    old = f"SELECT id FROM lake.sales.orders AT (VERSION => {before.snapshot_id}) ORDER BY id"
    assert connection.execute(old).fetchall() == [(1,), (2,), (3,)]
    assert lake.tables("sales") == ["sales.kept", "sales.orders"]
    assert lake.namespaces() == ["sales"]


def test_polars_reads_prunes_and_writes(lake: Lake, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    polars = pytest.importorskip("polars")
    from pyiceberg.catalog.rest import RestCatalog

    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")  # else it warns that it has no planner of its own
    lake.create_namespace("sales")
    lake.create_table("sales.orders", ROWS.schema).append(ROWS)
    lake.table("sales.orders").delete("id = 2")
    catalog = RestCatalog("esker", uri=uri)
    table = catalog.load_table("sales.orders")
    found = polars.scan_iceberg(table).filter(polars.col("id") > 1).collect()
    assert found.rows() == [(3, None)]
    polars.DataFrame({"id": [7], "name": ["p"]}).write_iceberg(table, mode="append")
    assert sorted(lake.table("sales.orders").to_arrow()["id"].to_pylist()) == [1, 3, 7]
    polars.DataFrame({"id": [8], "name": ["q"]}).write_iceberg(catalog.load_table("sales.orders"), mode="overwrite")
    assert lake.table("sales.orders").to_arrow().to_pylist() == [{"id": 8, "name": "q"}]
