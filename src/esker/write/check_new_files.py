"""Files that a user hands over must be new to the table: one that is listed twice is read twice, and one that was
removed before may be deleted as garbage of the old snapshot while the new one lives on it (B6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from esker.errors import InvalidInput
from esker.model.file_names import same_file, spelt
from esker.ports.table_format import EntryColumns, TableFormat
from esker.tree.data_file import DataFile
from esker.tree.manifest_list import ManifestContent, ManifestFile
from esker.tree.table_metadata import TableMetadata


def check_new_files(
    table_format: TableFormat, metadata: TableMetadata, manifests: Sequence[ManifestFile], files: Iterable[DataFile]
) -> None:
    """``InvalidInput`` for a file that is in the table, or was in a snapshot that still is."""
    asked = {spelt(file.path)[2]: file.path for file in files}
    data = [m for m in manifests if m.content is ManifestContent.DATA]
    for path, is_live in _listed(table_format, metadata, data):
        _check(asked, path, "it is in the table already" if is_live else "the table has removed it before")
    for snapshot in metadata.snapshots:
        if snapshot.operation in ("append", None):
            continue
        own = (m for m in table_format.manifests(metadata, snapshot) if m.added_snapshot_id == snapshot.snapshot_id)
        lost = [m for m in own if m.content is ManifestContent.DATA and m.deleted_files != 0]
        for path, is_live in _listed(table_format, metadata, lost):
            if not is_live:
                _check(asked, path, f"the table has removed it in snapshot {snapshot.snapshot_id}")


def _listed(
    table_format: TableFormat, metadata: TableMetadata, manifests: Sequence[ManifestFile]
) -> Iterator[tuple[str, bool]]:
    for entries in table_format.entries(metadata, manifests, EntryColumns(rest=False)):
        yield from zip(entries.path.to_pylist(), entries.is_live.tolist(), strict=True)


def _check(asked: dict[str, str], path: str, why: str) -> None:
    known = asked.get(spelt(path)[2])
    if known is not None and same_file(known, path):
        raise InvalidInput(f"cannot add {known}: {why}; add a copy under another name", file=known)
