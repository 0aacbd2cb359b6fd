"""What the next batch is made of: the files that hold something new, in groups, written down before they are read.

A run plans and finishes batches in one process. A pipeline plans in the process where Spark asks for offsets, and
finishes in the driver. Both plan here.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from esker.errors import StorageFailed
from esker.ingest.account import Account
from esker.ingest.checkpoint import Checkpoint, Plan
from esker.ingest.files.recognise import Known, Recognition
from esker.ingest.files.source_files import Found, SourceFile, groups

_BYTES_OF_A_ROW = 200  # of telemetry, before any is read
MOST_FILES = 10_000  # of a batch: a plan is one row of the checkpoint


def now_us() -> int:
    """The time, as plans have it."""
    return time.time_ns() // 1000


def room(most_bytes: int, most_rows: int | None, read: Callable[[], tuple[int, int]]) -> int:
    """How many bytes of files a batch may hold. Rows are counted when they are decoded, and batches are planned
    before: the size of a row is judged by the bytes and rows that ``read`` says were read so far."""
    if most_rows is None:
        return most_bytes
    size, rows = read()
    return min(most_bytes, int(most_rows * (size / rows if rows else _BYTES_OF_A_ROW)))


class Planner:
    """Plans batches of files. Not for two threads at a time.

    ``account`` is told of files that were known and of those that cannot be read. ``way`` says how files are read
    where those that cannot be are set aside. ``since`` is the first batch of this run, where other processes may
    refuse files of its plans: these are not planned again in this run.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        account: Account,
        *,
        most_bytes: Callable[[], int],
        most_files: int = MOST_FILES,
        now_us: Callable[[], int] = now_us,
        way: Callable[[], str] | None = None,
        since: int | None = None,
    ) -> None:
        self._checkpoint = checkpoint
        self._account = account
        self._most_bytes = most_bytes
        self._most_files = most_files
        self._now_us = now_us
        self._way = way
        self._since = since
        self._recognition = Recognition(checkpoint)
        self._seen: set[Path] = set()  # a stream looks at the same files again and again
        self._done: dict[Path, Found] = {}  # all of them is in the tables: while they stay so, they are not asked about
        self._names: Counter[str] = Counter()  # how many each file has, by its identity
        self._refused: set[Found] = set()  # by this run, which does not ask again
        self._denied: set[Path] = set()  # nobody may read them now: every look asks again

    def sorted_out(self, found: Iterable[Found]) -> tuple[list[Found], list[Found]]:
        """Files that an earlier look saw as they are, all of them in the tables; and the others. A file of several
        names is among the others: which of them it has may change, and the file itself not."""
        there = list(found)
        self._names = Counter(one.identity for one in there)
        known: list[Found] = []
        others: list[Found] = []
        for one in there:
            is_known = self._done.get(one.path) == one and self._names[one.identity] == 1
            (known if is_known else others).append(one)
        self._done = {one.path: one for one in known}  # what is gone need not be remembered
        return known, others

    def plans(self, found: Iterable[Found], *, known: Iterable[Found] = ()) -> Iterator[Plan]:
        """Batches of the files that are new, each on disk when it is given. The next one is planned when it is asked
        for. Files that ``sorted_out`` says are ``known`` cost nothing more. ``StorageFailed`` where a file cannot be
        read now."""
        known = tuple(known)
        looked = self._recognition.look_at(found, known=known)
        self._seen.intersection_update(one.path for one in (*known, *looked))
        for group in groups(self._new(looked), most_bytes=self._most_bytes, most_files=self._most_files):
            plan = self._checkpoint.plan(group, at_us=self._now_us())
            self._recognition.planned(group)
            yield plan

    def is_cut(self, found: Found) -> bool:
        """Whether a file that was written to lately may end in the middle of its last line or frame."""
        return self._recognition.is_cut(found)

    def waiting(self, found: Iterable[Found]) -> tuple[int, int]:
        """How many of these files no batch has read as they are now, and how many bytes they have. Judged by size and
        time alone."""
        sizes = [one.size for one in found if not self._is_refused(one) and self._checkpoint.unchanged(one) is None]
        return len(sizes), sum(sizes)

    def pass_over(self, path: str, reason: str) -> None:
        """Name a file or a directory that may not be looked at, once; its neighbours are planned."""
        if (path, reason) not in self._account.refused:
            self._account.refused.append((path, reason))

    def refuse(self, found: Found) -> None:
        """Plan a file no more, unless it changes."""
        self._refused.add(found)

    def _is_refused(self, found: Found) -> bool:
        if found in self._refused:
            return True
        return self._since is not None and self._checkpoint.was_refused(found, since=self._since)

    def _set_aside(self, found: Found, reason: str) -> None:
        self._account.refused.append((str(found.path), reason))
        self.refuse(found)

    def _new(self, found: Iterable[Found]) -> Iterator[SourceFile]:
        """Those that hold something that was never planned before."""
        way = None if self._way is None else self._way()

        def is_wanted(one: Found) -> bool:
            return not self._is_refused(one) and (way is None or self._checkpoint.set_aside(one, way) is None)

        for one in self._recognition.each(tuple(found), is_wanted):
            if self._is_refused(one):
                continue
            if way is not None and (reason := self._checkpoint.set_aside(one, way)) is not None:
                self._set_aside(one, reason)
                continue
            try:
                source = self._recognition.of(one)
            except StorageFailed as failure:
                if failure.retryable:
                    raise
                self._denied.add(one.path)
                self.pass_over(str(one.path), str(failure.reason))
                continue
            if one.path in self._denied:
                self._denied.remove(one.path)
                self._account.refused = [pair for pair in self._account.refused if pair[0] != str(one.path)]
            if isinstance(source, Known):
                self._account.known_files += one.path not in self._seen
                if self._names[one.identity] == 1 and self._checkpoint.is_done(one):
                    self._done[one.path] = one
            self._seen.add(one.path)
            if isinstance(source, SourceFile):
                yield source
