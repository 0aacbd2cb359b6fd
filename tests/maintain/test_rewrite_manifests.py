"""Manifests rewritten: fewer of them, by partition, with every number of every file as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from doors import Door, MemoryLake
from interleavings import Writer, interleavings
from orders import NAME, orders, rows
from sound_tables import check_sound, live_files, manifests_of, reachable, rows_of
from with_deletes import commit_deletes, equality_delete, position_delete

from esker.errors import Conflict, InvalidInput
from esker.table import Table
from esker.tree.data_file import FileContent


@pytest.fixture
def memory() -> MemoryLake:
    return MemoryLake()


def listed(table: Table) -> list[tuple[Any, ...]]:
    """Everything that manifests say of the live files, in no order."""
    return sorted(
        (
            file.path,
            file.content,
            file.spec_id,
            file.partition,
            file.sequence_number,
            file.file_sequence_number,
            file.snapshot_id,
            file.first_row_id,
            file.record_count,
            repr(file.metrics),
        )
        for file in live_files(table)
    )


@pytest.mark.parametrize("version", [1, 2, 3])
def test_manifests_become_one_and_files_keep_their_numbers(memory: MemoryLake, version: int) -> None:
    table = orders(memory.lake(), format_version=version)
    for at in range(8):
        table.append(rows([at]))
    table.delete("id = 3")
    before, lineage = listed(table), rows_of(table, "_row_id") if version > 2 else []
    report = table.rewrite_manifests()
    assert (report.rewritten, report.added, report.after) == (7, 1, 1)
    assert repr(report) == "<esker.ManifestReport: 7 manifests to 1>"
    assert listed(table) == before
    assert rows_of(table) == [0, 1, 2, 4, 5, 6, 7]
    assert not lineage or rows_of(table, "_row_id") == lineage
    assert report.snapshot is not None
    assert report.snapshot.summary["operation"] == "replace"
    assert report.snapshot.summary["manifests-replaced"] == "7"
    assert report.snapshot.summary["total-records"] == "7"
    check_sound(memory.lake(), NAME)
    assert table.rewrite_manifests().snapshot is None


def test_files_are_listed_by_partition_so_that_a_filter_opens_few_manifests(memory: MemoryLake) -> None:
    regions = ["d", "b", None, "a", "c"]
    table = orders(memory.lake(), partition_by=["region"])
    for at in range(4):
        table.append(pa.concat_tables([rows([10 * k + at], region) for k, region in enumerate(regions)]))
    size = sum(manifest.length for manifest in manifests_of(table))
    assert table.scan("region = 'a'").plan().funnel.manifests_read == 4
    table.rewrite_manifests(target_size=-(-size // 5), rewrite_all=True)
    assert len(manifests_of(table)) == 5
    assert table.scan("region = 'a'").plan().funnel.manifests_read == 1
    assert table.scan("region is null").plan().funnel.manifests_read == 1
    check_sound(memory.lake(), NAME)


def test_delete_manifests_and_old_specs_are_rewritten_apart(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    for at in range(3):
        table.append(rows([at]))
    target = next(file for file in live_files(table) if file.content is FileContent.DATA)
    for at in (1, 2):
        commit_deletes(table, equality_delete(table, [at], target))
    with table.alter() as change:
        change.add_partition("region")
    for at in (10, 11):
        table.append(rows([at]))
    before = listed(table)
    assert table.rewrite_manifests(dry_run=True, spec_id=1).manifests == 2
    plan = table.rewrite_manifests(dry_run=True)
    assert (plan.manifests, plan.manifests_after, plan.total) == (7, 3, 7)
    assert repr(plan).startswith("<esker.ManifestPlan: 7 of 7 manifests (")
    assert "manifests to rewrite" in plan._repr_html_()
    report = table.rewrite_manifests()
    assert "manifests after" in report._repr_html_()
    assert listed(table) == before
    assert len(manifests_of(table)) == 3
    check_sound(memory.lake(), NAME)


def test_a_dry_run_writes_nothing_and_wrong_arguments_are_named(memory: MemoryLake) -> None:
    orders(memory.lake()).append(rows([1]))
    door = Door()
    table = memory.lake(door).table(NAME)
    assert repr(table.rewrite_manifests(dry_run=True)) == "<esker.ManifestPlan: nothing to rewrite>"
    assert door.of("write", "begin", "move", "delete") == []
    with pytest.raises(InvalidInput, match="target_size=0"):
        table.rewrite_manifests(target_size=0)
    with pytest.raises(InvalidInput, match="spec 7: the table has 0"):
        table.rewrite_manifests(spec_id=7)


def test_planning_opens_a_tenth_of_the_manifests_and_less(memory: MemoryLake) -> None:
    """As many one-file manifests as a test can afford: what a plan opens is what it costs."""
    table = orders(memory.lake())
    for at in range(40):
        table.append(rows([at]))
    assert table.scan("id = 7").plan().funnel.manifests_read == 40
    table.rewrite_manifests()
    assert table.scan("id = 7").plan().funnel.manifests_read == 1
    assert table.scan("id = 7").plan().funnel.files_kept == 1


# ---------------------------------------------------------------- beside other writers


RIVALS: dict[str, tuple[Callable[[Table], object], list[int]]] = {
    "append": (lambda t: t.append(rows([9])), [0, 1, 2, 3, 9]),
    "delete": (lambda t: t.delete("id = 1"), [0, 2, 3]),
    "compact": (lambda t: t.compact(min_input_files=2), [0, 1, 2, 3]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RIVALS)
def test_beside_another_writer_nothing_is_lost(name: str) -> None:
    do, leaves = RIVALS[name]
    place: list[MemoryLake] = []

    def start() -> list[Writer]:
        place[:] = [MemoryLake()]
        memory = place[0]
        table = orders(memory.lake())
        for at in range(4):
            table.append(rows([at]))
        return [
            Writer(lambda door: memory.lake(door).table(NAME).rewrite_manifests()),
            Writer(lambda door: do(memory.lake(door).table(NAME))),
        ]

    for writers in interleavings(start):
        assert [writer.error for writer in writers] == [None, None]
        table = check_sound(place[0].lake(), NAME)
        assert rows_of(table) == leaves
        assert place[0].files() == reachable(table)


class Meanwhile(Door):
    """Does something before each of the first moves of the pointer."""

    def __init__(self, *meanwhile: Callable[[], object]) -> None:
        super().__init__()
        self.meanwhile = list(meanwhile)

    def go(self, verb: str, what: str, do: Callable[[], Any]) -> Any:
        if verb == "move" and self.meanwhile:
            self.meanwhile.pop(0)()
        return super().go(verb, what, do)


def test_manifests_that_came_meanwhile_stay_and_the_new_ones_are_written_once(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    for at in range(4):
        table.append(rows([at]))
    door = Meanwhile(lambda: table.append(rows([9])))
    report = memory.lake(door).table(NAME).rewrite_manifests()
    assert (report.rewritten, report.after) == (4, 2)
    assert len([path for path in door.of("write") if path.endswith("-m0.avro")]) == 1
    assert rows_of(check_sound(memory.lake(), NAME)) == [0, 1, 2, 3, 9]


def test_it_gives_up_after_some_conflicts_and_leaves_nothing(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    for at in range(6):
        table.append(rows([at]))
    door = Meanwhile(*(lambda at=at: table.delete(f"id = {at}") for at in range(4)))  # type: ignore[misc]
    with pytest.raises(Conflict, match="cannot rewrite manifest"):
        memory.lake(door).table(NAME).rewrite_manifests(max_retries=1)
    table = check_sound(memory.lake(), NAME)
    assert rows_of(table) == [2, 3, 4, 5]
    assert memory.files() == reachable(table)


def test_position_deletes_are_listed_with_the_statistics_that_find_their_file(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    for at in range(3):
        table.append(rows([2 * at, 2 * at + 1]))
    for file in live_files(table):
        commit_deletes(table, position_delete(table, file, [0]))
    table.rewrite_manifests()
    assert len(manifests_of(table)) == 2
    assert rows_of(table) == [1, 3, 5]
