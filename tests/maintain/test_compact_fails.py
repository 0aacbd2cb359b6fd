"""Compaction that fails or stops: the table is whole, each group is exchanged or not, and a second run ends it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from breaking import MANY, Breaking, outcome
from doors import MemoryLake
from orders import NAME, orders, rows
from sound_tables import check_sound, live_files, reachable, rows_of
from with_deletes import commit_deletes, equality_delete

from esker.errors import Conflict, EskerError, OutcomeUnknown, StorageFailed
from esker.maintain.rewriting import compaction
from esker.ports.file_rewriting import FileGroup
from esker.table import Table
from esker.tree.data_file import DataFile
from esker.write.commit import commit

IDS = [0, 1, 2, 10, 11, 12]


def started() -> MemoryLake:
    """Two partitions of three files."""
    memory = MemoryLake()
    table = orders(memory.lake(), partition_by=["region"])
    for at in range(3):
        table.append(pa.concat_tables([rows([at], "eu"), rows([10 + at], "us")]))
    return memory


def compact(table: Table, *, partial: bool) -> Any:
    return table.compact(min_input_files=2, partial_progress=partial, max_commits=2, max_concurrent_groups=1)


@pytest.mark.parametrize(
    ("partial", "how"),
    [(True, "before"), *(pytest.param(*case, marks=pytest.mark.slow) for case in ((False, "before"), (True, "raw")))],
)
def test_f11_whichever_call_fails_each_group_is_exchanged_or_not_and_a_second_run_does_the_rest(
    partial: bool, how: str
) -> None:
    for at in range(1, MANY):
        memory = started()
        there = memory.files()
        door = Breaking(at, how)
        error = outcome(lambda: compact(memory.lake(door).table(NAME), partial=partial))  # noqa: B023  # called at once
        where = f"{how} call {at}, {door.calls[-1]}"
        table = check_sound(memory.lake(), NAME)
        assert rows_of(table) == IDS, where
        assert not set(door.of("delete")) & there, where
        files = len(live_files(table))
        assert files in ((2, 4, 6) if partial else (2, 6)), where
        if how == "before" and door.broke not in ("delete", "move", None):
            assert memory.files() == reachable(table), where
        if error is not None and not isinstance(error, OutcomeUnknown) and not partial:
            assert files == 6, where
        if door.broke is None:
            assert (error, files) == (None, 2)
            return
        compact(memory.lake().table(NAME), partial=partial)
        table = check_sound(memory.lake(), NAME)
        assert (rows_of(table), len(live_files(table))) == (IDS, 2), where
    raise AssertionError("never came through")


class Failing:
    """A rewriter for which a partition's files cannot be written."""

    def __init__(self, inner: Any, partition: str, error: BaseException) -> None:
        self._inner = inner
        self._partition = partition
        self._error = error

    def rewrite(self, group: FileGroup) -> Iterator[DataFile]:
        if group.tasks[0].data_file.partition == (self._partition,):
            raise self._error
        yield from self._inner.rewrite(group)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def failing(memory: MemoryLake, error: BaseException) -> Table:
    table = memory.lake().table(NAME)
    assert table._home is not None
    tools = table._home.tools
    object.__setattr__(tools, "rewriter", Failing(tools.rewriter, "us", error))
    return table


def test_a_group_that_fails_stops_all_without_partial_progress() -> None:
    memory = started()
    files = memory.files()
    table = failing(memory, StorageFailed("the disk is full", retryable=True))
    with pytest.raises(StorageFailed, match="the disk is full"):
        compact(table, partial=False)
    assert memory.files() == files
    assert len(table.refresh().snapshots) == 3


def test_a_group_that_fails_does_not_stop_the_others_with_partial_progress() -> None:
    memory = started()
    table = failing(memory, StorageFailed("the disk is full", retryable=True))
    report = compact(table, partial=True)
    assert (report.groups, [str(failed.error) for failed in report.failed]) == (1, ["the disk is full"])
    assert repr(report).endswith(", 1 groups failed>")
    table = check_sound(memory.lake(), NAME)
    assert (rows_of(table), len(live_files(table))) == (IDS, 4)
    assert memory.files() == reachable(table)


