"""Telemetry in this process: files of OTLP decoded by Arrow, with no JVM."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from esker.ingest.checkpoint import Plan
from esker.ingest.counts import BatchCounts
from esker.ingest.data_files import DataFiles
from esker.ingest.job import Staged, check_sources
from esker.ingest.segments import is_segment
from esker.ingest.sources import SourceFile
from esker.ingest.telemetry_tables import TelemetryTables, full_name
from esker.otlp.account import Counts
from esker.otlp.decode import Decoded, Options, decode
from esker.otlp.requests import Request
from esker.otlp.schemas import DEAD_LETTER
from esker.otlp.sources import read_file
from esker.otlp.spool import forget


class OtlpJob:
    """Decodes files of OTLP. Memory is bounded by a part of a batch, whatever the files hold."""

    def __init__(
        self,
        tables: TelemetryTables,
        *,
        options: Options | None = None,
        release: bool = False,
    ) -> None:
        self._tables = tables
        self._options = options or Options()
        self._release = release

    def stage(self, plan: Plan, batch_id: str) -> Staged:
        """Decode the files of the plan, one after the other."""
        check_sources(plan, may_grow=True)
        parts = decode(_requests(plan), batch_id=batch_id, ingested_at_us=plan.planned_at_us, options=self._options)
        return staged(self._tables, parts)

    def release(self, plan: Plan) -> tuple[SourceFile, ...]:
        """Remove segments of a spool: their rows are in the tables. Files beside them are the user's and stay."""
        if not self._release:
            return ()
        segments = tuple(source for source in plan.files if is_segment(Path(source.path)))
        for segment in segments:
            forget(Path(segment.path))
        return segments


def staged(tables: TelemetryTables, parts: Iterable[Decoded]) -> Staged:
    """Decoded parts as data files: of each table one set for the whole batch."""
    writing: dict[str, DataFiles] = {}
    counts = Counts()
    try:
        for part in parts:
            for name, rows in _with_letters(part):
                if name not in writing:
                    writing[name] = DataFiles(tables.get(name))
                writing[name].add(rows)
            counts.add(part.counts)
        deliveries = tuple(files.delivery() for files in writing.values())
        rows = {full_name(name): files.rows for name, files in writing.items()}
        return Staged(deliveries=deliveries, counts=batch_counts(counts, rows))
    except BaseException:
        for files in writing.values():
            files.discard()
        raise


def batch_counts(counts: Counts, rows: dict[str, int]) -> BatchCounts:
    """The decoder's numbers, as they are written down."""
    oddities = {
        "unknown_fields": counts.unknown_fields,
        "repeated_keys": counts.repeated_keys,
        "zero_ids": counts.zero_ids,
        "far_times": counts.far_times,
        "not_castable": counts.not_castable.total(),
    }
    return BatchCounts(
        received=counts.received,
        rows=rows,
        requests=counts.requests,
        oddities={name: number for name, number in oddities.items() if number},
    )


def _with_letters(part: Decoded) -> Iterator[tuple[str, object]]:
    yield from part.tables.items()
    if part.dead_letters.num_rows:
        yield DEAD_LETTER.name, part.dead_letters


def _requests(plan: Plan) -> Iterator[Request]:
    for source in plan.files:
        yield from (request for request in read_file(Path(source.path)) if request.offset >= source.start)
