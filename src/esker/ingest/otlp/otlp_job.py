"""Decodes telemetry in this process: files of OTLP become Arrow columns, without a JVM."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from esker.ingest.checkpoint import Plan
from esker.ingest.files.source_files import SourceFile
from esker.ingest.files.spool_segments import is_segment
from esker.ingest.job import DataFiles, Staged, check_sources
from esker.ingest.otlp.resent_records import Resent
from esker.ingest.otlp.telemetry_tables import TelemetryTables, full_name
from esker.ingest.receipts import BatchCounts
from esker.otlp.decoding.decode import Decoded, Options, decode
from esker.otlp.receive.spool import forget
from esker.otlp.record_counts import Counts
from esker.otlp.schemas import DEAD_LETTER
from esker.otlp.source.read_requests import read_file
from esker.otlp.source.requests import Request


class OtlpJob:
    """Decodes files of OTLP. Memory is bounded by a part of a batch, whatever the size of the files."""

    def __init__(
        self,
        tables: TelemetryTables,
        *,
        options: Options | None = None,
        dedup: str | None = None,
        release: bool = False,
    ) -> None:
        self._tables = tables
        self._options = options or Options()
        self._dedup = dedup
        self._release = release

    def stage(self, plan: Plan, batch_id: str) -> Staged:
        """Decode the files of the plan, one after the other."""
        check_sources(plan, may_grow=True)
        parts = decode(_requests(plan), batch_id=batch_id, ingested_at_us=plan.planned_at_us, options=self._options)
        return staged(self._tables, parts, resent_in(self._tables, self._options, self._dedup, batch_id))

    def release(self, plan: Plan) -> tuple[SourceFile, ...]:
        """Remove segments of a spool, whose rows are in the tables. Other files belong to the user and stay."""
        if not self._release:
            return ()
        segments = tuple(source for source in plan.files if is_segment(Path(source.path)))
        for segment in segments:
            forget(Path(segment.path))
        return segments


def resent_in(tables: TelemetryTables, options: Options, dedup: str | None, batch_id: str) -> Resent | None:
    """The filter for records that were sent again; None if they are kept."""
    return None if dedup is None else Resent(tables, profile=options.profile, batch_id=batch_id)


def staged(
    tables: TelemetryTables, parts: Iterable[Decoded], resent: Resent | None = None, read: Counts | None = None
) -> Staged:
    """Write decoded parts to data files, one set per table for the whole batch. ``read`` has the counts of the source,
    and is complete after the last part."""
    writing: dict[str, DataFiles] = {}
    counts = Counts()
    try:
        for part in parts:
            for name, rows in with_letters(part):
                add_rows(writing, tables, name, rows if resent is None else resent.without(name, rows))
            counts.add(part.counts)
        if read is not None:
            counts.add(read)
        deliveries = tuple(files.delivery() for files in writing.values())
        return Staged(deliveries=deliveries, counts=batch_counts(counts, writing, resent))
    except BaseException:
        for files in writing.values():
            files.discard()
        raise


def add_rows(writing: dict[str, DataFiles], tables: TelemetryTables, name: str, rows: pa.Table) -> None:
    """Write rows to the files of their table. A missing table is created."""
    if rows.num_rows:
        if name not in writing:
            writing[name] = DataFiles(tables.get(name))
        writing[name].add(rows)


def batch_counts(counts: Counts, writing: Mapping[str, DataFiles], resent: Resent | None) -> BatchCounts:
    """The decoder's counts, in the form that is recorded."""
    oddities = {
        "unknown_fields": counts.unknown_fields,
        "repeated_keys": counts.repeated_keys,
        "zero_ids": counts.zero_ids,
        "empty_containers": counts.empty_containers,
        "far_times": counts.far_times,
        "not_castable": counts.not_castable.total(),
        **counts.offsets,
    }
    return BatchCounts(
        received=counts.received,
        rows={full_name(name): files.rows for name, files in writing.items()},
        deduplicated=0 if resent is None else resent.left_out.total(),
        requests=counts.requests,
        bytes=counts.bytes,
        oddities={name: number for name, number in oddities.items() if number},
    )


def without_tables(counts: Counts, names: Container[str]) -> Counts:
    """The counts without the records of some tables."""
    kept = Counter({name: number for name, number in counts.records.items() if name not in names})
    return replace(counts, records=kept, dead_letters=0 if DEAD_LETTER.name in names else counts.dead_letters)


def with_letters(part: Decoded) -> Iterator[tuple[str, pa.Table]]:
    """The rows of a part, by table, dead letters last."""
    yield from part.tables.items()
    if part.dead_letters.num_rows:
        yield DEAD_LETTER.name, part.dead_letters


def _requests(plan: Plan) -> Iterator[Request]:
    for source in plan.files:
        requests = read_file(Path(source.path), begin=source.begin, end=source.size)
        yield from (request for request in requests if request.is_behind(source.start))
