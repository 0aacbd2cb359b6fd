"""Group commit: appends to one table that wait for each other become visible by one move of the pointer.

The first thread commits. Appends that arrive meanwhile wait. Then one of the waiting threads, the leader, commits all
of them: one snapshot for each, in one new version of the table. An append that finds nobody at work commits at once, so
nothing ever waits for company. Data files and manifests are written before that, by the thread of each append.

Each append gets its own outcome. One that cannot be proposed leaves the group and is committed alone, so that its error
is its own. The same happens to all if the version of the group could not be written. If the catalog does not answer,
the outcome of each is unknown, and every file is kept.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TypeAlias

from esker.errors import Conflict, EskerError, OutcomeUnknown
from esker.model.table_names import TableName
from esker.ports.catalog import Catalog, TableState, TakesGroups
from esker.write.build_snapshot import SnapshotChange
from esker.write.commit import Proposal, commit, settle

log = logging.getLogger("esker.commit")

MOST = 256
"""Appends in one group. It bounds the work of a leader, and what a lost race makes again."""


class Turn(Enum):
    """What the thread of an append has to do itself."""

    LEAD = auto()  # commit for all that wait
    ALONE = auto()  # commit without the group


Outcome: TypeAlias = TableState | Conflict | OutcomeUnknown | Turn


@dataclass(slots=True, eq=False)
class _Append:
    """An append that is to be committed, and what became of it."""

    known: TableState
    change: SnapshotChange
    outcome: Outcome | None = None
    is_known: threading.Event = field(default_factory=threading.Event)

    def report(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.is_known.set()


@dataclass(slots=True)
class _Queue:
    """The appends of one table that wait while a thread commits."""

    leader: _Append  # whose thread commits
    newest: TableState  # that this process knows
    waiting: list[_Append] = field(default_factory=list)


_Key: TypeAlias = tuple[TableName, str | None]  # with the UUID: a table that was made again is another table


class GroupCommits:
    """The commits of all threads that share a lake."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[_Key, _Queue] = {}
        self._process = os.getpid()

    def newest(self, name: TableName, known: TableState) -> TableState:
        """The newest version that a thread of this process committed, while threads append; else ``known``."""
        with self._own_lock():
            queue = self._queues.get((name, known.metadata.uuid))
            return known if queue is None else queue.newest

    def commit(self, catalog: Catalog, name: TableName, known: TableState, change: SnapshotChange) -> TableState:
        """Make the change part of the table and return a version that has it. Raises as ``commit`` does.

        Only changes that add files and nothing else wait for each other.
        """
        if catalog is not self._catalog or not isinstance(catalog, TakesGroups) or not change.is_append:
            return commit(catalog, name, known, change)
        key, mine = (name, known.metadata.uuid), _Append(known, change)
        try:
            change.write_ahead(known)
        except BaseException:
            change.abandon()
            raise
        try:
            outcome = Turn.LEAD if self._is_first(key, mine) else self._awaited(key, mine)
            if outcome is Turn.LEAD:
                outcome = self._led(key, mine)
        finally:
            self._pass_on(key, mine)
        match outcome:
            case TableState():
                return outcome
            case Turn():
                return commit(catalog, name, known, change)
            case error:
                raise error

    def _own_lock(self) -> threading.Lock:
        if self._process != os.getpid():  # after a fork: the threads that were at work are not in this process
            self._begin()
        return self._lock

    def _is_first(self, key: _Key, mine: _Append) -> bool:
        with self._own_lock():
            queue = self._queues.get(key)
            if queue is None:
                self._queues[key] = _Queue(mine, mine.known)
                return True
            queue.waiting.append(mine)
            return False

    def _awaited(self, key: _Key, mine: _Append) -> Outcome:
        """Wait for the outcome. If the wait is interrupted while a leader has the append, its files are kept."""
        try:
            mine.is_known.wait()
        except BaseException:
            with self._own_lock():
                queue = self._queues.get(key)
                is_waiting = queue is not None and mine in queue.waiting
                if queue is not None and is_waiting:
                    queue.waiting.remove(mine)
            if is_waiting or isinstance(mine.outcome, Turn):
                mine.change.abandon()
            raise
        assert mine.outcome is not None
        return mine.outcome

    def _pass_on(self, key: _Key, mine: _Append) -> None:
        """End the turn of a leader: the next append leads, if one waits. Does nothing if ``mine`` does not lead."""
        with self._own_lock():
            queue = self._queues.get(key)
            if queue is None or queue.leader is not mine:
                return
            if queue.waiting:
                queue.leader = queue.waiting.pop(0)
                queue.leader.report(Turn.LEAD)
            else:
                del self._queues[key]

    def _led(self, key: _Key, mine: _Append) -> Outcome:
        """Commit this append and those that wait now. Returns the outcome of this one; the others learn theirs."""
        mine.outcome = None
        mine.is_known.clear()
        with self._own_lock():
            queue = self._queues[key]
            others = queue.waiting[: MOST - 1]
            del queue.waiting[: MOST - 1]
        if not others:
            queue.newest = commit(self._catalog, key[0], queue.newest, mine.change)
            return queue.newest
        group = _Group(key[0], [mine, *others])
        try:
            queue.newest = group.committed = commit(self._catalog, key[0], queue.newest, group)
            group.report()
        except BaseException as error:
            group.report(error)
            if not isinstance(error, EskerError):  # Ctrl-C, for example, stops this thread only
                if mine.outcome is Turn.ALONE:
                    mine.change.abandon()
                raise
        assert mine.outcome is not None
        return mine.outcome


