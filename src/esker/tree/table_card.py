"""What a notebook shows of a table: from its metadata alone, so that nothing is read for it."""

from __future__ import annotations

from esker.model.partition import PartitionSpec
from esker.model.schema import Schema
from esker.model.wording import card, first_of, show_ms
from esker.tree.table_metadata import TableMetadata

_MOST_COLUMNS = 20


def table_card(name: str, metadata: TableMetadata) -> str:
    """The table's columns, partitioning and current snapshot as HTML."""
    snapshot = metadata.current_snapshot
    current = "none: the table is empty"
    if snapshot is not None:
        current = f"{snapshot.snapshot_id}, {snapshot.operation or 'unknown'}, {show_ms(snapshot.timestamp_ms)}"
    return card(
        name,
        [
            ("format", f"v{metadata.format_version}"),
            ("location", metadata.location),
            ("current snapshot", current),
            ("rows", None if snapshot is None else snapshot.summary.get("total-records")),
            ("partitioned by", partitioning(metadata.spec, metadata.schema) or None),
            ("columns", first_of(map(str, metadata.schema), _MOST_COLUMNS, "\n")),
        ],
    )


def partitioning(spec: PartitionSpec, schema: Schema) -> str:
    """The terms of a spec: ``day(ts), bucket(16, id)``."""
    return first_of(
        (f"{part.transform} of {schema.name_by_id.get(part.source_id, part.name)}" for part in spec.fields), 8
    )
