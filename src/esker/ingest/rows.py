"""Ingesting files of rows, as a user asks for it: into one table, each file once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from esker.ingest.account import Account
from esker.ingest.checkpoint import Checkpoint
from esker.ingest.files_job import FilesJob, Target
from esker.ingest.row_files import Reading
from esker.ingest.run import BATCH_BYTES, Pending, Run
from esker.ingest.sources import find_files
from esker.lake import Lake
from esker.model.naming import TableName


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
    batch_bytes: int = BATCH_BYTES,
    told: Callable[[Account], None] = lambda account: None,
) -> Account:
    """Take in files that lie there now. A commit that cannot be made leaves its receipt, and the account says so."""
    held = Checkpoint(checkpoint, kind=kind_of(target.name))
    began = time.monotonic()
    try:
        job = FilesJob(lake, target, reading=reading)
        run = Run(lake, held, job, batch_bytes=batch_bytes, told=told, way=job.way)
        with suppress(Pending):
            run.settle()
            run.ingest(list(find_files(paths, pattern=pattern, pass_over=run.pass_over)))
        run.account.seconds = time.monotonic() - began
        return run.close()
    finally:
        held.close()
