"""Compaction beside other writers: at every border of its steps, no row is lost and no deleted row comes back (F29)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from doors import Door, MemoryLake
from interleavings import Writer, interleavings
from orders import NAME, orders, rows
from sound_tables import check_sound, live_files, reachable, rows_of
from with_deletes import commit_deletes, deletion_vectors, equality_delete, position_delete

from esker.errors import Conflict
from esker.table import Table
from esker.tree.data_file import DataFile, FileContent

START = list(range(6))


@dataclass(frozen=True)
class Rival:
    """What another writer does meanwhile, and the rows that the table has then."""

    name: str
    do: Callable[[Table], object]
    leaves: list[int]


RIVALS = (
    Rival("append", lambda t: t.append(rows([50], "eu")), [*START, 50]),
    Rival("delete", lambda t: t.delete("id = 3"), [0, 1, 2, 4, 5]),
    Rival("delete_by_key", lambda t: by_key(t), [0, 1, 2, 4, 5]),
    Rival("overwrite", lambda t: t.overwrite(rows([60], "eu"), where="id = 1"), [0, 2, 3, 4, 5, 60]),
    Rival("update", lambda t: t.update({"n": "n + 1"}, "id = 2"), START),
    Rival("compact", lambda t: t.compact(min_input_files=2), START),
    Rival("alter", lambda t: widen(t), START),
)
MODES = {
    "rewriting": {},
    "v2": {"write.delete.mode": "merge-on-read", "write.update.mode": "merge-on-read"},
    "by partition": {
        "write.delete.mode": "merge-on-read",
        "write.update.mode": "merge-on-read",
        "write.delete.granularity": "partition",
    },
    "v3": {"write.delete.mode": "merge-on-read", "write.update.mode": "merge-on-read"},
}


def by_key(table: Table) -> None:
    with table.transaction() as tx:
        tx.delete_by_key(pa.table({"id": pa.array([3], pa.int64())}), on=["id"])


def widen(table: Table) -> None:
    with table.alter() as change:
        change.widen_column("n", "bigint")


def begin(memory: MemoryLake, mode: str, rival: Rival) -> list[Writer]:
    table = orders(memory.lake(), properties=MODES[mode], format_version=3 if mode == "v3" else 2)
    for at in range(6):
        table.append(rows([at], "eu"))

    def compact(door: Door) -> object:
        return memory.lake(door).table(NAME).compact(max_concurrent_groups=1)

    return [Writer(compact), Writer(lambda door: rival.do(memory.lake(door).table(NAME)))]


MEETINGS = [
    *(("rewriting", rival) for rival in ("append", "delete", "overwrite", "alter")),
    *(("v2", rival) for rival in ("delete", "delete_by_key", "update")),
    ("by partition", "delete"),
    *(("v3", rival) for rival in ("delete", "compact")),
]


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "name"), MEETINGS)
def test_f29_a_compaction_and_another_writer_come_out_as_if_one_had_come_after_the_other(mode: str, name: str) -> None:
    (rival,) = [rival for rival in RIVALS if rival.name == name]
    place: list[MemoryLake] = []

    def start() -> list[Writer]:
        place[:] = [MemoryLake()]
        return begin(place[0], mode, rival)

    count = 0
    for compaction, other in interleavings(start):
        count += 1
        assert compaction.error is None, "it is done again on the files that are left"
        assert other.error is None or isinstance(other.error, Conflict), other.error
        table = check_sound(place[0].lake(), NAME)
        assert rows_of(table) == (START if other.error else rival.leaves)
        if rival.name == "update" and not other.error:
            assert table.scan("id = 2").to_arrow().column("n").to_pylist() == [2]
        assert place[0].files() == reachable(table)
    assert count >= 5


# ---------------------------------------------------------------- one commit in the middle of a compaction


class Interrupted(Door):
    """Does something just before the compaction moves the pointer, each of the first times."""

    def __init__(self, *meanwhile: Callable[[], object]) -> None:
        super().__init__()
        self.meanwhile = list(meanwhile)

    def go(self, verb: str, what: str, do: Callable[[], object]) -> object:  # type: ignore[override]
        if verb == "move" and self.meanwhile:
            self.meanwhile.pop(0)()
        return super().go(verb, what, do)  # type: ignore[arg-type]


def made(memory: MemoryLake, **how: object) -> Table:
    table = orders(memory.lake(), **how)  # type: ignore[arg-type]
    for at in range(5):
        table.append(rows([2 * at, 2 * at + 1]))
    return table


def data_files(table: Table) -> list[DataFile]:
    return sorted((file for file in live_files(table) if file.content is FileContent.DATA), key=lambda file: file.path)


def test_f29_an_equality_delete_that_came_meanwhile_still_applies() -> None:
    memory = MemoryLake()
    table = made(memory)
    delete = equality_delete(table, [4], data_files(table)[0])
    door = Interrupted(lambda: commit_deletes(table, delete))
    report = memory.lake(door).table(NAME).compact()
    assert report.groups == 1
    assert len(door.of("begin")) == 1, "the files were written once: the delete is no conflict"
    table = check_sound(memory.lake(), NAME)
    assert rows_of(table) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert len(data_files(table)) == 1
    assert table.compact(rewrite_all=True).rows_deleted == 1
    assert rows_of(table.refresh()) == [0, 1, 2, 3, 5, 6, 7, 8, 9]


def test_without_the_starting_number_the_same_delete_is_a_conflict_and_the_group_is_done_again() -> None:
    memory = MemoryLake()
    table = made(memory)
    delete = equality_delete(table, [4], data_files(table)[0])
    door = Interrupted(lambda: commit_deletes(table, delete))
    report = memory.lake(door).table(NAME).compact(keep_sequence_number=False)
    assert report.rows_deleted == 1
    assert len(door.of("begin")) == 2
    assert rows_of(check_sound(memory.lake(), NAME)) == [0, 1, 2, 3, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("kind", ["position", "partition", "vector"])
def test_f29_a_position_delete_that_came_meanwhile_makes_the_group_be_done_again(kind: str) -> None:
    memory = MemoryLake()
    table = made(memory, format_version=3 if kind == "vector" else 2)
    target = data_files(table)[2]
    gone = table.scan(columns=["id", "_file", "_pos"]).to_arrow().to_pylist()
    (id_,) = [row["id"] for row in gone if row["_file"] == target.path and row["_pos"] == 1]

    def delete() -> None:
        if kind == "vector":
            commit_deletes(table, *deletion_vectors(table, [(target, [1])]))
        else:
            commit_deletes(table, position_delete(table, target, [1], named=kind == "position"))

    door = Interrupted(delete)
    report = memory.lake(door).table(NAME).compact()
    assert len(door.of("begin")) == 2
    assert (report.rows, report.rows_deleted) == (9, 1)
    assert rows_of(check_sound(memory.lake(), NAME)) == [n for n in range(10) if n != id_]
    assert memory.files() == reachable(memory.lake().table(NAME))


def test_a_compaction_that_meets_conflicts_again_and_again_gives_up_with_nothing_changed() -> None:
    memory = MemoryLake()
    table = made(memory, properties={"write.delete.mode": "merge-on-read"})
    door = Interrupted(*(lambda at=at: table.delete(f"id = {at}") for at in range(8)))  # type: ignore[misc]
    other = memory.lake(door).table(NAME)
    with pytest.raises(Conflict, match=r"cannot compact .*: snapshot \d+ has deleted rows of it"):
        other.compact(max_retries=1)
    table = check_sound(memory.lake(), NAME)
    assert rows_of(table) == list(range(2, 10))
    assert not any(snapshot.operation == "replace" for snapshot in table.snapshots)
    assert memory.files() == reachable(table)


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_one_commit_that_touches_many_groups_is_one_conflict(mode: str) -> None:
    memory = MemoryLake()
    table = orders(memory.lake(), partition_by=["region"], properties={"write.delete.mode": mode})
    regions = [f"r{n}" for n in range(5)]
    for at in (0, 10, 20):
        table.append(pa.concat_tables([rows([at, at + 1], region) for region in regions]))
    door = Interrupted(lambda: table.delete("id = 1"))
    report = memory.lake(door).table(NAME).compact(min_input_files=2, max_retries=1)
    assert (report.groups, len(report.snapshots)) == (5, 1)
    assert len(door.of("begin")) == 10  # each group twice
    assert rows_of(check_sound(memory.lake(), NAME)) == sorted([0, 10, 11, 20, 21] * 5)
    assert memory.files() == reachable(memory.lake().table(NAME))


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("strategy", ["sort", "z-order"])
def test_f32_a_sort_column_that_is_dropped_meanwhile_is_a_conflict(strategy: Any, partial: bool) -> None:
    memory = MemoryLake()
    table = made(memory, properties={"write.delete.mode": "merge-on-read"})

    def rival() -> None:
        with table.alter() as change:
            change.drop_column("n")
        table.delete("id = 3")

    compacting = memory.lake(Interrupted(rival)).table(NAME)
    if partial:
        report = compacting.compact(strategy, sort_by=["n", "id"], partial_progress=True)
        assert "was dropped since" in str(report.failed[0].error)
    else:
        with pytest.raises(Conflict, match="a column by which its rows are sorted was dropped since"):
            compacting.compact(strategy, sort_by=["n", "id"])
    assert rows_of(check_sound(memory.lake(), NAME)) == [n for n in range(10) if n != 3]
    assert memory.files() == reachable(memory.lake().table(NAME))


def test_only_the_group_that_was_touched_is_written_again() -> None:
    memory = MemoryLake()
    table = orders(memory.lake(), partition_by=["region"])
    for at in range(5):
        table.append(pa.concat_tables([rows([at], "eu"), rows([10 + at], "us")]))
    target = next(file for file in data_files(table) if file.partition == ("us",))
    door = Interrupted(lambda: commit_deletes(table, position_delete(table, target, [0], named=True)))
    report = memory.lake(door).table(NAME).compact()
    written = door.of("begin")
    assert len([path for path in written if "region=eu" in path]) == 1
    assert len([path for path in written if "region=us" in path]) == 2
    assert (report.groups, len(report.snapshots)) == (2, 1)
    assert len(rows_of(check_sound(memory.lake(), NAME))) == 9


def test_with_partial_progress_a_group_in_conflict_does_not_stop_the_others() -> None:
    memory = MemoryLake()
    table = orders(memory.lake(), partition_by=["region"])
    for at in range(5):
        table.append(pa.concat_tables([rows([at], "eu"), rows([10 + at], "us")]))
    target = next(file for file in data_files(table) if file.partition == ("us",))
    door = Interrupted(lambda: commit_deletes(table, position_delete(table, target, [0], named=True)))
    compacting = memory.lake(door).table(NAME)
    report = compacting.compact(partial_progress=True, max_retries=0, max_commits=1)
    assert (report.groups, len(report.failed)) == (1, 1)
    assert isinstance(report.failed[0].error, Conflict)
    assert report.failed[0].group.files[0].task.data_file.partition == ("us",)
    table = check_sound(memory.lake(), NAME)
    assert sorted(file.partition for file in data_files(table)) == [("eu",), *[("us",)] * 5]
    assert memory.files() == reachable(table)


def test_f31_a_file_that_another_commit_removed_is_left_out() -> None:
    place = MemoryLake()
    table = made(place)
    door = Interrupted(lambda: table.delete("id in (0, 1)"))
    report = place.lake(door).table(NAME).compact(min_input_files=2)
    assert report.files_rewritten == 4
    assert rows_of(check_sound(place.lake(), NAME)) == list(range(2, 10))


def test_f33_a_start_that_is_no_longer_in_the_past_is_a_conflict_and_the_files_are_planned_again() -> None:
    """Main is set back while a compaction runs; what it read is not in the table's past any more."""
    memory = MemoryLake()
    table = made(memory)
    first = table.snapshots[1].snapshot_id
    door = Interrupted(lambda: table.rollback(snapshot_id=first))
    report = memory.lake(door).table(NAME).compact(min_input_files=2)
    assert report.files_rewritten == 2
    assert rows_of(check_sound(memory.lake(), NAME)) == [0, 1, 2, 3]