class _Group:
    """Several appends as one change: a snapshot for each, each on the one before. Implements ``commit.Change``."""

    def __init__(self, name: TableName, appends: Sequence[_Append]) -> None:
        self._name = name
        self._appends = appends
        self._proposals: list[Proposal] = []
        self._is_nowhere = False  # no part of it is visible, or will be
        self.committed: TableState | None = None

    def propose(self, base: TableState, attempt: int) -> Proposal | None:
        """Return a version with the snapshots of all. An append that cannot be proposed leaves the group."""
        self._proposals = []
        state = base
        for append in self._appends:
            if append.outcome is not None:
                continue
            try:
                proposal = append.change.propose(state, attempt)
            except Exception as error:
                log.info("an append to %s is committed without its group: %s", self._name, error)
                append.outcome = Turn.ALONE
                continue
            if proposal is not None:  # None: its batch is applied already
                self._proposals.append(proposal)
                state = replace(state, metadata=proposal.metadata)
        if not self._proposals:
            return None
        return Proposal(metadata=state.metadata, discard=self._discard, settle=self._settle)

    def abandon(self) -> None:
        """Delete what only the group needs. Each append decides about its own files."""
        self._is_nowhere = True
        self._discard()

    def report(self, error: BaseException | None = None) -> None:
        """Report to each append its outcome, after the commit of the group or after its failure."""
        for append in self._appends:
            if not append.is_known.is_set():
                append.report(append.outcome or self._outcome(append, error))

    def _outcome(self, append: _Append, error: BaseException | None) -> Outcome:
        if self.committed is not None:
            if append.change.snapshot is None:
                append.change.abandon()  # its batch was applied already: what it wrote is not needed
            return self.committed
        if isinstance(error, Conflict):
            append.change.abandon()
            return Conflict(error.message, **error.facts)  # one object must not be raised in two threads
        if self._is_nowhere:
            return Turn.ALONE
        made = append.change.snapshot
        own = {"table": str(self._name), "snapshot_id": None if made is None else made.snapshot_id}
        if isinstance(error, OutcomeUnknown):
            return OutcomeUnknown(error.message, **{**error.facts, **own})
        return OutcomeUnknown(
            f"cannot find out whether the commit to {self._name} succeeded: the thread that made it was interrupted "
            f"({type(error).__name__}); every file was kept; check the table's newest snapshots before you try again",
            **own,
        )

    def _discard(self) -> None:
        for proposal in self._proposals:
            proposal.discard()

    def _settle(self) -> None:
        for proposal in self._proposals:
            settle(proposal)
