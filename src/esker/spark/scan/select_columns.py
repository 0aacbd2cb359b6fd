"""The last step of a native scan: selects and names columns, and converts them from the stored form to the shown
form."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812

from esker.arrow.read.row_metadata import METADATA_COLUMNS
from esker.model.schema import walk
from esker.model.types import (
    DoubleType,
    Field,
    FloatType,
    ListType,
    MapType,
    StructType,
    Type,
    UnknownType,
    UuidType,
    is_floating,
)
from esker.spark.expressions.column_expressions import each
from esker.spark.expressions.types import comment_of, shown_type
from esker.spark.scan.file_scan import packed_texts
from esker.spark.scan.stored_columns import StoredColumns, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


_DASHES = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))


def shown_column(column: Column, stored: Type, wanted: Field) -> Column:
    """Return the column under its own name, without the metadata that it was read with."""
    return _shown(column, stored, wanted.type, wanted.name).alias(wanted.name, metadata=comment_of(wanted))


def _shown(column: Column, stored: Type, wanted: Type, name: str) -> Column:
    if stored == wanted and not differs(wanted):
        return column
    match stored, wanted:
        case _, UuidType():
            digits = F.lower(F.hex(column))
            parts = [F.substring(digits, start, length) for start, length in _DASHES]
            dashed = [part for pair in zip(parts, [F.lit("-")] * len(parts), strict=True) for part in pair]
            return F.concat(*dashed[:-1])
        case _, UnknownType():
            return F.lit(None)
        case StructType(), StructType():
            return _struct(column, stored, wanted, name)
        case ListType(), ListType():
            return each(column, lambda item: _shown(item, stored.element, wanted.element, name))
        case MapType(), MapType():
            return _map(column, stored, wanted, name)
        case _:
            return column


def _struct(column: Column, stored: StructType, wanted: StructType, name: str) -> Column:
    held = {f.id: f for f in stored}
    members = [
        F.lit(None).cast(shown_type(f.type, f"{name}.{f.name}")).alias(f.name)
        if isinstance(f.type, UnknownType)
        else _shown(column.getField(held[f.id].name), held[f.id].type, f.type, f"{name}.{f.name}").alias(f.name)
        for f in wanted
    ]
    return F.when(column.isNotNull(), F.struct(*members))


def _map(column: Column, stored: MapType, wanted: MapType, name: str) -> Column:
    def value(_: Column, item: Column) -> Column:
        return _shown(item, stored.value, wanted.value, name)

    if not differs(wanted.key) and stored.key == wanted.key:
        return F.transform_values(column, value)
    keys = each(F.map_keys(column), lambda key: _shown(key, stored.key, wanted.key, name))
    values = each(F.map_values(column), lambda item: _shown(item, stored.value, wanted.value, name))
    return F.map_from_arrays(keys, values)


def differs(type_: Type) -> bool:
    """Return whether the type has different stored and shown forms."""
    match type_:
        case UuidType() | UnknownType():
            return True
        case StructType(fields):
            return any(differs(f.type) for f in fields)
        case ListType():
            return differs(type_.element)
        case MapType():
            return differs(type_.key) or differs(type_.value)
        case _:
            return False


# ---------------------------------------------------------------- plain select
#
# Most scans only select and name columns. This takes one call to the JVM. PySpark needs many for each column, which is
# noticeable in a query over eight tables.


def can_select_plainly(columns: StoredColumns, wanted: Sequence[Field]) -> bool:
    """Return whether every column is shown as it is stored. Lineage is not, because rows may inherit it."""
    return all(
        f.id in columns.names
        and f.id not in METADATA_COLUMNS
        and columns.fields[f.id].type == f.type
        and not isinstance(f.type, UnknownType)
        and not differs(f.type)
        and ((f.id in columns.protected and is_floating(f.type)) or not _is_protected(f, columns))
        for f in wanted
    )


def select_plainly(frames: Any, frame: DataFrame, columns: StoredColumns, wanted: Sequence[Field]) -> DataFrame:
    """Return these columns under their names, without the metadata that they were read with.

    ``frames`` is the object of ``FileFrames.java``.
    """
    from pyspark.sql import DataFrame

    texts = []
    for field in wanted:
        nan = _NAN[type(field.type)] if field.id in columns.protected else ""
        texts += [quoted(columns.names[field.id]), field.name, json.dumps(comment_of(field)), nan]
    return DataFrame(frames.columns(frame._jdf, packed_texts(len(wanted), texts)), frame.sparkSession)


def _is_protected(field: Field, columns: StoredColumns) -> bool:
    return any(inner.id in columns.protected for inner, _ in walk((field,)))


_NAN: dict[type[Type], str] = {FloatType: "CAST('NaN' AS FLOAT)", DoubleType: "CAST('NaN' AS DOUBLE)"}
