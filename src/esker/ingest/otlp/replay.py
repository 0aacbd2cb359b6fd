"""``esker replay``: makes commits that failed before, and decodes dead letters again after a fix.

One commit adds all letters of a batch, so a list of batches identifies exactly the letters to decode.
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
# Dead letters are decoded again after a fix. Records that can be read now go to their tables; the others stay letters.
#
# One commit adds all letters of a batch. Letters that arrive meanwhile belong to other batches, and stay.


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
    """Decodes the dead letters of a plan's batches: in this process, or by the workers of ``on_spark``."""

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
        """Write the records that can be read now, and the remaining letters, which replace the old ones."""
        if self._on_spark is None:
            return self._staged_here(plan, batch_id)
        return self._on_spark.stage_by(
            lambda order: _run(_letters(self._lake, plan.letters), order),
            batch_id,
            at_us=plan.planned_at_us,
            close=partial(_closed, letters=plan.letters),
        )

    def release(self, plan: Plan) -> tuple[SourceFile, ...]:
        """Release nothing: letters have no sources."""
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
    """What to deliver. Old letters are removed last: until then a record may be in two places, but never in none."""
    if not counts.records.total():  # nothing can be read now: the old letters stay
        for files in writing.values():
            files.discard()
        return Staged(deliveries=(), counts=BatchCounts())
    filled = {name: files for name, files in writing.items() if files.rows or name == DEAD_LETTER.name}
    made = [files.delivery(replaces=letters if name == DEAD_LETTER.name else ()) for name, files in filled.items()]
    ordered = sorted(made, key=lambda delivery: delivery.table == DEAD_LETTER_TABLE)
    return Staged(deliveries=tuple(ordered), counts=batch_counts(counts, filled, resent))


def _run(letters: Scan, order: DecodeOrder) -> list[dict[str, Any]]:
    """Decode letters by one Spark job."""
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
# Commits that failed before, and dead letters that may be readable now.


class _OnlyReceipts:
    """A job for batches whose files are written. Other batches are left to the ingest that planned them."""

    def stage(self, plan: Plan, batch_id: str) -> Staged:
        raise AssertionError("a replay decodes nothing")

    def release(self, plan: Plan) -> tuple[SourceFile, ...]:
        return ()  # the ingest that follows the spool removes its segments


def kind_of(directory: Path) -> str:
    """The kind of a checkpoint; that of telemetry if there is none yet."""
    return written_kind(directory) or KIND


def pending_receipts(checkpoint: Path) -> list[Receipt]:
    """The receipts that wait for their commits. Does not lock the checkpoint."""
    return list(Receipts(checkpoint / "pending"))


def replay_receipts(lake: Lake, directory: Path, *, kind: str = KIND) -> Account:
    """Make the commits of every receipt of a checkpoint. A commit that a table has already is not made again. The next
    ingest tries again the files that were set aside."""
    if written_kind(directory) is None and pending_receipts(directory):  # of a Spark stream
        return settle_all(lake, directory / "pending")
    checkpoint = Checkpoint(directory, kind=kind)
    began = time.monotonic()
    try:
        run = Run(lake, checkpoint, _OnlyReceipts())
        checkpoint.release_set_aside()  # the user has probably corrected something
        receipts = Receipts(checkpoint.pending)
        with suppress(Pending):  # the account reports it
            for plan in checkpoint.unfinished():
                if receipts.read(plan.number) is None:
                    break  # it has to be decoded first, and no later batch may be committed before it
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
    """Decode every dead letter again, in this process or on Spark. Afterwards each is in a table, or still a dead
    letter."""
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
