"""Who descends from whom among a table's snapshots."""

from __future__ import annotations

from collections.abc import Iterator

from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata


def ancestors(metadata: TableMetadata, snapshot_id: int | None) -> Iterator[Snapshot]:
    """The snapshot and what it came from, newest first, as far back as snapshots are kept."""
    by_id: dict[int, Snapshot] = {}
    seen: set[int] = set()
    while snapshot_id is not None and snapshot_id not in seen:
        seen.add(snapshot_id)
        if not by_id and len(seen) > 8:  # a long way back: look the rest up by id
            by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
        found = by_id.get(snapshot_id) if by_id else metadata.snapshot(snapshot_id)
        if found is None:
            return
        yield found
        snapshot_id = found.parent_snapshot_id


def is_ancestor(metadata: TableMetadata, old: int, young: int | None) -> bool:
    """Whether ``young`` is ``old`` or came from it."""
    return any(snapshot.snapshot_id == old for snapshot in ancestors(metadata, young))
