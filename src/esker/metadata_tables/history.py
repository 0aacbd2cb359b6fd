"""``history``: which snapshot was the current one from when."""

from __future__ import annotations

import pyarrow as pa

from esker.metadata_tables.subject import UTC_MICROS, Subject, int64s, micros
from esker.tree.table_metadata import TableMetadata

SCHEMA = pa.schema(
    [
        pa.field("made_current_at", UTC_MICROS, nullable=False),
        pa.field("snapshot_id", pa.int64(), nullable=False),
        pa.field("parent_id", pa.int64()),
        pa.field("is_current_ancestor", pa.bool_(), nullable=False),
    ]
)


def history(subject: Subject) -> pa.Table:
    """One row a change of the current snapshot; a rollback leaves rows that are no ancestors."""
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
        schema=SCHEMA,
    )


def ancestor_ids(metadata: TableMetadata, parents: dict[int, int | None]) -> set[int]:
    """The current snapshot and all before it; a circle of parents ends where it began."""
    found: set[int] = set()
    at = metadata.current_snapshot_id
    while at is not None and at in parents and at not in found:
        found.add(at)
        at = parents[at]
    return found
