"""The metadata tables of data files, delete files, manifest entries and deleted positions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from esker.errors import InvalidInput
from esker.metadata_tables.inspected_table import Subject
from esker.metadata_tables.partitions import PartitionColumn
from esker.metadata_tables.readable_metrics import ReadableMetrics
from esker.ports.table_format import EntryColumns
from esker.tree.data_file import FileContent
from esker.tree.manifest import Entries
from esker.tree.manifest_list import ManifestContent, ManifestFile

_COUNTS = pa.map_(pa.int32(), pa.int64())
_BOUNDS = pa.map_(pa.int32(), pa.binary())

MAPS = (
    #  column in Iceberg's table    map of the manifest   type
    ("column_sizes", "column_sizes", _COUNTS),
    ("value_counts", "value_counts", _COUNTS),
    ("null_value_counts", "null_counts", _COUNTS),
    ("nan_value_counts", "nan_counts", _COUNTS),
    ("lower_bounds", "lower_bounds", _BOUNDS),
    ("upper_bounds", "upper_bounds", _BOUNDS),
)
REST = (
    #  column in Iceberg's table    attribute of DataFile  type
    ("key_metadata", "key_metadata", pa.binary()),
    ("split_offsets", "split_offsets", pa.list_(pa.int64())),
    ("equality_ids", "equality_ids", pa.list_(pa.int32())),
    ("sort_order_id", "sort_order_id", pa.int32()),
    ("first_row_id", "first_row_id", pa.int64()),
    ("referenced_data_file", "referenced_data_file", pa.string()),
    ("content_offset", "content_offset", pa.int64()),
    ("content_size_in_bytes", "content_size", pa.int64()),
)
STATISTICS = frozenset({"readable_metrics", *(name for name, _, _ in MAPS)})


@dataclass(frozen=True, slots=True)
class ContentFiles:
    """The columns that describe the files of one table: with its partition type, and only the wanted columns."""

    partition: PartitionColumn
    readable: ReadableMetrics
    wanted: frozenset[str] | None  # None: all columns

    @classmethod
    def of(cls, subject: Subject, wanted: Collection[str] | None = None) -> ContentFiles:
        """The columns for that table."""
        names = None if wanted is None else frozenset(wanted)
        return cls(PartitionColumn.of(subject), ReadableMetrics.of(subject), names)

    @property
    def entry_columns(self) -> EntryColumns:
        """What is decoded of the manifests. Statistics are decoded only if a wanted column shows them."""
        every = self.wanted is None
        return EntryColumns(
            full_metrics=every or not STATISTICS.isdisjoint(self.wanted or ()),
            rest=every or any(name in (self.wanted or ()) for name, _, _ in REST),
        )

    def fields(self) -> tuple[pa.Field, ...]:
        """The wanted fields in Iceberg's order, without the readable metrics."""
        every = [
            pa.field("content", pa.int32(), nullable=False),
            pa.field("file_path", pa.string(), nullable=False),
            pa.field("file_format", pa.string(), nullable=False),
            pa.field("spec_id", pa.int32(), nullable=False),
            # Not all readers support an empty struct, so an unpartitioned table does not have this column.
            *([self.partition.field] if self.partition else ()),
            pa.field("record_count", pa.int64(), nullable=False),
            pa.field("file_size_in_bytes", pa.int64(), nullable=False),
            *(pa.field(name, type_) for name, _, type_ in MAPS),
            *(pa.field(name, type_) for name, _, type_ in REST),
        ]
        return tuple(field for field in every if self.wants(field.name))

    def wants(self, name: str) -> bool:
        """Whether a column is wanted."""
        return self.wanted is None or name in self.wanted

    def columns(self, entries: Entries) -> list[pa.Array]:
        """One array per wanted field."""
        builders = _builders(entries)
        builders["partition"] = lambda: self.partition.build(entries)
        return [builders[field.name]() for field in self.fields()]

    def readable_metrics(self, entries: Entries) -> pa.Array:
        """The statistics by column name."""
        return self.readable.build(len(entries), entries.full_metrics or {})


def _builders(entries: Entries) -> dict[str, Callable[[], pa.Array]]:
    rows = len(entries)
    metrics: Mapping[str, pa.Array] = entries.full_metrics or {}

    def given(source: Mapping[str, pa.Array], key: str, type_: pa.DataType) -> Callable[[], pa.Array]:
        return lambda: pa.nulls(rows, type_) if key not in source else _as(source[key], type_)

    return {
        "content": lambda: pa.array(entries.content.astype(np.int32)),
        "file_path": lambda: entries.path,
        "file_format": lambda: pc.utf8_upper(entries.file_format),
        "spec_id": lambda: pa.array(np.full(rows, entries.spec.spec_id, np.int32)),
        "record_count": lambda: pa.array(entries.record_count),
        "file_size_in_bytes": lambda: pa.array(entries.file_size),
        **{name: given(metrics, key, type_) for name, key, type_ in MAPS},
        **{name: given(entries.rest, key, type_) for name, key, type_ in REST},
    }


def _as(array: pa.Array, type_: pa.DataType) -> pa.Array:
    return array if array.type.equals(type_) else array.cast(type_)


# ---------------------------------------------------------------- files, data_files, delete_files and their all_ forms
#
# One row per live file.


Columns = Collection[str] | None


def files(subject: Subject, snapshot_id: int | None = None, columns: Columns = None) -> pa.Table:
    """The data and delete files of one snapshot."""
    return _files_table(subject, subject.manifests(snapshot_id), columns)


def data_files(subject: Subject, snapshot_id: int | None = None, columns: Columns = None) -> pa.Table:
    """The data files of one snapshot."""
    return _files_table(subject, _only(ManifestContent.DATA, subject.manifests(snapshot_id)), columns)


