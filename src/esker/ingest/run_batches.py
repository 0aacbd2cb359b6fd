"""A run of an ingest: first the batches that an earlier run left, then new ones, in order.

A table records only its highest batch, so no batch may be committed before an earlier one. If a commit fails, the run
stops, or waits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from pathlib import Path

from esker.errors import Conflict, InvalidInput, NotFound, StorageFailed
from esker.ingest.account import Account, read_twice
from esker.ingest.checkpoint import Checkpoint, Plan
from esker.ingest.deliver import announce, deliver
from esker.ingest.files.planner import Planner, now_us, room
from esker.ingest.files.source_files import Found, SourceFile, holds_first
from esker.ingest.job import Job, Refused, Staged
from esker.ingest.receipts import DEAD_LETTER_TABLE, BatchCounts, Receipt, Receipts
from esker.lake import Lake

log = logging.getLogger("esker.ingest")

BATCH_BYTES = 256 << 20
SPARK_BATCH_BYTES = 2 << 30  # there, all cores share a batch, and a batch costs a job
_MANY_PARTS = 500  # parts of batches that are not checked yet


class Pending(Exception):
    """A batch is not in all of its tables. Its receipt is kept, and ``failures`` has the reasons."""

    def __init__(self, failures: list[tuple[str, Exception]]) -> None:
        super().__init__("; ".join(f"{table}: {error}" for table, error in failures))
        self.failures = failures


class TooManyLetters(Exception):
    """So many records of a batch cannot be read that the run stops, for the user to look at them."""


class Run:
    """Executes the batches of a checkpoint. Can be used by one thread at a time."""

    def __init__(
        self,
        lake: Lake,
        checkpoint: Checkpoint,
        job: Job,
        *,
        batch_bytes: int = BATCH_BYTES,
        batch_rows: int | None = None,
        most_dead: float | None = None,
        now_us: Callable[[], int] = now_us,
        told: Callable[[Account], None] = lambda account: None,
        way: Callable[[], str] | None = None,
    ) -> None:
        self.account = Account()
        self._lake = lake
        self.checkpoint = checkpoint
        self._job = job
        self._receipts = Receipts(checkpoint.pending)
        self._batch_bytes = batch_bytes
        self._batch_rows = batch_rows
        self._most_dead = most_dead
        self._told = told
        self._counted: set[int] = set()
        self._planner = Planner(checkpoint, self.account, most_bytes=self._room, now_us=now_us, way=way)
        self._moved: list[SourceFile] = []  # refused, but perhaps only renamed
        _check_lake(lake, checkpoint)
        for number in self._receipts.numbers():
            if checkpoint.is_ticked_off(number):  # the run ended before it removed the receipt
                self._receipts.remove(number)

    def settle(self) -> None:
        """Finish the batches that an earlier run or a failed commit left. Raises ``Pending`` if a commit fails
        again."""
        for plan in self.checkpoint.unfinished():
            self.finish(plan)

    def sorted_out(self, found: Iterable[Found]) -> tuple[list[Found], list[Found]]:
        """The files that are in the tables already and unchanged, as an earlier look found; and the other files."""
        return self._planner.sorted_out(found)

    def ingest(self, found: Iterable[Found], *, known: Iterable[Found] = ()) -> None:
        """Plan new files, and finish each batch before the next is planned."""
        for plan in self._planner.plans(found, known=known):
            self.finish(plan)

    def pass_over(self, path: str, reason: str) -> None:
        """Report once a file or directory that cannot be read. The others are ingested."""
        self._planner.pass_over(path, reason)

    def is_cut(self, found: Found) -> bool:
        """Whether a recently written file may end in the middle of a line or frame."""
        return self._planner.is_cut(found)

    def _room(self) -> int:
        """How many bytes of files the next batch may have, by what this run has read so far."""
        return room(self._batch_bytes, self._batch_rows, lambda: (self.account.bytes, self.account.received))

    def finish(self, plan: Plan) -> None:
        """Finish a planned batch, from its receipt if there is one. Raises ``Pending`` if a commit fails."""
        receipt = self._receipts.read(plan.number)
        if receipt is None:
            plan, receipt = self._staged(plan)
        if plan.number not in self._counted:
            self._counted.add(plan.number)
            self._count(plan, receipt)
        outcome = deliver(self._lake, receipt, self._receipts.path(plan.number))
        self.account.already_committed += len(outcome.found)
        self.account.conflicts += outcome.conflicts
        self.account.folded += outcome.folded
        self.account.expect(plan.number, (*outcome.made, *outcome.found))
        self.account.pending = sum(delivery.rows for delivery, _ in outcome.failed)
        self.account.failures = [(delivery.table, error) for delivery, error in outcome.failed]
        if outcome.failed:
            raise Pending(self.account.failures)
        self.checkpoint.tick_off(plan.number, receipt.counts)
        self._receipts.remove(plan.number)
        self._prove_read_once(plan)
        if released := self._job.release(plan):
            self.checkpoint.forget_files(released)
        self._counted.discard(plan.number)
        self.account.batches += 1
        if self.account.unchecked >= _MANY_PARTS:  # a stream may run for months
            self.account.check(self._lake, self.checkpoint.application)
        self._told(self.account)
        self._check_letters(plan.number, receipt.counts)

    def close(self) -> Account:
        """The account, checked against the tables."""
        self.account.check(self._lake, self.checkpoint.application)
        return self.account

    def _staged(self, plan: Plan) -> tuple[Plan, Receipt]:
        """Write the batch's files and its receipt, without refused sources. Returns the plan and the receipt."""
        try:
            plan, staged = self._written(plan)
            receipt = Receipt(
                application=self.checkpoint.application,
                number=plan.number,
                deliveries=staged.deliveries,
                counts=staged.counts,
            )
            announce(self._lake.catalog.storage(), receipt)
        except BaseException as error:
            # No table has the batch. A wrong option must not block the next run, so the batch is withdrawn.
            try:
                self.checkpoint.withdraw(plan.number)
            except StorageFailed as failure:  # the plan stays, and the next run finishes it
                log.warning("cannot withdraw batch %d, whose own failure follows: %s", plan.number, failure)
            raise error
        for delivery in staged.deliveries:
            self.checkpoint.remember_table(delivery.table, delivery.uuid)
        self._receipts.write(receipt)
        return plan, receipt

    def _written(self, plan: Plan) -> tuple[Plan, Staged]:
        while True:
            try:
                return plan, self._job.stage(plan, f"{self.checkpoint.id}/{plan.number}")
            except Refused as refusal:
                source: SourceFile = refusal.source
                self.account.refused.append((source.path, refusal.reason))
                if refusal.way is None:
                    self._moved.append(source)
                self._planner.refuse(
                    Found(
                        path=Path(source.path),
                        size=source.size,
                        modified_ns=source.modified_ns,
                        identity=source.identity or "",
                    )
                )
                plan = self.checkpoint.refuse(plan, source, refusal.reason, way=refusal.way)

    def _check_letters(self, number: int, counts: BatchCounts) -> None:
        if self._most_dead is None or counts.dead_letters <= self._most_dead * counts.received:
            return
        share = counts.dead_letters / counts.received
        self.account.stopped = (
            f"batch {number} is committed, and {share:.0%} of its records are dead letters, more than "
            f"{self._most_dead:.0%}; see {DEAD_LETTER_TABLE} for why, and after a fix: esker replay --dead-letters"
        )
        raise TooManyLetters(self.account.stopped)

    def _forgive(self, source: SourceFile) -> None:
        """Forget a refused file that is found under another name: nothing is missing."""
        moved = [
            one
            for one in self._moved
            if one.path != source.path and holds_first(Path(source.path), one.end, one.content or one.digest)
        ]
        for one in moved:
            self._moved.remove(one)
            self.account.refused = [pair for pair in self.account.refused if pair[0] != one.path]

    def _prove_read_once(self, plan: Plan) -> None:
        for source in plan.files:
            for found in read_twice(self._lake, self.checkpoint, source, plan.number):
                self.account.read_twice.append((found.file, found.earlier))
                self.account.duplicated += found.rows

    def _count(self, plan: Plan, receipt: Receipt) -> None:
        self.account.count(receipt.counts)
        self.account.files += len(plan.files)
        for source in plan.files:
            self._forgive(source)
        self.account.bytes += sum(source.new_bytes for source in plan.files)


def _check_lake(lake: Lake, checkpoint: Checkpoint) -> None:
    """Raise an error if the checkpoint belongs to other tables: its files would count as ingested, but are not
    there."""
    for name, uuid in checkpoint.tables().items():
        try:
            now = lake.table(name).uuid
        except NotFound as error:
            raise InvalidInput(
                f"cannot use the checkpoint {checkpoint.directory}: its batches are in {name}, which this lake has "
                "not; give a new checkpoint to ingest again, or the lake that this one belongs to",
                path=str(checkpoint.directory),
                table=name,
            ) from error
        if now != uuid:
            raise Conflict(
                f"cannot use the checkpoint {checkpoint.directory}: its batches are in another {name} than this lake "
                "has; give a new checkpoint to ingest again",
                path=str(checkpoint.directory),
                table=name,
            )
