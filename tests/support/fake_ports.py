"""The two ports that metadata tables ask, held in memory: manifests and entries as given, openings counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from esker.metadata_tables.inspect import Inspect
from esker.model.partition_and_sort import PartitionSpec
from esker.model.schema import Schema
from esker.model.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    TimeType,
    Type,
    UuidType,
)
from esker.ports.table_format import EntryColumns
from esker.tree.data_file import DataFile
from esker.tree.manifest import Entries, EntryStatus
from esker.tree.manifest_list import ManifestFile
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata

_MAPS = ("column_sizes", "value_counts", "null_counts", "nan_counts", "lower_bounds", "upper_bounds")
_REST = {
    "key_metadata": pa.binary(),
    "split_offsets": pa.list_(pa.int64()),
    "equality_ids": pa.list_(pa.int32()),
    "sort_order_id": pa.int64(),
    "first_row_id": pa.int64(),
    "referenced_data_file": pa.string(),
    "content_offset": pa.int64(),
    "content_size": pa.int64(),
}


def entries_of(
    manifest: ManifestFile,
    spec: PartitionSpec,
    files: Sequence[DataFile],
    *,
    status: Sequence[EntryStatus] | None = None,
    partition: tuple[pa.Array, ...] | None = None,
) -> Entries:
    """Files as a manifest's entries, all of them added unless said otherwise; partition columns as given."""
    rest = {
        name: pa.array([getattr(f, name) or None for f in files], type_)
        for name, type_ in _REST.items()
        if any(getattr(f, name) for f in files)
    }
    return Entries(
        spec=spec,
        manifests=(manifest,),
        manifest_index=np.zeros(len(files), np.int64),
        status=np.array(status or [EntryStatus.ADDED] * len(files), np.int8),
        content=np.array([f.content for f in files], np.int8),
        snapshot_id=pa.array([f.snapshot_id for f in files], pa.int64()),
        sequence_number=np.array([f.sequence_number for f in files], np.int64),
        file_sequence_number=pa.array([f.file_sequence_number for f in files], pa.int64()),
        path=pa.array([f.path for f in files], pa.string()),
        file_format=pa.array([f.file_format for f in files], pa.string()),
        record_count=np.array([f.record_count for f in files], np.int64),
        file_size=np.array([f.file_size for f in files], np.int64),
        partition=partition
        if partition is not None
        else tuple(pa.array([f.partition[at] for f in files]) for at in range(len(spec.fields))),
        rest=rest,
        full_metrics=_maps(files) if any(f.metrics for f in files) else None,
    )


def _maps(files: Sequence[DataFile]) -> dict[str, pa.Array]:
    found = {}
    for name in _MAPS:
        type_ = pa.map_(pa.int32(), pa.binary() if name.endswith("bounds") else pa.int64())
        found[name] = pa.array(
            [None if f.metrics is None else [*getattr(f.metrics, name).items()] for f in files], type_
        )
    return found


@dataclass
class FakeFormat:
    """Manifests by snapshot id and entries by manifest path; ``opened`` is every manifest asked for, in order."""

    listed: Mapping[int, tuple[ManifestFile, ...]]
    held: Mapping[str, Entries]
    opened: list[str] = field(default_factory=list)
    asked: list[EntryColumns] = field(default_factory=list)

    def manifests(self, metadata: TableMetadata, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        return self.listed.get(snapshot.snapshot_id, ())

    def entries(
        self, metadata: TableMetadata, manifests: Sequence[ManifestFile], columns: EntryColumns
    ) -> Iterator[Entries]:
        self.asked.append(columns)
        for manifest in manifests:
            self.opened.append(manifest.path)
            yield self.held[manifest.path]


@dataclass
class FakeEngine:
    """Arrow types by the book, and position deletes as given."""

    positions: Mapping[str, Sequence[tuple[str, int]]] = field(default_factory=dict)

    def arrow_schema(self, projection: Schema) -> pa.Schema:
        return pa.schema([pa.field(f.name, arrow_type(f.type)) for f in projection])

    def read(self, request: Any) -> Iterator[pa.RecordBatch]:
        raise AssertionError("metadata tables read no rows")

    def deleted_positions(self, data_file: Any, deletes: Any) -> Any:
        raise AssertionError("metadata tables merge no deletes")

    def position_deletes(self, delete: DataFile) -> Iterator[pa.RecordBatch]:
        pairs = self.positions[delete.path]
        yield pa.RecordBatch.from_pydict(
            {"file_path": pa.array([p for p, _ in pairs]), "pos": pa.array([n for _, n in pairs], pa.int64())}
        )


def arrow_type(type_: Type) -> pa.DataType:
    """The Arrow type of an Iceberg type."""
    match type_:
        case DecimalType(precision, scale):
            return pa.decimal128(precision, scale)
        case TimestampType(zoned=zoned, nanos=nanos):
            return pa.timestamp("ns" if nanos else "us", "UTC" if zoned else None)
        case FixedType(length):
            return pa.binary(length)
        case StructType(fields):
            return pa.struct([pa.field(f.name, arrow_type(f.type)) for f in fields])
        case ListType(element=element):
            return pa.list_(arrow_type(element))
        case MapType(key=key, value=value):
            return pa.map_(arrow_type(key), arrow_type(value))
        case _:
            return _PLAIN[type(type_)]


_PLAIN: dict[type, pa.DataType] = {
    BooleanType: pa.bool_(),
    IntType: pa.int32(),
    LongType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    DateType: pa.date32(),
    TimeType: pa.time64("us"),
    StringType: pa.string(),
    UuidType: pa.uuid(),
    BinaryType: pa.binary(),
}


def inspect_of(metadata: TableMetadata, format_: FakeFormat | None = None, engine: FakeEngine | None = None) -> Inspect:
    """An ``Inspect`` over the fakes."""
    return Inspect(
        metadata=metadata,
        metadata_location="memory:t/metadata/v9.metadata.json",
        table_format=format_ or FakeFormat({}, {}),
        engine=engine or FakeEngine(),
    )
