"""Counts per partition of a snapshot: of all its manifests, or of those that differ from an earlier snapshot.

Manifests never change. So the counts of a snapshot are the counts of an earlier one, plus the live files of the
manifests that only the later one lists, minus those of the manifests that only the earlier one lists. A computation
from nothing is the same with an earlier snapshot that has no manifests.

When a partition was last updated does not follow from live files alone: removing a file updates a partition too. The
manifests that a snapshot wrote record the files that it removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from esker.errors import Corrupt
from esker.metadata_tables.inspected_table import Subject
from esker.metadata_tables.partitions import PartitionColumn, from_held, groupable
from esker.model.schema import Schema
from esker.model.types import INT, LONG, Field, StructType
from esker.ports.table_format import EntryColumns
from esker.read.compare_manifests import differing, live_entries
from esker.read.metadata_columns import unified_partition_fields
from esker.tree.data_file import FileContent
from esker.tree.manifest import Entries, EntryStatus
from esker.tree.manifest_list import ManifestFile
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata
from esker.write.table_changes import ancestors

_COUNTS = (
    #  column                           of which files                 what is added up
    ("data_record_count", FileContent.DATA, "rows"),
    ("data_file_count", FileContent.DATA, "files"),
    ("total_data_file_size_in_bytes", FileContent.DATA, "bytes"),
    ("position_delete_record_count", FileContent.POSITION_DELETES, "rows"),
    ("position_delete_file_count", FileContent.POSITION_DELETES, "not vectors"),
    ("equality_delete_record_count", FileContent.EQUALITY_DELETES, "rows"),
    ("equality_delete_file_count", FileContent.EQUALITY_DELETES, "files"),
    ("dv_count", FileContent.POSITION_DELETES, "vectors"),
)
_NAMES = tuple(name for name, _, _ in _COUNTS)
_LIGHT = EntryColumns(rest=False)
_NEVER = np.iinfo(np.int64).min


def partition_statistics_schema(metadata: TableMetadata) -> Schema:
    """The columns of a partition statistics file, with the spec's ids (checklist T13)."""
    v3 = metadata.format_version >= 3
    fields = [
        Field(id=1, name="partition", type=StructType(unified_partition_fields(metadata)), required=True),
        Field(id=2, name="spec_id", type=INT, required=True),
        Field(id=3, name="data_record_count", type=LONG, required=True),
        Field(id=4, name="data_file_count", type=INT, required=True),
        Field(id=5, name="total_data_file_size_in_bytes", type=LONG, required=True),
        Field(id=6, name="position_delete_record_count", type=LONG, required=v3),
        Field(id=7, name="position_delete_file_count", type=INT, required=v3),
        Field(id=8, name="equality_delete_record_count", type=LONG, required=v3),
        Field(id=9, name="equality_delete_file_count", type=INT, required=v3),
        Field(id=10, name="total_record_count", type=LONG),
        Field(id=11, name="last_updated_at", type=LONG),
        Field(id=12, name="last_updated_snapshot_id", type=LONG),
    ]
    if v3:  # files of an earlier format version do not have it
        fields.append(Field(id=13, name="dv_count", type=INT, required=True, initial_default=0))
    return Schema(fields=tuple(fields))


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """The statistics of an ancestor, from which the counts of a later snapshot are computed."""

    snapshot: Snapshot
    rows: pa.Table  # in the schema of the table now


