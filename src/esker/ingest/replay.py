"""``esker replay``: commits that could not be made, and dead letters that may be readable now."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from esker.ingest.account import Account
from esker.ingest.checkpoint import Checkpoint, Plan, written_kind
from esker.ingest.engine import ARROW, SPARK, check_engine
from esker.ingest.job import Job, Staged
from esker.ingest.letters_job import BATCHES_AT_ONCE, LettersJob, letter_batches
from esker.ingest.receipts import Receipt, Receipts
from esker.ingest.resent import check_way
from esker.ingest.run import Pending, Run
from esker.ingest.settle_receipts import settle_all
from esker.ingest.sources import SourceFile
from esker.ingest.telemetry import KIND
from esker.ingest.telemetry_tables import TelemetryTables, profile_of, promotions_by_table
from esker.lake import Lake
from esker.otlp.decode import Options

if TYPE_CHECKING:
    from esker.ingest.spark_job import SparkOtlpJob


class _OnlyReceipts:
    """For batches whose files are written; others are left to the ingest that planned them."""

    def stage(self, plan: Plan, batch_id: str) -> Staged:
        raise AssertionError("a replay decodes nothing")

    def release(self, plan: Plan) -> tuple[SourceFile, ...]:
        return ()  # the ingest that follows the spool lets go of its segments


def kind_of(directory: Path) -> str:
    """What a checkpoint is for; of telemetry where there is none yet."""
    return written_kind(directory) or KIND


def pending_receipts(checkpoint: Path) -> list[Receipt]:
    """What waits to be committed, without taking the checkpoint."""
    return list(Receipts(checkpoint / "pending"))


def replay_receipts(lake: Lake, directory: Path, *, kind: str = KIND) -> Account:
    """Make the commits of every receipt of a checkpoint; those that a table has already are not made again. Files that
    were set aside are tried again by the next ingest."""
    if written_kind(directory) is None and pending_receipts(directory):  # of a stream of Spark's, which has its own
        return settle_all(lake, directory / "pending")
    checkpoint = Checkpoint(directory, kind=kind)
    began = time.monotonic()
    try:
        run = Run(lake, checkpoint, _OnlyReceipts())
        checkpoint.release_set_aside()  # whoever replays has mended something
        receipts = Receipts(checkpoint.pending)
        with suppress(Pending):  # the account tells of it
            for plan in checkpoint.unfinished():
                if receipts.read(plan.number) is None:
                    break  # it must be decoded first, and nothing may go ahead of it
                run.finish(plan)
        run.account.seconds = time.monotonic() - began
        return run.close()
    finally:
        checkpoint.close()


def replay_letters(
    lake: Lake,
    directory: Path,
    *,
    profile: str | None = None,
    promote: Mapping[str, str] | None = None,
    dedup: str | None = None,
    engine: str = ARROW,
    told: Callable[[Account], None] = lambda account: None,
) -> Account:
    """Decode every dead letter again, here or on Spark: each is in a table afterwards, or among the dead letters
    still."""
    check_engine(engine)
    asked = promotions_by_table(promote or {})
    check_way(dedup)
    checkpoint = Checkpoint(directory, kind=KIND)
    began = time.monotonic()
    try:
        form = profile_of(lake, profile, promote=asked)
        tables = TelemetryTables(lake, profile=form, promote=asked)
        options = Options(profile=form, promote=asked)
        on_spark = _on_spark(lake, tables, options, dedup) if engine == SPARK else None
        job: Job = LettersJob(lake, tables, options=options, dedup=dedup, on_spark=on_spark)
        run = Run(lake, checkpoint, job, told=told)
        run.account.engine = engine
        with suppress(Pending):
            if not checkpoint.unfinished():
                batches = letter_batches(lake)
                for at in range(0, len(batches), BATCHES_AT_ONCE):
                    letters = batches[at : at + BATCHES_AT_ONCE]
                    run.finish(checkpoint.plan((), at_us=time.time_ns() // 1000, letters=letters))
        run.account.seconds = time.monotonic() - began
        return run.close()
    finally:
        checkpoint.close()


def _on_spark(lake: Lake, tables: TelemetryTables, options: Options, dedup: str | None) -> SparkOtlpJob:
    from esker.ingest.spark_job import SparkOtlpJob

    return SparkOtlpJob(tables, lake.catalog.storage(), lambda: lake.spark, options=options, dedup=dedup)
