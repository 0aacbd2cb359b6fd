"""The ``readable_metrics`` column: the statistics of every column by its name, with bounds as values.

A files table of 100,000 rows and 20 columns has four million bounds. So bounds are decoded in bulk where all bounds of
a column have one width. This is so unless the column's type was promoted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from esker.metadata_tables.inspected_table import Subject
from esker.metadata_tables.partitions import from_held
from esker.model.types import (
    BinaryType,
    BooleanType,
    DateType,
    DoubleType,
    Field,
    FixedType,
    FloatType,
    IntType,
    LongType,
    StringType,
    TimestampType,
    TimeType,
    Type,
    UuidType,
    VariantType,
)
from esker.model.values import from_bytes


def decode_bounds(type_: Type, bounds: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    """The bounds as values. Null if there is no bound, or if its bytes are not of the type."""
    if bounds.null_count == len(bounds):
        return pa.nulls(len(bounds), arrow_type)
    held = _all_at_once(type_, bounds)
    return from_held(_one_by_one(type_, bounds) if held is None else held, arrow_type)


def _all_at_once(type_: Type, bounds: pa.Array) -> pa.Array | None:
    match type_:
        case StringType():
            try:
                return bounds.cast(pa.string())
            except pa.ArrowInvalid:
                return None
        case BinaryType():
            return bounds
        case BooleanType():
            found = _fixed_width(bounds, np.dtype(np.uint8))
            return None if found is None else found.cast(pa.bool_())
        case IntType() | DateType():
            return _fixed_width(bounds, np.dtype("<i4"))
        case LongType() | TimeType() | TimestampType():
            return _fixed_width(bounds, np.dtype("<i8"))
        case FloatType():
            return _fixed_width(bounds, np.dtype("<f4"))
        case DoubleType():
            return _fixed_width(bounds, np.dtype("<f8"))
        case _:
            return None


def _fixed_width(bounds: pa.Array, dtype: np.dtype[Any]) -> pa.Array | None:
    """The bytes as numbers. None unless every bound has the width of the type."""
    dense = bounds.drop_null()
    _, offset_buffer, data = dense.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[dense.offset : dense.offset + len(dense) + 1]
    if (np.diff(offsets) != dtype.itemsize).any():
        return None
    numbers = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]].view(dtype)
    missing = bounds.is_null().to_numpy(zero_copy_only=False)
    spread = np.zeros(len(bounds), dtype)
    spread[~missing] = numbers
    return pa.array(spread, mask=missing)


def _one_by_one(type_: Type, bounds: pa.Array) -> pa.Array:
    values = [None if bound is None else _value(type_, bound) for bound in bounds.to_pylist()]
    held = pa.binary() if isinstance(type_, UuidType | FixedType) else None
    try:
        return pa.array(values, held)
    except (pa.ArrowInvalid, OverflowError):
        return pa.nulls(len(bounds))


def _value(type_: Type, bound: bytes) -> Any:
    try:
        return from_bytes(type_, bound)
    except ValueError:
        return None


# ---------------------------------------------------------------- The readable_metrics column


COUNTS = (
    #  name in the struct     map of the manifest
    ("column_size", "column_sizes"),
    ("value_count", "value_counts"),
    ("null_value_count", "null_counts"),
    ("nan_value_count", "nan_counts"),
)
BOUNDS = (("lower_bound", "lower_bounds"), ("upper_bound", "upper_bounds"))


class MapLookup:
    """A column of maps, indexed to return the values of one key for all rows at once."""

    def __init__(self, maps: pa.Array) -> None:
        keys = maps.keys.to_numpy(zero_copy_only=False)
        offsets = maps.offsets.to_numpy()
        self._items = maps.items
        self._rows = len(maps)
        self._order = np.argsort(keys, kind="stable")
        self._sorted = keys[self._order]
        self._row_of = np.searchsorted(offsets, np.arange(len(keys)), side="right") - 1
        valid = maps.is_valid().to_numpy(zero_copy_only=False)
        self._valid = valid if not valid.all() else None

    def column(self, key: int) -> pa.Array:
        """The value of the key in every row. Null if the map or the key is missing."""
        start, end = np.searchsorted(self._sorted, [key, key + 1])
        at = self._order[start:end]
        rows = self._row_of[at]
        inside = (rows >= 0) & (rows < self._rows)  # the maps of a slice share their keys with rows outside the slice
        at, rows = at[inside], rows[inside]
        index = np.full(self._rows, -1, np.int64)
        index[rows] = at
        if self._valid is not None:
            index[~self._valid] = -1
        return self._items.take(pa.array(index, mask=index < 0))


@dataclass(frozen=True, slots=True)
class ReadableMetrics:
    """The columns of a table's current schema that have statistics, which build the struct."""

    fields: tuple[tuple[str, Field], ...]  # full name and field, sorted by name like in Iceberg
    bound_types: tuple[pa.DataType, ...]

    @classmethod
    def of(cls, subject: Subject) -> ReadableMetrics:
        """Every primitive column at any depth, by its full name."""
        schema = subject.metadata.schema
        leaves = (field for field, type_ in schema.primitives() if not isinstance(type_, VariantType))
        named = tuple(sorted(((schema.name_by_id[f.id], f) for f in leaves), key=lambda pair: pair[0]))
        return cls(named, tuple(subject.arrow_type(field.type) for _, field in named))

    @property
    def field(self) -> pa.Field:
        """The field of the column in a schema."""
        members = [
            pa.field(name, pa.struct(_members(type_)))
            for (name, _), type_ in zip(self.fields, self.bound_types, strict=True)
        ]
        return pa.field("readable_metrics", pa.struct(members))

    def build(self, rows: int, metrics: Mapping[str, pa.Array]) -> pa.Array:
        """The column for files with these statistics maps."""
        lookups = {name: MapLookup(maps) for name, maps in metrics.items()}
        columns = []
        for (_, field), arrow_type in zip(self.fields, self.bound_types, strict=True):
            counts = [_column(lookups, source, field.id, rows, pa.int64()) for _, source in COUNTS]
            bounds = [
                decode_bounds(field.type, _column(lookups, source, field.id, rows, pa.binary()), arrow_type)
                for _, source in BOUNDS
            ]
            columns.append(pa.StructArray.from_arrays([*counts, *bounds], fields=_members(arrow_type)))
        if not columns:
            return pa.array([{}] * rows, self.field.type)
        return pa.StructArray.from_arrays(columns, fields=list(self.field.type))


def _members(bound_type: pa.DataType) -> list[pa.Field]:
    counts = [pa.field(name, pa.int64()) for name, _ in COUNTS]
    return [*counts, *(pa.field(name, bound_type) for name, _ in BOUNDS)]


def _column(lookups: Mapping[str, MapLookup], source: str, key: int, rows: int, type_: pa.DataType) -> pa.Array:
    return lookups[source].column(key) if source in lookups else pa.nulls(rows, type_)
