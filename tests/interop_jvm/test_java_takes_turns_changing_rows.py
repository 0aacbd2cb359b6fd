"""Changes of rows by Esker without Spark and by the reference, on one table: each reads what the other left."""

from __future__ import annotations

from typing import Any

import pytest
from row_models import SCHEMA, arrow

from esker.table import Table

BESIDE, REWRITING = "merge-on-read", "copy-on-write"
VERBS = ("delete", "update", "merge")


def made(shared: Any, name: str, version: int, mode: str, partition_by: tuple[str, ...] = (), **more: str) -> Table:
    properties = {**{f"write.{verb}.mode": mode for verb in VERBS}, **more}
    table: Table = shared.lake.create_table(
        shared.name(name), SCHEMA, format_version=version, partition_by=partition_by, properties=properties
    )
    table.append(arrow([{"id": i, "region": "eu" if i % 2 else None, "n": i} for i in range(100)]))
    table.append(arrow([{"id": i, "region": "us", "n": i} for i in range(100, 200)]))
    return table


def change(table: Table) -> None:
    """Every verb, each over files that the ones before have left deletes on."""
    table.delete("id IN (3, 50, 51, 52, 150)")
    table.update({"n": "n * 10", "region": "'us'"}, "id BETWEEN 40 AND 60 OR id = 199")
    table.upsert(arrow([{"id": i, "region": "eu", "n": -i} for i in (1, 45, 120, 777)]), on=["id"])
    table.delete("id = 4")


@pytest.mark.parametrize("partition_by", [(), ("region",), ("bucket(4, id)",)], ids=["plain", "region", "bucket"])
@pytest.mark.parametrize("mode", [REWRITING, BESIDE])
@pytest.mark.parametrize("version", [2, 3])
def test_java_reads_the_rows_that_changes_leave(sqlite: Any, version: int, mode: str, partition_by: Any) -> None:
    change(made(sqlite, "t", version, mode, partition_by))
    assert len(sqlite.assert_same("t")) == 195
    sqlite.assert_same("t", where="id > 40 AND region = 'us'")
    for snapshot in sqlite.table("t").snapshots:
        sqlite.assert_same("t", version=str(snapshot.snapshot_id))


def test_java_reads_deletes_of_a_whole_partition(sqlite: Any) -> None:
    change(made(sqlite, "t", 2, BESIDE, ("region",), **{"write.delete.granularity": "partition"}))
    sqlite.assert_same("t")


@pytest.mark.parametrize("partition_by", [(), ("bucket(4, id)",)], ids=["plain", "bucket"])
@pytest.mark.parametrize("version", [2, 3])
def test_java_reads_deletes_by_key(sqlite: Any, version: int, partition_by: tuple[str, ...]) -> None:
    table = made(sqlite, "t", version, BESIDE, partition_by)
    rows = arrow([{"id": i, "region": "jp", "n": 0} for i in (2, 19, 400, None)])
    for _ in range(2):
        with table.transaction() as tx:
            tx.delete_by_key(rows, on=["id"])
            tx.append(rows)
    assert len(sqlite.assert_same("t")) == 202


@pytest.mark.parametrize("mode", [REWRITING, BESIDE])
@pytest.mark.parametrize("version", [2, 3])
def test_both_change_rows_by_turns(sqlite: Any, version: int, mode: str) -> None:
    table = made(sqlite, "t", version, mode, ("region",))
    table.delete("id IN (3, 50)")
    sqlite.run("DELETE FROM {t} WHERE id IN (5, 51, 151)", "UPDATE {t} SET n = n + 1 WHERE id BETWEEN 90 AND 110")
    table.refresh()
    table.update({"n": "n * 2"}, "id BETWEEN 95 AND 105")
    sqlite.run(
        "MERGE INTO {t} t USING (SELECT 7 AS id UNION SELECT 999 AS id) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET n = -7 WHEN NOT MATCHED THEN INSERT (id, region, n) VALUES (s.id, 'jp', 1)"
    )
    table.refresh()
    table.upsert(arrow([{"id": i, "region": "us", "n": 5} for i in (7, 100, 999, 1000)]), on=["id"])
    table.delete("id = 8")
    assert len(sqlite.assert_same("t")) == 196


def test_java_adds_to_vectors_that_took_in_position_deletes(sqlite: Any) -> None:
    table = made(sqlite, "t", 2, BESIDE)
    sqlite.run("DELETE FROM {t} WHERE id IN (1, 2, 101)")
    table.refresh()
    table.delete("id IN (3, 103)")
    with table.alter() as alteration:
        alteration.upgrade_format(3)
    table.delete("id IN (4, 104)")
    sqlite.run("DELETE FROM {t} WHERE id IN (5, 105)")
    assert len(sqlite.assert_same("t")) == 191
    kinds = sqlite.sql("SELECT DISTINCT file_format FROM {t}.delete_files").rows
    assert kinds == [("PUFFIN",)]


def test_rows_keep_their_ids_as_java_sees_them(sqlite: Any) -> None:
    for mode in (REWRITING, BESIDE):
        name = mode.replace("-", "_")
        table = made(sqlite, name, 3, mode)
        change(table)
        columns = ["id", "_row_id", "_last_updated_sequence_number"]
        theirs = sqlite.sql(f"SELECT {', '.join(columns)} FROM {{{name}}}").rows
        ours = table.refresh().scan(columns=columns).to_arrow().to_pylist()
        assert sorted(theirs) == sorted(tuple(row[column] for column in columns) for row in ours)


@pytest.mark.parametrize("version", [2, 3])
def test_a_delete_is_counted_as_java_counts_it(sqlite: Any, version: int) -> None:
    counted = []
    for name in ("ours", "theirs"):
        table = made(sqlite, name, version, BESIDE)
        for ids in ("3, 50, 150", "4, 151"):
            if name == "ours":
                table.delete(f"id IN ({ids})")
            else:
                sqlite.run(f"DELETE FROM {{theirs}} WHERE id IN ({ids})")
        table.refresh()
        keys = ("records", "data-files", "delete-files", "position-deletes", "position-delete-files", "dvs")
        heads = ("added-", "deleted-", "removed-", "total-")
        counted.append(
            [
                (s.operation, {k: v for k, v in s.summary.items() if k.startswith(heads) and k.endswith(keys)})
                for s in table.snapshots[2:]
            ]
        )
    assert counted[0] == counted[1]
