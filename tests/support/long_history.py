"""A table with many snapshots, for tests of what its history costs."""

from __future__ import annotations

from dataclasses import replace

from esker.lake import Lake
from esker.model.table_names import TableName
from esker.ports.catalog import Accepted
from esker.tree.table_metadata import SnapshotLogEntry


def with_history(lake: Lake, name: TableName, number: int) -> None:
    """Give a table that many snapshots, in one commit."""
    state = lake.catalog.load(name)
    table = state.metadata
    first = table.current_snapshot
    assert first is not None
    history = [
        replace(
            first,
            snapshot_id=first.snapshot_id + at,
            parent_snapshot_id=first.snapshot_id + at - 1 if at else None,
            sequence_number=at + 1,
            timestamp_ms=first.timestamp_ms + at,
        )
        for at in range(number)
    ]
    new = replace(
        table,
        snapshots=tuple(history),
        snapshot_log=tuple(
            SnapshotLogEntry(timestamp_ms=one.timestamp_ms, snapshot_id=one.snapshot_id) for one in history
        ),
        last_sequence_number=number,
        last_updated_ms=history[-1].timestamp_ms,
        current_snapshot_id=history[-1].snapshot_id,
        refs={"main": replace(table.all_refs["main"], snapshot_id=history[-1].snapshot_id)},
    )
    assert isinstance(lake.catalog.swap(name, state, new), Accepted)
