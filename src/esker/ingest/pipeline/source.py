"""The source of a pipeline, where Spark asks for offsets: a Python process beside the driver.

An offset is the number of the next batch: every batch below it is covered. What a batch is made of is in Esker's
checkpoint, so a batch that Spark asks for again is the same batch. No batch is planned ahead of an unfinished one.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from esker.errors import InvalidInput, StorageFailed
from esker.ingest.account import Account
from esker.ingest.checkpoint import Checkpoint, Plan
from esker.ingest.follow import Pace, complete, may_pass
from esker.ingest.planner import Planner, now_us, room
from esker.ingest.segments import sweep_segments
from esker.ingest.sources import Found, find_files, oldest_first

log = logging.getLogger("esker.ingest")

_NAMED = 20  # files that cannot be read, in the progress of a batch
_SHARE = 64 << 20  # of bytes, for one task


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What a source looks at, and for which driver it plans. It is an option of the source, as JSON."""

    checkpoint: str
    kind: str
    term: str  # of the driver
    since: int  # the first batch that the driver may finish
    paths: tuple[str, ...]
    pattern: str
    most_files: int  # of a batch
    most_bytes: int
    most_rows: int | None  # about so many, where that is less
    tasks: int  # of a batch, at most
    settle_s: float
    half_line_s: float
    keep_segments: bool


@dataclass(frozen=True, slots=True)
class Offset:
    """A place in a stream, as Spark keeps it."""

    ingest: str  # the id of the checkpoint
    next: int

    def as_json(self) -> dict[str, Any]:
        """For Spark's log. The same offset is the same text."""
        return {"ingest": self.ingest, "next": self.next}


class Feed:
    """Plans batches for one query."""

    def __init__(self, order: str) -> None:
        self._watch = msgspec.json.decode(order, type=Watch)
        self._account = Account()
        self._checkpoint = Checkpoint(Path(self._watch.checkpoint), kind=self._watch.kind, term=self._watch.term)
        self._planner = Planner(
            self._checkpoint,
            self._account,
            most_bytes=self._room,
            most_files=self._watch.most_files,
            since=self._watch.since,
        )
        self._only: list[Found] | None = None  # files of a query that ends with what is there now
        self._waiting = (0, 0)
        self._trouble: str | None = None

    def initial(self) -> dict[str, Any]:
        """Before all batches. Spark may ask again, and must be given the same."""
        return Offset(self._checkpoint.id, 0).as_json()

    def latest(self, given: dict[str, Any]) -> dict[str, Any]:
        """How far the next batch of the query goes; ``given`` where nothing is to be done."""
        start = self._offset(given)
        unfinished = self._checkpoint.unfinished()
        if not unfinished:
            if self._planned() is None:
                return start.as_json()
        elif unfinished[-1].number < start.next:  # Spark counts it as done: finish it in a batch that adds nothing
            self._checkpoint.plan((), at_us=now_us())
        return Offset(self._checkpoint.id, self._checkpoint.next_number).as_json()

    def newest(self) -> dict[str, Any]:
        """How much there is, as of the last look: Spark shows it as the latest offset."""
        files, size = self._waiting
        told = Offset(self._checkpoint.id, self._checkpoint.next_number).as_json()
        told |= {"waiting_files": files, "waiting_bytes": size}
        if self._account.refused:
            told["refused"] = dict(self._account.refused[-_NAMED:])
        return told if self._trouble is None else told | {"trouble": self._trouble}

    def stop_at_now(self) -> None:
        """Leave out files that come later."""
        self._only = oldest_first(self._find())

    def tasks(self) -> list[tuple[int, int]]:
        """The tasks of a batch: the number of each, and how many there are. At least one."""
        shares = max([1, *map(_shares, self._checkpoint.unfinished())])
        tasks = min(shares, self._watch.tasks)
        return [(number, tasks) for number in range(tasks)]

    def close(self) -> None:
        """Let go of the checkpoint."""
        self._checkpoint.close()

    def _planned(self) -> Plan | None:
        """The next batch; None where nothing is new, or where it cannot be said now and a later look may."""
        try:
            found = self._found()
            plan = next(self._planner.plans(found), None)
            if not self._watch.keep_segments:
                sweep_segments(self._checkpoint, found)
        except (StorageFailed, OSError) as error:
            if self._only is not None or not may_pass(error):
                raise
            if self._trouble != (trouble := str(error)):
                log.warning("cannot look for new files now: %s", trouble)
            self._trouble = trouble
            return None
        self._trouble = None
        self._waiting = self._planner.waiting(found)
        return plan

    def _room(self) -> int:
        """How many bytes of files the next batch may hold, judged by the batches before it."""
        rows = self._watch.most_rows
        return room(self._watch.most_bytes, rows, lambda: self._checkpoint.read_lately())

    def _found(self) -> list[Found]:
        if self._only is not None:
            return self._only
        pace = Pace(settle_s=self._watch.settle_s, half_line_s=self._watch.half_line_s)
        return complete(self._find(), pace, self._planner.is_cut)

    def _find(self) -> list[Found]:
        paths = map(Path, self._watch.paths)
        return list(find_files(paths, pattern=self._watch.pattern, pass_over=self._planner.pass_over))

    def _offset(self, given: dict[str, Any]) -> Offset:
        found = msgspec.convert(given, Offset)
        if found.ingest != self._checkpoint.id:
            raise InvalidInput(
                f"cannot go on with this checkpoint of Spark's: its offsets are of the ingest {found.ingest}, and "
                f"{self._watch.checkpoint} is {self._checkpoint.id}; bring the old checkpoint back, or remove Spark's, "
                "and every file is ingested again",
                path=self._watch.checkpoint,
            )
        return found


def _shares(plan: Plan) -> int:
    return sum(1 + file.new_bytes // _SHARE for file in plan.files)
