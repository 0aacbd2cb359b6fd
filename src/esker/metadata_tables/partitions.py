"""``partitions``: files, rows and deletes per partition of one snapshot."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from esker.metadata_tables.held_columns import from_held
from esker.metadata_tables.partition_column import PartitionColumn
from esker.metadata_tables.subject import UTC_MICROS, Subject
from esker.ports.table_format import EntryColumns
from esker.tree.data_file import FileContent
from esker.tree.manifest import Entries

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
    """One row a partition; one row in all, without the partition's columns, where no spec has any."""
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
    """What each file adds to its partition's row."""
    whole = {"rows": live.record_count, "files": np.ones(len(live), np.int64), "bytes": live.file_size}
    columns = {name: pa.array(np.where(live.content == content, whole[what], 0)) for name, content, what in _SUMS}
    ids = live.snapshot_id.to_pylist()
    known = [id_ if id_ in committed else None for id_ in ids]
    columns["updated_ms"] = pa.array([None if id_ is None else committed[id_] for id_ in known], pa.int64())
    columns["updated_by"] = pa.array(known, pa.int64())
    columns["spec_id"] = pa.array(np.full(len(live), live.spec.spec_id, np.int32))
    for at, member in enumerate(shape.members(live)):
        columns[f"key{at}"] = _groupable(member)
    return pa.table(columns)


def _groupable(member: pa.Array) -> pa.Array:
    """A partition member in a form Arrow can group by."""
    if isinstance(member.type, pa.BaseExtensionType):
        return member.storage
    if pa.types.is_null(member.type):
        return pa.nulls(len(member), pa.int8())
    return member


def _grouped(shape: PartitionColumn, contributions: pa.Table) -> pa.Table:
    """Sums per partition; spec and snapshot are those of the newest file, so rows go in order of time."""
    moments = contributions["updated_ms"].fill_null(np.iinfo(np.int64).min).to_numpy()
    ordered = contributions.take(pa.array(np.argsort(moments, kind="stable")))
    keys = [f"key{at}" for at in range(len(shape.ids))]
    newest = [(name, "last") for name in ("spec_id", "updated_ms", "updated_by")]
    sums = [(name, "sum") for name, _, _ in _SUMS]
    grouped = ordered.group_by(keys, use_threads=False).aggregate([*sums, *newest])
    return grouped.rename_columns([name.removesuffix("_sum") for name in grouped.column_names])
