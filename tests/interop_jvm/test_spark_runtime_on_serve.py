"""Iceberg's own Spark runtime does its whole round through ``esker serve``. Esker reads each result in the catalog."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from esker_server import serving
from jvm_peer import Peer, Refused
from postgres_server import PostgresServer

import esker
from esker.iceberg.json_document import JsonObject
from esker.lake import Lake
from esker.model.table_names import TableName
from esker.serve.scan_planning import ScanPlanning

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Served:
    """A lake behind the server, and Java's session as a client of the server."""

    lake: Lake
    java: Peer
    catalog: str

    def run(self, *texts: str) -> None:
        """Statements for Java; ``{c}`` is the catalog."""
        for text in texts:
            self.java.sql(text.format(c=self.catalog))

    def rows(self, text: str) -> list[Any]:
        """Java's answer, sorted."""
        return sorted(self.java.sql(text.format(c=self.catalog)).rows)

    def both(self, table: str, columns: str = "id, name") -> list[Any]:
        """The rows of a table, the same for Java and for Esker."""
        theirs = self.rows(f"SELECT {columns} FROM {{c}}.{table}")
        names = columns.split(", ")
        ours = sorted(tuple(row[name] for name in names) for row in self.lake.table(table).to_arrow().to_pylist())
        assert ours == theirs
        return ours


@pytest.fixture(params=["sqlite", "postgresql"])
def served(request: pytest.FixtureRequest, tmp_path: Path, java: Peer) -> Iterator[Served]:
    if request.param == "sqlite":
        lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
    else:
        postgres: PostgresServer = request.getfixturevalue("postgres")
        lake = esker.connect(postgres.new_catalog(tmp_path))
    catalog = f"served{next(_numbers)}"
    with serving(lake) as uri:
        settings = {
            "": "org.apache.iceberg.spark.SparkCatalog",
            ".type": "rest",
            ".uri": uri,
            ".cache-enabled": "false",
        }
        for name, value in settings.items():
            java.sql(f"SET `spark.sql.catalog.{catalog}{name}`=`{value}`")
        java.sql(f"CREATE NAMESPACE {catalog}.shop")
        yield Served(lake, java, catalog)


def test_tables_are_created_filled_and_replaced(served: Served) -> None:
    served.run(
        "CREATE TABLE {c}.shop.orders (id bigint, name string, day date) USING iceberg PARTITIONED BY (days(day))",
        "INSERT INTO {c}.shop.orders VALUES (1, 'a', DATE '2026-01-01'), (2, 'b', DATE '2026-01-02')",
        "CREATE TABLE {c}.shop.copy USING iceberg AS SELECT id, name FROM {c}.shop.orders",
    )
    assert served.both("shop.orders") == served.both("shop.copy") == [(1, "a"), (2, "b")]
    before = served.lake.table("shop.copy").uuid
    served.run(
        "REPLACE TABLE {c}.shop.copy USING iceberg AS SELECT id + 10 AS id, name FROM {c}.shop.orders",
        "CREATE OR REPLACE TABLE {c}.shop.fresh USING iceberg AS SELECT id, name FROM {c}.shop.copy WHERE id = 11",
    )
    assert served.both("shop.copy") == [(11, "a"), (12, "b")]
    assert served.both("shop.fresh") == [(11, "a")]
    copy = served.lake.table("shop.copy")
    assert (copy.uuid, len(copy.snapshots)) == (before, 2)
    with pytest.raises(Refused, match="already exists"):
        served.run("CREATE TABLE {c}.shop.copy (id bigint) USING iceberg")
    served.run("ALTER TABLE {c}.shop.copy RENAME TO shop.moved", "DROP TABLE {c}.shop.fresh PURGE")
    assert served.lake.tables("shop") == ["shop.moved", "shop.orders"]


