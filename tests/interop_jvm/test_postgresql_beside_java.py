"""Esker and Java's JDBC catalog on one PostgreSQL database, by turns and at once: neither loses what the other did."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from jvm_samples import ORDERS, orders


def test_each_appends_to_the_other_s_table(on_postgresql, write) -> None:
    shared = on_postgresql
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


def test_names_of_either_are_seen_by_both(on_postgresql) -> None:
    shared = on_postgresql
    shared.run("CREATE TABLE {theirs} (id bigint) USING iceberg")
    shared.lake.create_table(shared.name("ours"), "id bigint").append(pa.table({"id": [1, 2]}))
    shared.lake.create_namespace(f"{shared.namespace}.below")
    shared.run("ALTER TABLE {ours} RENAME TO {namespace}.renamed")
    assert len(shared.assert_same("renamed")) == 2
    assert shared.lake.tables(shared.namespace) == [shared.name("renamed"), shared.name("theirs")]
    assert (f"{shared.namespace}.below",) in shared.sql("SHOW NAMESPACES IN {catalog}.{namespace}").rows
    shown = shared.sql("SHOW TABLES IN {catalog}.{namespace}").dicts()
    assert sorted(row["tableName"] for row in shown) == ["renamed", "theirs"]
    shared.lake.drop_table(shared.name("theirs"))
    shared.run("DROP TABLE {renamed}")
    assert shared.lake.tables(shared.namespace) == []


def test_views_of_either_are_seen_by_both(on_postgresql) -> None:
    shared = on_postgresql
    shared.lake.create_table(shared.name("t"), "id bigint").append(pa.table({"id": [1, 2, 3]}))
    shared.run("CREATE VIEW {theirs} AS SELECT id FROM {t} WHERE id > 1")
    assert shared.lake.views(shared.namespace) == [shared.name("theirs")]
    assert shared.lake.tables(shared.namespace) == [shared.name("t")]
    assert "WHERE id > 1" in shared.lake.view(shared.name("theirs")).sql
    columns = "id bigint"
    shared.lake.create_view(shared.name("ours"), "SELECT id FROM t WHERE id < 3", schema=columns)
    assert sorted(shared.sql("SELECT id FROM {ours}").rows) == [(1,), (2,)]
    shared.run("ALTER VIEW {ours} SET TBLPROPERTIES ('by' = 'java')")
    assert shared.lake.view(shared.name("ours")).properties["by"] == "java"
    shared.lake.create_view(shared.name("ours"), "SELECT id FROM t WHERE id = 3", schema=columns, replace=True)
    assert shared.sql("SELECT id FROM {ours}").rows == [(3,)]
    shared.run("DROP VIEW {ours}")
    assert shared.lake.views(shared.namespace) == [shared.name("theirs")]
    shared.lake.drop_view(shared.name("theirs"))
    listed = shared.sql("SHOW VIEWS IN {catalog}.{namespace}").dicts()
    assert [row for row in listed if not row["isTemporary"]] == []  # other tests leave temporary ones


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_each_changes_rows_that_the_other_wrote(on_postgresql, mode: str) -> None:
    shared = on_postgresql
    modes = {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")}
    shared.lake.create_table(shared.name("t"), "id bigint, name string", properties=modes)
    shared.table("t").append(pa.table({"id": [1, 2, 3, 4], "name": ["a", "b", "c", "d"]}))
    shared.run("DELETE FROM {t} WHERE id = 1", "INSERT INTO {t} VALUES (5, 'e')")
    shared.table("t").delete("id = 2")
    shared.table("t").update({"name": "'ours'"}, "id = 5")
    shared.run("UPDATE {t} SET name = 'theirs' WHERE id = 3", "ALTER TABLE {t} ADD COLUMN note string")
    shared.table("t").upsert(pa.table({"id": [4, 6], "name": ["D", "f"], "note": ["x", "y"]}), on=["id"])
    rows = shared.assert_same("t")
    assert sorted((row["id"], row["name"], row["note"]) for row in rows) == [
        (3, "theirs", None),
        (4, "D", "x"),
        (5, "ours", None),
        (6, "f", "y"),
    ]


@pytest.mark.parametrize("rounds", [6])
def test_both_at_once_lose_nothing(on_postgresql, rounds: int) -> None:
    shared = on_postgresql
    properties = {"commit.retry.num-retries": "50"}
    shared.lake.create_table(shared.name("t"), "id bigint", properties=properties)

    def ours() -> None:
        for at in range(rounds):
            shared.table("t").append(pa.table({"id": [at]}))

    def theirs() -> None:
        for at in range(rounds):
            shared.run(f"INSERT INTO {{t}} VALUES ({100 + at})")

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(ours), pool.submit(theirs)]:
            done.result(300)
    rows = shared.assert_same("t")
    assert sorted(row["id"] for row in rows) == [*range(rounds), *range(100, 100 + rounds)]
    assert len(shared.table("t").snapshots) == 2 * rounds
