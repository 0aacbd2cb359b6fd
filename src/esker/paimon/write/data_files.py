"""New data files: rows by partition and bucket, in Parquet, with the statistics that a manifest records."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from esker.paimon.manifests.manifest import FileEntry, FileMeta, Kind
from esker.paimon.manifests.manifest_list import NO_STATS, SimpleStats
from esker.paimon.manifests.statistics import (
    WITHOUT_BOUNDS,
    shortened_maximum,
    shortened_minimum,
    simple_stats,
)
from esker.paimon.metadata.layout import Layout
from esker.paimon.metadata.table_schema import TableSchema
from esker.paimon.metadata.types import DataField, DataType
from esker.paimon.rows.binary_row import encode_row
from esker.paimon.rows.bucket import bucket_numbers
from esker.paimon.rows.partition_path import partition_path
from esker.paimon.write.paimon_columns import held_row, held_values
from esker.ports.storage import Storage

KEY = "_KEY_"
SEQUENCE, ROW_KIND = "_SEQUENCE_NUMBER", "_VALUE_KIND"
INSERT, DELETE = 0, 3
UNAWARE = -1
_TEXTS = ("CHAR", "VARCHAR")
_IN_8_BYTES = 18  # digits of a decimal
_COMPRESSION = {"zstd", "snappy", "gzip", "lz4", "none"}


@dataclass(frozen=True, slots=True)
class Place:
    """A bucket of a partition. ``partition`` is a binary row. ``total_buckets`` is how many the partition has, where
    that is not the number of the schema."""

    partition: bytes
    path: str
    bucket: int
    total_buckets: int | None = None


@dataclass(frozen=True, slots=True)
class Portion:
    """The rows of one bucket."""

    place: Place
    rows: pa.Table


def portions(schema: TableSchema, rows: pa.Table) -> Iterator[Portion]:
    """Rows, which have the table's columns, by partition and bucket."""
    if not rows.num_rows:
        return
    buckets = np.zeros(rows.num_rows, np.int32)
    if schema.bucket > 0:
        fields = schema.bucket_fields
        columns = [rows[field.name].combine_chunks() for field in fields]
        buckets = bucket_numbers([field.type for field in fields], columns, schema.bucket)
    keys = pa.table(
        [*(rows[name] for name in schema.partition_keys), pa.array(buckets)],
        names=[*(f"p{at}" for at in range(len(schema.partition_keys))), "bucket"],
    )
    types = [field.type for field in schema.partition_fields]
    for values, at in _groups(keys):
        part = rows.take(at)
        held = held_row(types, [part[name] for name in schema.partition_keys], 0)
        path = partition_path(schema.partition_fields, held, schema.options)
        yield Portion(Place(encode_row(types, held), path, int(values)), part)


def _groups(keys: pa.Table) -> Iterator[tuple[Any, pa.Array]]:
    numbered = keys.append_column("row", pa.array(np.arange(keys.num_rows)))
    grouped = numbered.group_by(keys.column_names, use_threads=False).aggregate([("row", "list")])
    for bucket, rows in zip(grouped["bucket"].to_pylist(), grouped["row_list"].combine_chunks(), strict=True):
        yield bucket, rows.values


# ---------------------------------------------------------------- One file


def new_append_file(
    storage: Storage, schema: TableSchema, layout: Layout, portion: Portion, first_sequence: int, *, source: int = 0
) -> FileEntry:
    """Write rows of a table without a key. ``source`` is 0 for new rows and 1 for a compaction."""
    name, size = _write(storage, schema, layout, portion.place, portion.rows)
    count = portion.rows.num_rows
    return _entry(
        schema,
        portion.place,
        FileMeta(
            name=name,
            size=size,
            rows=count,
            value_stats=_statistics(schema.fields, portion.rows),
            min_sequence=first_sequence,
            max_sequence=first_sequence + count - 1,
            schema_id=schema.id,
            creation_ms=_now_ms(),
            delete_rows=0,
            source=source,
        ),
    )


def new_key_file(
    storage: Storage, schema: TableSchema, layout: Layout, place: Place, versions: pa.Table, *, level: int = 0
) -> FileEntry:
    """Write versions of rows of a table with a key, as ``versions_of`` makes them. The file is sorted by key."""
    keys = schema.key_fields
    order = [(KEY + field.name, "ascending") for field in keys]
    ordered = versions.take(pc.sort_indices(versions, sort_keys=order))
    name, size = _write(storage, schema, layout, place, ordered)
    key_types = [field.type for field in keys]
    key_columns = [ordered[KEY + field.name] for field in keys]
    bounds = pc.min_max(ordered[SEQUENCE]).as_py()
    return _entry(
        schema,
        place,
        FileMeta(
            name=name,
            size=size,
            rows=ordered.num_rows,
            min_key=encode_row(key_types, held_row(key_types, key_columns, 0)),
            max_key=encode_row(key_types, held_row(key_types, key_columns, ordered.num_rows - 1)),
            key_stats=_statistics(keys, ordered, prefix=KEY),
            value_stats=_statistics(schema.fields, ordered),
            min_sequence=bounds["min"],
            max_sequence=bounds["max"],
            schema_id=schema.id,
            level=level,
            creation_ms=_now_ms(),
            delete_rows=pc.sum(pc.greater(ordered[ROW_KIND], 0)).as_py() if level == 0 else 0,
            source=0 if level == 0 else 1,
        ),
    )


