"""``esker replay``: commits that could not be made, and dead letters decoded again after a fix.

The letters of a batch come into the table by one commit, so a list of batches says exactly which letters are meant.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esker.errors import NotFound
from esker.ingest.account import Account
from esker.ingest.checkpoint import Checkpoint, Plan, written_kind
from esker.ingest.defaults import ARROW, SPARK, check_engine
from esker.ingest.files.source_files import SourceFile
from esker.ingest.job import DataFiles, Job, Staged
from esker.ingest.otlp.ingest_otlp import KIND
from esker.ingest.otlp.otlp_job import add_rows, batch_counts, resent_in, with_letters
from esker.ingest.otlp.resent_records import Resent, check_way
from esker.ingest.otlp.telemetry_tables import TelemetryTables, profile_of, promotions_by_table
from esker.ingest.receipts import DEAD_LETTER_TABLE, BatchCounts, Receipt, Receipts
from esker.ingest.run_batches import Pending, Run
from esker.ingest.settle_receipts import settle_all
from esker.lake import Lake
from esker.model.predicates.column import col
from esker.otlp.decoding.dead_letters import COLUMNS, request_of
from esker.otlp.decoding.decode import Options, decode
from esker.otlp.record_counts import Counts
from esker.otlp.schemas import DEAD_LETTER
from esker.otlp.source.requests import Request
from esker.read.scan import Scan

if TYPE_CHECKING:
    from esker.ingest.spark.otlp_files_worker import DecodeOrder
    from esker.ingest.spark.telemetry_job import SparkOtlpJob


# ---------------------------------------------------------------- letters job
#
# Dead letters decoded again, after a fix: what can be read now goes to its table, the rest is buried again.
#
# The letters of a batch come into the table by one commit, so a list of batches says exactly which letters are meant;
# those that arrive meanwhile are of other batches and stay.


_WORKER = "esker.ingest.spark.dead_letters_worker"
BATCHES_AT_ONCE = 200


def letter_batches(lake: Lake) -> list[str]:
    """The batches that have dead letters."""
    try:
        table = lake.table(DEAD_LETTER_TABLE)
    except NotFound:
        return []
    found: set[str] = set()
    for batch in table.scan(columns=["batch"]).to_batches():
        found.update(batch.column("batch").unique().to_pylist())
    return sorted(name for name in found if name is not None)


class LettersJob:
    """Decodes the dead letters of the batches that a plan names: here, or by the workers of ``on_spark``."""

    def __init__(
        self,
        lake: Lake,
        tables: TelemetryTables,
        *,
        options: Options | None = None,
        dedup: str | None = None,
        on_spark: SparkOtlpJob | None = None,
    ) -> None:
        self._lake = lake
        self._tables = tables
        self._options = options or Options()
        self._dedup = dedup
        self._on_spark = on_spark

    def stage(self, plan: Plan, batch_id: str) -> Staged:
        """Write what can be read now, and the letters that are left, which replace the old ones."""
        if self._on_spark is None:
            return self._staged_here(plan, batch_id)
        return self._on_spark.stage_by(
            lambda order: _run(_letters(self._lake, plan.letters), order),
            batch_id,
            at_us=plan.planned_at_us,
            close=partial(_closed, letters=plan.letters),
        )

    def release(self, plan: Plan) -> tuple[SourceFile, ...]:
        """Letters have no sources to let go of."""
        return ()

    def _staged_here(self, plan: Plan, batch_id: str) -> Staged:
        writing: dict[str, DataFiles] = {DEAD_LETTER.name: DataFiles(self._tables.get(DEAD_LETTER.name))}
        counts = Counts()
        resent = resent_in(self._tables, self._options, self._dedup, batch_id)
        try:
            for part in decode(
                _requests(self._lake, plan.letters),
                batch_id=batch_id,
                ingested_at_us=plan.planned_at_us,
                options=self._options,
            ):
                for name, rows in with_letters(part):
                    add_rows(writing, self._tables, name, rows if resent is None else resent.without(name, rows))
                counts.add(part.counts)
            return _closed(writing, counts, resent, letters=plan.letters)
        except BaseException:
            for files in writing.values():
                files.discard()
            raise


def _closed(
    writing: dict[str, DataFiles], counts: Counts, resent: Resent | None, *, letters: tuple[str, ...]
) -> Staged:
    """What to deliver. Old letters go last: until then a record is rather in two places than in none."""
    if not counts.records.total():  # nothing has become readable: the old letters stay as they are
        for files in writing.values():
            files.discard()
        return Staged(deliveries=(), counts=BatchCounts())
    filled = {name: files for name, files in writing.items() if files.rows or name == DEAD_LETTER.name}
    made = [files.delivery(replaces=letters if name == DEAD_LETTER.name else ()) for name, files in filled.items()]
    ordered = sorted(made, key=lambda delivery: delivery.table == DEAD_LETTER_TABLE)
    return Staged(deliveries=tuple(ordered), counts=batch_counts(counts, filled, resent))


def _run(letters: Scan, order: DecodeOrder) -> list[dict[str, Any]]:
    """Decode letters by one job of Spark's."""
    from esker.ingest.spark.otlp_files_worker import DDL
    from esker.spark.session.jobs import named_jobs
    from esker.spark.workers.ship import map_arrow, shipped
    from esker.spark.workers.worker_failures import naming_worker_failures

    frame = letters.to_spark()
    with named_jobs(frame.sparkSession, "decode dead letters"), naming_worker_failures():
        reports: list[dict[str, Any]] = (
            map_arrow(frame, shipped(_WORKER, pickle.dumps(order)), DDL).toArrow().to_pylist()
        )
        return reports


def _letters(lake: Lake, batches: Sequence[str]) -> Scan:
    return lake.table(DEAD_LETTER_TABLE).scan(col("batch").isin(batches), columns=list(COLUMNS))


def _requests(lake: Lake, batches: Sequence[str]) -> Iterator[Request]:
    for rows in _letters(lake, batches).to_batches():
        for row in rows.to_pylist():
            yield request_of(row)


# ---------------------------------------------------------------- replay
#
# ``esker replay``: commits that could not be made, and dead letters that may be readable now.


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
    from esker.ingest.spark.telemetry_job import SparkOtlpJob

    return SparkOtlpJob(tables, lake.catalog.storage(), lambda: lake.spark, options=options, dedup=dedup)
