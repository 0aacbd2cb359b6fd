"""Pure changes of table metadata, each from one version to the next, and the ancestry of snapshots.

Time never goes back: every version is at least a millisecond younger than the one before, even if the clock is wrong.
So time travel to a snapshot's own time finds that snapshot.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

from esker.tree.snapshot import RefKind, Snapshot, SnapshotRef, extended
from esker.tree.table_metadata import PartitionStatisticsFile, SnapshotLogEntry, StatisticsFile, TableMetadata

# ---------------------------------------------------------------- ancestry of snapshots


def ancestors(metadata: TableMetadata, snapshot_id: int | None) -> Iterator[Snapshot]:
    """The snapshot and its ancestors, the newest first, as far back as snapshots are kept."""
    by_id: dict[int, Snapshot] = {}
    seen: set[int] = set()
    while snapshot_id is not None and snapshot_id not in seen:
        seen.add(snapshot_id)
        if not by_id and len(seen) > 8:  # a long history: look up the rest by id
            by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
        found = by_id.get(snapshot_id) if by_id else metadata.snapshot(snapshot_id)
        if found is None:
            return
        yield found
        snapshot_id = found.parent_snapshot_id


def is_ancestor(metadata: TableMetadata, old: int, young: int | None) -> bool:
    """Whether ``young`` is ``old`` or a descendant of it."""
    return any(snapshot.snapshot_id == old for snapshot in ancestors(metadata, young))


# ---------------------------------------------------------------- changes


MAIN = "main"


def next_ms(metadata: TableMetadata) -> int:
    """The time of the next version."""
    return max(time.time_ns() // 1_000_000, metadata.last_updated_ms + 1)


def with_snapshot(metadata: TableMetadata, snapshot: Snapshot, *, ref: str | None = MAIN) -> TableMetadata:
    """The table with one more snapshot, at the head of a branch; staged, on no branch, for ``ref=None``."""
    grown = replace(
        metadata,
        snapshots=extended(metadata.snapshots, snapshot),
        last_sequence_number=max(metadata.last_sequence_number, snapshot.sequence_number),
        last_updated_ms=max(metadata.last_updated_ms, snapshot.timestamp_ms),
        next_row_id=_next_row_id(metadata, snapshot),
    )
    return grown if ref is None else with_ref_at(grown, ref, snapshot.snapshot_id, at_ms=snapshot.timestamp_ms)


def with_ref_at(metadata: TableMetadata, ref: str, snapshot_id: int, *, at_ms: int) -> TableMetadata:
    """Move a branch to a snapshot and keep its retention; create it if it does not exist."""
    old = metadata.refs.get(ref)
    moved = (
        SnapshotRef(snapshot_id=snapshot_id, kind=RefKind.BRANCH)
        if old is None
        else replace(old, snapshot_id=snapshot_id)
    )
    return with_ref(metadata, ref, moved, at_ms=at_ms)


def with_ref(metadata: TableMetadata, name: str, ref: SnapshotRef, *, at_ms: int) -> TableMetadata:
    """Set a ref. Moving ``main`` changes the current snapshot and is logged; other branches are not logged."""
    changed = replace(metadata, refs={**metadata.refs, name: ref}, last_updated_ms=max(at_ms, metadata.last_updated_ms))
    if name != MAIN or ref.snapshot_id == metadata.current_snapshot_id:
        return changed
    entry = SnapshotLogEntry(timestamp_ms=changed.last_updated_ms, snapshot_id=ref.snapshot_id)
    return replace(changed, current_snapshot_id=ref.snapshot_id, snapshot_log=extended(metadata.snapshot_log, entry))


def without_ref(metadata: TableMetadata, name: str) -> TableMetadata:
    """Remove a ref. Its snapshots stay until they expire."""
    refs = {other: ref for other, ref in metadata.refs.items() if other != name}
    return replace(metadata, refs=refs, last_updated_ms=next_ms(metadata))


def with_properties(
    metadata: TableMetadata, updates: Mapping[str, str], removals: tuple[str, ...] = ()
) -> TableMetadata:
    """Change properties."""
    kept = {key: value for key, value in metadata.properties.items() if key not in removals}
    return replace(metadata, properties={**kept, **updates}, last_updated_ms=next_ms(metadata))


def with_statistics(metadata: TableMetadata, file: StatisticsFile) -> TableMetadata:
    """Register the statistics of a snapshot. They replace earlier statistics of the same snapshot."""
    others = (other for other in metadata.statistics if other.snapshot_id != file.snapshot_id)
    return replace(metadata, statistics=(*others, file), last_updated_ms=next_ms(metadata))


def with_partition_statistics(metadata: TableMetadata, file: PartitionStatisticsFile) -> TableMetadata:
    """Register the partition statistics of a snapshot. They replace earlier ones of the same snapshot."""
    others = (other for other in metadata.partition_statistics if other.snapshot_id != file.snapshot_id)
    return replace(metadata, partition_statistics=(*others, file), last_updated_ms=next_ms(metadata))


def _next_row_id(metadata: TableMetadata, snapshot: Snapshot) -> int | None:
    if metadata.format_version < 3:
        return metadata.next_row_id
    return (metadata.next_row_id or 0) + (snapshot.added_rows or 0)
