"""The columns that describe one file: rows of the files tables, and the ``data_file`` struct of the entries tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from esker.metadata_tables.partition_column import PartitionColumn
from esker.metadata_tables.readable_metrics import ReadableMetrics
from esker.metadata_tables.subject import Subject
from esker.ports.table_format import EntryColumns
from esker.tree.manifest import Entries

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
    """How one table's files are described: with its partition type, and only the columns that are wanted."""

    partition: PartitionColumn
    readable: ReadableMetrics
    wanted: frozenset[str] | None  # None: all of them

    @classmethod
    def of(cls, subject: Subject, wanted: Collection[str] | None = None) -> ContentFiles:
        """The columns for that table."""
        names = None if wanted is None else frozenset(wanted)
        return cls(PartitionColumn.of(subject), ReadableMetrics.of(subject), names)

    @property
    def entry_columns(self) -> EntryColumns:
        """What must be decoded of the manifests: statistics only where a wanted column shows them."""
        every = self.wanted is None
        return EntryColumns(
            full_metrics=every or not STATISTICS.isdisjoint(self.wanted or ()),
            rest=every or any(name in (self.wanted or ()) for name, _, _ in REST),
        )

    def fields(self) -> tuple[pa.Field, ...]:
        """The wanted fields in Iceberg's order, the readable metrics not among them."""
        every = [
            pa.field("content", pa.int32(), nullable=False),
            pa.field("file_path", pa.string(), nullable=False),
            pa.field("file_format", pa.string(), nullable=False),
            pa.field("spec_id", pa.int32(), nullable=False),
            # an empty struct is not always supported, so an unpartitioned table has no such column
            *([self.partition.field] if self.partition else ()),
            pa.field("record_count", pa.int64(), nullable=False),
            pa.field("file_size_in_bytes", pa.int64(), nullable=False),
            *(pa.field(name, type_) for name, _, type_ in MAPS),
            *(pa.field(name, type_) for name, _, type_ in REST),
        ]
        return tuple(field for field in every if self.wants(field.name))

    def wants(self, name: str) -> bool:
        """Whether a column is asked for."""
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
