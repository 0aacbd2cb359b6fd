"""First step of a change feed: the snapshots between two snapshots, each with its parent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from esker.errors import InvalidInput, NoSuchSnapshot
from esker.model.schema import Schema
from esker.read.resolve_snapshot import MAIN, Resolved, resolve_snapshot
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata

SnapshotName: TypeAlias = int | str
"""A snapshot's id, or a branch or tag that names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One snapshot, and its parent. The parent of the first snapshot is None."""

    before: Snapshot | None
    after: Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRange:
    """The steps from one snapshot to another, oldest first, and the schema of the last one."""

    steps: tuple[Step, ...]
    schema: Schema


def snapshot_range(metadata: TableMetadata, start: SnapshotName | None, end: SnapshotName | None) -> SnapshotRange:
    """The steps after ``start`` up to ``end``. ``end`` is by default the current snapshot; None starts at the
    beginning."""
    last = resolve_snapshot(metadata) if end is None else _named(metadata, end)
    first = None if start is None else _named(metadata, start).snapshot
    if last.snapshot is None:
        return SnapshotRange(steps=(), schema=last.schema)
    return SnapshotRange(steps=_steps(metadata, first, last.snapshot), schema=last.schema)


def _named(metadata: TableMetadata, name: SnapshotName) -> Resolved:
    if isinstance(name, bool) or not isinstance(name, int | str):
        raise InvalidInput(
            f"cannot read changes from or to {name!r}, a {type(name).__name__}: "
            "give a snapshot's id, or the name of a branch or tag"
        )
    if isinstance(name, int):
        return resolve_snapshot(metadata, snapshot_id=name)
    if name not in metadata.refs and name != MAIN and name.isascii() and name.isdecimal():
        return resolve_snapshot(metadata, snapshot_id=int(name))
    return resolve_snapshot(metadata, ref=name)


def _steps(metadata: TableMetadata, first: Snapshot | None, last: Snapshot) -> tuple[Step, ...]:
    """The steps, found from the last to the first: a snapshot records only its parent."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    steps: list[Step] = []
    at, seen = last, {last.snapshot_id}
    while first is None or at.snapshot_id != first.snapshot_id:
        parent = at.parent_snapshot_id
        before = None if parent is None else by_id.get(parent)
        if parent is None and first is not None:
            raise InvalidInput(
                f"cannot read changes from snapshot {first.snapshot_id} to {last.snapshot_id}: "
                "the first is not an ancestor of the second; give a snapshot and one of its ancestors",
                from_snapshot=first.snapshot_id,
                to_snapshot=last.snapshot_id,
            )
        if parent is not None and (before is None or parent in seen):
            raise _gap(first, last, at, parent)
        steps.append(Step(before=before, after=at))
        if before is None:
            break
        seen.add(before.snapshot_id)
        at = before
    return tuple(reversed(steps))


def _gap(first: Snapshot | None, last: Snapshot, at: Snapshot, parent: int) -> NoSuchSnapshot:
    start = "the beginning" if first is None else f"snapshot {first.snapshot_id}"
    return NoSuchSnapshot(
        f"cannot read changes from {start} to snapshot {last.snapshot_id}: snapshot {parent}, the parent of "
        f"{at.snapshot_id}, has expired; start from {at.snapshot_id} or a later one",
        snapshot_id=parent,
    )
