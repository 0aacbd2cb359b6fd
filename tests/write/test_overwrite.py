"""Overwriting: removal and addition in one snapshot."""

from __future__ import annotations

import pyarrow as pa
import pytest
from doors import Door, MemoryLake
from orders import NAME, orders, rows
from sound_tables import check_sound, entries_of, live_files, manifests_of, reachable, rows_of

from esker.errors import InvalidInput
from esker.tree.manifest import EntryStatus


@pytest.fixture
def memory() -> MemoryLake:
    return MemoryLake()


def test_an_overwrite_is_one_snapshot_in_which_the_old_entries_are_deleted(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    table.append(rows([1, 2]))
    [old] = live_files(table)
    snapshot = table.overwrite(rows([7, 8, 9]))
    assert len(table.snapshots) == 2
    assert snapshot.operation == "overwrite"
    assert rows_of(table) == [7, 8, 9]
    [gone] = [
        (file, int(entries.status[row]))
        for manifest in manifests_of(table)
        for entries in entries_of(table, manifest)
        for row, file in enumerate(entries.data_files())
        if file.path == old.path
    ]
    assert gone[1] == EntryStatus.DELETED
    assert gone[0].snapshot_id == snapshot.snapshot_id  # B5: who removed it
    assert (snapshot.summary["deleted-records"], snapshot.summary["added-records"]) == ("2", "3")
    check_sound(memory.lake(), NAME)


def test_b5_a_deleted_entry_names_its_remover_and_keeps_its_numbers(memory: MemoryLake) -> None:
    import fastavro

    table = orders(memory.lake(), partition_by=["region"])
    table.append(pa.concat_tables([rows([1], "eu"), rows([2], "us")]))
    added = table.current_snapshot
    table.append(rows([3], "eu"))
    removed = table.delete("region = 'us'")
    assert added is not None
    assert removed is not None
    [rewritten] = [m for m in manifests_of(table) if m.added_snapshot_id == removed.snapshot_id]
    with memory.storage.open(rewritten.path) as file:
        records = {record["status"]: record for record in fastavro.reader(file)}
    deleted, existing = records[EntryStatus.DELETED], records[EntryStatus.EXISTING]
    assert deleted["snapshot_id"] == removed.snapshot_id
    assert existing["snapshot_id"] == added.snapshot_id
    for record in (deleted, existing):
        assert (record["sequence_number"], record["file_sequence_number"]) == (1, 1)  # B1


def test_an_overwrite_by_filter_replaces_whole_files_by_metadata_alone(memory: MemoryLake) -> None:
    orders(memory.lake(), partition_by=["region"])
    door = Door()
    table = memory.lake(door).table(NAME)
    for at, region in enumerate(["eu", "us", "jp"]):
        table.append(rows([at], region))
    data = {file.partition[0]: file.path for file in live_files(table)}
    door.calls.clear()
    table.overwrite(rows([10], "eu"), where="region = 'eu'")
    assert not set(door.of("open", "read")) & set(data.values())
    assert rows_of(table) == [1, 2, 10]
    assert data["us"] in {file.path for file in live_files(table)}


def test_an_overwrite_by_filter_copies_the_rows_of_a_file_that_stay(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    table.append(rows([1, 2, 3]))
    table.append(rows([4, 5]))
    kept = next(file.path for file in live_files(table) if file.record_count == 2)
    table.overwrite(rows([20]), where="id = 2")
    assert rows_of(table) == [1, 3, 4, 5, 20]
    assert kept in {file.path for file in live_files(table)}
    check_sound(memory.lake(), NAME)


def test_an_overwrite_that_matches_nothing_only_adds(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    table.append(rows([1]))
    snapshot = table.overwrite(rows([2]), where="id = 99")
    assert snapshot.operation == "overwrite"
    assert rows_of(table) == [1, 2]
    assert "deleted-data-files" not in snapshot.summary


def test_an_overwrite_with_no_rows_empties_the_table(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    table.append(rows([1]))
    table.overwrite(rows([]))
    assert rows_of(table) == []
    table.append(rows([2]))
    assert rows_of(table) == [2]
    assert all(m.may_hold_live_files for m in manifests_of(table))  # what only tells of the removed is not carried on
    check_sound(memory.lake(), NAME)


def test_an_overwrite_of_an_empty_table_is_its_first_snapshot(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    assert table.overwrite(rows([1])).parent_snapshot_id is None
    assert rows_of(table) == [1]


@pytest.mark.parametrize(("where", "said"), [("nope = 1", "nope"), ("id = = 1", "cannot"), ("id like 5 and", "cannot")])
def test_a_filter_that_makes_no_sense_is_refused_before_anything_is_written(
    memory: MemoryLake, where: str, said: str
) -> None:
    table = orders(memory.lake())
    table.append(rows([1]))
    there = memory.files()
    for verb in (lambda: table.overwrite(rows([2]), where=where), lambda: table.delete(where)):
        with pytest.raises(InvalidInput, match=said):
            verb()
    assert memory.files() == there
    assert len(table.refresh().snapshots) == 1


def test_files_of_a_table_are_all_reachable_after_many_changes(memory: MemoryLake) -> None:
    table = orders(memory.lake(), partition_by=["region"])
    table.append(pa.concat_tables([rows([1, 2], "eu"), rows([3, 4], "us")]))
    table.overwrite(rows([5], "eu"), where="id = 1")
    table.delete("id = 3")
    table.overwrite_partitions(rows([6], "us"))
    with table.transaction() as tx:
        tx.append(rows([7, 8], "jp"))
        tx.delete("id = 7")
    assert rows_of(table) == [2, 5, 6, 8]
    assert memory.files() == reachable(check_sound(memory.lake(), NAME))


def test_b7_manifests_of_a_removed_file_keep_the_spec_it_was_written_with(memory: MemoryLake) -> None:
    table = orders(memory.lake(), partition_by=["region"])
    table.append(pa.concat_tables([rows([1, 2], "eu"), rows([3], "us")]))
    with table.alter() as change:
        change.drop_partition("region")
        change.add_partition("bucket(4, id)")
    table.append(rows([4, 5], "jp"))
    table.delete("id in (1, 4)")
    assert rows_of(table) == [2, 3, 5]
    assert {m.spec_id for m in manifests_of(table)} == {0, 1}
    check_sound(memory.lake(), NAME)


def test_c2_the_least_sequence_number_of_a_manifest_is_that_of_its_live_files(memory: MemoryLake) -> None:
    table = orders(
        memory.lake(), properties={"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}
    )
    for at in range(3):
        table.append(rows([at]))
    assert [(m.sequence_number, m.min_sequence_number) for m in manifests_of(table)] == [(3, 1)]
    table.delete("id = 0")
    check_sound(memory.lake(), NAME)
    [manifest] = manifests_of(table)
    assert (manifest.sequence_number, manifest.min_sequence_number) == (4, 2)


def test_c3_c4_summaries_hold_whole_bounds_without_nulls(memory: MemoryLake) -> None:
    table = orders(memory.lake(), partition_by=["region", "bucket(8, id)"])
    long = "z" * 40
    table.append(pa.concat_tables([rows([1], "aa"), rows([2], long), rows([3], None)]))
    [manifest] = manifests_of(table)
    assert manifest.partitions is not None
    region, bucket = manifest.partitions
    assert (region.contains_null, region.contains_nan) == (True, False)
    assert (region.lower_bound, region.upper_bound) == (b"aa", long.encode())
    assert bucket.contains_null is False
    assert len(bucket.lower_bound or b"") == 4


def test_c3_zeros_keep_their_signs_and_nan_is_no_bound(memory: MemoryLake) -> None:
    import struct

    lake = memory.lake()
    lake.create_namespace("sales")
    table = lake.create_table("sales.t", "x double", partition_by=["x"])
    table.append(pa.table({"x": [0.0, -0.0, float("nan")]}))
    [manifest] = manifests_of(table)
    assert manifest.partitions is not None
    [summary] = manifest.partitions
    assert summary.contains_nan is True
    assert summary.lower_bound == struct.pack("<d", -0.0)
    assert summary.upper_bound == struct.pack("<d", 0.0)
    assert len(live_files(table)) == 3


def test_a_manifest_of_removed_files_alone_has_summaries_too(memory: MemoryLake) -> None:
    table = orders(memory.lake(), partition_by=["region"])
    table.append(rows([1], "eu"))
    table.delete("region = 'eu'")
    [manifest] = manifests_of(table)
    assert manifest.partitions is not None
    assert (manifest.added_files, manifest.existing_files, manifest.deleted_files) == (0, 0, 1)
    assert manifest.partitions[0].lower_bound == b"eu"
    assert rows_of(table) == []
