"""Ingests telemetry from files: those that exist now, or new ones continuously, into the tables of a lake."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from esker.errors import InvalidInput
from esker.ingest.account import Account
from esker.ingest.checkpoint import Checkpoint
from esker.ingest.defaults import ARROW, SPARK, check_engine
from esker.ingest.files.source_files import Found, find_files
from esker.ingest.files.spool_segments import sweep_segments
from esker.ingest.follow import Pace, follow
from esker.ingest.job import Job
from esker.ingest.otlp.otlp_job import OtlpJob
from esker.ingest.otlp.resent_records import check_way
from esker.ingest.otlp.telemetry_tables import TelemetryTables, profile_of, promotions_by_table
from esker.ingest.run_batches import BATCH_BYTES, SPARK_BATCH_BYTES, Pending, Run, TooManyLetters
from esker.lake import Lake
from esker.otlp.decoding.decode import Options
from esker.storage.failures import failure_of

KIND = "otlp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options of an ingest of telemetry."""

    paths: Sequence[Path]
    checkpoint: Path
    pattern: str = "*"
    profile: str | None = None  # map, flat or variant; None: as in the existing tables, or map
    promote: Mapping[str, str] = field(default_factory=dict)
    partition_by: str = "day"  # or hour; for new tables
    dedup: str | None = None  # span_id: leave out spans and logs that were sent twice
    strict: bool = False
    most_dead: float | None = None  # a share of a batch's records; above it the run stops, after the batch is committed
    batch_bytes: int | None = None  # None: the default of the engine
    batch_rows: int | None = None  # about so many, if that is less
    engine: str = ARROW  # or SPARK; commands choose by ``chosen_engine``
    keep_segments: bool = False  # of a spool, after their rows are committed
    properties: Mapping[str, str] = field(default_factory=dict)  # of new tables


def ingest_otlp(lake: Lake, asked: Asked, *, told: Callable[[Account], None] = lambda account: None) -> Account:
    """Ingest the files that exist now. If a commit fails, its receipt is kept and the account reports it."""
    passed: dict[str, str] = {}
    found = list(find_files(asked.paths, pattern=asked.pattern, pass_over=passed.__setitem__))
    with begun(lake, asked, told) as (run, _):
        for path, reason in passed.items():
            run.pass_over(path, reason)
        run.settle()
        run.ingest(found)
    return run.account


def follow_otlp(
    lake: Lake,
    asked: Asked,
    *,
    pace: Pace | None = None,
    stop: Event | None = None,
    told: Callable[[Account], None] = lambda account: None,
    told_trouble: Callable[[str], None] = lambda text: None,
) -> Account:
    """Ingest new files of directories, for example of the receiver's spool, until ``stop`` is set."""
    _check_directories(asked)
    if asked.engine == SPARK:
        from esker.ingest.pipeline.blocking_run import follow_on_spark

        return follow_on_spark(lake, asked, pace=pace, stop=stop, told=told, told_trouble=told_trouble)
    with begun(lake, asked, told) as (run, sweep):
        follow(run, asked.paths, pattern=asked.pattern, pace=pace, stop=stop, sweep=sweep, told=told_trouble)
    return run.account


def check_start(lake: Lake, asked: Asked, *, kind: str = KIND) -> None:
    """Raise the errors that a streaming query raises at its start. Ingests nothing and starts no JVM."""
    _check_directories(asked)
    with begun(lake, asked, lambda account: None, kind=kind):
        pass


def _check_directories(asked: Asked) -> None:
    for path in asked.paths:
        if not path.is_dir():
            raise InvalidInput(f"cannot follow {path}: there is no such directory", path=str(path))


@contextmanager
def begun(
    lake: Lake,
    asked: Asked,
    told: Callable[[Account], None],
    *,
    kind: str = KIND,
    make_job: Callable[[TelemetryTables, Options], Job] | None = None,
) -> Iterator[tuple[Run, Callable[[list[Found]], None]]]:
    """A run over the given checkpoint, and a function that removes finished segments. The account is checked at the
    end. ``make_job`` makes another job than that for files."""
    check_engine(asked.engine)
    promote = promotions_by_table(asked.promote)
    check_way(asked.dedup)
    checkpoint = Checkpoint(asked.checkpoint, kind=kind)
    began = time.monotonic()
    try:
        profile = profile_of(lake, asked.profile, promote=promote)
        tables = TelemetryTables(
            lake, profile=profile, promote=promote, partition_by=asked.partition_by, properties=asked.properties
        )
        options = Options(profile=profile, promote=promote, strict=asked.strict)
        job = _job(lake, asked, tables, options) if make_job is None else make_job(tables, options)
        # On Spark all cores share a batch, and a batch costs a job.
        batch_bytes = asked.batch_bytes or (SPARK_BATCH_BYTES if asked.engine == SPARK else BATCH_BYTES)
        run = Run(
            lake,
            checkpoint,
            job,
            batch_bytes=batch_bytes,
            batch_rows=asked.batch_rows,
            most_dead=asked.most_dead,
            told=told,
        )
        run.account.engine = asked.engine

        def sweep(found: list[Found]) -> None:
            if not asked.keep_segments:
                sweep_segments(checkpoint, found)

        try:
            with suppress(Pending, TooManyLetters):  # the account reports it
                yield run, sweep
        except OSError as error:
            raise failure_of(error, "ingest", error.filename or "a source") from error
        run.account.seconds = time.monotonic() - began
        run.close()
    finally:
        checkpoint.close()


def _job(lake: Lake, asked: Asked, tables: TelemetryTables, options: Options) -> Job:
    if asked.engine != SPARK:
        return OtlpJob(tables, options=options, dedup=asked.dedup, release=not asked.keep_segments)
    from esker.ingest.spark.telemetry_job import SparkOtlpJob

    storage = lake.catalog.storage()
    return SparkOtlpJob(
        tables,
        storage,
        lambda: lake.spark,
        options=options,
        dedup=asked.dedup,
        release=not asked.keep_segments,
    )