def delete_files(subject: Subject, snapshot_id: int | None = None, columns: Columns = None) -> pa.Table:
    """The delete files of one snapshot."""
    return _files_table(subject, _only(ManifestContent.DELETES, subject.manifests(snapshot_id)), columns)


def all_files(subject: Subject, columns: Columns = None) -> pa.Table:
    """The data and delete files of every snapshot. A file in several manifests has several rows."""
    return _files_table(subject, subject.reachable_manifests(), columns)


def all_data_files(subject: Subject, columns: Columns = None) -> pa.Table:
    """The data files of every snapshot."""
    return _files_table(subject, _only(ManifestContent.DATA, subject.reachable_manifests()), columns)


def all_delete_files(subject: Subject, columns: Columns = None) -> pa.Table:
    """The delete files of every snapshot."""
    return _files_table(subject, _only(ManifestContent.DELETES, subject.reachable_manifests()), columns)


def _only(content: ManifestContent, manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
    return [manifest for manifest in manifests if manifest.content is content]


def _files_table(subject: Subject, manifests: Sequence[ManifestFile], columns: Columns) -> pa.Table:
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
    """Raise `InvalidInput` for column names that the table does not have."""
    unknown = sorted(set(columns or ()) - set(schema.names) - {"partition"})
    if unknown:
        raise InvalidInput(
            f"no column {', '.join(map(repr, unknown))} in this metadata table: its columns are "
            f"{', '.join(schema.names)}",
            column=unknown[0],
        )


# ---------------------------------------------------------------- entries and all_entries
#
# Manifest entries, including those of deleted files.


def entries(subject: Subject, snapshot_id: int | None = None) -> pa.Table:
    """Every entry of one snapshot's manifests."""
    return _entries_table(subject, subject.manifests(snapshot_id))


def all_entries(subject: Subject) -> pa.Table:
    """Every entry of the manifests of all snapshots."""
    return _entries_table(subject, subject.reachable_manifests())


def _entries_table(subject: Subject, manifests: Sequence[ManifestFile]) -> pa.Table:
    shape = ContentFiles.of(subject)
    schema = pa.schema(
        [
            pa.field("status", pa.int32(), nullable=False),
            pa.field("snapshot_id", pa.int64()),
            pa.field("sequence_number", pa.int64()),
            pa.field("file_sequence_number", pa.int64()),
            pa.field("data_file", pa.struct(shape.fields()), nullable=False),
            shape.readable.field,
        ]
    )
    batches = [_batch(shape, schema, batch) for batch in subject.entries(manifests, shape.entry_columns)]
    return pa.Table.from_batches(batches, schema)


def _batch(shape: ContentFiles, schema: pa.Schema, batch: Entries) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array(batch.status.astype(np.int32)),
            batch.snapshot_id,
            pa.array(batch.sequence_number),
            batch.file_sequence_number,
            pa.StructArray.from_arrays(shape.columns(batch), fields=list(shape.fields())),
            shape.readable_metrics(batch),
        ],
        schema=schema,
    )


# ---------------------------------------------------------------- file_changes
#
# Manifests never change, so a manifest that both snapshots list has the same files in both and is not read.


# Several deletion vectors are in one Puffin file. The referenced data file identifies each.
IDENTITY = ("file_path", "referenced_data_file", "content_offset")
COLUMNS = (*IDENTITY, "content", "file_format", "spec_id", "partition", "record_count", "file_size_in_bytes")


def file_changes(subject: Subject, from_snapshot: int | None, to_snapshot: int | None) -> pa.Table:
    """One row per file that only one of the two snapshots has. ``change`` is ``added`` or ``removed``.

    None means the table before its first snapshot. A file that is live in both snapshots, in different manifests, is no
    change.
    """
    before = () if from_snapshot is None else subject.manifests(from_snapshot)
    after = () if to_snapshot is None else subject.manifests(to_snapshot)
    shared = {manifest.path for manifest in before} & {manifest.path for manifest in after}
    shape = ContentFiles.of(subject, COLUMNS)
    old = _live(subject, shape, [m for m in before if m.path not in shared])
    new = _live(subject, shape, [m for m in after if m.path not in shared])
    return pa.concat_tables([_only_in(new, old, "added"), _only_in(old, new, "removed")])


def _live(subject: Subject, shape: ContentFiles, manifests: Sequence[ManifestFile]) -> pa.Table:
    schema = pa.schema(shape.fields())
    manifests = [m for m in manifests if m.may_hold_live_files]
    batches = (batch.take(batch.is_live) for batch in subject.entries(manifests, shape.entry_columns))
    return pa.Table.from_batches((pa.RecordBatch.from_arrays(shape.columns(b), schema=schema) for b in batches), schema)


def _only_in(these: pa.Table, those: pa.Table, change: str) -> pa.Table:
    known = set(_identities(those))
    mine = [at for at, identity in enumerate(_identities(these)) if identity not in known]
    kept = these.take(pa.array(mine, pa.int64()))
    return kept.add_column(
        0, pa.field("change", pa.string(), nullable=False), pa.array([change] * len(kept), pa.string())
    )


def _identities(files: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(files[name].to_pylist() for name in IDENTITY), strict=True)


# ---------------------------------------------------------------- position_deletes
#
# Every deleted position, from position delete files and deletion vectors.


def position_deletes(subject: Subject, snapshot_id: int | None = None) -> pa.Table:
    """One row per deleted position of one snapshot."""
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
                "row": pa.nulls(rows, schema.field("row").type),  # few writers store it, and the spec removed it
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
