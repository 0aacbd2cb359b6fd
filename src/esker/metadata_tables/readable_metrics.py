"""The ``readable_metrics`` column: the statistics of every column by its name, bounds as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from esker.metadata_tables.bound_columns import decode_bounds
from esker.metadata_tables.subject import Subject
from esker.model.types import Field, VariantType

COUNTS = (
    #  name in the struct     map of the manifest
    ("column_size", "column_sizes"),
    ("value_count", "value_counts"),
    ("null_value_count", "null_counts"),
    ("nan_value_count", "nan_counts"),
)
BOUNDS = (("lower_bound", "lower_bounds"), ("upper_bound", "upper_bounds"))


class MapLookup:
    """A column of maps, arranged to give one key's values for all rows at once."""

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
        """The key's value in every row; null where the map or the key is missing."""
        start, end = np.searchsorted(self._sorted, [key, key + 1])
        at = self._order[start:end]
        rows = self._row_of[at]
        inside = (rows >= 0) & (rows < self._rows)  # a slice's maps share their keys with rows it does not have
        at, rows = at[inside], rows[inside]
        index = np.full(self._rows, -1, np.int64)
        index[rows] = at
        if self._valid is not None:
            index[~self._valid] = -1
        return self._items.take(pa.array(index, mask=index < 0))


@dataclass(frozen=True, slots=True)
class ReadableMetrics:
    """The columns of a table's current schema that have statistics, ready to build the struct."""

    fields: tuple[tuple[str, Field], ...]  # full name and field, in order of name as Iceberg sorts them
    bound_types: tuple[pa.DataType, ...]

    @classmethod
    def of(cls, subject: Subject) -> ReadableMetrics:
        """Every primitive column at any depth, under its full name."""
        schema = subject.metadata.schema
        leaves = (field for field, type_ in schema.primitives() if not isinstance(type_, VariantType))
        named = tuple(sorted(((schema.name_by_id[f.id], f) for f in leaves), key=lambda pair: pair[0]))
        return cls(named, tuple(subject.arrow_type(field.type) for _, field in named))

    @property
    def field(self) -> pa.Field:
        """The column's place in a schema."""
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
