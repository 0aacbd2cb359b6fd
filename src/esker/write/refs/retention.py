"""Which snapshots a table must keep, and its metadata without the others. Files are not removed here (K2, K3)."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace

from esker.errors import InvalidInput
from esker.tree.snapshot import RefKind, SnapshotRef
from esker.tree.table_metadata import SnapshotLogEntry, TableMetadata
from esker.write.properties import whole_number
from esker.write.table_changes import MAIN, ancestors, next_ms

FIVE_DAYS_MS = 5 * 86_400_000
FOR_EVER_MS = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained:
    """What is kept: refs by name, and every snapshot that a ref needs or that is young enough."""

    refs: Mapping[str, SnapshotRef]
    snapshot_ids: frozenset[int]


def retained(
    metadata: TableMetadata, *, now_ms: int, older_than_ms: int | None = None, retain_last: int | None = None
) -> Retained:
    """What the refs' own retention keeps, and the table's ``history.expire.*`` if a ref has none.

    ``older_than_ms`` is a time and ``retain_last`` a number; they replace the table's defaults.
    """
    properties = metadata.properties
    age_ms = whole_number(properties, "history.expire.max-snapshot-age-ms", FIVE_DAYS_MS, at_least=1)
    keep = whole_number(properties, "history.expire.min-snapshots-to-keep", 1, at_least=1)
    ref_age_ms = whole_number(properties, "history.expire.max-ref-age-ms", FOR_EVER_MS, at_least=1)
    oldest_ms = now_ms - age_ms if older_than_ms is None else older_than_ms
    keep = keep if retain_last is None else retain_last
    named = metadata.all_refs.items()
    refs = {name: ref for name, ref in named if _is_fresh(metadata, name, ref, now_ms, ref_age_ms)}
    kept: set[int] = set()
    reached: set[int] = set()  # others are kept by their age: staged ones, and those of refs that expire
    for ref in refs.values():
        if ref.kind is RefKind.TAG:
            kept.add(ref.snapshot_id)
        else:
            reached |= {snapshot.snapshot_id for snapshot in ancestors(metadata, ref.snapshot_id)}
            since_ms = oldest_ms if ref.max_snapshot_age_ms is None else now_ms - ref.max_snapshot_age_ms
            kept |= _kept_of_branch(metadata, ref, since_ms, ref.min_snapshots_to_keep or keep)
    staged = {s.snapshot_id for s in metadata.snapshots if s.snapshot_id not in reached and s.timestamp_ms >= oldest_ms}
    return Retained(refs=refs, snapshot_ids=frozenset(kept | staged))


def without_snapshots(metadata: TableMetadata, expired: Set[int]) -> TableMetadata:
    """The table without these snapshots. The history is cut after the newest of them, so that it has no gaps (D3)."""
    held = {ref.snapshot_id: name for name, ref in metadata.refs.items()}
    for snapshot_id in sorted(expired):
        if snapshot_id in held or snapshot_id == metadata.current_snapshot_id:
            raise InvalidInput(
                f"cannot expire snapshot {snapshot_id}: {held.get(snapshot_id, MAIN)!r} points to it",
                snapshot_id=snapshot_id,
            )
    log: list[SnapshotLogEntry] = []
    for entry in metadata.snapshot_log:
        if entry.snapshot_id in expired:
            log.clear()
        else:
            log.append(entry)
    return replace(
        metadata,
        snapshots=tuple(s for s in metadata.snapshots if s.snapshot_id not in expired),
        snapshot_log=tuple(log),
        statistics=tuple(s for s in metadata.statistics if s.snapshot_id not in expired),
        partition_statistics=tuple(s for s in metadata.partition_statistics if s.snapshot_id not in expired),
        last_updated_ms=next_ms(metadata),
    )


def _is_fresh(metadata: TableMetadata, name: str, ref: SnapshotRef, now_ms: int, default_ms: int) -> bool:
    if name == MAIN:
        return True
    head = metadata.snapshot(ref.snapshot_id)
    age_ms = default_ms if ref.max_ref_age_ms is None else ref.max_ref_age_ms
    return head is not None and now_ms - head.timestamp_ms <= age_ms


def _kept_of_branch(metadata: TableMetadata, ref: SnapshotRef, since_ms: int, at_least: int) -> set[int]:
    """The snapshots from the head back to the first that is both too old and beyond the number to keep."""
    kept: set[int] = set()
    for snapshot in ancestors(metadata, ref.snapshot_id):
        if len(kept) >= at_least and snapshot.timestamp_ms < since_ms:
            break
        kept.add(snapshot.snapshot_id)
    return kept
