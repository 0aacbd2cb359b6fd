"""Position deletes rewritten: few instead of many, vectors in version 3, and none that says nothing."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from doors import Door, MemoryLake
from interleavings import Writer, interleavings
from orders import NAME, orders, rows
from sound_tables import check_sound, live_files, reachable, rows_of
from with_deletes import commit_deletes, equality_delete, position_delete

from esker.errors import InvalidInput
from esker.ports.engine import WriteRequest
from esker.table import Table
from esker.tree.data_file import DataFile, FileContent


@pytest.fixture
def memory() -> MemoryLake:
    return MemoryLake()


def data_files(table: Table) -> list[DataFile]:
    return sorted((f for f in live_files(table) if f.content is FileContent.DATA), key=lambda f: f.sequence_number)


def delete_files(table: Table) -> list[DataFile]:
    return [file for file in live_files(table) if file.content is not FileContent.DATA]


def made(memory: MemoryLake, granularity: str = "file", *, named: bool = True) -> Table:
    """Two files of four rows, and four delete files: ids 0, 1, 4 and 6 are gone."""
    table = orders(memory.lake(), properties={"write.delete.granularity": granularity})
    for at in range(2):
        table.append(rows(range(4 * at, 4 * at + 4)))
    first, second = data_files(table)
    for file, position in ((first, 0), (first, 1), (second, 0), (second, 2)):
        commit_deletes(table, position_delete(table, file, [position], named=named))
    return table


LEFT = [2, 3, 5, 7]


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(("granularity", "after"), [("file", 2), ("partition", 1)])
def test_many_become_few(memory: MemoryLake, granularity: str, after: int, named: bool) -> None:
    table = made(memory, granularity, named=named)
    newest = max(file.sequence_number for file in delete_files(table))
    plan = table.rewrite_position_deletes(dry_run=True)
    assert (plan.files, len(plan.groups), plan.total) == (4, 1, 4)
    assert repr(plan).startswith("<esker.DeletePlan: 4 of 4 delete files (")
    assert "to rewrite" in plan._repr_html_()
    report = table.rewrite_position_deletes()
    assert (report.rewritten, report.added, report.before, report.after) == (4, after, 4, after)
    assert "delete files after" in report._repr_html_()
    assert rows_of(table) == LEFT
    assert [file.sequence_number for file in delete_files(table)] == [newest] * after
    check_sound(memory.lake(), NAME)
    again = table.rewrite_position_deletes()
    assert (again.snapshot, again.rewritten) == (None, 0)
    assert repr(again) == "<esker.DeleteReport: 0 delete files to 0, 0 dangling removed>"


@pytest.mark.parametrize("named", [True, False])
def test_in_version_3_they_become_vectors(memory: MemoryLake, named: bool) -> None:
    table = made(memory, named=named)
    with table.alter() as change:
        change.upgrade_format(3)
    report = table.rewrite_position_deletes()
    assert (report.rewritten, report.added) == (4, 2)
    assert all(file.is_deletion_vector for file in delete_files(table))
    assert sorted(file.record_count for file in delete_files(table)) == [2, 2]
    assert rows_of(table) == LEFT
    check_sound(memory.lake(), NAME)
    assert table.rewrite_position_deletes().snapshot is None


def test_a_file_that_has_a_vector_keeps_it(memory: MemoryLake) -> None:
    table = made(memory, "partition", named=False)
    with table.alter() as change:
        change.upgrade_format(3)
        change.set_properties({"write.delete.mode": "merge-on-read"})
    table.delete("id = 2")  # a vector of the first file, with what position deletes said of it
    table.rewrite_position_deletes()
    assert rows_of(table) == [3, 5, 7]
    assert all(file.is_deletion_vector for file in delete_files(table))
    check_sound(memory.lake(), NAME)


def test_deletes_that_say_nothing_any_more_are_removed(memory: MemoryLake) -> None:
    table = made(memory, "partition", named=False)
    first, _ = data_files(table)
    commit_deletes(table, equality_delete(table, [3], first))
    table.overwrite(rows([50]))
    assert len(delete_files(table)) == 5  # those of a partition stay with it
    plan = table.rewrite_position_deletes(dry_run=True)
    assert (plan.files, len(plan.dangling)) == (0, 5)
    report = table.rewrite_position_deletes()
    assert (report.dangling, report.added, report.after) == (5, 0, 0)
    assert delete_files(table) == []
    assert rows_of(check_sound(memory.lake(), NAME)) == [50]


def test_of_deletes_that_came_with_their_data_only_those_by_key_say_nothing(memory: MemoryLake) -> None:
    """A position delete applies to data of its own number, an equality delete only to older data."""
    table = orders(memory.lake())
    assert table._home is not None
    writer, metadata = table._home.tools.writer, table.metadata
    data = writer.fit(metadata, metadata.schema, rows([0, 1, 2]))
    request = WriteRequest(metadata=metadata, schema=metadata.schema, data=data, operation_id="one")
    (file,) = writer.write(request)
    commit_deletes(table, file, position_delete(table, file, [0]), equality_delete(table, [2], file))
    assert rows_of(table) == [1, 2]
    assert [d.content for d in table.rewrite_position_deletes(dry_run=True).dangling] == [FileContent.EQUALITY_DELETES]
    assert table.rewrite_position_deletes().dangling == 1
    assert [file.content for file in delete_files(table)] == [FileContent.POSITION_DELETES]
    assert rows_of(table) == [1, 2]


def test_rows_about_files_that_are_gone_are_left_out(memory: MemoryLake) -> None:
    table = made(memory, "partition", named=False)
    table.delete("id in (2, 3)")  # the rest of the first file
    report = table.rewrite_position_deletes()
    assert (report.added, sum(file.record_count for file in delete_files(table))) == (1, 2)
    assert rows_of(check_sound(memory.lake(), NAME)) == [5, 7]


def test_partitions_are_rewritten_apart_and_arguments_are_checked(memory: MemoryLake) -> None:
    table = orders(memory.lake(), partition_by=["region"])
    table.append(pa.concat_tables([rows(range(4), "eu"), rows(range(10, 14), "us")]))
    for file in data_files(table):
        for position in (0, 1):
            commit_deletes(table, position_delete(table, file, [position]))
    assert len(table.rewrite_position_deletes(dry_run=True).groups) == 2
    assert table.rewrite_position_deletes(dry_run=True, min_input_files=3).groups == ()
    assert table.rewrite_position_deletes().added == 2
    assert rows_of(table) == [2, 3, 12, 13]
    with pytest.raises(InvalidInput, match="min_input_files=0"):
        table.rewrite_position_deletes(min_input_files=0)


def test_a_filter_chooses_partitions_and_leaves_other_deletes_as_they_are(memory: MemoryLake) -> None:
    table = orders(memory.lake(), partition_by=["region"])
    table.append(pa.concat_tables([rows(range(4), "eu"), rows(range(10, 14), "us")]))
    eu, us = sorted(data_files(table), key=lambda file: str(file.partition))
    for file in (eu, us):
        for position in (0, 1):
            commit_deletes(table, position_delete(table, file, [position]))
    table.append(rows([20], "as"))
    (new,) = [file for file in data_files(table) if file.partition == ("as",)]
    commit_deletes(table, equality_delete(table, [99], new))
    table.delete("region = 'as'")  # its delete says nothing any more
    before = {file.path for file in delete_files(table)}
    chosen = table.rewrite_position_deletes(where="region = 'us'", dry_run=True)
    assert ([len(group) for group in chosen.groups], chosen.dangling) == ([2], ())
    assert len(table.rewrite_position_deletes(where="id = 1", dry_run=True).groups) == 2, "no partition tells"
    report = table.rewrite_position_deletes(where="region = 'us'")
    assert (report.rewritten, report.added, report.dangling) == (2, 1, 0)
    assert sum(file.path in before for file in delete_files(table)) == 3
    assert rows_of(table) == [2, 3, 12, 13]
    assert table.rewrite_position_deletes().dangling == 1


RIVALS: dict[str, tuple[Callable[[Table], object], list[int]]] = {
    "append": (lambda t: t.append(rows([9])), [*LEFT, 9]),
    "delete": (lambda t: t.delete("id = 5"), [2, 3, 7]),
    "delete a file": (lambda t: t.delete("id <= 3"), [5, 7]),
    "compact": (lambda t: t.compact(rewrite_all=True), LEFT),
}


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", RIVALS)
def test_f30_beside_another_writer_every_delete_counts_once(name: str, version: int) -> None:
    do, leaves = RIVALS[name]
    place: list[MemoryLake] = []

    def start() -> list[Writer]:
        place[:] = [MemoryLake()]
        memory = place[0]
        table = made(memory, "partition", named=False)
        with table.alter() as change:
            change.upgrade_format(version)
            change.set_properties({"write.delete.mode": "merge-on-read"})

        def rewrite(door: Door) -> object:
            return memory.lake(door).table(NAME).rewrite_position_deletes()

        return [Writer(rewrite), Writer(lambda door: do(memory.lake(door).table(NAME)))]

    for writers in interleavings(start):
        assert [writer.error for writer in writers] == [None, None]
        table = check_sound(place[0].lake(), NAME)
        assert rows_of(table) == leaves
        assert place[0].files() == reachable(table)
