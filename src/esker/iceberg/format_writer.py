"""The writer of the Iceberg format: manifests and manifest lists, written to a storage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from esker.errors import Unsupported
from esker.iceberg.manifests.manifest_list import (
    ListForm,
    assign_first_row_ids,
    encode_manifest_list,
    extend_manifest_list,
)
from esker.iceberg.manifests.write_manifest import ManifestForm, describe_manifest, encode_manifest
from esker.model.partition_and_sort import PartitionSpec
from esker.ports.storage import Storage
from esker.ports.table_format import EntryColumns, ExtendedList, NewSnapshot, TableFormat
from esker.tree.manifest import EntryStatus, ManifestEntry
from esker.tree.manifest_list import ManifestContent, ManifestFile
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata

_CODECS = {"gzip": "deflate", "zlib": "deflate", "deflate": "deflate", "uncompressed": "null", "none": "null"}


class IcebergFormatWriter:
    """Writes manifests and lists of format versions 1 to 3. Reads only to count what an old list did not record."""

    def __init__(self, storage: Storage, reader: TableFormat) -> None:
        self._storage = storage
        self._reader = reader

    def write_manifest(
        self,
        metadata: TableMetadata,
        location: str,
        snapshot: NewSnapshot,
        *,
        spec: PartitionSpec,
        content: ManifestContent,
        entries: Sequence[ManifestEntry],
    ) -> ManifestFile:
        """Write a manifest in the table's format version. Returns its row for the list."""
        form = ManifestForm(
            schema=metadata.schema,
            spec=spec,
            partition_type=spec.partition_type(metadata.any_field_by_id),
            content=content,
            format_version=metadata.format_version,
        )
        data = encode_manifest(entries, form, codec=_codec(metadata))
        self._storage.write_new(location, data)
        return describe_manifest(
            entries,
            form,
            path=location,
            length=len(data),
            snapshot_id=snapshot.snapshot_id,
            sequence_number=snapshot.sequence_number,
        )

    def write_manifest_list(
        self,
        metadata: TableMetadata,
        location: str,
        snapshot: NewSnapshot,
        *,
        new: Sequence[ManifestFile],
        carried: Sequence[ManifestFile],
    ) -> int:
        """Write the list of a snapshot. In v3, row ids are assigned to each data manifest that has none."""
        manifests = (*new, *(self._complete(metadata, manifest) for manifest in carried))
        row_ids = 0
        if snapshot.first_row_id is not None:
            manifests, after = assign_first_row_ids(manifests, snapshot.first_row_id)
            row_ids = after - snapshot.first_row_id
        data = encode_manifest_list(manifests, codec=_codec(metadata), **_form(metadata, snapshot))
        self._storage.write_new(location, data)
        return row_ids

    def extend_manifest_list(
        self,
        metadata: TableMetadata,
        location: str,
        snapshot: NewSnapshot,
        *,
        parent: Snapshot,
        new: Sequence[ManifestFile],
    ) -> ExtendedList | None:
        """Write the parent's list with new rows before it, without decoding it. Returns None if it must be rewritten.

        A list is rewritten if it may have manifests without live files, after a removal of files, or manifests without
        row ids, from an earlier version.
        """
        assigned = metadata.format_version < 3 or parent.first_row_id is not None
        if parent.manifest_list is None or parent.operation != "append" or not assigned:
            return None
        manifests, row_ids = tuple(new), 0
        if snapshot.first_row_id is not None:
            manifests, after = assign_first_row_ids(manifests, snapshot.first_row_id)
            row_ids = after - snapshot.first_row_id
        old = self._storage.read(parent.manifest_list)
        extended = extend_manifest_list(parent.manifest_list, old, manifests, ListForm(**_form(metadata, snapshot)))
        if extended is None or _codec(metadata) != "deflate":
            return None
        self._storage.write_new(location, extended.data)
        return ExtendedList(carried=extended.carried, row_ids=row_ids)

    def _complete(self, metadata: TableMetadata, manifest: ManifestFile) -> ManifestFile:
        """The row with the counts that v2 requires. If a v1 writer did not record them, they are counted in the
        manifest."""
        counts = (manifest.added_files, manifest.existing_files, manifest.deleted_files)
        rows = (manifest.added_rows, manifest.existing_rows, manifest.deleted_rows)
        if metadata.format_version == 1 or None not in (*counts, *rows, manifest.added_snapshot_id):
            return manifest
        files = dict.fromkeys(EntryStatus, 0)
        records = dict.fromkeys(EntryStatus, 0)
        for entries in self._reader.entries(metadata, (manifest,), EntryColumns(rest=False)):
            for status in EntryStatus:
                chosen = entries.status == status
                files[status] += int(chosen.sum())
                records[status] += int(entries.record_count[chosen].sum())
        return replace(
            manifest,
            added_snapshot_id=manifest.added_snapshot_id or 0,
            added_files=files[EntryStatus.ADDED],
            existing_files=files[EntryStatus.EXISTING],
            deleted_files=files[EntryStatus.DELETED],
            added_rows=records[EntryStatus.ADDED],
            existing_rows=records[EntryStatus.EXISTING],
            deleted_rows=records[EntryStatus.DELETED],
        )


def _form(metadata: TableMetadata, snapshot: NewSnapshot) -> dict[str, Any]:
    return {
        "snapshot_id": snapshot.snapshot_id,
        "parent_snapshot_id": snapshot.parent_snapshot_id,
        "sequence_number": snapshot.sequence_number,
        "format_version": metadata.format_version,
        "first_row_id": snapshot.first_row_id,
    }


def _codec(metadata: TableMetadata) -> str:
    """The codec of ``write.avro.compression-codec``. It is for data files, but Iceberg's writers use it for
    manifests too."""
    chosen = metadata.properties.get("write.avro.compression-codec", "gzip").lower()
    if chosen not in _CODECS:
        raise Unsupported(
            f"cannot write manifests: write.avro.compression-codec = {chosen!r} is not supported; choose another codec",
            feature=chosen,
        )
    return _CODECS[chosen]
