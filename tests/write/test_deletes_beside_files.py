"""Merge-on-read: rows go by deletes beside their files. What is written, what is counted, and what is left alone."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from doors import Door, MemoryLake
from orders import NAME, orders, rows
from sound_tables import check_sound, entries_of, live_files, manifests_of, rows_of
from with_deletes import commit_deletes, position_delete

from esker.errors import InvalidInput
from esker.iceberg.deletion_vector import decode_deletion_vector
from esker.iceberg.puffin import read_footer
from esker.table import Table
from esker.tree.data_file import DataFile, FileContent
from esker.tree.manifest import EntryStatus
from esker.tree.manifest_list import ManifestContent

BESIDE = {"write.delete.mode": "merge-on-read"}


@pytest.fixture
def memory() -> MemoryLake:
    return MemoryLake()


def made(memory: MemoryLake, version: int = 2, **how: Any) -> Table:
    """Three files of ten rows: ids 0 to 9, 10 to 19 and 20 to 29, the last of another region."""
    table = orders(memory.lake(), format_version=version, properties={**BESIDE, **how.pop("properties", {})}, **how)
    for at, region in enumerate(("eu", "eu", "us")):
        table.append(rows(range(10 * at, 10 * at + 10), region))
    return table


def deletes_of(table: Table) -> list[DataFile]:
    return [file for file in live_files(table) if file.content is not FileContent.DATA]


def stored(memory: MemoryLake, file: DataFile) -> list[tuple[str, int]]:
    """The rows of a position delete file, as they lie."""
    found = pq.read_table(io.BytesIO(memory.storage.read(file.path)))
    return list(zip(found["file_path"].to_pylist(), found["pos"].to_pylist(), strict=True))


def data_paths(table: Table) -> list[str]:
    return sorted(file.path for file in live_files(table) if file.content is FileContent.DATA)


# ---------------------------------------------------------------- v2


def test_h5_a_position_delete_file_names_its_data_file_as_the_manifest_does(memory: MemoryLake) -> None:
    table = made(memory)
    snapshot = table.delete("id IN (3, 7)")
    (delete,) = deletes_of(table)
    (target,) = [file for file in live_files(table) if file.path == delete.referenced_data_file]
    assert stored(memory, delete) == [(target.path, 3), (target.path, 7)]
    assert (delete.record_count, delete.sort_order_id, delete.spec_id) == (2, None, 0)
    assert rows_of(table) == [*range(3), *range(4, 7), *range(8, 30)]
    assert snapshot is not None
    assert snapshot.operation == "delete"
    counted = {key: value for key, value in snapshot.summary.items() if "delete" in key}
    assert counted == {
        "added-delete-files": "1",
        "added-position-delete-files": "1",
        "added-position-deletes": "2",
        "total-delete-files": "1",
        "total-position-deletes": "2",
        "total-equality-deletes": "0",
        "esker.rows-deleted": "2",
    }
    check_sound(memory.lake(), NAME)


def test_a_delete_manifest_says_so_and_takes_the_commits_sequence_number(memory: MemoryLake) -> None:
    table = made(memory)
    table.delete("id = 3")
    kinds = [manifest.content for manifest in manifests_of(table)]
    assert kinds.count(ManifestContent.DELETES) == 1
    (delete,) = deletes_of(table)
    assert delete.sequence_number == table.metadata.last_sequence_number == 4


def test_file_granularity_makes_one_file_per_data_file(memory: MemoryLake) -> None:
    table = made(memory)
    table.delete("id IN (1, 2, 11, 21)")
    deletes = deletes_of(table)
    assert sorted(delete.record_count for delete in deletes) == [1, 1, 2]
    assert sorted(delete.referenced_data_file or "" for delete in deletes) == data_paths(table)


def test_a_file_of_deletes_takes_in_the_one_that_was_there(memory: MemoryLake) -> None:
    table = made(memory)
    table.delete("id IN (1, 11)")
    snapshot = table.delete("id IN (2, 21)")
    assert sorted(delete.record_count for delete in deletes_of(table)) == [1, 1, 2]
    assert snapshot is not None
    summary = snapshot.summary
    assert (summary["added-position-deletes"], summary["removed-position-deletes"]) == ("3", "1")
    assert rows_of(table) == [n for n in range(30) if n not in (1, 2, 11, 21)]
    check_sound(memory.lake(), NAME)


def test_h6_partition_granularity_makes_one_sorted_file_per_partition(memory: MemoryLake) -> None:
    table = made(memory, properties={"write.delete.granularity": "partition"}, partition_by=["region"])
    table.delete("id IN (1, 2, 11, 21)")
    deletes = sorted(deletes_of(table), key=lambda file: file.record_count)
    assert [(delete.record_count, delete.partition) for delete in deletes] == [(1, ("us",)), (3, ("eu",))]
    of_eu = stored(memory, deletes[1])
    assert of_eu == sorted(of_eu)
    assert deletes[1].referenced_data_file is None
    assert deletes[1].metrics is not None
    lower, upper = deletes[1].metrics.lower_bounds, deletes[1].metrics.upper_bounds
    assert (lower[2147483546].decode(), upper[2147483546].decode()) == (of_eu[0][0], of_eu[-1][0])
    positions = [pos for _, pos in of_eu]
    ends = (lower[2147483545], upper[2147483545])
    assert tuple(int.from_bytes(end, "little") for end in ends) == (min(positions), max(positions))
    assert rows_of(table) == [n for n in range(30) if n not in (1, 2, 11, 21)]


def test_b7_deletes_are_filed_under_the_spec_of_their_data(memory: MemoryLake) -> None:
    table = made(memory, partition_by=["region"])
    with table.alter() as change:
        change.add_partition("bucket(2, id)")
    table.append(rows([40, 41, 42], "eu"))
    table.delete("id IN (3, 41)")
    by_target = {file.path: file for file in live_files(table)}
    for delete in deletes_of(table):
        target = by_target[delete.referenced_data_file or ""]
        assert (delete.spec_id, delete.partition) == (target.spec_id, target.partition)
    assert {delete.spec_id for delete in deletes_of(table)} == {0, 1}
    check_sound(memory.lake(), NAME)


def test_a_granularity_nobody_knows_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"write\.delete\.granularity"):
        made(MemoryLake(), properties={"write.delete.granularity": "row"})


# ---------------------------------------------------------------- v3


def test_h8_a_vector_lies_where_its_entry_says(memory: MemoryLake) -> None:
    table = made(memory, 3)
    snapshot = table.delete("id IN (3, 7, 15)")
    vectors = deletes_of(table)
    assert len({vector.path for vector in vectors}) == 1, "one Puffin file holds all vectors of a commit"
    content = memory.storage.read(vectors[0].path)
    footer = read_footer(vectors[0].path, len(content), lambda offset, length: content[offset : offset + length])
    for vector in vectors:
        assert vector.content_offset is not None
        assert vector.content_size is not None
        (blob,) = [blob for blob in footer.blobs if blob.offset == vector.content_offset]
        assert (blob.length, blob.type) == (vector.content_size, "deletion-vector-v1")
        assert blob.properties["referenced-data-file"] == vector.referenced_data_file
        assert blob.properties["cardinality"] == str(vector.record_count)
        bytes_ = content[vector.content_offset : vector.content_offset + vector.content_size]
        assert len(decode_deletion_vector(vector.path, bytes_)) == vector.record_count
    assert snapshot is not None
    assert (snapshot.summary["added-dvs"], snapshot.summary["added-position-deletes"]) == ("2", "3")


def test_h7_a_new_vector_takes_in_the_one_that_was_there(memory: MemoryLake) -> None:
    table = made(memory, 3)
    table.delete("id IN (3, 15)")
    snapshot = table.delete("id IN (4, 25)")
    assert sorted(vector.record_count for vector in deletes_of(table)) == [1, 1, 2]
    assert snapshot is not None
    summary = snapshot.summary
    assert (summary["added-dvs"], summary["removed-dvs"], summary["total-position-deletes"]) == ("2", "1", "4")
    assert rows_of(table) == [n for n in range(30) if n not in (3, 4, 15, 25)]
    check_sound(memory.lake(), NAME)


def test_h7_a_vector_takes_in_position_deletes_and_those_of_its_file_alone_leave(memory: MemoryLake) -> None:
    table = made(memory, properties={"write.delete.granularity": "partition"})
    first = live_files(table)[-1]
    commit_deletes(table, position_delete(table, first, [1], named=True))
    table.delete("id IN (2, 12)")
    with table.alter() as change:
        change.upgrade_format(3)
    before = rows_of(table.refresh())
    table.delete("id = 5")
    kinds = sorted((delete.file_format, delete.record_count) for delete in deletes_of(table))
    assert kinds == [("parquet", 2), ("puffin", 3)], "what is about two files stays until both have vectors"
    assert rows_of(table) == [n for n in before if n != 5]
    check_sound(memory.lake(), NAME)


def test_a_vector_of_many_rows_is_small(memory: MemoryLake) -> None:
    table = orders(memory.lake(), format_version=3, properties=BESIDE)
    table.append(rows(range(200_000)))
    table.delete("id BETWEEN 1000 AND 150000")
    (vector,) = deletes_of(table)
    assert vector.record_count == 149_001
    assert vector.content_size is not None
    assert vector.content_size < 200
    assert table.scan().count() == 50_999


# ---------------------------------------------------------------- both


@pytest.mark.parametrize("version", [2, 3])
def test_whole_files_leave_by_metadata_and_take_their_deletes_along(memory: MemoryLake, version: int) -> None:
    table = made(memory, version, partition_by=["region"])
    table.delete("id IN (3, 25)")
    door = Door()
    watched = memory.lake(door).table(NAME)
    door.calls.clear()
    watched.delete("region = 'us'")
    assert not [what for what in door.of("open", "begin") if what.endswith((".parquet", ".puffin"))]
    assert rows_of(watched) == [n for n in range(20) if n != 3]
    assert len(deletes_of(watched)) == 1
    check_sound(memory.lake(), NAME)


@pytest.mark.parametrize("version", [2, 3])
def test_a_file_whose_last_row_goes_leaves(memory: MemoryLake, version: int) -> None:
    table = orders(memory.lake(), format_version=version, properties=BESIDE, schema="id bigint, x string")
    table.append(pa.table({"id": pa.array([1, 2], pa.int64()), "x": ["a", "b"]}))
    table.delete("x LIKE '_'")  # no bound proves it: the file is read
    assert (rows_of(table), live_files(table)) == ([], [])


def test_a_delete_that_finds_nothing_commits_nothing(memory: MemoryLake) -> None:
    table = orders(memory.lake(), properties=BESIDE)
    first = table.append(rows([1, 5]))
    there = memory.files()
    assert table.delete("id = 3") == first
    assert memory.files() == there


def test_v1_is_rewritten_whatever_the_mode(memory: MemoryLake) -> None:
    table = made(memory, 1)
    table.delete("id = 3")
    assert deletes_of(table) == []
    assert rows_of(table) == [n for n in range(30) if n != 3]


def test_an_overwrite_deletes_beside_files_too(memory: MemoryLake) -> None:
    table = made(memory)
    snapshot = table.overwrite(rows([100]), where="id IN (3, 15)")
    assert len(deletes_of(table)) == 2
    assert snapshot.operation == "overwrite"
    assert rows_of(table) == [*(n for n in range(30) if n not in (3, 15)), 100]


@pytest.mark.parametrize("version", [2, 3])
def test_a_delete_of_100_rows_in_1000_files_touches_what_it_must(memory: MemoryLake, version: int) -> None:
    """A thousand files of a thousand rows; the rows to go are in ten of them."""
    table = orders(memory.lake(), format_version=version, properties=BESIDE)
    with table.transaction() as tx:
        for at in range(1000):
            tx.append(rows(range(1000 * at, 1000 * at + 1000)))
    door = Door()
    watched = memory.lake(door).table(NAME)
    doomed = [1000 * (at // 10 * 100) + at * 7 for at in range(100)]
    door.calls.clear()
    watched.delete(f"id IN ({', '.join(map(str, doomed))})")
    targets = {n // 1000 for n in doomed}
    read = {what for what in door.of("open", "read") if what.endswith(".parquet")}
    assert len(read) == len(targets) == 10
    written = set(door.of("write", "begin"))
    sizes = {what: memory.storage.size(what) for what in written if not what.endswith(".metadata.json")}
    assert sum(sizes.values()) < 40_000
    assert len(written) == (10 if version == 2 else 1) + 3, "deletes, their manifest, the list, the metadata"
    assert watched.scan().count() == 1_000_000 - 100


def test_the_manifests_of_data_are_carried_as_they_are(memory: MemoryLake) -> None:
    table = made(memory)
    before = {m.path for m in manifests_of(table)}
    table.delete("id = 3")
    assert before <= {m.path for m in manifests_of(table)}
    (new,) = [m for m in manifests_of(table) if m.path not in before]
    assert [EntryStatus(int(s)) for e in entries_of(table, new) for s in e.status] == [EntryStatus.ADDED]
