"""Compaction by bin-packing: fewer files, the same rows, and nothing of what was deleted."""

from __future__ import annotations

import hashlib
from typing import Any

import pyarrow as pa
import pytest
from doors import Door, MemoryLake
from orders import NAME, orders, rows
from sound_tables import check_sound, live_files, manifests_of, rows_of
from with_deletes import commit_deletes, deletion_vectors, equality_delete, position_delete

from esker.errors import Corrupt, InvalidInput
from esker.maintain.rewriting.compaction import check_rows
from esker.maintain.rewriting.compaction_results import CompactionPlan, CompactionReport
from esker.ports.file_rewriting import FileGroup
from esker.table import Table
from esker.tree.data_file import DataFile, FileContent

KIB = 1024


@pytest.fixture
def memory() -> MemoryLake:
    return MemoryLake()


def many(table: Table, files: int, each: int = 2) -> None:
    """So many files, each of one commit."""
    for at in range(files):
        table.append(rows(range(at * each, (at + 1) * each), n=at))


def data_files(table: Table) -> list[DataFile]:
    return [file for file in live_files(table) if file.content is FileContent.DATA]


def delete_files(table: Table) -> list[DataFile]:
    return [file for file in live_files(table) if file.content is not FileContent.DATA]


def checksum(table: Table, columns: list[str] | None = None) -> str:
    """A sum of the rows that does not depend on their order."""
    found = table.scan(columns=columns).to_arrow().to_pylist()
    lines = sorted(repr(sorted(row.items())) for row in found)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


# ---------------------------------------------------------------- which files


