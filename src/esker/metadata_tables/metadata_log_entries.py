"""``metadata_log_entries``: the metadata files there were, the present one last."""

from __future__ import annotations

from bisect import bisect_right

import pyarrow as pa

from esker.metadata_tables.subject import UTC_MICROS, Subject, int64s, micros
from esker.tree.table_metadata import MetadataLogEntry, TableMetadata

SCHEMA = pa.schema(
    [
        pa.field("timestamp", UTC_MICROS, nullable=False),
        pa.field("file", pa.string(), nullable=False),
        pa.field("latest_snapshot_id", pa.int64()),
        pa.field("latest_schema_id", pa.int32()),
        pa.field("latest_sequence_number", pa.int64()),
    ]
)


def metadata_log_entries(subject: Subject) -> pa.Table:
    """One row a metadata file, with the snapshot that was current when it was written."""
    metadata = subject.metadata
    present = MetadataLogEntry(timestamp_ms=metadata.last_updated_ms, metadata_file=subject.metadata_location)
    files = [*metadata.metadata_log, present]
    latest = _current_at(metadata, [entry.timestamp_ms for entry in files])
    by_id = {s.snapshot_id: s for s in metadata.snapshots}
    found = [None if id_ is None else by_id.get(id_) for id_ in latest]
    return pa.Table.from_arrays(
        [
            micros([entry.timestamp_ms for entry in files]),
            pa.array([entry.metadata_file for entry in files], pa.string()),
            int64s(latest),
            int64s([None if s is None else s.schema_id for s in found]).cast(pa.int32(), safe=False),
            int64s([None if s is None else s.sequence_number for s in found]),
        ],
        schema=SCHEMA,
    )


def _current_at(metadata: TableMetadata, moments_ms: list[int]) -> list[int | None]:
    """Per moment the snapshot that was current; the log may step back in time, so it is sorted first."""
    log = sorted(metadata.snapshot_log, key=lambda entry: entry.timestamp_ms)
    times = [entry.timestamp_ms for entry in log]
    places = [bisect_right(times, moment) - 1 for moment in moments_ms]
    return [log[place].snapshot_id if place >= 0 else None for place in places]