def test_scans_are_planned_by_the_server(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java sends dates and timestamps of filters as numbers."""
    planned: list[int] = []

    def counting(self: ScanPlanning, name: TableName, document: JsonObject) -> Any:
        found = whole(self, name, document)
        planned.append(len(found[2]))
        return found

    whole = ScanPlanning._planned
    monkeypatch.setattr(ScanPlanning, "_planned", counting)
    ((_, uri),) = served.java.sql(f"SET `spark.sql.catalog.{served.catalog}.uri`").rows
    served = replace(served, catalog=f"{served.catalog}_plans")
    settings = {".type": "rest", ".uri": uri, ".cache-enabled": "false", ".scan-planning-mode": "server"}
    for name, value in {"": "org.apache.iceberg.spark.SparkCatalog", **settings}.items():
        served.java.sql(f"SET `spark.sql.catalog.{served.catalog}{name}`=`{value}`")
    columns = (
        "id int, day date, at timestamp, local timestamp_ntz, price decimal(9,2), name string, raw binary, x float"
    )
    served.run(f"CREATE TABLE {{c}}.shop.p ({columns}) USING iceberg PARTITIONED BY (days(at))")
    for at in (1, 2, 3):
        day = f"2026-01-0{at}"
        values = f"DATE '{day}', TIMESTAMP '{day} 00:00:00Z', TIMESTAMP_NTZ '{day} 00:00:00', {at}.5, 'n{at}', X'0{at}'"
        served.run(f"INSERT INTO {{c}}.shop.p VALUES ({at}, {values}, {at}.5)")
    for where, ids in (
        ("id > 1", [2, 3]),
        ("day = DATE '2026-01-02'", [2]),
        ("at >= TIMESTAMP '2026-01-02 00:00:00Z'", [2, 3]),
        ("local < TIMESTAMP_NTZ '2026-01-02 12:00:00'", [1, 2]),
        ("price = 2.5", [2]),
        ("name LIKE 'n2%'", [2]),
        ("raw = X'02'", [2]),
        ("x > 1.75", [2, 3]),
        ("NOT id IN (1, 3)", [2]),
    ):
        planned.clear()
        assert served.rows(f"SELECT id FROM {{c}}.shop.p WHERE {where}") == [(id_,) for id_ in ids], where
        assert planned, where  # a plan of the server, not one of Java


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_rows_are_merged_updated_and_deleted(served: Served, mode: str) -> None:
    modes = ", ".join(f"'write.{verb}.mode' = '{mode}'" for verb in ("delete", "update", "merge"))
    served.run(
        f"CREATE TABLE {{c}}.shop.t (id bigint, name string) USING iceberg TBLPROPERTIES ({modes})",
        "INSERT INTO {c}.shop.t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        "MERGE INTO {c}.shop.t t USING (SELECT 2L id, 'B' name UNION ALL SELECT 4L, 'd') s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        "UPDATE {c}.shop.t SET name = 'A' WHERE id = 1",
        "DELETE FROM {c}.shop.t WHERE id = 3",
    )
    assert served.both("shop.t") == [(1, "A"), (2, "B"), (4, "d")]


def test_tables_are_altered(served: Served) -> None:
    served.run(
        "CREATE TABLE {c}.shop.t (id int, name string) USING iceberg",
        "INSERT INTO {c}.shop.t VALUES (1, 'a')",
        "ALTER TABLE {c}.shop.t ADD COLUMN note string AFTER id",
        "ALTER TABLE {c}.shop.t ALTER COLUMN id TYPE bigint",
        "ALTER TABLE {c}.shop.t RENAME COLUMN name TO label",
        "ALTER TABLE {c}.shop.t ADD PARTITION FIELD bucket(4, id)",
        "ALTER TABLE {c}.shop.t WRITE ORDERED BY label",
        "ALTER TABLE {c}.shop.t SET TBLPROPERTIES ('team' = 'ann')",
        "INSERT INTO {c}.shop.t VALUES (2, 'n', 'b')",
    )
    assert served.both("shop.t", "id, label") == [(1, "a"), (2, "b")]
    table = served.lake.table("shop.t")
    assert [field.name for field in table.schema] == ["id", "note", "label"]
    assert table.properties["team"] == "ann"
    assert len(table.spec.fields) == len(table.sort_order.fields) == 1


def test_branches_and_tags_are_written_and_read(served: Served) -> None:
    served.run(
        "CREATE TABLE {c}.shop.t (id bigint, name string) USING iceberg",
        "INSERT INTO {c}.shop.t VALUES (1, 'a')",
        "ALTER TABLE {c}.shop.t CREATE TAG first",
        "ALTER TABLE {c}.shop.t CREATE BRANCH audit",
        "INSERT INTO {c}.shop.t.branch_audit VALUES (2, 'b')",
    )
    assert served.both("shop.t") == [(1, "a")]
    assert served.rows("SELECT id FROM {c}.shop.t VERSION AS OF 'audit'") == [(1,), (2,)]
    assert served.lake.table("shop.t").scan(ref="audit").count() == 2
    served.run("CALL {c}.system.fast_forward('shop.t', 'main', 'audit')", "INSERT INTO {c}.shop.t VALUES (3, 'c')")
    assert served.both("shop.t") == [(1, "a"), (2, "b"), (3, "c")]
    assert served.rows("SELECT id FROM {c}.shop.t VERSION AS OF 'first'") == [(1,)]
    served.run("ALTER TABLE {c}.shop.t DROP BRANCH audit", "ALTER TABLE {c}.shop.t DROP TAG first")
    assert set(served.lake.table("shop.t").refs) == {"main"}


def test_views_are_made_read_replaced_and_dropped(served: Served) -> None:
    served.run(
        "CREATE TABLE {c}.shop.t (id bigint, name string) USING iceberg",
        "INSERT INTO {c}.shop.t VALUES (1, 'a'), (2, 'b')",
        "CREATE VIEW {c}.shop.v AS SELECT id FROM {c}.shop.t WHERE id > 1",
    )
    assert served.rows("SELECT * FROM {c}.shop.v") == [(2,)]
    assert served.lake.views("shop") == ["shop.v"]
    served.run("CREATE OR REPLACE VIEW {c}.shop.v AS SELECT name FROM {c}.shop.t")
    assert served.rows("SELECT * FROM {c}.shop.v") == [("a",), ("b",)]
    served.run("ALTER VIEW {c}.shop.v SET TBLPROPERTIES ('k' = 'x')", "ALTER VIEW {c}.shop.v RENAME TO {c}.shop.w")
    assert served.lake.views("shop") == ["shop.w"]
    served.run("DROP VIEW {c}.shop.w")
    assert served.lake.views("shop") == []


def test_procedures_keep_the_rows(served: Served) -> None:
    served.run("CREATE TABLE {c}.shop.t (id bigint, name string) USING iceberg")
    for number in range(4):
        served.run(f"INSERT INTO {{c}}.shop.t VALUES ({number}, 'n{number}')")
    rows = served.both("shop.t")
    first = served.lake.table("shop.t").snapshots[0].snapshot_id
    served.run(
        "CALL {c}.system.rewrite_manifests('shop.t')",
        "CALL {c}.system.rewrite_data_files(table => 'shop.t', options => map('min-input-files', '2'))",
        "CALL {c}.system.compute_table_stats('shop.t')",
    )
    assert served.both("shop.t") == rows
    table = served.lake.table("shop.t")
    assert table.inspect.files().num_rows == 1
    current = table.current_snapshot
    assert current is not None
    served.run(f"CALL {{c}}.system.rollback_to_snapshot('shop.t', {first})")
    assert served.both("shop.t") == rows[:1]
    served.run(f"CALL {{c}}.system.set_current_snapshot('shop.t', {current.snapshot_id})")
    assert served.both("shop.t") == rows
    served.run(
        "CALL {c}.system.expire_snapshots(table => 'shop.t', older_than => TIMESTAMP '2100-01-01', retain_last => 1)",
        "CALL {c}.system.remove_orphan_files(table => 'shop.t', dry_run => true)",
    )
    assert served.both("shop.t") == rows
    assert len(served.lake.table("shop.t").snapshots) == 1
    assert not served.lake.table("shop.t").verify().findings
    location = served.lake.table("shop.t").metadata_location
    with pytest.raises(Refused, match="another table or view is there"):  # one folder is never that of two tables
        served.run(f"CALL {{c}}.system.register_table('shop.again', '{location}')")
    served.run("DROP TABLE {c}.shop.t", f"CALL {{c}}.system.register_table('shop.again', '{location}')")
    assert served.both("shop.again") == rows