@pytest.mark.slow
def test_510_small_files_become_as_few_as_the_target_size_asks_for(memory: MemoryLake) -> None:
    table = orders(memory.lake(), schema="id bigint, text string")
    blob = hashlib.shake_256(b"rows").hexdigest(510 * 20 * 32)
    with_text = [blob[at * 64 : (at + 1) * 64] for at in range(510 * 20)]  # compresses to about half
    for commit in range(30):
        with table.transaction() as tx:
            for at in range(commit * 17, (commit + 1) * 17):
                ids = range(at * 20, (at + 1) * 20)
                tx.append(pa.table({"id": pa.array(ids, pa.int64()), "text": with_text[at * 20 : (at + 1) * 20]}))
    before = checksum(table)
    target = 100 * KIB
    report = table.compact(target_file_size=target)
    files = data_files(table)
    assert report.files_rewritten == 510
    assert len(files) == -(-sum(file.file_size for file in files) // target)
    assert len(files) > 1
    assert checksum(table) == before
    assert (report.before.data_files, report.after.data_files) == (510, len(files))
    check_sound(memory.lake(), NAME, deep=False)


def test_a_dry_run_shows_the_plan_and_changes_nothing(memory: MemoryLake) -> None:
    many(orders(memory.lake()), 6)
    door = Door()
    table = memory.lake(door).table(NAME)
    plan = table.compact(dry_run=True)
    assert isinstance(plan, CompactionPlan)
    assert (plan.files, len(plan.groups), plan.files_after) == (6, 1, 1)
    assert repr(plan).startswith("<esker.CompactionPlan (bin-pack): 6 files (")
    assert "files to rewrite" in plan._repr_html_()
    assert door.of("write", "begin", "move", "delete") == []


def test_a_second_run_has_nothing_to_do(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    many(table, 6)
    first = table.compact()
    assert isinstance(first, CompactionReport)
    assert repr(first).startswith("<esker.CompactionReport: 6 files (")
    assert "before" in first._repr_html_()
    head = table.current_snapshot
    again = table.compact()
    assert (again.files_rewritten, again.snapshots) == (0, ())
    assert table.refresh().current_snapshot == head


def test_few_small_files_and_an_empty_table_are_left_alone(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    assert table.compact().groups == 0
    many(table, 4)
    assert table.compact(dry_run=True).groups == ()
    assert table.compact(min_input_files=2).files_rewritten == 4


def test_files_of_a_good_size_are_left_alone(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    many(table, 6)
    size = max(file.file_size for file in data_files(table))
    assert table.compact(dry_run=True, target_file_size=size + 1, min_file_size=1).files == 0
    assert table.compact(dry_run=True, target_file_size=size + 1, min_file_size=1, rewrite_all=True).files == 6


def test_a_large_file_is_divided(memory: MemoryLake) -> None:
    table = orders(memory.lake(), schema="id bigint, text string")
    text = [hashlib.sha256(str(at).encode()).hexdigest() for at in range(4000)]
    table.append(pa.table({"id": pa.array(range(4000), pa.int64()), "text": text}))
    assert len(data_files(table)) == 1
    table.compact(target_file_size=32 * KIB)
    assert len(data_files(table)) >= 3
    assert rows_of(table) == list(range(4000))


def test_a_filter_and_partitions_bound_the_groups(memory: MemoryLake) -> None:
    table = orders(memory.lake(), partition_by=["region"])
    for at in range(6):
        table.append(pa.concat_tables([rows([at], "eu"), rows([10 + at], "us")]))
    assert len(table.compact(dry_run=True).groups) == 2
    assert len(table.compact(dry_run=True, max_group_files=3, min_input_files=2).groups) == 4
    report = table.compact(where="region = 'us'")
    assert report.files_rewritten == 6
    assert sorted(file.partition for file in data_files(table)) == [("eu",)] * 6 + [("us",)]
    table.compact()
    assert sorted(file.partition for file in data_files(table)) == [("eu",), ("us",)]
    check_sound(memory.lake(), NAME)


def test_a_group_has_a_bounded_size(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    many(table, 6)
    size = data_files(table)[0].file_size
    plan = table.compact(dry_run=True, max_group_size=2 * size + size // 2, min_input_files=2)
    assert [len(group.files) for group in plan.groups] == [2, 2, 2]


def test_a_call_takes_as_many_files_as_it_may(memory: MemoryLake) -> None:
    table = orders(memory.lake(), partition_by=["region"])
    for at in range(6):
        table.append(rows([at], "eu"))
    for at in range(8):
        table.append(rows(range(20 + 100 * at, 110 + 100 * at), "us"))

    def groups(**given: Any) -> list[tuple[str, int]]:
        plan = table.compact(dry_run=True, **given)
        return [(group.files[0].task.data_file.partition[0], len(group.files)) for group in plan.groups]

    assert groups(group_order="bytes-asc") == groups(group_order="files-asc") == [("eu", 6), ("us", 8)]
    assert groups(group_order="bytes-desc") == groups(group_order="files-desc") == [("us", 8), ("eu", 6)]
    assert groups(group_order="files-desc", max_files=8) == [("us", 8)]
    assert groups(group_order="files-asc", max_files=11) == [("eu", 6), ("us", 5)]
    assert groups(group_order="files-asc", max_files=10) == [("eu", 6)], "four files are not worth it"
    assert groups(group_order="files-asc", max_files=10, rewrite_all=True) == [("eu", 6), ("us", 4)]
    small = sum(file.file_size for file in data_files(table) if file.partition == ("eu",))
    assert groups(group_order="bytes-desc", max_bytes=small) == [("eu", 6)], "a group that is too large is passed over"
    assert groups(max_bytes=0) == []
    before = checksum(table)
    assert table.compact(max_files=11, group_order="files-asc").files_rewritten == 11
    assert table.compact(min_input_files=2, max_files=11).files_rewritten == 4
    assert checksum(table) == before


def test_files_of_an_old_spec_are_brought_to_the_current_one(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    for at in range(5):
        table.append(pa.concat_tables([rows([at], "eu"), rows([10 + at], "us")]))
    with table.alter() as change:
        change.add_partition("region")
    table.append(rows([20], "eu"))
    before = checksum(table)
    table.compact(min_input_files=2)
    assert sorted((file.spec_id, file.partition) for file in data_files(table)) == [
        (1, ("eu",)),
        (1, ("eu",)),  # the file that had the new spec is a group of its own, and alone
        (1, ("us",)),
    ]
    assert checksum(table) == before
    check_sound(memory.lake(), NAME)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"strategy": "zorder"}, "strategy='zorder': it takes bin-pack, sort, z-order"),
        ({"engine": "duckdb"}, "engine='duckdb'"),
        ({"target_file_size": 0}, "target_file_size=0: give a whole number from 1"),
        ({"min_input_files": True}, "min_input_files=True"),
        ({"target_file_size": 100, "min_file_size": 100}, "must be between"),
        ({"delete_ratio": 0}, "delete_ratio=0"),
        ({"strategy": "z-order", "sort_by": ["id"]}, "without two columns"),
        ({"strategy": "z-order", "sort_by": ["id", "nope"]}, "nope"),
        ({"strategy": "sort"}, "the table has no sort order"),
        ({"sort_by": ["id"]}, 'use strategy="sort"'),
        ({"sort_by": "id", "strategy": "sort"}, "give a list of columns"),
        ({"where": "nope = 1"}, "nope"),
    ],
)
def test_a_wrong_argument_is_named(memory: MemoryLake, given: dict[str, Any], says: str) -> None:
    table = orders(memory.lake())
    many(table, 1)
    with pytest.raises(InvalidInput, match=r"cannot|no column") as caught:
        table.compact(**given)
    assert says in caught.value.message


def test_rows_stay_in_the_order_of_their_arrival(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    many(table, 6)
    assert table.scan(columns=["id"]).to_arrow().column("id").to_pylist() != list(range(12)), "the newest come first"
    table.compact()
    assert table.scan(columns=["id"]).to_arrow().column("id").to_pylist() == list(range(12))


# ---------------------------------------------------------------- deletes


def by_all_kinds(table: Table, version: int) -> None:
    """Deletes of every kind that the version has, on six files of four rows: ids 0, 5, 10 and 15 go."""
    many(table, 6, each=4)
    first, second, third, *_ = sorted(data_files(table), key=lambda file: file.sequence_number)
    if version > 2:
        commit_deletes(table, *deletion_vectors(table, [(first, [0]), (second, [1])]))
    else:
        commit_deletes(table, position_delete(table, first, [0], named=True))
        commit_deletes(table, position_delete(table, second, [1]))  # of the partition
    commit_deletes(table, equality_delete(table, [10, 15], third))


@pytest.mark.parametrize("version", [2, 3])
def test_deletes_of_every_kind_are_applied_and_removed(memory: MemoryLake, version: int) -> None:
    table = orders(memory.lake(), format_version=version)
    by_all_kinds(table, version)
    expected = [id_ for id_ in range(24) if id_ not in (0, 5, 10, 15)]
    assert rows_of(table) == expected
    report = table.compact()
    assert (report.rows, report.rows_deleted) == (20, 4)
    assert rows_of(table) == expected
    assert delete_files(table) == []
    assert report.delete_files_removed == 3
    (file,) = data_files(table)
    assert file.record_count == 20
    check_sound(memory.lake(), NAME)


def test_a_delete_of_a_whole_partition_goes_with_its_files() -> None:
    """The new file keeps the number of the start, which is that of the delete. But no position can be about it."""
    memory = MemoryLake()
    properties = {"write.delete.mode": "merge-on-read", "write.delete.granularity": "partition"}
    table = orders(memory.lake(), properties=properties)
    for first in (0, 10):
        table.append(rows([first, first + 1, first + 2]))
    table.delete("id in (1, 11)")
    table.compact(delete_file_threshold=1, max_files=1)
    assert table.inspect.delete_files().num_rows == 1  # it still applies to the other file
    assert rows_of(check_sound(memory.lake(), NAME)) == [0, 2, 10, 12]
    table.delete("id in (2, 12)")
    table.compact(rewrite_all=True)
    assert table.inspect.delete_files().num_rows == 0
    assert rows_of(check_sound(memory.lake(), NAME)) == [0, 10]


def test_deletes_that_still_apply_elsewhere_stay(memory: MemoryLake) -> None:
    table = orders(memory.lake(), partition_by=["region"])
    for at in range(5):
        table.append(pa.concat_tables([rows([at], "eu"), rows([10 + at], "us")]))
    eu = next(file for file in data_files(table) if file.partition == ("eu",))
    us = next(file for file in data_files(table) if file.partition == ("us",))
    commit_deletes(table, equality_delete(table, [3], eu), equality_delete(table, [13], us))
    table.compact(where="region = 'eu'")
    assert [file.partition for file in delete_files(table)] == [("us",)]
    assert rows_of(table) == [0, 1, 2, 4, 10, 11, 12, 14]


def test_dangling_deletes_stay_if_they_are_not_to_be_removed(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    many(table, 5)
    commit_deletes(table, equality_delete(table, [3], data_files(table)[0]))
    table.compact(remove_dangling_deletes=False)
    assert len(delete_files(table)) == 1
    assert 3 not in rows_of(table)


def test_a_file_with_many_deletes_is_rewritten_whatever_its_size(memory: MemoryLake) -> None:
    table = orders(memory.lake(), format_version=3)
    many(table, 1, each=10)
    (file,) = data_files(table)
    commit_deletes(table, *deletion_vectors(table, [(file, [1, 2])]))
    assert table.compact(dry_run=True).files == 0
    assert table.compact(dry_run=True, delete_file_threshold=1).files == 1
    assert table.compact(dry_run=True, delete_ratio=0.2).files == 1
    assert table.compact(delete_ratio=0.2).rows_deleted == 2
    assert rows_of(table) == [0, 3, 4, 5, 6, 7, 8, 9]


def test_a_group_of_which_every_row_is_deleted_leaves_no_file(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    many(table, 5, each=1)
    commit_deletes(table, equality_delete(table, range(5), data_files(table)[0]))
    report = table.compact()
    assert (report.files_added, report.rows, report.rows_deleted) == (0, 0, 5)
    assert live_files(table) == []
    check_sound(memory.lake(), NAME)


# ---------------------------------------------------------------- what the commit records


def test_new_files_keep_the_sequence_number_of_the_start(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    many(table, 5)
    assert table.current_snapshot is not None
    start = table.current_snapshot.sequence_number
    table.compact()
    (file,) = data_files(table)
    assert (file.sequence_number, file.file_sequence_number) == (start, start + 1)
    assert min(m.min_sequence_number for m in manifests_of(table)) == start
    assert table.current_snapshot.operation == "replace"
    check_sound(memory.lake(), NAME)


def test_the_number_is_kept_where_manifests_are_merged(memory: MemoryLake) -> None:
    merging = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}
    table = orders(memory.lake(), properties=merging)
    many(table, 5)
    assert table.current_snapshot is not None
    start = table.current_snapshot.sequence_number
    table.compact()
    assert [file.sequence_number for file in data_files(table)] == [start]
    check_sound(memory.lake(), NAME)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_rows_and_their_lineage_are_kept_in_every_version(memory: MemoryLake, version: int) -> None:
    table = orders(memory.lake(), format_version=version)
    many(table, 5)
    table.update({"n": "n + 1"}, "id in (2, 7)")
    lineage = ["_row_id", "_last_updated_sequence_number"] if version > 2 else []
    columns = ["id", "region", "n", *lineage]
    before = checksum(table, columns)
    table.compact(min_input_files=2)
    assert len(data_files(table)) == 1
    assert checksum(table, columns) == before
    table.append(rows([100]))
    assert len(set(rows_of(table, "_row_id"))) == 11 if version > 2 else True
    check_sound(memory.lake(), NAME)


def test_a_branch_is_compacted_alone_and_the_summary_takes_entries(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    many(table, 5)
    main = table.current_snapshot
    table.branch("audit")
    report = table.compact(ref="audit", summary={"job": "nightly"})
    assert table.current_snapshot == main
    (snapshot,) = report.snapshots
    assert table.refs["audit"].snapshot_id == snapshot.snapshot_id
    assert snapshot.summary["job"] == "nightly"
    assert rows_of(table, ref="audit") == rows_of(table)


def test_partial_progress_makes_several_snapshots(memory: MemoryLake) -> None:
    table = orders(memory.lake(), partition_by=["region"])
    regions = ["a", "b", "c", "d", "e"]
    for at in range(5):
        table.append(pa.concat_tables([rows([10 * k + at], region) for k, region in enumerate(regions)]))
    seen: list[tuple[int, int]] = []
    report = table.compact(partial_progress=True, max_commits=3, progress=lambda *step: seen.append(step))
    assert (report.groups, len(report.snapshots)) == (5, 3)  # two groups, two groups, one group
    assert seen == [(at, 5) for at in range(1, 6)]
    assert len(data_files(table)) == 5
    check_sound(memory.lake(), NAME)


# ---------------------------------------------------------------- rows in, less the deleted ones, are rows out


class Losing:
    """A rewriter that loses the last row of a group."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def rewrite(self, group: FileGroup) -> Any:
        lost = group.tasks[:-1]
        return self._inner.rewrite(FileGroup(**{**_fields(group), "tasks": lost}))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _fields(group: FileGroup) -> dict[str, Any]:
    names = ("metadata", "tasks", "target_file_size", "max_file_size", "operation_id", "layout", "engine")
    return {name: getattr(group, name) for name in names}


def test_a_rewrite_that_loses_a_row_is_not_committed(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    many(table, 5)
    files, head = memory.files(), table.current_snapshot
    assert table._home is not None
    tools = table._home.tools
    object.__setattr__(tools, "rewriter", Losing(tools.rewriter))
    with pytest.raises(Corrupt, match="record 10 rows, of which 0 are deleted, but 8 were written") as caught:
        table.compact()
    assert (caught.value.rows_in, caught.value.rows_out) == (10, 8)
    assert table.refresh().current_snapshot == head
    assert memory.files() == files


def test_rows_are_counted_with_the_deleted_ones(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    many(table, 5)
    (group,) = table.compact(dry_run=True).groups
    (written,) = [file for file in data_files(table) if file.path == group.files[0].task.data_file.path]
    with pytest.raises(Corrupt):
        check_rows(group, [written], deleted=7)
    check_rows(group, [written], deleted=8)
