"""``partitions``: files, rows and deletes per partition of one snapshot; and the ``partition`` column of other tables.

The column is one struct for all specs that a table has had. Its values have the types that rows have.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from esker.metadata_tables.inspected_table import UTC_MICROS, Subject
from esker.ports.table_format import EntryColumns
from esker.read.metadata_columns import unified_partition_fields
from esker.tree.data_file import FileContent
from esker.tree.manifest import Entries

# ---------------------------------------------------------------- Partition values as Arrow values


def from_held(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """A column in the held form as ``type_``: whole numbers become dates and times, bytes become uuid and fixed."""
    if array.type.equals(type_):
        return array
    if array.null_count == len(array):
        return pa.nulls(len(array), type_)
    if isinstance(type_, pa.BaseExtensionType):
        return type_.wrap_array(from_held(array, type_.storage_type))
    if pa.types.is_temporal(type_) and pa.types.is_integer(array.type):
        return array.cast(pa.int32() if type_.bit_width == 32 else pa.int64()).cast(type_)
    try:
        return array.cast(type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(len(array), type_)  # another kind of value: null is better than a wrong value


# ---------------------------------------------------------------- The partition column


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """The unified partition type of a table, which builds columns of it."""

    ids: tuple[int, ...]
    arrow_fields: tuple[pa.Field, ...]

    @classmethod
    def of(cls, subject: Subject) -> PartitionColumn:
        """The column for that table."""
        fields = unified_partition_fields(subject.metadata)
        arrow = (pa.field(field.name, subject.arrow_type(field.type)) for field in fields)
        return cls(tuple(field.id for field in fields), tuple(arrow))

    def __bool__(self) -> bool:
        return bool(self.ids)

    @property
    def field(self) -> pa.Field:
        """The field of the column in a schema."""
        return pa.field("partition", pa.struct(self.arrow_fields), nullable=False)

    def members(self, entries: Entries) -> list[pa.Array]:
        """One array per unified field. All null if the spec of the entries does not have the field."""
        own = {field.field_id: column for field, column in zip(entries.spec.fields, entries.partition, strict=True)}
        nothing = pa.nulls(len(entries))
        return [from_held(own.get(id_, nothing), f.type) for id_, f in zip(self.ids, self.arrow_fields, strict=True)]

    def build(self, entries: Entries) -> pa.StructArray:
        """The column for these entries."""
        return pa.StructArray.from_arrays(self.members(entries), fields=list(self.arrow_fields))


# ---------------------------------------------------------------- The partitions table


_SUMS = (
    #  column                           of which files                what is summed
    ("record_count", FileContent.DATA, "rows"),
    ("file_count", FileContent.DATA, "files"),
    ("total_data_file_size_in_bytes", FileContent.DATA, "bytes"),
    ("position_delete_record_count", FileContent.POSITION_DELETES, "rows"),
    ("position_delete_file_count", FileContent.POSITION_DELETES, "files"),
    ("equality_delete_record_count", FileContent.EQUALITY_DELETES, "rows"),
    ("equality_delete_file_count", FileContent.EQUALITY_DELETES, "files"),
)


def partitions(subject: Subject, snapshot_id: int | None = None) -> pa.Table:
    """One row per partition. If no spec has a field, there is one row in all, without the partition's columns."""
    shape = PartitionColumn.of(subject)
    schema = _schema(shape)
    committed = {s.snapshot_id: s.timestamp_ms for s in subject.metadata.snapshots}
    manifests = [m for m in subject.manifests(snapshot_id) if m.may_hold_live_files]
    batches = subject.entries(manifests, EntryColumns(rest=False))
    found = [_contributions(shape, batch.take(batch.is_live), committed) for batch in batches]
    if not found:
        return schema.empty_table()
    grouped = _grouped(shape, pa.concat_tables(found))
    columns = [grouped.column(name).combine_chunks().cast(schema.field(name).type) for name, _, _ in _SUMS]
    columns.append(grouped.column("updated_ms_last").combine_chunks().cast(pa.timestamp("ms", "UTC")).cast(UTC_MICROS))
    columns.append(grouped.column("updated_by_last").combine_chunks())
    if shape:
        keys = [
            from_held(grouped.column(f"key{at}").combine_chunks(), field.type)
            for at, field in enumerate(shape.arrow_fields)
        ]
        columns.insert(0, pa.StructArray.from_arrays(keys, fields=list(shape.arrow_fields)))
        columns.insert(1, grouped.column("spec_id_last").combine_chunks())
    return pa.Table.from_arrays(columns, schema=schema)


def _schema(shape: PartitionColumn) -> pa.Schema:
    whole = {"rows": pa.int64(), "files": pa.int32(), "bytes": pa.int64()}
    fields = [pa.field(name, whole[what], nullable=False) for name, _, what in _SUMS]
    fields.append(pa.field("last_updated_at", UTC_MICROS))
    fields.append(pa.field("last_updated_snapshot_id", pa.int64()))
    if shape:
        fields = [shape.field, pa.field("spec_id", pa.int32(), nullable=False), *fields]
    return pa.schema(fields)


def _contributions(shape: PartitionColumn, live: Entries, committed: dict[int, int]) -> pa.Table:
    """What each file adds to the row of its partition."""
    whole = {"rows": live.record_count, "files": np.ones(len(live), np.int64), "bytes": live.file_size}
    columns = {name: pa.array(np.where(live.content == content, whole[what], 0)) for name, content, what in _SUMS}
    ids = live.snapshot_id.to_pylist()
    known = [id_ if id_ in committed else None for id_ in ids]
    columns["updated_ms"] = pa.array([None if id_ is None else committed[id_] for id_ in known], pa.int64())
    columns["updated_by"] = pa.array(known, pa.int64())
    columns["spec_id"] = pa.array(np.full(len(live), live.spec.spec_id, np.int32))
    for at, member in enumerate(shape.members(live)):
        columns[f"key{at}"] = groupable(member)
    return pa.table(columns)


def groupable(member: pa.Array) -> pa.Array:
    """A partition field in a form that Arrow can group by."""
    if isinstance(member.type, pa.BaseExtensionType):
        return member.storage
    if pa.types.is_null(member.type):
        return pa.nulls(len(member), pa.int8())
    return member


def _grouped(shape: PartitionColumn, contributions: pa.Table) -> pa.Table:
    """Sums per partition. Spec and snapshot are those of the newest file, so the rows are sorted by time first."""
    moments = contributions["updated_ms"].fill_null(np.iinfo(np.int64).min).to_numpy()
    ordered = contributions.take(pa.array(np.argsort(moments, kind="stable")))
    keys = [f"key{at}" for at in range(len(shape.ids))]
    newest = [(name, "last") for name in ("spec_id", "updated_ms", "updated_by")]
    sums = [(name, "sum") for name, _, _ in _SUMS]
    grouped = ordered.group_by(keys, use_threads=False).aggregate([*sums, *newest])
    return grouped.rename_columns([name.removesuffix("_sum") for name in grouped.column_names])