def versions_of(schema: TableSchema, rows: pa.Table, *, sequence: int, kind: int) -> pa.Table:
    """Rows with the columns of a file with versions: the key again, the sequence number, and the kind."""
    count = rows.num_rows
    columns: dict[str, Any] = {KEY + field.name: rows[field.name] for field in schema.key_fields}
    columns[SEQUENCE] = pa.array(np.full(count, sequence, np.int64))
    columns[ROW_KIND] = pa.array(np.full(count, kind, np.int8))
    return pa.table(columns | {name: rows[name] for name in rows.column_names}, schema=_versions_schema(schema, rows))


def _versions_schema(schema: TableSchema, rows: pa.Table) -> pa.Schema:
    keys = [
        pa.field(KEY + field.name, rows.schema.field(field.name).type, nullable=False) for field in schema.key_fields
    ]
    own = [pa.field(SEQUENCE, pa.int64(), nullable=False), pa.field(ROW_KIND, pa.int8(), nullable=False)]
    return pa.schema([*keys, *own, *rows.schema])


def _write(storage: Storage, schema: TableSchema, layout: Layout, place: Place, rows: pa.Table) -> tuple[str, int]:
    import pyarrow.parquet as pq

    name = f"data-{uuid4()}-0.parquet"
    location = f"{layout.bucket(place.path, place.bucket)}/{name}"
    asked = schema.option("file.compression", "zstd").strip().lower()
    with storage.open_new(location) as file:
        pq.write_table(
            rows,
            file,
            compression=asked if asked in _COMPRESSION else "zstd",
            use_dictionary=_with_dictionary(rows.schema),
            store_decimal_as_integer=True,
            coerce_timestamps=None,
            write_page_index=False,
            store_schema=False,
        )
    return name, storage.size(location)


def _with_dictionary(columns: pa.Schema) -> bool | list[str]:
    """The columns to encode by a dictionary. Java finds no decimal of more than 18 digits in a dictionary: it looks for
    the shortest bytes of a number there, and would leave out the rows."""
    leaves = [leaf for field in columns for leaf in _leaves(field.name, field.type)]
    plain = [name for name, type_ in leaves if not (pa.types.is_decimal(type_) and type_.precision > _IN_8_BYTES)]
    return True if len(plain) == len(leaves) else plain


def _leaves(path: str, type_: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """The columns of a Parquet file, by their paths in it."""
    if pa.types.is_struct(type_):
        for field in type_:
            yield from _leaves(f"{path}.{field.name}", field.type)
    elif pa.types.is_map(type_):
        yield from _leaves(f"{path}.key_value.key", type_.key_type)
        yield from _leaves(f"{path}.key_value.value", type_.item_type)
    elif pa.types.is_list(type_):
        yield from _leaves(f"{path}.list.element", type_.value_type)
    else:
        yield path, type_


def _entry(schema: TableSchema, place: Place, file: FileMeta) -> FileEntry:
    wanted = schema.bucket if schema.bucket > 0 else UNAWARE
    total = wanted if place.total_buckets is None else place.total_buckets
    return FileEntry(kind=Kind.ADD, partition=place.partition, bucket=place.bucket, total_buckets=total, file=file)


def _now_ms() -> int:
    return int(time.time() * 1000)


# ---------------------------------------------------------------- Statistics


def _statistics(fields: Sequence[DataField], rows: pa.Table, prefix: str = "") -> SimpleStats:
    minima, maxima, nulls = [], [], []
    for field in fields:
        column = rows[prefix + field.name]
        low, high = _bounds(field.type, column)
        minima.append(low)
        maxima.append(high)
        nulls.append(column.null_count)
    return simple_stats([field.type for field in fields], minima, maxima, nulls)


def _bounds(type_: DataType, column: pa.ChunkedArray) -> tuple[Any, Any]:
    """The smallest and the largest value in the held form. None where there is none, or a NaN makes them unknown."""
    if type_.root in WITHOUT_BOUNDS or column.null_count == len(column):
        return None, None
    if type_.root in ("FLOAT", "DOUBLE") and pc.any(pc.is_nan(column)).as_py():
        return None, None
    found = pc.min_max(column)
    low, high = (held_values(type_, pa.array([found[name].as_py()], column.type))[0] for name in ("min", "max"))
    if type_.root in _TEXTS:
        return shortened_minimum(low), shortened_maximum(high)
    return low, high


def partition_statistics(schema: TableSchema, partitions: Sequence[Sequence[Any]]) -> SimpleStats:
    """The statistics of partitions, given as values in the held form."""
    if not schema.partition_keys:
        return NO_STATS
    columns = list(zip(*partitions, strict=True))
    known = [[value for value in column if value is not None] for column in columns]
    return simple_stats(
        [field.type for field in schema.partition_fields],
        [min(values, default=None) for values in known],
        [max(values, default=None) for values in known],
        [len(column) - len(values) for column, values in zip(columns, known, strict=True)],
    )


def next_sequences(files: Sequence[FileEntry]) -> Mapping[tuple[bytes, int], int]:
    """The next sequence number of each bucket that has files."""
    found: dict[tuple[bytes, int], int] = {}
    for entry in files:
        key = (entry.partition, entry.bucket)
        found[key] = max(found.get(key, 0), entry.file.max_sequence + 1)
    return found
