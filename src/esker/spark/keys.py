"""Partition and sort keys as Spark's columns: what brings rows of a partition together, and puts them in order.

A key need not be the transform's value, only equal for equal ones and ordered like them: which partition a row is in
the worker decides. Nothing here depends on the session's time zone.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812  # as everyone knows it
from pyspark.sql.pandas.functions import arrow_udf

from esker.model.schema import Schema
from esker.model.transform import (
    IdentityTransform,
    TimeTransform,
    TimeUnit,
    Transform,
    TruncateTransform,
    VoidTransform,
)
from esker.model.types import (
    BinaryType,
    DoubleType,
    Field,
    FloatType,
    IntType,
    LongType,
    StringType,
    Type,
    UuidType,
)
from esker.spark.bucket_worker import KeyOrder
from esker.spark.ship import shipped

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

_DAY, _HOUR = 86_400_000_000, 3_600_000_000
_WORKER = "esker.spark.bucket_worker"


def keys_of(schema: Schema, frame: StructType, source_id: int, transform: Transform) -> list[Column]:
    """Columns that order rows as the transform of that source does; none where all rows are alike."""
    path = schema.path_by_id[source_id]
    if isinstance(transform, VoidTransform) or (found := _found(frame, path)) is None:
        return []
    column, spark_type = found
    type_ = path[-1].type
    match transform:
        case IdentityTransform():
            return _ordered(column, type_, spark_type.typeName())
        case TimeTransform(unit):
            return [_ordinal(column, spark_type.typeName(), unit)]
        case TruncateTransform(width) if isinstance(type_, IntType | LongType) and width < 1 << 63:
            return [_floor_div(column.cast("bigint"), width)]
        case TruncateTransform(width) if isinstance(type_, StringType):
            return [F.substring(column.cast("string"), 1, min(width, 2**31 - 1)).cast("binary")]
        case TruncateTransform(width) if isinstance(type_, BinaryType):
            return [F.substring(column.cast("binary"), 1, min(width, 2**31 - 1))]
        case _:
            order = KeyOrder(transform=transform, source=type_, column=schema.name_by_id[source_id])
            return [_in_worker(order, column)]


def _found(frame: StructType, path: Sequence[Field]) -> tuple[Column, DataType] | None:
    """The frame's column for a column of the table, matched as ``fit`` matches; None where it is not given."""
    column: Any = None
    type_: Any = frame
    for field in path:
        names = list(type_.names)
        name = field.name if field.name in names else None
        name = name or next((n for n in names if n.casefold() == field.name.casefold()), None)
        if name is None:
            return None
        column = F.col(f"`{name.replace('`', '``')}`") if column is None else column.getField(name)
        type_ = type_[name].dataType
    return column, type_


def _ordered(column: Column, type_: Type, kind: str) -> list[Column]:
    """A column so that Spark's order of it is the spec's."""
    match type_:
        case FloatType() | DoubleType():
            # To Spark the two zeros are equal; their directions tell them apart.
            return [column, F.atan2(column.cast("double"), F.lit(-1.0))]
        case StringType():  # by its bytes, whatever collation the column has
            return [column.cast("string").cast("binary")]
        case UuidType() if kind != "binary":
            return [F.lower(column.cast("string"))]
        case _:
            return [column]


def _ordinal(column: Column, kind: str, unit: TimeUnit) -> Column:
    if unit is TimeUnit.HOUR and kind == "timestamp":
        return _floor_div(F.unix_micros(column), _HOUR)
    day = column.cast("date")  # of a date or of a wall-clock reading, which have no zone
    if kind == "timestamp":
        day = F.date_from_unix_date(_floor_div(F.unix_micros(column), _DAY).cast("int"))
    match unit:
        case TimeUnit.YEAR:
            return F.year(day)
        case TimeUnit.MONTH:
            return F.year(day) * 12 + F.month(day)
        case TimeUnit.DAY:
            return day
        case TimeUnit.HOUR:
            return F.unix_date(day).cast("bigint") * 24 + F.hour(column)


def _floor_div(column: Column, by: int) -> Column:
    """Whole multiples below the number, without a step that may overflow."""
    down = F.when(column % F.lit(by) < 0, F.lit(1)).otherwise(F.lit(0))
    return F.call_function("div", column, F.lit(by)) - down


def _in_worker(order: KeyOrder, column: Column) -> Column:
    compute = shipped(_WORKER, pickle.dumps(order))
    compute.__annotations__ = {"rows": pa.Array, "return": pa.Array}  # how PySpark is told what kind it is
    made: Any = arrow_udf(compute, order.spark_type)
    return made(column)