@pytest.mark.parametrize("partial", [True, False])
def test_a_lost_race_for_the_catalog_does_not_hide_what_was_committed_before(
    partial: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = started()
    calls = 0

    def lose_the_second(*given: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == (2 if partial else 1):
            raise Conflict("cannot commit: other writers won each time", attempts=4)
        return commit(*given)

    monkeypatch.setattr(compaction, "commit", lose_the_second)
    if partial:
        report = compact(memory.lake().table(NAME), partial=True)
        assert (report.groups, [type(failed.error) for failed in report.failed]) == (1, [Conflict])
    else:
        with pytest.raises(Conflict):
            compact(memory.lake().table(NAME), partial=False)
    table = check_sound(memory.lake(), NAME)
    assert (rows_of(table), len(live_files(table))) == (IDS, 4 if partial else 6)
    assert memory.files() == reachable(table)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("a fault of Esker")], ids=["Ctrl-C", "a fault"])
def test_what_is_no_error_of_a_table_ends_the_run_and_leaves_no_file(error: BaseException) -> None:
    memory = started()
    files = memory.files()
    with pytest.raises(type(error)):
        compact(failing(memory, error), partial=True)
    table = check_sound(memory.lake(), NAME)
    assert rows_of(table) == IDS
    assert memory.files() - files <= reachable(table)


class Slow(Failing):
    """A rewriter that takes its time for a partition."""

    def rewrite(self, group: FileGroup) -> Iterator[DataFile]:
        if group.tasks[0].data_file.partition == (self._partition,):
            time.sleep(0.5)
        yield from self._inner.rewrite(group)


def test_groups_that_still_run_when_a_commit_fails_leave_no_file() -> None:
    memory = started()
    files = memory.files()

    class Full(Breaking):
        """The pointer cannot be moved."""

        def go(self, verb: str, what: str, do: Any) -> Any:
            if verb == "move":
                raise StorageFailed("the disk is full", retryable=True)
            return super().go(verb, what, do)

    table = memory.lake(Full(-1, "before")).table(NAME)
    assert table._home is not None
    tools = table._home.tools
    object.__setattr__(tools, "rewriter", Slow(tools.rewriter, "us", KeyboardInterrupt()))
    with pytest.raises(StorageFailed) as caught:
        table.compact(min_input_files=2, partial_progress=True, max_concurrent_groups=2)
    assert memory.files() == files
    assert caught.value.retryable


def test_a_lost_answer_keeps_every_file() -> None:
    memory = started()

    class Silent(Breaking):
        """The catalog does not answer, and then cannot be asked."""

        def go(self, verb: str, what: str, do: Any) -> Any:
            if self.of("move") and verb == "get":
                raise ConnectionResetError("no answer")
            if verb == "move":
                do()
                self.calls.append((verb, what))
                raise ConnectionResetError("no answer")
            return super().go(verb, what, do)

    with pytest.raises(OutcomeUnknown):
        compact(memory.lake(Silent(-1, "raw")).table(NAME), partial=False)
    table = check_sound(memory.lake(), NAME)
    assert (rows_of(table), len(live_files(table))) == (IDS, 2)


def test_a_table_opened_by_its_path_is_not_compacted() -> None:
    memory = started()
    table = memory.lake().table(NAME)
    table._home = None
    with pytest.raises(EskerError, match="read-only"):
        table.compact()


def test_a_delete_that_cannot_be_read_stops_the_group() -> None:
    memory = started()
    table = memory.lake().table(NAME)
    delete = equality_delete(table, [1], live_files(table)[0])
    commit_deletes(table, delete)
    table._workings.storage.delete(delete.path)
    files = memory.files()
    with pytest.raises(EskerError):
        compact(table, partial=False)
    assert memory.files() == files
