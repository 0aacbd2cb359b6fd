"""What others committed while a change was being made."""

from __future__ import annotations

from collections.abc import Container

import numpy as np
import numpy.typing as npt

from esker.errors import Conflict
from esker.ports.table_format import TableFormat
from esker.tree.manifest import Entries
from esker.tree.manifest_list import ManifestFile
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata
from esker.write.ancestry import ancestors


def snapshots_since(
    metadata: TableMetadata, start: Snapshot | None, head: Snapshot | None, doing: str
) -> dict[int, Snapshot]:
    """From the head back to the start, which is left out; a start that is not among the ancestors is a conflict."""
    stop = None if start is None else start.snapshot_id
    found: dict[int, Snapshot] = {}
    for snapshot in ancestors(metadata, None if head is None else head.snapshot_id):
        if snapshot.snapshot_id == stop:
            return found
        found[snapshot.snapshot_id] = snapshot
    oldest = next(reversed(found.values()), None)
    if stop is not None or (oldest is not None and oldest.parent_snapshot_id is not None):
        raise Conflict(
            f"cannot {doing}: snapshot {stop}, which the change began from, is no longer in the table's past",
            snapshot_id=stop,
        )
    return found


def own_manifests(table_format: TableFormat, metadata: TableMetadata, snapshot: Snapshot) -> list[ManifestFile]:
    """What one snapshot did is told by its own manifests alone: the next may have dropped them."""
    return [m for m in table_format.manifests(metadata, snapshot) if m.added_snapshot_id == snapshot.snapshot_id]


def made_by(entries: Entries, snapshots: Container[int]) -> npt.NDArray[np.bool_]:
    """Entries whose file one of these snapshots added or, for one that is gone, removed."""
    return np.array([id_ in snapshots for id_ in entries.snapshot_id.to_pylist()], dtype=bool)
