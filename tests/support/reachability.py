"""Which files a table needs, worked out in plain Python from the files themselves: the oracle of everything that
deletes."""

from __future__ import annotations

import io
from collections.abc import Mapping

import fastavro

from esker.ports.storage import Storage
from esker.table import Table
from esker.tree.snapshot import RefKind, Snapshot
from esker.tree.table_metadata import TableMetadata


def objects_of(table: Table) -> dict[str, tuple[bytes, int]]:
    """The objects of a storage in memory, with their times."""
    held: dict[str, tuple[bytes, int]] = table._workings.storage._objects  # type: ignore[attr-defined]
    return held


def needed_by(storage: Storage, snapshot: Snapshot) -> set[str]:
    """The list, the manifests and the live files of one snapshot."""
    assert snapshot.manifest_list is not None
    found = {snapshot.manifest_list}
    for row in _records(storage, snapshot.manifest_list):
        found.add(row["manifest_path"])
        found |= {
            entry["data_file"]["file_path"]
            for entry in _records(storage, row["manifest_path"])
            if entry["status"] != 2  # deleted
        }
    return found


def _records(storage: Storage, location: str) -> list[dict[str, object]]:
    return list(fastavro.reader(io.BytesIO(storage.read(location))))  # type: ignore[arg-type]


def reachable(storage: Storage, metadata: TableMetadata) -> set[str]:
    """What all retained snapshots need, and the statistics."""
    found = {file.path for file in (*metadata.statistics, *metadata.partition_statistics)}
    for snapshot in metadata.snapshots:
        found |= needed_by(storage, snapshot)
    return found


def kept_by_policy(metadata: TableMetadata, *, now_ms: int, older_than_ms: int, retain_last: int) -> set[int]:
    """The snapshots that the spec's retention keeps, literally."""
    by_id: Mapping[int, Snapshot] = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    kept: set[int] = set()
    on_branches: set[int] = set()
    for name, ref in metadata.refs.items():
        head = by_id[ref.snapshot_id]
        too_old = ref.max_ref_age_ms is not None and now_ms - head.timestamp_ms > ref.max_ref_age_ms
        if name != "main" and too_old:
            continue
        kept.add(head.snapshot_id)
        if ref.kind is RefKind.TAG:
            continue
        line = [head]
        while line[-1].parent_snapshot_id in by_id:
            line.append(by_id[line[-1].parent_snapshot_id])  # type: ignore[index]
        on_branches |= {snapshot.snapshot_id for snapshot in line}
        since_ms = older_than_ms if ref.max_snapshot_age_ms is None else now_ms - ref.max_snapshot_age_ms
        for number, snapshot in enumerate(line):
            if number >= (ref.min_snapshots_to_keep or retain_last) and snapshot.timestamp_ms < since_ms:
                break
            kept.add(snapshot.snapshot_id)
    loose = {s.snapshot_id for s in metadata.snapshots if s.timestamp_ms >= older_than_ms} - on_branches
    return kept | loose
