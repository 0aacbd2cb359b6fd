"""Plans batches: the files that have something new, in groups, recorded before they are read.

A run plans and executes batches in one process. A pipeline plans in the process in which Spark asks for offsets, and
executes in the driver. Both plan here.
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
    """The current time in microseconds, as in plans."""
    return time.time_ns() // 1000


def room(most_bytes: int, most_rows: int | None, read: Callable[[], tuple[int, int]]) -> int:
    """How many bytes of files a batch may have. Rows are counted only when they are decoded, after planning: the size
    of a row is estimated from the bytes and rows that ``read`` returns."""
    if most_rows is None:
        return most_bytes
    size, rows = read()
    return min(most_bytes, int(most_rows * (size / rows if rows else _BYTES_OF_A_ROW)))


class Planner:
    """Plans batches of files. Only for one thread at a time.

    ``account`` gets the files that are known and those that cannot be read. ``way`` is how files are read, if files
    that cannot be read are set aside. ``since`` is the first batch of this run, if other processes may refuse files of
    its plans: these are not planned again in this run.
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
        """Separate files that are unchanged and in the tables from the others. A file with several names is among the
        others, because its names may change while the file does not."""
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
        """Batches of the new files, each on disk when it is returned. The next one is planned when it is asked for.
        Files that ``sorted_out`` returned as ``known`` cost nothing. Raises ``StorageFailed`` if a file cannot be read
        now."""
        known = tuple(known)
        looked = self._recognition.look_at(found, known=known)
        self._seen.intersection_update(one.path for one in (*known, *looked))
        for group in groups(self._new(looked), most_bytes=self._most_bytes, most_files=self._most_files):
            plan = self._checkpoint.plan(group, at_us=self._now_us())
            self._recognition.planned(group)
            yield plan

    def is_cut(self, found: Found) -> bool:
        """Whether a file that was written to recently may end in the middle of its last line or frame."""
        return self._recognition.is_cut(found)

    def waiting(self, found: Iterable[Found]) -> tuple[int, int]:
        """How many of these files no batch has read in their current state, and their bytes. Judged only by size and
        time."""
        sizes = [one.size for one in found if not self._is_refused(one) and self._checkpoint.unchanged(one) is None]
        return len(sizes), sum(sizes)

    def pass_over(self, path: str, reason: str) -> None:
        """Report a file or directory without read permission, once. Its neighbours are planned."""
        if (path, reason) not in self._account.refused:
            self._account.refused.append((path, reason))

    def refuse(self, found: Found) -> None:
        """Do not plan a file again, unless it changes."""
        self._refused.add(found)

    def _is_refused(self, found: Found) -> bool:
        if found in self._refused:
            return True
        return self._since is not None and self._checkpoint.was_refused(found, since=self._since)

    def _set_aside(self, found: Found, reason: str) -> None:
        self._account.refused.append((str(found.path), reason))
        self.refuse(found)

    def _new(self, found: Iterable[Found]) -> Iterator[SourceFile]:
        """The files with something that was never planned."""
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
