"""The source of a pipeline, which Spark asks for offsets: a Python process beside the driver.

An offset is the number of the next batch; it covers every batch below it. The content of a batch is in Esker's
checkpoint.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from esker.errors import InvalidInput, StorageFailed
from esker.ingest.checkpoint import Checkpoint, Plan
from esker.ingest.files.planner import now_us
from esker.ingest.follow import may_pass
from esker.ingest.pipeline.watched_inputs import Files, Look, Topics, Watch

log = logging.getLogger("esker.ingest")


@dataclass(frozen=True, slots=True)
class Offset:
    """A position in a stream, as Spark stores it."""

    ingest: str  # the id of the checkpoint
    next: int

    def as_json(self) -> dict[str, Any]:
        """The form in Spark's log. Equal offsets have equal texts."""
        return {"ingest": self.ingest, "next": self.next}


class Feed:
    """Plans batches for one query."""

    def __init__(self, order: str) -> None:
        self._watch = msgspec.json.decode(order, type=Watch)
        self._checkpoint = Checkpoint(Path(self._watch.checkpoint), kind=self._watch.kind, term=self._watch.term)
        make = Files if self._watch.topics is None else Topics
        self._look: Look = make(self._watch, self._checkpoint)
        self._ends = False  # with the input that exists now
        self._trouble: str | None = None

    def initial(self) -> dict[str, Any]:
        """The offset before all batches. It is the same whenever Spark asks."""
        return Offset(self._checkpoint.id, 0).as_json()

    def latest(self, given: dict[str, Any]) -> dict[str, Any]:
        """The end of the query's next batch; ``given`` if there is nothing to do."""
        start = self._offset(given)
        unfinished = self._checkpoint.unfinished()
        if not unfinished:
            if self._planned() is None:
                return start.as_json()
        elif unfinished[-1].number < start.next:  # Spark counts it as finished, so an empty batch has to finish it
            self._checkpoint.plan((), at_us=now_us())
        return Offset(self._checkpoint.id, self._checkpoint.next_number).as_json()

    def newest(self) -> dict[str, Any]:
        """How much input there is, as of the last look. Spark shows it as the latest offset."""
        told = Offset(self._checkpoint.id, self._checkpoint.next_number).as_json() | self._look.waiting()
        return told if self._trouble is None else told | {"trouble": self._trouble}

    def stop_at_now(self) -> None:
        """Leave out input that arrives later."""
        self._look.stop_at_now()
        self._ends = True

    def tasks(self) -> list[tuple[int, int]]:
        """The tasks of a batch: the number of each, and how many there are; at least one."""
        shares = max([1, *map(self._look.shares, self._checkpoint.unfinished())])
        tasks = min(shares, self._watch.tasks)
        return [(number, tasks) for number in range(tasks)]

    def close(self) -> None:
        """Close the checkpoint and the input."""
        self._look.close()
        self._checkpoint.close()

    def _planned(self) -> Plan | None:
        """The next batch; None if nothing is new, or if this look failed and a later one may succeed."""
        try:
            plan = self._look.plan()
        except (StorageFailed, OSError) as error:
            if self._ends or not may_pass(error):
                raise
            self._note(str(error))
            return None
        self._note(None)
        return plan

    def _note(self, trouble: str | None) -> None:
        """Report once that a look failed, and once that looks succeed again."""
        if trouble == self._trouble:
            return
        if trouble is not None:
            log.warning("cannot look for more now: %s", trouble)
        with suppress(StorageFailed):  # the disk that fails may be the checkpoint's
            self._checkpoint.note_trouble(trouble)
        self._trouble = trouble

    def _offset(self, given: dict[str, Any]) -> Offset:
        found = msgspec.convert(given, Offset)
        if found.ingest != self._checkpoint.id:
            raise InvalidInput(
                f"cannot go on with this checkpoint of Spark's: its offsets are of the ingest {found.ingest}, and "
                f"{self._watch.checkpoint} is {self._checkpoint.id}; bring the old checkpoint back, or remove Spark's, "
                "and everything is ingested again",
                path=self._watch.checkpoint,
            )
        return found
