"""Ingests files of rows into one table, each file once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from esker.ingest.account import Account
from esker.ingest.checkpoint import Checkpoint
from esker.ingest.defaults import ARROW, SPARK, check_engine
from esker.ingest.files.source_files import find_files
from esker.ingest.read_row_files import Reading
from esker.ingest.row_files_job import FilesJob, Target, WriteRows, write_here
from esker.ingest.run_batches import BATCH_BYTES, SPARK_BATCH_BYTES, Pending, Run
from esker.lake import Lake
from esker.model.table_names import TableName


def kind_of(table: str) -> str:
    """The name of the checkpoint for a table's files."""
    return f"files-{TableName.parse(table)}"


def ingest_files(
    lake: Lake,
    paths: Sequence[Path],
    target: Target,
    *,
    checkpoint: Path,
    reading: Reading | None = None,
    pattern: str = "*",
    batch_bytes: int | None = None,
    engine: str = ARROW,
    told: Callable[[Account], None] = lambda account: None,
) -> Account:
    """Ingest the files that exist now and return the account. A commit that fails leaves its receipt, and the account
    says so. ``engine`` is what reads and writes."""
    check_engine(engine)
    held = Checkpoint(checkpoint, kind=kind_of(target.name))
    began = time.monotonic()
    try:
        job = FilesJob(lake, target, reading=reading, write_rows=_writing(lake, engine))
        room = batch_bytes or (SPARK_BATCH_BYTES if engine == SPARK else BATCH_BYTES)
        run = Run(lake, held, job, batch_bytes=room, told=told, way=job.way)
        run.account.engine = engine
        with suppress(Pending):
            run.settle()
            run.ingest(list(find_files(paths, pattern=pattern, pass_over=run.pass_over)))
        run.account.seconds = time.monotonic() - began
        return run.close()
    finally:
        held.close()


def _writing(lake: Lake, engine: str) -> WriteRows:
    if engine != SPARK:
        return write_here
    from esker.ingest.spark.write_row_files import SparkRows

    return SparkRows(lake.catalog.storage(), lambda: lake.spark)
