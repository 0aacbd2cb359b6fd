"""``snapshots``: every state of the table that has not expired."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from esker.metadata_tables.subject import UTC_MICROS, Subject, int64s, micros

SCHEMA = pa.schema(
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
    """One row a snapshot, in the order of the metadata file."""
    kept = list(subject.metadata.snapshots)
    return pa.Table.from_arrays(
        [
            micros([s.timestamp_ms for s in kept]),
            int64s([s.snapshot_id for s in kept]),
            int64s([s.parent_snapshot_id for s in kept]),
            pa.array([s.operation for s in kept], pa.string()),
            pa.array([s.manifest_list for s in kept], pa.string()),
            pa.array([_facts(s.summary) for s in kept], SCHEMA.field("summary").type),
        ],
        schema=SCHEMA,
    )


def _facts(summary: Mapping[str, str]) -> list[tuple[str, str]] | None:
    """The summary without the operation, which has a column of its own; null where a writer gave none."""
    return [(key, value) for key, value in summary.items() if key != "operation"] if summary else None
