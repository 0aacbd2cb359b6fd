"""Finishes the batches of a pipeline in the driver, and waits and tries again after a failure.

The counts of each batch are kept for the progress that Spark reports.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Event, Lock
from typing import TYPE_CHECKING, Any

from esker.errors import EskerError, OutcomeUnknown, StorageFailed
from esker.ingest.account import Account
from esker.ingest.checkpoint import Plan
from esker.ingest.follow import Patience
from esker.ingest.receipts import BatchCounts
from esker.ingest.run_batches import Pending, Run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# ---------------------------------------------------------------- progress
#
# The counts of a pipeline's batches, for the progress that Spark reports.


_KEPT = 1000  # batches; Spark keeps the progress of 100


class Tally:
    """The counts of one query's batches. Can be used from several threads."""

    def __init__(self, ingest: str) -> None:
        self.ingest = ingest
        self.pending = 0  # rows whose commit fails at present
        self._batches: dict[int, BatchCounts] = {}
        self._lock = Lock()

    def note(self, number: int, counts: BatchCounts) -> None:
        """Record a batch that is in its tables."""
        with self._lock:
            self._batches[number] = counts
            while len(self._batches) > _KEPT:
                del self._batches[min(self._batches)]

    def between(self, start: Mapping[str, Any], end: Mapping[str, Any], latest: Mapping[str, Any]) -> dict[str, int]:
        """The counts of the batches between two offsets. What waits was reported by the source at its last look."""
        with self._lock:
            held = [self._batches[at] for at in range(start.get("next", 0), end.get("next", 0)) if at in self._batches]
        dead = sum(counts.dead_letters for counts in held)
        return {
            "received": sum(counts.received for counts in held),
            "committed": sum(sum(counts.rows.values()) for counts in held) - dead,
            "dead": dead,
            "deduplicated": sum(counts.deduplicated for counts in held),
            "dropped": sum(sum(counts.dropped.values()) for counts in held),
            "added": sum(sum(counts.added.values()) for counts in held),
            "pending": self.pending,
            "lag_files": latest.get("waiting_files", 0),
            "lag_bytes": latest.get("waiting_bytes", 0),
            "lag_offsets": latest.get("waiting_offsets", 0),
        }


# ---------------------------------------------------------------- batches
#
# The function that Spark calls for each batch.


log = logging.getLogger("esker.ingest")

_NAP_S = 0.5
_MAY_PASS = (StorageFailed, OutcomeUnknown, OSError)  # a catalog may die while it creates a table
_DESCRIPTION = "spark.job.description"


class Hand:
    """The frame of the current batch, for the job that decodes it."""

    def __init__(self) -> None:
        self.frame: DataFrame | None = None

    @property
    def session(self) -> Any:
        """The session of the current batch."""
        assert self.frame is not None  # a job runs inside a batch
        return self.frame.sparkSession

    def tasks(self, count: int) -> DataFrame:
        """The rows of the source, which are the tasks, for any number of shares."""
        assert self.frame is not None  # as above
        return self.frame


class Batches:
    """The function for ``foreachBatch``. Without ``patience``, a failure that may pass ends the query. ``follow_up`` is
    called with the session when a batch is in its tables."""

    def __init__(
        self,
        run: Run,
        hand: Hand,
        patience: Patience | None,
        follow_up: Callable[[Any], None] = lambda session: None,
    ) -> None:
        self.tally = Tally(run.checkpoint.id)
        self.failure: Exception | None = None  # the one that ended the query
        self._run = run
        self._hand = hand
        self._patience = patience
        self._attempt = Lock()  # held during an attempt, not while waiting for the next
        self._ending = Event()
        self._is_closed = False
        self._follow_up = follow_up
        self._owes_follow_up = False

    def __call__(self, frame: DataFrame, epoch: int) -> None:
        """Finish every planned batch. A batch that an earlier run finished costs nothing."""
        context = frame.sparkSession.sparkContext
        given = context.getLocalProperty(_DESCRIPTION)
        self._hand.frame = frame
        try:
            context.setLocalProperty(_DESCRIPTION, None)  # otherwise Spark's text would precede the name of a job
            for plan in self._run.checkpoint.unfinished():
                self._finish(plan)
            while self._owes_follow_up:
                self._try_follow_up()
        except Exception as error:
            self.failure = error
            raise
        finally:
            self._hand.frame = None
            context.setLocalProperty(_DESCRIPTION, given)

    @property
    def trouble(self) -> str | None:
        """Why the source cannot look for new input now; None if it can, or if the query has ended."""
        if not self._is_closed:
            with suppress(EskerError):  # it may be closed at this moment
                return self._run.checkpoint.trouble
        return None

    def end(self) -> None:
        """Begin no further batch. Returns when no attempt is running."""
        with self._attempt:
            self._ending.set()

    def checked(self) -> Account:
        """The account, compared with the tables. Waits for the current attempt."""
        with self._attempt:
            self._learn_known()
            return self._run.close()

    def close(self) -> None:
        """Prepare for the end of the checkpoint."""
        with self._attempt:
            self._learn_known()
            self._is_closed = True

    def _learn_known(self) -> None:
        if not self._is_closed:
            self._run.account.known_files = self._run.checkpoint.known_files

    def _finish(self, plan: Plan) -> None:
        """Finish a batch, however long that takes. A batch that was withdrawn counts as finished: the next look plans
        its files again."""
        while not self._run.checkpoint.is_ticked_off(plan.number):
            try:
                self._try(plan)
            except (Pending, *_MAY_PASS) as raised:
                if self._patience is None:
                    raise
                wait = self._patience.bear(raised)
                self.tally.pending = self._run.account.pending
                self._sleep(wait)
        self.tally.pending = 0
        self.tally.note(plan.number, self._run.checkpoint.counts(plan.number))

    def _try(self, plan: Plan) -> None:
        with self._attempt:
            if not self._ending.is_set():
                self._run.finish(plan)
                if self._patience is not None:
                    self._patience.over()
                self._owes_follow_up = True
                with suppress(*_MAY_PASS):  # tried again when all batches are finished
                    self._followed_up()
                return
        self._sleep(_NAP_S)  # until the query is stopped, which interrupts this

    def _try_follow_up(self) -> None:
        try:
            with self._attempt:
                if not self._ending.is_set():
                    self._followed_up()
                    if self._patience is not None:
                        self._patience.over()
                    return
        except _MAY_PASS as raised:
            if self._patience is None:
                raise
            self._sleep(self._patience.bear(raised))
            return
        self._sleep(_NAP_S)  # as above; the next start does it

    def _followed_up(self) -> None:
        self._follow_up(self._hand.session)
        self._owes_follow_up = False

    def _sleep(self, seconds: float) -> None:
        """Sleep in Java, in the thread of the query. Stopping the query interrupts it, and Spark recognizes the error
        as a stop."""
        assert self._hand.frame is not None  # there is a current batch
        sleep = self._hand.session._jvm.java.lang.Thread.sleep
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            sleep(int(1000 * min(left, _NAP_S)) + 1)
