"""What others committed while a change was being made."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from esker.errors import Conflict
from esker.ports.table_format import EntryColumns, TableFormat
from esker.tree.manifest import Entries
from esker.tree.manifest_list import ManifestContent, ManifestFile
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


def arrivals(
    table_format: TableFormat,
    metadata: TableMetadata,
    since: Mapping[int, Snapshot],
    manifests: Sequence[ManifestFile],
    columns: EntryColumns,
) -> Iterator[Entries]:
    """Data files whose rows came since. Files that a compaction wrote (the operation "replace") hold no new rows; the
    files that it removed may: they still count if another of these snapshots had added them."""
    coming = {id_ for id_, snapshot in since.items() if snapshot.operation != "replace"}
    # whoever folded or rewrote a manifest since has it in a new one, where the file is listed as existing
    newer = [m for m in manifests if m.content is ManifestContent.DATA and m.added_snapshot_id in since]
    for entries in table_format.entries(metadata, newer, columns):
        yield entries.take(entries.is_live & made_by(entries, coming))
    compacted = _removed_by_compaction(table_format, metadata, since)
    if not compacted:
        return
    for id_ in coming:
        own = [m for m in own_manifests(table_format, metadata, since[id_]) if m.content is ManifestContent.DATA]
        for entries in table_format.entries(metadata, own, columns):
            gone = np.array([path in compacted for path in entries.path.to_pylist()], dtype=bool)
            yield entries.take(entries.is_live & made_by(entries, {id_}) & gone)


def _removed_by_compaction(
    table_format: TableFormat, metadata: TableMetadata, since: Mapping[int, Snapshot]
) -> set[str]:
    found: set[str] = set()
    for id_, snapshot in since.items():
        if snapshot.operation == "replace":
            own = own_manifests(table_format, metadata, snapshot)
            lost = [m for m in own if m.content is ManifestContent.DATA and m.deleted_files != 0]
            for entries in table_format.entries(metadata, lost, EntryColumns(rest=False)):
                found.update(entries.take(~entries.is_live & made_by(entries, {id_})).path.to_pylist())
    return found


def made_by(entries: Entries, snapshots: Container[int]) -> npt.NDArray[np.bool_]:
    """Entries whose file one of these snapshots added or, for one that is gone, removed."""
    return np.array([id_ in snapshots for id_ in entries.snapshot_id.to_pylist()], dtype=bool)
