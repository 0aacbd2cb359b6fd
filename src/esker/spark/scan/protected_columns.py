"""Columns to which Spark must not push a filter, because its reader would drop rows that match.

Spark gives a filter to the Parquet library, which skips whole row groups by their statistics, dictionaries and Bloom
filters. For some columns, the library and Spark do not compare in the same way:

- float and double: the minimum and maximum do not include NaN, which is the largest number in Spark. A dictionary
  distinguishes the two zeros, which are equal in Spark. Files that are known to hold neither are safe
  (``read/prune_manifest.py``).
- a decimal with fewer digits in the file than in the table: Spark cuts the literal to the file's width. Rows are lost,
  or the read fails.
- an instant in milliseconds: Spark cuts the literal to milliseconds, so ``<`` and ``<>`` lose rows.

Above the scan, such a column is an expression with the same value, through which Spark cannot push a filter. So the
protection also applies to filters that a user puts on the frame later.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from esker.arrow.read.file_columns import FileColumn, by_field_id
from esker.model.schema import walk
from esker.model.types import (
    DecimalType,
    Field,
    FloatType,
    ListType,
    MapType,
    StructType,
    TimestampType,
    Type,
    is_floating,
)
from esker.ports.engine import ScanTask
from esker.spark.scan.file_layouts import Layout
from esker.tree.table_metadata import TableMetadata

if TYPE_CHECKING:
    from pyspark.sql import Column

Ids = frozenset[int]


@dataclass(frozen=True, slots=True)
class Protected:
    """Columns to which no filter may be pushed, by the ids of their leaves."""

    ids: Ids = frozenset()
    nan: Ids = frozenset()  # those of them that may hold NaN and are used in the filter

    def __or__(self, other: Protected) -> Protected:
        return Protected(self.ids | other.ids, self.nan | other.nan)


UNPROTECTED = Protected()


@dataclass(frozen=True, slots=True)
class Protection:
    """Which columns of a scan to protect, as far as the table's metadata says."""

    fields: Sequence[Field]
    asked: Ids  # columns that Esker's own condition uses
    floats: Ids
    widened: Ids  # decimals that had, or may have had, fewer digits earlier

    @classmethod
    def of(cls, metadata: TableMetadata, fields: Sequence[Field], asked: Ids) -> Protection:
        """Return the protection for a scan of these columns, with a condition on some of them."""
        leaves = [path[-1] for path in _leaf_paths(fields)]
        return cls(
            fields,
            asked,
            frozenset(f.id for f in leaves if is_floating(f.type)),
            frozenset(f.id for f in leaves if isinstance(f.type, DecimalType) and _may_be_wider(metadata, f, f.type)),
        )

    def of_file(self, task: ScanTask, layout: Layout | None) -> Protected:
        """Return the columns to protect in a file, at any depth. ``layout`` is None if the footer was not read."""
        cut = self.widened if layout is None else cut_columns(self.fields, layout)
        if task.odd_floats is None:
            return Protected(self.floats | cut, self.floats & self.asked)
        nan, zero = self.floats & task.odd_floats.nan, self.floats & task.odd_floats.zero
        return Protected(nan | zero | cut, nan & self.asked)


def cut_columns(fields: Sequence[Field], layout: Layout) -> Ids:
    """Return the columns for which Spark would cut a literal to the type in the file."""
    return frozenset(
        path[-1].id
        for path in _leaf_paths(fields)
        if (held := _held(path, layout.columns)) is not None and _is_cut(path[-1].type, held.type)
    )


def protect(column: Column, field: Field, ids: Ids) -> Column:
    """Return the same values. Columns with these ids are wrapped in expressions through which no filter is pushed."""
    if isinstance(field.type, StructType):
        made = column
        for inner in field.type:
            if any(part.id in ids for part, _ in walk((inner,))):
                name = "`" + inner.name.replace("`", "``") + "`"
                made = made.withField(name, protect(column.getField(inner.name), inner, ids))
        return made
    if field.id not in ids:
        return column
    if not is_floating(field.type):
        return F.greatest(column, column)
    return F.nanvl(column, F.lit(math.nan).cast("float" if isinstance(field.type, FloatType) else "double"))


def _leaf_paths(fields: Iterable[Field]) -> Iterator[tuple[Field, ...]]:
    """Yield the path to each leaf column that has one value per row. Spark pushes filters only to these."""
    for field, path in walk(tuple(fields)):
        if not isinstance(field.type, StructType | ListType | MapType) and all(
            isinstance(part.type, StructType) for part in path[:-1]
        ):
            yield path


def _may_be_wider(metadata: TableMetadata, field: Field, type_: DecimalType) -> bool:
    ids = {schema.schema_id for schema in metadata.schemas}
    if any(id_ not in ids for id_ in range(max(ids, default=0))):
        return True  # a schema is no longer listed, and files may have been written with it
    earlier = (schema.by_id.get(field.id) for schema in metadata.schemas)
    return any(
        isinstance(old.type, DecimalType) and old.type.precision < type_.precision for old in earlier if old is not None
    )


def _held(path: Sequence[Field], columns: tuple[FileColumn, ...]) -> FileColumn | None:
    column: FileColumn | None = None
    for field in path:
        column = by_field_id(columns).get(field.id)
        if column is None:
            return None
        columns = column.children
    return column


def _is_cut(type_: Type, held: pa.DataType) -> bool:
    match type_:
        case DecimalType(precision):
            return pa.types.is_decimal(held) and held.precision < precision
        case TimestampType(zoned=True):
            return pa.types.is_timestamp(held) and held.unit != "us"
        case _:
            return False
