"""Esker and Iceberg's own writer on one table, by turns and at once: neither loses what the other did."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from jvm_peer import assert_equal_rows, esker_rows
from jvm_samples import ORDERS, orders

import esker


def test_each_appends_to_the_other_s_table(shared, write) -> None:
    shared.lake.create_table(shared.name("ours"), ORDERS, partition_by=["region"])
    shared.run("CREATE TABLE {theirs} (id bigint NOT NULL, region string, amount decimal(12,2), ts timestamp)"
               " USING iceberg PARTITIONED BY (bucket(3, id), days(ts))")  # fmt: skip
    for name in ("ours", "theirs"):
        for turn in range(3):
            write(shared.table(name), orders(turn * 10, 5))
            shared.run(
                f"INSERT INTO {{{name}}} SELECT id + 5, region, amount, ts FROM {{{name}}} WHERE id >= {turn * 10}"
            )
            assert len(shared.assert_same(name)) == (turn + 1) * 10
        snapshots = shared.table(name).snapshots
        assert [snapshot.parent_snapshot_id for snapshot in snapshots[1:]] == [
            snapshot.snapshot_id for snapshot in snapshots[:-1]
        ]


def test_a_database_that_java_made_is_shared(javas) -> None:
    javas.run("CREATE TABLE {theirs} (id bigint) USING iceberg", "INSERT INTO {theirs} VALUES (1)")
    javas.lake.create_table(javas.name("ours"), "id bigint").append(pa.table({"id": [1, 2]}))
    javas.lake.create_namespace("made_here")
    javas.run("INSERT INTO {ours} VALUES (3)", "ALTER TABLE {ours} RENAME TO {namespace}.renamed")
    assert len(javas.assert_same("renamed")) == 3
    assert javas.lake.tables(javas.namespace) == [javas.name("renamed"), javas.name("theirs")]
    assert ("made_here",) in javas.sql("SHOW NAMESPACES IN {catalog}").rows
    shown = javas.sql("SHOW TABLES IN {catalog}.{namespace}").dicts()
    assert sorted(row["tableName"] for row in shown) == ["renamed", "theirs"]
    javas.lake.drop_table(javas.name("theirs"))
    javas.run("DROP TABLE {renamed}")
    assert javas.lake.tables(javas.namespace) == []


@pytest.mark.parametrize("version", [2, 3])
def test_esker_changes_rows_that_java_deleted_around(shared, write, version: int) -> None:
    """Esker rewrites files that have delete files of Java's: the deleted rows stay deleted, in both readings."""
    table = shared.lake.create_table(
        shared.name("t"),
        ORDERS,
        partition_by=["region"],
        format_version=version,
        properties=_modes("merge-on-read"),
    )
    write(table, orders(0, 30))
    shared.run("DELETE FROM {t} WHERE id % 4 = 1", "UPDATE {t} SET amount = -1 WHERE id IN (2, 6)")
    table.refresh()
    assert table.inspect.delete_files().num_rows > 0
    _set_modes(table, "copy-on-write")
    table.delete("id IN (3, 4, 8)")
    shared.assert_same("t")
    write(table, orders(50, 5))
    _set_modes(table, "merge-on-read")
    shared.run("DELETE FROM {t} WHERE id IN (7, 51)")
    _set_modes(table.refresh(), "copy-on-write")
    table.overwrite(orders(90, 3), "region = 'us'")
    rows = shared.assert_same("t")
    assert not {1, 3, 4, 5, 7, 8, 51} & {row["id"] for row in rows}
    if version == 3:
        columns = ["id", "_row_id", "_last_updated_sequence_number"]
        theirs = shared.sql(f"SELECT {', '.join(columns)} FROM {{t}}").dicts()
        assert_equal_rows(esker_rows(table.scan(columns=columns).to_arrow()), theirs)
        assert len({row["_row_id"] for row in theirs}) == len(theirs)
    for snapshot in table.snapshots:
        shared.assert_same("t", version=str(snapshot.snapshot_id))


def _modes(mode: str) -> dict[str, str]:
    return {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")}


def _set_modes(table: esker.Table, mode: str) -> None:
    with table.alter() as change:
        change.set_properties(_modes(mode))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_java_s_upkeep_of_esker_s_table_changes_no_row(shared, write, version: int) -> None:
    table = shared.lake.create_table(
        shared.name("t"), ORDERS, partition_by=["region"], sort_by=["id"], format_version=version
    )
    for turn in range(6):
        write(table, orders(turn * 10, 10))
    table.delete("id IN (5, 15, 25)")
    before = esker_rows(table.scan().to_arrow())
    for call in (
        "rewrite_data_files(table => '{namespace}.t', options => map('min-input-files', '2'))",
        "rewrite_data_files(table => '{namespace}.t', strategy => 'sort', sort_order => 'amount DESC')",
        "rewrite_manifests('{namespace}.t')",
        "expire_snapshots(table => '{namespace}.t', older_than => TIMESTAMP '2999-01-01 00:00:00', retain_last => 1)",
        "remove_orphan_files(table => '{namespace}.t', dry_run => true)",
    ):
        found = shared.sql("CALL {catalog}.system." + call)
        assert_equal_rows(shared.assert_same("t"), before)
    assert found.rows == []  # the whole table's folder is the table's
    table.refresh()
    assert len(table.snapshots) == 1
    write(table, orders(100, 1))
    table.delete("id = 1")
    assert len(shared.assert_same("t")) == len(before)


def test_merged_by_java_then_changed_by_esker_and_back(shared, write) -> None:
    table = shared.lake.create_table(shared.name("t"), ORDERS, partition_by=["bucket(2, id)"])
    write(table, orders(0, 10))
    shared.lake.create_table(shared.name("s"), ORDERS).append(orders(5, 10))
    for mode in ("merge-on-read", "copy-on-write"):
        with table.refresh().alter() as change:
            change.set_properties({"write.merge.mode": mode})
        shared.run(
            "MERGE INTO {t} t USING {s} s ON t.id = s.id WHEN MATCHED AND t.id % 2 = 0 THEN DELETE"
            " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        shared.assert_same("t")
        table.refresh().delete("id = 5")
        shared.assert_same("t")
    shared.run(
        "ALTER TABLE {t} CREATE BRANCH b",
        "INSERT INTO {t}.branch_b SELECT * FROM {s}",
        "ALTER TABLE {t} ADD COLUMN n int",
    )
    table.refresh().append(orders(100, 2), ref="b")
    assert len(shared.assert_same("t", version="b")) == len(shared.assert_same("t")) + 12


def test_both_append_at_once_and_every_row_is_there(sqlite, write) -> None:
    retries = {"num-retries": "50", "min-wait-ms": "10", "max-wait-ms": "100"}
    table = sqlite.lake.create_table(
        sqlite.name("t"), "id bigint", properties={f"commit.retry.{key}": value for key, value in retries.items()}
    )
    with ThreadPoolExecutor(1) as java:
        inserted = java.submit(sqlite.run, *(f"INSERT INTO {{t}} VALUES ({n})" for n in range(8)))
        written = 0
        while not inserted.done():
            write(table, pa.table({"id": [1000 + written]}))
            written += 1
            time.sleep(0.1)  # a commit here takes milliseconds, one there much longer: without a pause it never wins
        inserted.result()
    ids = sorted(row["id"] for row in sqlite.assert_same("t"))
    assert ids == [*range(8), *range(1000, 1000 + written)]
    assert len(sqlite.table("t").snapshots) == 8 + written
