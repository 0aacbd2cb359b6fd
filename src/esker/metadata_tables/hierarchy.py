"""The tree of a table, level by level, limited to what was asked for.

A missing or corrupt part is reported at its place in the tree, and the rest is still shown. So a user sees which part
of a table is broken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from esker.errors import EskerError
from esker.metadata_tables.inspected_table import Subject
from esker.ports.table_format import EntryColumns, MergesRows
from esker.tree.data_file import DataFile
from esker.tree.manifest import Entries
from esker.tree.manifest_list import ManifestFile
from esker.tree.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestNode:
    """A manifest with the first of its live files."""

    manifest: ManifestFile
    live_files: int | None  # None: not opened
    live_rows: int | None
    files: tuple[DataFile, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotNode:
    """A snapshot with the first of its manifests."""

    snapshot: Snapshot
    manifests_total: int | None  # None: its list cannot be read
    manifests: tuple[ManifestNode, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How many items of each level are wanted."""

    snapshots: int = 3
    manifests: int = 5
    files: int = 3


def hierarchy(subject: Subject, bounds: Bounds) -> tuple[SnapshotNode, ...]:
    """The current snapshot first, then the newest others, each with its manifests and files."""
    current = subject.metadata.current_snapshot_id
    newest = sorted(subject.metadata.snapshots, key=lambda s: (s.snapshot_id == current, s.timestamp_ms), reverse=True)
    return tuple(_snapshot(subject, snapshot, bounds) for snapshot in newest[: bounds.snapshots])


def _snapshot(subject: Subject, snapshot: Snapshot, bounds: Bounds) -> SnapshotNode:
    try:
        listed = subject.table_format.manifests(subject.metadata, snapshot)
    except EskerError as error:
        return SnapshotNode(snapshot=snapshot, manifests_total=None, problem=error.message)
    if isinstance(subject.table_format, MergesRows):
        shown = _together(subject, listed, bounds)
    else:
        shown = tuple(_manifest(subject, manifest, bounds.files) for manifest in listed[: bounds.manifests])
    return SnapshotNode(snapshot=snapshot, manifests_total=len(listed), manifests=shown)


def _together(subject: Subject, listed: Sequence[ManifestFile], bounds: Bounds) -> tuple[ManifestNode, ...]:
    """The manifests of a format where a later manifest may delete the files of an earlier one: only all manifests of
    the snapshot say which files are live. If one cannot be read, no file is shown."""
    shown = listed[: bounds.manifests]
    try:
        batches = list(subject.entries(listed, EntryColumns()))
    except EskerError:
        return tuple(_unread(subject, manifest) for manifest in shown)
    return tuple(
        _node(manifest, [_of_manifest(batch, manifest) for batch in batches], bounds.files) for manifest in shown
    )


def _of_manifest(batch: Entries, manifest: ManifestFile) -> Entries:
    at = [number for number, one in enumerate(batch.manifests) if one.path == manifest.path]
    return batch.take(np.isin(batch.manifest_index, at))


def _unread(subject: Subject, manifest: ManifestFile) -> ManifestNode:
    try:
        list(subject.entries((manifest,), EntryColumns()))
    except EskerError as error:
        return ManifestNode(manifest=manifest, live_files=None, live_rows=None, problem=error.message)
    return ManifestNode(manifest=manifest, live_files=None, live_rows=None)


def _manifest(subject: Subject, manifest: ManifestFile, files: int) -> ManifestNode:
    try:
        return _node(manifest, list(subject.entries((manifest,), EntryColumns())), files)
    except EskerError as error:
        return ManifestNode(manifest=manifest, live_files=None, live_rows=None, problem=error.message)


def _node(manifest: ManifestFile, batches: Sequence[Entries], files: int) -> ManifestNode:
    live = [batch.take(batch.is_live) for batch in batches]
    return ManifestNode(
        manifest=manifest,
        live_files=sum(map(len, live)),
        live_rows=sum(int(batch.record_count.sum()) for batch in live),
        files=_first(live, files),
    )


def _first(batches: Sequence[Entries], count: int) -> tuple[DataFile, ...]:
    found: list[DataFile] = []
    for batch in batches:
        found.extend(batch.data_file(row) for row in range(min(len(batch), count - len(found))))
    return tuple(found)
