"""``files``, ``data_files``, ``delete_files`` and their ``all_`` forms: live files, one row each."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa

from esker.errors import InvalidInput
from esker.metadata_tables.content_files import ContentFiles
from esker.metadata_tables.subject import Subject
from esker.tree.manifest_list import ManifestContent, ManifestFile

Columns = Collection[str] | None


def files(subject: Subject, snapshot_id: int | None = None, columns: Columns = None) -> pa.Table:
    """Data and delete files of one snapshot."""
    return _table(subject, subject.manifests(snapshot_id), columns)


def data_files(subject: Subject, snapshot_id: int | None = None, columns: Columns = None) -> pa.Table:
    """Data files of one snapshot."""
    return _table(subject, _only(ManifestContent.DATA, subject.manifests(snapshot_id)), columns)


def delete_files(subject: Subject, snapshot_id: int | None = None, columns: Columns = None) -> pa.Table:
    """Delete files of one snapshot."""
    return _table(subject, _only(ManifestContent.DELETES, subject.manifests(snapshot_id)), columns)


def all_files(subject: Subject, columns: Columns = None) -> pa.Table:
    """Data and delete files of every snapshot; a file that several manifests list has several rows."""
    return _table(subject, subject.reachable_manifests(), columns)


def all_data_files(subject: Subject, columns: Columns = None) -> pa.Table:
    """Data files of every snapshot."""
    return _table(subject, _only(ManifestContent.DATA, subject.reachable_manifests()), columns)


def all_delete_files(subject: Subject, columns: Columns = None) -> pa.Table:
    """Delete files of every snapshot."""
    return _table(subject, _only(ManifestContent.DELETES, subject.reachable_manifests()), columns)


def _only(content: ManifestContent, manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
    return [manifest for manifest in manifests if manifest.content is content]


def _table(subject: Subject, manifests: Sequence[ManifestFile], columns: Columns) -> pa.Table:
    shape = ContentFiles.of(subject, columns)
    with_metrics = shape.wants("readable_metrics")
    schema = pa.schema([*shape.fields(), *([shape.readable.field] if with_metrics else ())])
    check_columns(columns, schema)
    batches = []
    for entries in subject.entries([m for m in manifests if m.may_hold_live_files], shape.entry_columns):
        live = entries.take(entries.is_live)
        arrays = shape.columns(live)
        if with_metrics:
            arrays.append(shape.readable_metrics(live))
        batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return pa.Table.from_batches(batches, schema)


def check_columns(columns: Columns, schema: pa.Schema) -> None:
    """Refuse names that the table does not have."""
    unknown = sorted(set(columns or ()) - set(schema.names) - {"partition"})
    if unknown:
        raise InvalidInput(
            f"no column {', '.join(map(repr, unknown))} in this metadata table: it has {', '.join(schema.names)}",
            column=unknown[0],
        )