def test_f34_a_table_made_again_under_the_name_is_left_alone() -> None:
    memory = MemoryLake()
    table = made(memory)
    kept = reachable(table)

    def again() -> None:
        memory.lake().drop_table(NAME)
        orders(memory.lake()).append(rows([70]))

    with pytest.raises(Conflict, match="dropped and another table has its name"):
        memory.lake(Interrupted(again)).table(NAME).compact()
    new = check_sound(memory.lake(), NAME)
    assert rows_of(new) == [70]
    assert kept | reachable(new) <= memory.files(), "the dropped table can still be restored"
    assert len([place for place in memory.files() if place.endswith(".parquet")]) == 6, "new files are deleted"


def test_f36_an_upgrade_meanwhile_is_a_conflict_and_row_ids_are_kept() -> None:
    """Files written for version 2 have no row ids, which rows of version 3 must keep."""
    memory = MemoryLake()
    table = made(memory)
    seen: list[list[int]] = []

    def upgrade() -> None:
        with table.alter() as change:
            change.upgrade_format(3)
        table.append(rows([99]))
        seen.append(table.scan(columns=["id", "_row_id"]).to_arrow().sort_by("id").column("_row_id").to_pylist())

    memory.lake(Interrupted(upgrade)).table(NAME).compact()
    table = check_sound(memory.lake(), NAME)
    assert table.scan(columns=["id", "_row_id"]).to_arrow().sort_by("id").column("_row_id").to_pylist() == seen[0]


