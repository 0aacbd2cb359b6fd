"""Equality deletes: keys go unread, the way of a streaming upsert."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from doors import Door, MemoryLake
from orders import NAME, orders, rows
from sound_tables import check_sound, live_files, rows_of

from esker.errors import InvalidInput, Unsupported
from esker.table import Table
from esker.tree.data_file import DataFile, FileContent


@pytest.fixture
def memory() -> MemoryLake:
    return MemoryLake()


def by_key(table: Table) -> list[DataFile]:
    return [file for file in live_files(table) if file.content is FileContent.EQUALITY_DELETES]


def stream(table: Table, data: Any, on: list[str]) -> None:
    with table.transaction() as tx:
        tx.delete_by_key(data, on=on)
        tx.append(data)


@pytest.mark.parametrize("version", [2, 3])
def test_earlier_rows_go_and_rows_of_the_same_commit_stay(memory: MemoryLake, version: int) -> None:
    table = orders(memory.lake(), format_version=version)
    table.append(rows([1, 2, 3]))
    stream(table, rows([2, 4], n=7), ["id"])
    stream(table, rows([4], n=8), ["id"])
    found = table.scan(columns=["id", "n"]).to_arrow().to_pylist()
    assert sorted((row["id"], row["n"]) for row in found) == [(1, 1), (2, 7), (3, 1), (4, 8)]
    snapshot = table.current_snapshot
    assert snapshot is not None
    assert snapshot.operation == "overwrite"
    summary = snapshot.summary
    assert (summary["added-equality-deletes"], summary["added-equality-delete-files"]) == ("1", "1")
    assert summary["total-equality-deletes"] == "3"
    assert [delete.equality_ids for delete in by_key(table)] == [(1,), (1,)]
    check_sound(memory.lake(), NAME)


def test_nothing_is_read(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    table.append(rows([1, 2, 3]))
    door = Door()
    watched = memory.lake(door).table(NAME)
    door.calls.clear()
    stream(watched, rows([2], n=7), ["id"])
    assert not [what for what in door.of("open", "read") if what.endswith(".parquet")]


def test_only_the_key_is_written(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    table.append(rows([1, 2, 3]))
    with table.transaction() as tx:
        tx.delete_by_key({"id": [2]}, on=["id"])
    (delete,) = by_key(table)
    assert delete.metrics is not None
    assert set(delete.metrics.value_counts) == {1}
    assert rows_of(table) == [1, 3]
    assert table.current_snapshot is not None
    assert table.current_snapshot.operation == "delete"


def test_h2_keys_are_divided_by_partition_where_they_tell_it(memory: MemoryLake) -> None:
    table = orders(memory.lake(), partition_by=["region"])
    table.append(pa.concat_tables([rows([1, 2], "eu"), rows([1, 2], "us")]))
    stream(table, pa.concat_tables([rows([1], "eu", 5), rows([2], "us", 5)]), ["id", "region"])
    assert sorted(delete.partition for delete in by_key(table)) == [("eu",), ("us",)]
    found = table.scan(columns=["id", "region", "n"]).to_arrow().to_pylist()
    assert sorted((r["id"], r["region"], r["n"]) for r in found) == [
        (1, "eu", 5),
        (1, "us", 1),
        (2, "eu", 1),
        (2, "us", 5),
    ]


def test_h2_keys_that_do_not_tell_the_partition_are_refused(memory: MemoryLake) -> None:
    table = orders(memory.lake(), partition_by=["region"])
    table.append(rows([1]))
    there = memory.files()
    with pytest.raises(
        Unsupported, match=r"partitioned by 'region', which the key does not determine; .* or use upsert"
    ):
        stream(table, rows([1]), ["id"])
    assert memory.files() == there


def test_h2_keys_reach_data_of_every_spec(memory: MemoryLake) -> None:
    table = orders(memory.lake(), partition_by=["bucket(2, id)"])
    table.append(rows([1, 2, 3]))
    with table.alter() as change:
        change.add_partition("truncate(2, id)")
    table.append(rows([3, 4, 5]))
    stream(table, rows([3], n=9), ["id"])
    assert {delete.spec_id for delete in by_key(table)} == {0, 1}
    assert rows_of(table) == [1, 2, 3, 4, 5]
    check_sound(memory.lake(), NAME)


def test_h2_a_spec_without_partitions_reaches_everything(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    table.append(rows([1, 2], "eu"))
    with table.alter() as change:
        change.add_partition("region")
    table.append(rows([2, 3], "us"))
    stream(table, rows([2], "jp", 9), ["id"])
    assert {delete.spec_id for delete in by_key(table)} == {0}
    assert rows_of(table) == [1, 2, 3]


def test_a_file_that_is_rewritten_does_not_bring_deleted_rows_back(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    table.append(rows([1, 2, 3, 4]))
    with table.transaction() as tx:
        tx.delete_by_key({"id": [2]}, on=["id"])
    table.delete("id = 4")
    table.update({"n": "5"}, "id = 3")
    assert rows_of(table) == [1, 3]


@pytest.mark.parametrize(
    "then",
    [
        lambda tx: tx.delete("id = 1"),
        lambda tx: tx.update({"n": "1"}),
        lambda tx: tx.upsert(rows([1]), on=["id"]),
        lambda tx: tx.overwrite(rows([1])),
        lambda tx: tx.overwrite_partitions(rows([1])),
    ],
    ids=["delete", "update", "upsert", "overwrite", "overwrite_partitions"],
)
def test_other_changes_do_not_mix_with_deletes_by_key(memory: MemoryLake, then: Any) -> None:
    table = orders(memory.lake())
    table.append(rows([1]))
    there = memory.files()
    tx = table.transaction()
    tx.delete_by_key({"id": [1]}, on=["id"])
    with pytest.raises(InvalidInput, match="after deleting by key in one transaction: make it two"):
        then(tx)
    tx.abandon()
    assert memory.files() == there
    tx = table.transaction()
    tx.delete("id = 1")
    with pytest.raises(InvalidInput, match="after changing rows in one transaction: use two"):
        tx.delete_by_key({"id": [1]}, on=["id"])


def test_v1_has_no_deletes(memory: MemoryLake) -> None:
    table = orders(memory.lake(), format_version=1)
    table.append(rows([1]))
    with pytest.raises(Unsupported, match="format version 1 has no deletes"):
        stream(table, rows([1]), ["id"])


def test_keys_that_are_missing_are_named(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    with pytest.raises(InvalidInput, match="they have no column 'id', which is part of the key"):
        stream(table, {"n": [1]}, ["id"])
