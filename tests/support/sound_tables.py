"""What must hold of a table after whatever befell it, checked file by file: the invariants INV1 to INV7."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from esker.lake import Lake
from esker.ports.table_format import EntryColumns
from esker.table import Table
from esker.tree.data_file import DataFile, FileContent
from esker.tree.manifest import Entries, EntryStatus
from esker.tree.manifest_list import ManifestContent, ManifestFile
from esker.tree.snapshot import Snapshot
from esker.write.summary import TOTALS


def rows_of(table: Table, column: str = "id", **how: Any) -> list[Any]:
    """One column's values, sorted."""
    return sorted(table.scan(columns=[column], **how).to_arrow().column(column).to_pylist())


def check_sound(lake: Lake, name: str, *, deep: bool = True) -> Table:
    """INV1, INV2, INV4 and INV5 of the table as its catalog has it; with ``deep`` for every snapshot it keeps."""
    table = lake.table(name)  # INV1
    current = [] if table.current_snapshot is None else [table.current_snapshot]
    for snapshot in table.snapshots if deep else current:
        _check_snapshot(table, snapshot)
    numbers = [snapshot.sequence_number for snapshot in table.snapshots]
    if table.format_version > 1:
        counted = [number for number in numbers if number]  # snapshots of v1 have none
        assert counted == sorted(set(counted)), "sequence numbers must increase"
        assert table.metadata.last_sequence_number == max(numbers, default=0)
    assert len({snapshot.snapshot_id for snapshot in table.snapshots}) == len(table.snapshots)
    times = [snapshot.timestamp_ms for snapshot in table.snapshots]
    assert times == sorted(set(times)), "time must not step back"
    assert table.metadata.last_updated_ms >= max(times, default=0)
    if table.current_snapshot is not None:
        assert table.refs["main"].snapshot_id == table.current_snapshot.snapshot_id
    return table


def entries_of(table: Table, manifest: ManifestFile) -> Iterator[Entries]:
    """What a manifest holds."""
    return table._workings.format.entries(table.metadata, (manifest,), EntryColumns(full_metrics=True))


def manifests_of(table: Table, snapshot: Snapshot | None = None) -> tuple[ManifestFile, ...]:
    """The manifests of a snapshot, the current one by default."""
    chosen = snapshot or table.current_snapshot
    return () if chosen is None else table._workings.format.manifests(table.metadata, chosen)


def live_files(table: Table, snapshot: Snapshot | None = None) -> list[DataFile]:
    """Every live file of a snapshot, delete files too."""
    return [
        file
        for manifest in manifests_of(table, snapshot)
        for entries in entries_of(table, manifest)
        for file in entries.take(entries.is_live).data_files()
    ]


def _check_snapshot(table: Table, snapshot: Snapshot) -> None:
    storage = table._workings.storage
    assert snapshot.manifest_list is not None
    assert storage.exists(snapshot.manifest_list)
    live: list[DataFile] = []
    for manifest in manifests_of(table, snapshot):
        assert storage.size(manifest.path) == manifest.length, manifest.path  # INV2
        live += _check_manifest(table, manifest)
    for file in live:
        assert storage.size(file.path) == file.file_size, file.path  # INV2
    names = [(file.path, file.content_offset) for file in live]
    assert len(names) == len(set(names)), "a live file is listed once (B6)"
    _check_deletes(live)
    _check_totals(snapshot, live)


def _check_manifest(table: Table, manifest: ManifestFile) -> list[DataFile]:
    found: list[DataFile] = []
    counts = dict.fromkeys(EntryStatus, 0)
    rows = dict.fromkeys(EntryStatus, 0)
    for entries in entries_of(table, manifest):
        for row, file in enumerate(entries.data_files()):
            status = EntryStatus(int(entries.status[row]))
            counts[status] += 1
            rows[status] += file.record_count
            assert (file.content is FileContent.DATA) == (manifest.content is ManifestContent.DATA)  # B7
            assert file.spec_id == manifest.spec_id  # B7
            if status is not EntryStatus.DELETED:
                found.append(file)
    assert (manifest.added_files, manifest.existing_files, manifest.deleted_files) == _by_status(counts)  # INV4
    assert (manifest.added_rows, manifest.existing_rows, manifest.deleted_rows) == _by_status(rows)
    if found and table.format_version > 1:
        assert manifest.min_sequence_number == min(file.sequence_number for file in found)  # C2
    assert manifest.spec_id in table.metadata.spec_by_id  # C5
    return found


def _by_status(counts: dict[EntryStatus, int]) -> tuple[int, int, int]:
    return counts[EntryStatus.ADDED], counts[EntryStatus.EXISTING], counts[EntryStatus.DELETED]


def _check_deletes(live: Collection[DataFile]) -> None:
    data = {file.path for file in live if file.content is FileContent.DATA}
    targets = [file.referenced_data_file for file in live if file.is_deletion_vector]
    assert len(targets) == len(set(targets)), "two deletion vectors for one file"  # INV5
    assert set(targets) <= data, "a deletion vector without its data file"
    named = {file.referenced_data_file for file in live if file.referenced_data_file is not None}
    assert named <= data, "a position delete without its data file"


def _check_totals(snapshot: Snapshot, live: Collection[DataFile]) -> None:
    data = [file for file in live if file.content is FileContent.DATA]
    expected = {
        "total-data-files": len(data),
        "total-delete-files": len(live) - len(data),
        "total-records": sum(file.record_count for file in data),
        "total-position-deletes": _rows(live, FileContent.POSITION_DELETES),
        "total-equality-deletes": _rows(live, FileContent.EQUALITY_DELETES),
    }
    known = {total for total, _, _ in TOTALS}
    assert set(expected) <= known
    for key, value in expected.items():
        if key in snapshot.summary:
            assert snapshot.summary[key] == str(value), key  # INV4


def _rows(live: Collection[DataFile], content: FileContent) -> int:
    return sum(file.record_count for file in live if file.content is content)


def reachable(table: Table) -> set[str]:
    """Every file that some version of the table still names: metadata files, lists, manifests, data."""
    found = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    for snapshot in table.snapshots:
        assert snapshot.manifest_list is not None
        found.add(snapshot.manifest_list)
        for manifest in manifests_of(table, snapshot):
            found.add(manifest.path)
            for entries in entries_of(table, manifest):
                found.update(entries.path.to_pylist())
    return found
