"""Appends of several threads are committed together: each is a snapshot of its own, and each gets its own outcome."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from doors import Door, MemoryLake, WatchedCatalog
from orders import NAME, orders, rows
from sound_tables import check_sound, reachable, rows_of

from esker.errors import Conflict, InvalidInput, NoSuchSnapshot, OutcomeUnknown, StorageFailed
from esker.lake import Lake
from esker.model.table_names import TableName
from esker.ports.catalog import Catalog, Rejected, Swap, TableState, Unanswered
from esker.table import Table
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata
from esker.wiring import lake_over
from esker.write.group_commit import GroupCommits

SECONDS = 60


class Held(WatchedCatalog):
    """A catalog whose first swap waits until it is let go. The swaps after it go as a script says."""

    def __init__(self, inner: Catalog, *script: str) -> None:
        super().__init__(inner, Door())
        self.script = ["hold", *script]
        self.is_held = threading.Event()
        self.may_go = threading.Event()
        self.offered: list[int] = []  # new snapshots, in each swap

    def swap(self, name: TableName, base: TableState, new: TableMetadata) -> Swap:
        self.offered.append(len(new.snapshots) - len(base.metadata.snapshots))
        how = self.script.pop(0) if self.script else "do"
        if how == "hold":
            self.is_held.set()
            assert self.may_go.wait(SECONDS)
        if how == "lose":
            return Rejected("lost")
        if how == "full":
            raise StorageFailed("cannot commit: the disk is full", retryable=True)
        if how == "interrupt before":
            raise KeyboardInterrupt
        answer = self.inner.swap(name, base, new) if how != "silence" else None
        if how in ("silence", "no answer"):
            return Unanswered("no answer", getattr(getattr(answer, "state", None), "metadata_location", None))
        if how == "interrupt after":
            raise KeyboardInterrupt
        assert answer is not None
        return answer


class Grouped(Held):
    """A catalog that takes several snapshots at once."""

    takes_groups = True


class Threads:
    """Appends that run at once. The outcome of each is a snapshot or an error."""

    def __init__(self, lake: Lake, catalog: Held) -> None:
        self.lake = lake
        self.catalog = catalog
        self.outcomes: dict[int, Snapshot | BaseException] = {}
        self.tables: dict[int, Table] = {}
        self._threads: list[threading.Thread] = []
        self._start(0, {})
        assert catalog.is_held.wait(SECONDS)

    def _start(self, id_: int, how: dict[str, Any]) -> None:
        def work() -> None:
            table = self.tables[id_] = self.lake.table(NAME)
            try:
                self.outcomes[id_] = table.append(rows([id_]), **how)
            except BaseException as error:
                self.outcomes[id_] = error

        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def wait_in_line(self, id_: int, **how: Any) -> None:
        """Begin an append that waits behind the others."""
        before = len(self.waiting())
        self._start(id_, how)
        until(lambda: len(self.waiting()) > before)

    def waiting(self) -> list[Any]:
        """The appends that wait."""
        commits: GroupCommits = self.lake.table(NAME)._at_home().commits
        return [append for queue in commits._queues.values() for append in queue.waiting]

    def go(self) -> dict[int, Snapshot | BaseException]:
        """Let the first commit go, and wait for all. The outcomes by id."""
        self.catalog.may_go.set()
        for thread in self._threads:
            thread.join(SECONDS)
            assert not thread.is_alive(), "an append waits for ever"
        assert not self.lake.table(NAME)._at_home().commits._queues
        return self.outcomes


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.fixture
def memory() -> MemoryLake:
    return MemoryLake()


def group(memory: MemoryLake, *script: str, others: int = 3, version: int = 2, **properties: str) -> Threads:
    """One append that is held in its swap, and others that wait behind it."""
    orders(memory.lake(), format_version=version, properties=properties).append(rows([100]))
    catalog = Grouped(memory.catalog(), *script)
    threads = Threads(lake_over(catalog), catalog)
    for id_ in range(1, others + 1):
        threads.wait_in_line(id_, summary={"who": str(id_)})
    return threads


def check_nothing_left(memory: MemoryLake, table: Table) -> None:
    """Every file is part of the table, except metadata files of attempts that may have been made."""
    left = memory.files() - reachable(table)
    assert not [file for file in left if not file.endswith(".metadata.json")]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_appends_that_wait_become_visible_together_each_as_its_own_snapshot(memory: MemoryLake, version: int) -> None:
    threads = group(memory, version=version)
    outcomes = threads.go()
    assert threads.catalog.offered == [1, 3]  # one alone, then three by one swap
    table = check_sound(memory.lake(), NAME)
    assert rows_of(table) == [0, 1, 2, 3, 100]
    assert memory.files() == reachable(table)
    *_, first, second, third = table.snapshots
    assert [s.summary["who"] for s in (first, second, third)] == ["1", "2", "3"]
    assert [outcomes[id_] for id_ in (1, 2, 3)] == [first, second, third]
    parents = [s.parent_snapshot_id for s in table.snapshots]
    assert parents == [None, *(s.snapshot_id for s in table.snapshots[:-1])]  # linear
    assert [s.summary["total-records"] for s in table.snapshots] == ["1", "2", "3", "4", "5"]
    assert [entry.snapshot_id for entry in table.history] == [s.snapshot_id for s in table.snapshots]
    for snapshot, ids in ((first, [0, 1, 100]), (second, [0, 1, 2, 100]), (third, [0, 1, 2, 3, 100])):
        assert rows_of(table, snapshot_id=snapshot.snapshot_id) == ids
        assert rows_of(table, as_of=snapshot.timestamp_ms) == ids
    if version == 3:
        assert [s.first_row_id for s in table.snapshots] == [0, 1, 2, 3, 4]
        found = table.scan(columns=["id", "_row_id"]).to_arrow().to_pylist()
        assert sorted((row["id"], row["_row_id"]) for row in found) == [(0, 1), (1, 2), (2, 3), (3, 4), (100, 0)]


def test_each_table_object_moves_to_a_version_that_has_its_rows(memory: MemoryLake) -> None:
    threads = group(memory)
    threads.go()
    for id_, table in threads.tables.items():
        assert id_ in rows_of(table)


def test_an_append_that_finds_nobody_at_work_does_not_wait(memory: MemoryLake) -> None:
    orders(memory.lake())
    table = memory.lake().table(NAME)
    for id_ in range(3):
        table.append(rows([id_]))
    assert len(table.metadata.metadata_log) == 3
    assert not table._at_home().commits._queues


def test_a_lost_race_proposes_the_whole_group_again(memory: MemoryLake) -> None:
    threads = group(memory, "lose", "lose")
    assert not errors_of(threads.go())
    assert threads.catalog.offered == [1, 3, 3, 3]
    table = check_sound(memory.lake(), NAME)
    assert rows_of(table) == [0, 1, 2, 3, 100]
    assert memory.files() == reachable(table)


def test_another_writers_commit_in_between_is_kept(memory: MemoryLake) -> None:
    threads = group(memory)
    swap = threads.catalog.inner.swap
    raced: list[int] = []

    def overtaken(name: TableName, base: TableState, new: TableMetadata) -> Swap:
        if len(threads.catalog.offered) == 2:
            raced.append(1)
            memory.lake().table(NAME).append(rows([50]))
        return swap(name, base, new)

    threads.catalog.inner.swap = overtaken  # type: ignore[method-assign]
    assert not errors_of(threads.go())
    assert raced == [1]
    table = check_sound(memory.lake(), NAME)
    assert rows_of(table) == [0, 1, 2, 3, 50, 100]
    assert memory.files() == reachable(table)


def test_one_append_that_cannot_be_made_does_not_fail_the_others(memory: MemoryLake) -> None:
    orders(memory.lake()).append(rows([100]))
    memory.lake().table(NAME).branch("gone")
    catalog = Grouped(memory.catalog())
    threads = Threads(lake_over(catalog), catalog)
    threads.wait_in_line(1)
    threads.wait_in_line(2, ref="gone")
    threads.wait_in_line(3)
    # the branch goes while the append waits, by a commit that does not wait
    original = catalog.inner.swap

    def after_the_branch(name: TableName, base: TableState, new: TableMetadata) -> Swap:
        answer = original(name, base, new)
        if len(catalog.offered) == 1:
            memory.lake().table(NAME).drop_ref("gone")
        return answer

    catalog.inner.swap = after_the_branch  # type: ignore[method-assign]
    outcomes = threads.go()
    assert set(errors_of(outcomes)) == {2}
    error = outcomes[2]
    assert isinstance(error, NoSuchSnapshot)
    assert "cannot write to branch 'gone'" in str(error)
    table = check_sound(memory.lake(), NAME)
    assert rows_of(table) == [0, 1, 3, 100]
    check_nothing_left(memory, table)


def test_branches_of_one_table_are_committed_together(memory: MemoryLake) -> None:
    orders(memory.lake()).append(rows([100]))
    memory.lake().table(NAME).branch("audit")
    catalog = Grouped(memory.catalog())
    threads = Threads(lake_over(catalog), catalog)
    threads.wait_in_line(1, ref="audit")
    threads.wait_in_line(2)
    threads.wait_in_line(3, ref="audit")
    assert not errors_of(threads.go())
    assert catalog.offered == [1, 3]
    table = check_sound(memory.lake(), NAME)
    assert rows_of(table) == [0, 2, 100]
    assert rows_of(table, ref="audit") == [1, 3, 100]


def test_if_the_version_of_a_group_cannot_be_written_each_append_is_made_alone(memory: MemoryLake) -> None:
    threads = group(memory, "full")
    assert not errors_of(threads.go())
    assert threads.catalog.offered[:2] == [1, 3]
    assert sum(threads.catalog.offered[2:]) >= 3
    table = check_sound(memory.lake(), NAME)
    assert rows_of(table) == [0, 1, 2, 3, 100]
    check_nothing_left(memory, table)


def test_a_failure_that_stays_is_reported_to_each(memory: MemoryLake) -> None:
    threads = group(memory, *["full"] * 20)
    outcomes = threads.go()
    failed = errors_of(outcomes)
    assert set(failed) == {1, 2, 3}
    assert all(isinstance(error, StorageFailed) for error in failed.values())
    assert len({id(error) for error in failed.values()}) == 3
    table = check_sound(memory.lake(), NAME)
    assert rows_of(table) == [0, 100]
    check_nothing_left(memory, table)


def test_if_the_catalog_never_answers_the_outcome_of_each_is_unknown_and_every_file_is_kept(
    memory: MemoryLake,
) -> None:
    threads = group(memory, "silence")
    before = memory.files()
    failed = errors_of(threads.go())
    assert set(failed) == {1, 2, 3}
    for error in failed.values():
        assert isinstance(error, OutcomeUnknown)
        assert "every file was kept" in str(error)
    ids = {error.snapshot_id for error in failed.values()}  # type: ignore[attr-defined]
    assert len(ids) == 3
    lists = {file for file in memory.files() if "/snap-" in file}
    assert all(any(f"snap-{id_}-" in file for file in lists) for id_ in ids)
    assert before <= memory.files()
    assert rows_of(check_sound(memory.lake(), NAME)) == [0, 100]


def test_a_group_whose_answer_was_lost_is_found_in_the_table(memory: MemoryLake) -> None:
    threads = group(memory, "no answer")
    assert not errors_of(threads.go())
    table = check_sound(memory.lake(), NAME)
    assert rows_of(table) == [0, 1, 2, 3, 100]


def test_if_others_win_too_often_each_append_gets_a_conflict(memory: MemoryLake) -> None:
    threads = group(memory, *["lose"] * 3, **{"commit.retry.num-retries": "2"})
    failed = errors_of(threads.go())
    assert set(failed) == {1, 2, 3}
    assert all(isinstance(error, Conflict) and "3 times in a row" in str(error) for error in failed.values())
    table = check_sound(memory.lake(), NAME)
    assert rows_of(table) == [0, 100]
    check_nothing_left(memory, table)


def test_ctrl_c_in_the_thread_that_commits_stops_only_that_thread(memory: MemoryLake) -> None:
    threads = group(memory, others=3)
    waiting = threads.waiting()
    for append in waiting[:1]:  # this thread leads
        append.change.redefine = interrupted
    failed = errors_of(threads.go())
    assert set(failed) == {1}
    assert isinstance(failed[1], KeyboardInterrupt)
    table = check_sound(memory.lake(), NAME)
    assert rows_of(table) == [0, 2, 3, 100]
    check_nothing_left(memory, table)


def interrupted(metadata: TableMetadata) -> TableMetadata:
    raise KeyboardInterrupt


@pytest.mark.parametrize("when", ["before", "after"])
def test_ctrl_c_during_the_swap_leaves_the_outcome_unknown(memory: MemoryLake, when: str) -> None:
    threads = group(memory, f"interrupt {when}")
    failed = errors_of(threads.go())
    assert set(failed) == {1, 2, 3}
    assert isinstance(failed[1], KeyboardInterrupt)
    for id_ in (2, 3):
        assert isinstance(failed[id_], OutcomeUnknown)
        assert "was interrupted (KeyboardInterrupt); every file was kept" in str(failed[id_])
    table = check_sound(memory.lake(), NAME)  # with every file that it needs
    assert rows_of(table) == ([0, 1, 2, 3, 100] if when == "after" else [0, 100])


def test_a_batch_that_comes_twice_in_one_group_counts_once(memory: MemoryLake) -> None:
    orders(memory.lake()).append(rows([100]))
    catalog = Grouped(memory.catalog())
    threads = Threads(lake_over(catalog), catalog)
    threads.wait_in_line(1, batch=("app", 1))
    threads.wait_in_line(2, batch=("app", 1))
    threads.wait_in_line(3, batch=("app", 2))
    outcomes = threads.go()
    assert not errors_of(outcomes)
    assert catalog.offered == [1, 2]
    table = check_sound(memory.lake(), NAME)
    assert rows_of(table) == [0, 1, 3, 100]
    check_nothing_left(memory, table)


def test_changes_that_are_not_appends_do_not_wait(memory: MemoryLake) -> None:
    threads = group(memory, others=2)
    deleted = memory.lake().table(NAME)
    deleted.delete("id = 100")  # while the first append is held
    own = threads.lake.table(NAME)
    assert own.delete("id = 7") is not None  # by the same lake: it goes at once
    outcomes = threads.go()
    assert not errors_of(outcomes)
    table = check_sound(memory.lake(), NAME)
    assert rows_of(table) == [0, 1, 2]


def test_a_table_that_was_made_again_gets_no_rows_of_the_old_one(memory: MemoryLake) -> None:
    threads = group(memory)
    fresh = memory.lake()
    fresh.drop_table(NAME)
    orders(fresh)
    failed = errors_of(threads.go())
    assert set(failed) == {0, 1, 2, 3}
    assert all(isinstance(error, Conflict) for error in failed.values())
    assert rows_of(check_sound(memory.lake(), NAME)) == []


class Ungrouped(Held):
    """A catalog without the mark that it takes several snapshots at once."""

    def __getattr__(self, name: str) -> Any:
        if name == "takes_groups":
            raise AttributeError(name)
        return super().__getattr__(name)


def test_appends_of_a_catalog_that_takes_no_groups_do_not_wait(memory: MemoryLake) -> None:
    orders(memory.lake()).append(rows([100]))
    catalog = Ungrouped(memory.catalog())
    threads = Threads(lake_over(catalog), catalog)
    threads.lake.table(NAME).append(rows([1]))  # while the first is held
    assert rows_of(memory.lake().table(NAME)) == [1, 100]
    assert not errors_of(threads.go())
    assert rows_of(check_sound(memory.lake(), NAME)) == [0, 1, 100]


def test_a_table_with_merged_manifests_is_committed_in_groups_too(memory: MemoryLake) -> None:
    merging = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}
    threads = group(memory, **merging)
    assert not errors_of(threads.go())
    assert threads.catalog.offered == [1, 3]
    table = check_sound(memory.lake(), NAME)
    assert rows_of(table) == [0, 1, 2, 3, 100]
    check_nothing_left(memory, table)


def test_the_first_appends_of_an_empty_table_are_committed_together(memory: MemoryLake) -> None:
    orders(memory.lake())
    catalog = Grouped(memory.catalog(), "do")
    threads = Threads(lake_over(catalog), catalog)
    threads.wait_in_line(1)
    threads.wait_in_line(2)
    assert not errors_of(threads.go())
    assert rows_of(check_sound(memory.lake(), NAME)) == [0, 1, 2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_does_not_wait_for_threads_that_it_does_not_have(memory: MemoryLake) -> None:
    threads = group(memory)
    commits = threads.lake.table(NAME)._at_home().commits
    child = os.fork()
    if child == 0:
        status = 1
        with suppress(BaseException):
            known = memory.lake().table(NAME)._state
            status = 0 if commits.newest(TableName.parse(NAME), known) is known and not commits._queues else 2
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not errors_of(threads.go())


def errors_of(outcomes: dict[int, Snapshot | BaseException]) -> dict[int, BaseException]:
    return {id_: outcome for id_, outcome in outcomes.items() if isinstance(outcome, BaseException)}


def test_an_input_that_does_not_fit_is_refused_before_it_waits(memory: MemoryLake) -> None:
    threads = group(memory)
    with pytest.raises(InvalidInput):
        threads.lake.table(NAME).append([{"unknown": 1}])
    assert len(threads.waiting()) == 3
    assert not errors_of(threads.go())
