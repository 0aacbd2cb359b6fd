"""``snapshots``, ``refs``, ``history`` and ``metadata_log_entries``: read from table metadata alone."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

import pyarrow as pa

from esker.metadata_tables.inspected_table import UTC_MICROS, Subject, int64s, micros
from esker.tree.table_metadata import MetadataLogEntry, TableMetadata

SNAPSHOTS = pa.schema(
    [
        pa.field("committed_at", UTC_MICROS, nullable=False),
        pa.field("snapshot_id", pa.int64(), nullable=False),
        pa.field("parent_id", pa.int64()),
        pa.field("operation", pa.string()),
        pa.field("manifest_list", pa.string()),
        pa.field("summary", pa.map_(pa.string(), pa.string())),
    ]
)


def snapshots(subject: Subject) -> pa.Table:
    """One row per snapshot, in the order of the metadata file."""
    kept = list(subject.metadata.snapshots)
    return pa.Table.from_arrays(
        [
            micros([s.timestamp_ms for s in kept]),
            int64s([s.snapshot_id for s in kept]),
            int64s([s.parent_snapshot_id for s in kept]),
            pa.array([s.operation for s in kept], pa.string()),
            pa.array([s.manifest_list for s in kept], pa.string()),
            pa.array([_facts(s.summary) for s in kept], SNAPSHOTS.field("summary").type),
        ],
        schema=SNAPSHOTS,
    )


def _facts(summary: Mapping[str, str]) -> list[tuple[str, str]] | None:
    """The summary without the operation, which has its own column. Null if the writer wrote none."""
    return [(key, value) for key, value in summary.items() if key != "operation"] if summary else None


# ---------------------------------------------------------------- refs


REFS = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("type", pa.string(), nullable=False),
        pa.field("snapshot_id", pa.int64(), nullable=False),
        pa.field("max_reference_age_in_ms", pa.int64()),
        pa.field("min_snapshots_to_keep", pa.int32()),
        pa.field("max_snapshot_age_in_ms", pa.int64()),
    ]
)


def refs(subject: Subject) -> pa.Table:
    """One row per branch or tag."""
    named = subject.metadata.all_refs
    kept = list(named.values())
    return pa.Table.from_arrays(
        [
            pa.array(list(named), pa.string()),
            pa.array([ref.kind.value.upper() for ref in kept], pa.string()),
            int64s([ref.snapshot_id for ref in kept]),
            int64s([ref.max_ref_age_ms for ref in kept]),
            int64s([ref.min_snapshots_to_keep for ref in kept]).cast(pa.int32(), safe=False),
            int64s([ref.max_snapshot_age_ms for ref in kept]),
        ],
        schema=REFS,
    )


# ---------------------------------------------------------------- history


HISTORY = pa.schema(
    [
        pa.field("made_current_at", UTC_MICROS, nullable=False),
        pa.field("snapshot_id", pa.int64(), nullable=False),
        pa.field("parent_id", pa.int64()),
        pa.field("is_current_ancestor", pa.bool_(), nullable=False),
    ]
)


def history(subject: Subject) -> pa.Table:
    """One row per change of the current snapshot. After a rollback, some rows are not ancestors of the current
    snapshot."""
    log = list(subject.metadata.snapshot_log)
    parents = {s.snapshot_id: s.parent_snapshot_id for s in subject.metadata.snapshots} if log else {}
    ancestors = ancestor_ids(subject.metadata, parents)
    return pa.Table.from_arrays(
        [
            micros([entry.timestamp_ms for entry in log]),
            int64s([entry.snapshot_id for entry in log]),
            int64s([parents.get(entry.snapshot_id) for entry in log]),
            pa.array([entry.snapshot_id in ancestors for entry in log], pa.bool_()),
        ],
        schema=HISTORY,
    )


def ancestor_ids(metadata: TableMetadata, parents: dict[int, int | None]) -> set[int]:
    """The ids of the current snapshot and all its ancestors. Stops if the parents form a circle."""
    found: set[int] = set()
    at = metadata.current_snapshot_id
    while at is not None and at in parents and at not in found:
        found.add(at)
        at = parents[at]
    return found


# ---------------------------------------------------------------- metadata_log_entries


METADATA_LOG_ENTRIES = pa.schema(
    [
        pa.field("timestamp", UTC_MICROS, nullable=False),
        pa.field("file", pa.string(), nullable=False),
        pa.field("latest_snapshot_id", pa.int64()),
        pa.field("latest_schema_id", pa.int32()),
        pa.field("latest_sequence_number", pa.int64()),
    ]
)


def metadata_log_entries(subject: Subject) -> pa.Table:
    """One row per metadata file, with the snapshot that was current when it was written."""
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
        schema=METADATA_LOG_ENTRIES,
    )


def _current_at(metadata: TableMetadata, moments_ms: list[int]) -> list[int | None]:
    """For each time, the snapshot that was current. Sorts the log first, because its times may go back."""
    log = sorted(metadata.snapshot_log, key=lambda entry: entry.timestamp_ms)
    times = [entry.timestamp_ms for entry in log]
    places = [bisect_right(times, moment) - 1 for moment in moments_ms]
    return [log[place].snapshot_id if place >= 0 else None for place in places]