@dataclass(frozen=True, slots=True)
class PartitionCounts:
    """Computes the rows of a partition statistics file."""

    subject: Subject
    shape: PartitionColumn
    moments: Mapping[int, tuple[int, int]]  # time and sequence number by snapshot id

    @classmethod
    def of(cls, subject: Subject) -> PartitionCounts:
        """For that table."""
        moments = {s.snapshot_id: (s.timestamp_ms, s.sequence_number) for s in subject.metadata.snapshots}
        return cls(subject, PartitionColumn.of(subject), moments)

    def rows(self, snapshot: Snapshot, earlier: Earlier | None = None) -> pa.Table:
        """One row per spec and partition that has files, sorted by partition.

        Raises ``Corrupt`` if the earlier statistics cannot be right.
        """
        metadata, read = self.subject.metadata, self.subject.table_format
        before = () if earlier is None else read.manifests(metadata, earlier.snapshot)
        changed = differing(before, read.manifests(metadata, snapshot))
        parts = [] if earlier is None else [self._of_earlier(earlier.rows)]
        parts += self._of_manifests(changed.after, +1)
        parts += self._of_manifests(changed.before, -1)
        if not parts:
            return self._shown(self._grouped([self._nothing()]))
        grouped = self._grouped(parts)
        removed = list(self._of_removals(snapshot, earlier, grouped))
        if removed:
            grouped = self._grouped([*parts, *removed])
        return self._shown(grouped)

    def _of_manifests(self, manifests: Iterable[ManifestFile], sign: int) -> Iterator[pa.Table]:
        found = self.subject.entries(tuple(manifests), _LIGHT)
        return (self._contributions(entries, sign) for entries in live_entries(found))

    def _of_removals(self, snapshot: Snapshot, earlier: Earlier | None, grouped: pa.Table) -> Iterator[pa.Table]:
        """When snapshots removed files: from the entries of removed files that each of them wrote."""
        metadata, read = self.subject.metadata, self.subject.table_format
        times = grouped["updated_ms"]
        oldest = pc.min(times).as_py() if earlier is None and not times.null_count else None
        for one in ancestors(metadata, snapshot.snapshot_id):
            if earlier is not None and one.snapshot_id == earlier.snapshot.snapshot_id:
                return
            if not _may_have_removed(one) or (oldest is not None and one.timestamp_ms <= oldest):
                continue
            own = [m for m in read.manifests(metadata, one) if m.added_snapshot_id == one.snapshot_id]
            for entries in self.subject.entries([m for m in own if m.deleted_files != 0], _LIGHT):
                by_it = pc.equal(entries.snapshot_id, one.snapshot_id).fill_null(False).to_numpy(zero_copy_only=False)
                gone = entries.take((entries.status == EntryStatus.DELETED) & by_it)
                if len(gone):
                    yield self._contributions(gone, 0)

    def _contributions(self, entries: Entries, sign: int) -> pa.Table:
        """What each file adds to the row of its partition. Files that are taken away have no time."""
        is_vector = pc.equal(entries.file_format, "puffin").to_numpy(zero_copy_only=False)
        whole: dict[str, Any] = {
            "rows": entries.record_count,
            "files": np.ones(len(entries), np.int64),
            "bytes": entries.file_size,
            "vectors": is_vector.astype(np.int64),
            "not vectors": (~is_vector).astype(np.int64),
        }
        columns = {
            name: pa.array(np.where(entries.content == kind, whole[what], 0) * sign) for name, kind, what in _COUNTS
        }
        ids: list[Any] = entries.snapshot_id.to_pylist() if sign >= 0 else [None] * len(entries)
        times = [self.moments.get(id_) for id_ in ids]
        columns["updated_ms"] = pa.array([None if at is None else at[0] for at in times], pa.int64())
        columns["updated_order"] = pa.array([None if at is None else at[1] for at in times], pa.int64())
        columns["updated_by"] = pa.array(
            [None if at is None else id_ for id_, at in zip(ids, times, strict=True)], pa.int64()
        )
        columns["spec_id"] = pa.array(np.full(len(entries), entries.spec.spec_id, np.int32))
        return self._with_keys(columns, self.shape.members(entries))

    def _of_earlier(self, rows: pa.Table) -> pa.Table:
        """The rows of an earlier file. Counts that its writer left out are zero."""
        none = pa.nulls(rows.num_rows, pa.int64())
        columns = {
            name: (rows[name].cast(pa.int64()).fill_null(0) if name in rows.column_names else none.fill_null(0))
            for name in _NAMES
        }
        by = rows["last_updated_snapshot_id"]
        columns["updated_ms"] = rows["last_updated_at"]
        columns["updated_order"] = pa.array([self.moments.get(id_, (0, None))[1] for id_ in by.to_pylist()], pa.int64())
        columns["updated_by"] = by
        columns["spec_id"] = rows["spec_id"]
        partition = rows["partition"].combine_chunks()
        return self._with_keys(columns, [partition.field(at) for at in range(len(self.shape.ids))])

    def _nothing(self) -> pa.Table:
        columns = {name: pa.array([], pa.int64()) for name in (*_NAMES, "updated_ms", "updated_order", "updated_by")}
        columns["spec_id"] = pa.array([], pa.int32())
        return self._with_keys(columns, [pa.array([], field.type) for field in self.shape.arrow_fields])

    def _with_keys(self, columns: dict[str, Any], members: list[pa.Array]) -> pa.Table:
        return pa.table(columns | {f"key{at}": groupable(member) for at, member in enumerate(members)})

    def _grouped(self, parts: list[pa.Table]) -> pa.Table:
        """Sums per spec and partition. Time and snapshot are those of the newest change, so rows are sorted first."""
        rows = pa.concat_tables(parts)
        order = [rows[name].fill_null(_NEVER).to_numpy() for name in ("updated_by", "updated_order", "updated_ms")]
        rows = rows.take(pa.array(np.lexsort(order)))
        keys = ["spec_id", *(f"key{at}" for at in range(len(self.shape.ids)))]
        newest = [(name, "last") for name in ("updated_ms", "updated_by")]
        found = rows.group_by(keys, use_threads=False).aggregate([*((name, "sum") for name in _NAMES), *newest])
        return found.rename_columns([name.removesuffix("_sum").removesuffix("_last") for name in found.column_names])

    def _shown(self, grouped: pa.Table) -> pa.Table:
        """The rows of the file. Partitions without files are left out."""
        counts = np.stack([grouped[name].to_numpy() for name in _NAMES]) if grouped.num_rows else np.zeros((1, 0))
        if (counts < 0).any():
            raise Corrupt("the earlier partition statistics", "a partition would have less than no files")
        grouped = grouped.filter(pa.array((counts != 0).any(axis=0)))
        fields = list(self.shape.arrow_fields)
        members = [from_held(grouped[f"key{at}"].combine_chunks(), field.type) for at, field in enumerate(fields)]
        columns = {"partition": pa.StructArray.from_arrays(members, fields=fields)}
        schema = partition_statistics_schema(self.subject.metadata)
        shown = {"last_updated_at": "updated_ms", "last_updated_snapshot_id": "updated_by"}
        for field in schema.fields[1:]:
            # Iceberg's own incremental computation keeps an older total as it is, so a total would become wrong.
            empty = pa.nulls(grouped.num_rows, pa.int64())
            columns[field.name] = (
                empty if field.name == "total_record_count" else grouped[shown.get(field.name, field.name)]
            )
        made = pa.table(columns).take(_ascending([grouped["spec_id"], *reversed(members)]))
        return made.cast(self.subject.engine.arrow_schema(schema))


def _may_have_removed(snapshot: Snapshot) -> bool:
    """Whether the snapshot may have removed a file. Its summary says so, if it has totals."""
    if snapshot.operation == "append":
        return False
    summary = snapshot.summary
    counted = "total-data-files" in summary and "total-delete-files" in summary
    return not counted or any(key.startswith(("deleted-data-files", "removed-")) for key in summary)


def _ascending(columns: list[Any]) -> pa.Array:
    """The order of the rows by these columns, the last column first. Null comes first, and NaN last."""
    arrays = (column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column for column in columns)
    return pa.array(np.lexsort([_ranks(groupable(array)) for array in arrays]))


def _ranks(array: pa.Array) -> Any:
    """A number per value that sorts like the values."""
    distinct = array.unique().drop_null()
    if pa.types.is_floating(array.type):
        distinct = pa.array(np.sort(distinct.to_numpy()), array.type)
    else:
        distinct = distinct.take(pc.sort_indices(distinct))
    return pc.index_in(array, distinct).fill_null(-1).to_numpy(zero_copy_only=False)
