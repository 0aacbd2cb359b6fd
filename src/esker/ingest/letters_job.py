"""Dead letters decoded again, after a fix: what can be read now goes to its table, the rest is buried again.

The letters of a batch come into the table by one commit, so a list of batches says exactly which letters are meant;
those that arrive meanwhile are of other batches and stay.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from esker.errors import NotFound
from esker.ingest.checkpoint import Plan
from esker.ingest.counts import DEAD_LETTER_TABLE, BatchCounts
from esker.ingest.data_files import DataFiles
from esker.ingest.job import Staged
from esker.ingest.otlp_job import add_rows, batch_counts, resent_in, with_letters
from esker.ingest.resent import Resent
from esker.ingest.sources import SourceFile
from esker.ingest.telemetry_tables import TelemetryTables
from esker.lake import Lake
from esker.model.column import col
from esker.otlp.account import Counts
from esker.otlp.decode import Options, decode
from esker.otlp.letters import COLUMNS, request_of
from esker.otlp.requests import Request
from esker.otlp.schemas import DEAD_LETTER
from esker.read.scan import Scan

if TYPE_CHECKING:
    from esker.ingest.spark_job import SparkOtlpJob
    from esker.spark.otlp_worker import DecodeOrder

_WORKER = "esker.spark.letters_worker"
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
    from esker.spark.jobs import named_jobs
    from esker.spark.map_arrow import map_arrow
    from esker.spark.otlp_worker import DDL
    from esker.spark.ship import shipped
    from esker.spark.worker_failures import naming_worker_failures

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
