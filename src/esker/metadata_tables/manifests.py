"""``manifests`` and ``all_manifests``: the rows of manifest lists, with readable bounds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from esker.metadata_tables.human_values import human
from esker.metadata_tables.inspected_table import Subject, int64s
from esker.model.partition_and_sort import PartitionField, PartitionSpec, partition_value_type
from esker.model.values import from_bytes
from esker.tree.manifest_list import FieldSummary, ManifestContent, ManifestFile
from esker.tree.table_metadata import TableMetadata

SUMMARY = pa.struct(
    [
        pa.field("contains_null", pa.bool_(), nullable=False),
        pa.field("contains_nan", pa.bool_()),
        pa.field("lower_bound", pa.string()),
        pa.field("upper_bound", pa.string()),
    ]
)
_COUNTS = (
    #  column in Iceberg's table       what it counts           attribute
    ("added_data_files_count", ManifestContent.DATA, "added_files"),
    ("existing_data_files_count", ManifestContent.DATA, "existing_files"),
    ("deleted_data_files_count", ManifestContent.DATA, "deleted_files"),
    ("added_delete_files_count", ManifestContent.DELETES, "added_files"),
    ("existing_delete_files_count", ManifestContent.DELETES, "existing_files"),
    ("deleted_delete_files_count", ManifestContent.DELETES, "deleted_files"),
)
SCHEMA = pa.schema(
    [
        pa.field("content", pa.int32(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("length", pa.int64(), nullable=False),
        pa.field("partition_spec_id", pa.int32(), nullable=False),
        pa.field("added_snapshot_id", pa.int64()),
        *(pa.field(name, pa.int32()) for name, _, _ in _COUNTS),  # null: a v1 writer did not count
        pa.field("partition_summaries", pa.list_(SUMMARY)),
    ]
)
ALL_SCHEMA = SCHEMA.append(pa.field("reference_snapshot_id", pa.int64(), nullable=False)).append(
    pa.field("key_metadata", pa.binary())
)


def manifests(subject: Subject, snapshot_id: int | None = None) -> pa.Table:
    """The manifests of one snapshot."""
    return pa.Table.from_arrays(_columns(subject.metadata, subject.manifests(snapshot_id)), schema=SCHEMA)


def all_manifests(subject: Subject) -> pa.Table:
    """The manifests of every snapshot. A manifest in several snapshots has a row for each."""
    listed = [(s.snapshot_id, m) for s, found in subject.manifests_of_every_snapshot() for m in found]
    columns = _columns(subject.metadata, [manifest for _, manifest in listed])
    columns.append(int64s([snapshot_id for snapshot_id, _ in listed]))
    columns.append(pa.array([manifest.key_metadata for _, manifest in listed], pa.binary()))
    return pa.Table.from_arrays(columns, schema=ALL_SCHEMA)


def _columns(metadata: TableMetadata, listed: Iterable[ManifestFile]) -> list[pa.Array]:
    rows = list(listed)
    counts = [
        pa.array([getattr(m, attribute) if m.content is content else 0 for m in rows], pa.int32())
        for _, content, attribute in _COUNTS
    ]
    return [
        pa.array([int(m.content) for m in rows], pa.int32()),
        pa.array([m.path for m in rows], pa.string()),
        int64s([m.length for m in rows]),
        pa.array([m.spec_id for m in rows], pa.int32()),
        int64s([m.added_snapshot_id for m in rows]),
        *counts,
        pa.array([_summaries(metadata, m) for m in rows], pa.list_(SUMMARY)),
    ]


def _summaries(metadata: TableMetadata, manifest: ManifestFile) -> list[dict[str, Any]] | None:
    if manifest.partitions is None:
        return None
    spec = metadata.spec_by_id.get(manifest.spec_id, PartitionSpec())
    fields: list[PartitionField | None] = [*spec.fields]
    fields += [None] * (len(manifest.partitions) - len(fields))
    return [_summary(metadata, field, said) for field, said in zip(fields, manifest.partitions, strict=False)]


def _summary(metadata: TableMetadata, field: PartitionField | None, said: FieldSummary) -> dict[str, Any]:
    return {
        "contains_null": said.contains_null,
        "contains_nan": said.contains_nan,
        "lower_bound": readable_bound(metadata, field, said.lower_bound),
        "upper_bound": readable_bound(metadata, field, said.upper_bound),
    }


def readable_bound(metadata: TableMetadata, field: PartitionField | None, bound: bytes | None) -> str | None:
    """A partition bound as text. None if there is no bound, or if its bytes are not of the field's type."""
    if field is None or bound is None:
        return None
    type_ = partition_value_type(field, metadata.any_field_by_id)
    try:
        return human(field.transform, type_, from_bytes(type_, bound))
    except ValueError:
        return None
