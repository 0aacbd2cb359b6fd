"""``position_deletes``: every deleted position, from position delete files and deletion vectors alike."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from esker.metadata_tables.partition_column import PartitionColumn
from esker.metadata_tables.subject import Subject
from esker.ports.table_format import EntryColumns
from esker.tree.data_file import FileContent
from esker.tree.manifest import Entries
from esker.tree.manifest_list import ManifestContent


def position_deletes(subject: Subject, snapshot_id: int | None = None) -> pa.Table:
    """One row a deleted position of one snapshot."""
    shape = PartitionColumn.of(subject)
    schema = _schema(subject, shape)
    listed = subject.manifests(snapshot_id)
    manifests = [m for m in listed if m.content is ManifestContent.DELETES and m.may_hold_live_files]
    batches: list[pa.RecordBatch] = []
    for entries in subject.entries(manifests, EntryColumns()):
        positions = entries.take(entries.is_live & (entries.content == FileContent.POSITION_DELETES))
        batches.extend(_batches(subject, shape, schema, positions))
    return pa.Table.from_batches(batches, schema)


def _schema(subject: Subject, shape: PartitionColumn) -> pa.Schema:
    fields = [
        pa.field("file_path", pa.string(), nullable=False),
        pa.field("pos", pa.int64(), nullable=False),
        pa.field("row", subject.arrow_type(subject.metadata.schema.struct)),
        *([shape.field] if shape else ()),
        pa.field("spec_id", pa.int32(), nullable=False),
        pa.field("delete_file_path", pa.string(), nullable=False),
    ]
    if subject.metadata.format_version >= 3:
        fields += [pa.field("content_offset", pa.int64()), pa.field("content_size_in_bytes", pa.int64())]
    return pa.schema(fields)


def _batches(subject: Subject, shape: PartitionColumn, schema: pa.Schema, entries: Entries) -> Iterator[pa.RecordBatch]:
    for at in range(len(entries)):
        delete = entries.data_file(at)
        one = entries.take(np.array([at]))
        for found in subject.engine.position_deletes(delete):
            rows = found.num_rows
            columns = {
                "file_path": found.column("file_path"),
                "pos": found.column("pos"),
                "row": pa.nulls(rows, schema.field("row").type),  # kept by few writers and dropped by the spec
                "spec_id": pa.array(np.full(rows, delete.spec_id, np.int32)),
                "delete_file_path": _repeated(pa.array([delete.path], pa.string()), rows),
                "content_offset": _repeated(pa.array([delete.content_offset], pa.int64()), rows),
                "content_size_in_bytes": _repeated(pa.array([delete.content_size], pa.int64()), rows),
            }
            if shape:
                columns["partition"] = _repeated(shape.build(one), rows)
            yield pa.RecordBatch.from_arrays([_cast(columns[f.name], f.type) for f in schema], schema=schema)


def _repeated(value: pa.Array, rows: int) -> pa.Array:
    return value.take(pa.array(np.zeros(rows, np.int64)))


def _cast(array: pa.Array, type_: pa.DataType) -> pa.Array:
    return array if array.type.equals(type_) else array.cast(type_)
