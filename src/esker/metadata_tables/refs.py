"""``refs``: branches and tags."""

from __future__ import annotations

import pyarrow as pa

from esker.metadata_tables.subject import Subject, int64s

SCHEMA = pa.schema(
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
    """One row a branch or tag."""
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
        schema=SCHEMA,
    )