@pytest.mark.slow
def test_510_files_with_deletes_are_compacted_while_another_writer_appends_and_deletes() -> None:
    memory = MemoryLake()
    table = orders(memory.lake(), format_version=3, properties={"write.delete.mode": "merge-on-read"})
    for commit in range(30):
        with table.transaction() as tx:
            for at in range(commit * 17, (commit + 1) * 17):
                tx.append(rows(range(at * 4, at * 4 + 4), n=at))
    expected = set(range(510 * 4))

    def delete(low: int, high: int) -> None:
        table.refresh().delete(f"id >= {low} and id < {high}")
        expected.difference_update(range(low, high))

    def by_key(*ids: int) -> None:
        with table.refresh().transaction() as tx:
            tx.delete_by_key(pa.table({"id": pa.array(ids, pa.int64())}), on=["id"])
        expected.difference_update(ids)

    def append(*ids: int) -> None:
        table.refresh().append(rows(ids))
        expected.update(ids)

    delete(50, 71)
    by_key(7, 1500)
    door = Interrupted(
        lambda: (append(5000, 5001), delete(801, 803)),
        lambda: (by_key(900, 5000), append(5002)),
        lambda: delete(1201, 1202),
    )
    report = memory.lake(door).table(NAME).compact(max_group_files=255)
    assert report.groups == 2
    table = check_sound(memory.lake(), NAME, deep=False)
    assert rows_of(table) == sorted(expected)
    assert len(data_files(table)) == 2 + 2  # and those that came meanwhile
    lineage = table.scan(columns=["_row_id"]).to_arrow().column(0).to_pylist()
    assert len(set(lineage)) == len(lineage) == len(expected)
    table.compact(min_input_files=2)
    assert (len(data_files(table)), rows_of(table)) == (1, sorted(expected))
    check_sound(memory.lake(), NAME, deep=False)
