"""Distributes a frame's rows before workers write them: over tasks, in order within a task, in Arrow batches.

``write.distribution-mode`` is none, hash (by partition) or range (by partition and sort order). If it is not set, it is
range for a sorted table, hash for a partitioned table, and none otherwise. Within a task, rows come partition by
partition, so that few files are open. If ``write.spark.fanout.enabled`` is set, they come in any order, and the limits
of the writer apply.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
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
from esker.model.types import BinaryType, DoubleType, Field, FloatType, IntType, LongType, StringType, Type, UuidType
from esker.spark.workers.ship import shipped
from esker.spark.workers.transform_worker import KeyOrder
from esker.tree.table_metadata import TableMetadata
from esker.write.properties import switch, whole_number

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType


# ---------------------------------------------------------------- keys
#
# A key only has to be equal for equal values of the transform, and ordered like them. The worker decides which
# partition a row belongs to. No key depends on the session's time zone.


_DAY, _HOUR = 86_400_000_000, 3_600_000_000
_WORKER = "esker.spark.workers.transform_worker"


def keys_of(schema: Schema, frame: StructType, source_id: int, transform: Transform) -> list[Column]:
    """Return columns that order rows as the transform does. Returns none if all rows are equal."""
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
    """Return the frame's column for a column of the table, matched as ``fit`` does.

    Returns None if the frame does not have it.
    """
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
    """Return columns that Spark orders as the Iceberg spec does."""
    match type_:
        case FloatType() | DoubleType():
            # Spark treats the two zeros as equal; atan2 distinguishes them.
            return [column, F.atan2(column.cast("double"), F.lit(-1.0))]
        case StringType():  # by its bytes, for any collation of the column
            return [column.cast("string").cast("binary")]
        case UuidType() if kind != "binary":
            return [F.lower(column.cast("string"))]
        case _:
            return [column]


def _ordinal(column: Column, kind: str, unit: TimeUnit) -> Column:
    if unit is TimeUnit.HOUR and kind == "timestamp":
        return _floor_div(F.unix_micros(column), _HOUR)
    day = column.cast("date")  # a date and a local timestamp have no time zone
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
    """Return the quotient, rounded down, without a step that may overflow."""
    down = F.when(column % F.lit(by) < 0, F.lit(1)).otherwise(F.lit(0))
    return F.call_function("div", column, F.lit(by)) - down


def _in_worker(order: KeyOrder, column: Column) -> Column:
    compute = shipped(_WORKER, pickle.dumps(order))
    compute.__annotations__ = {
        "rows": pa.Array,
        "return": pa.Array,
    }  # PySpark reads its kind from these
    made: Any = arrow_udf(compute, order.spark_type)
    return made(column)


# ---------------------------------------------------------------- rows per batch
#
# By default, Spark limits a batch by bytes. For this, it adds up the sizes of all columns after every row, which takes
# a third more CPU when TPC-H's lineitem is written (19.5 s instead of 14.4 s). So batches are limited by rows, with
# fewer rows if a value may be long, unless the user has set the limit in bytes on the session.


_ROWS, _BYTES = "spark.sql.execution.arrow.maxRecordsPerBatch", "spark.sql.execution.arrow.maxBytesPerBatch"
_NO_BOUND = str(2**31 - 1)
_FIXED, _WITH_TEXT, _WITH_MORE = 16_384, 4_096, 1_024


def batch_settings(session: SparkSession, struct: Any) -> dict[str, str]:
    """Return the session settings for a job whose workers receive rows of this ``StructType``."""
    if session.conf.get(_BYTES, None) is not None:
        return {_ROWS: str(_FIXED)}
    return {_ROWS: str(_rows(struct.jsonValue())), _BYTES: _NO_BOUND}


def _rows(type_: Any) -> int:
    """Return how many rows of a type, in Spark's JSON form, fit into a batch safely."""
    match type_:
        case {"type": "struct", "fields": fields}:
            return min((_rows(field["type"]) for field in fields), default=_FIXED)
        case str() if type_.startswith(("string", "char", "varchar")):
            return _WITH_TEXT
        case str() if type_ not in ("binary", "variant"):
            return _FIXED
        case _:
            return _WITH_MORE


# ---------------------------------------------------------------- layout


_PREFIX = "__esker_key_"
_ADVICE = "write.spark.advisory-partition-size-bytes"


@dataclass(frozen=True, slots=True)
class Key:
    """A column to distribute or to sort by."""

    column: Column
    descending: bool = False
    nulls_last: bool = False


def distribution_mode(metadata: TableMetadata) -> str:
    """Return the distribution mode: none, hash or range."""
    chosen = metadata.properties.get("write.distribution-mode")
    if chosen is not None:
        return chosen.strip().lower()
    if not metadata.sort_order.is_unsorted:
        return "range"
    return "none" if metadata.spec.is_unpartitioned else "hash"


def laid_out(
    frame: DataFrame,
    metadata: TableMetadata,
    schema: Schema,
    *,
    more: Sequence[Key] = (),
    tasks: int | None = None,
) -> DataFrame:
    """Return the frame with its rows distributed and sorted as the table requires.

    ``more`` are keys besides those of the table, and ``tasks`` is how many ranges of rows are made."""
    partition = [
        Key(column)
        for field in metadata.spec.fields
        if field.source_id in schema.by_id
        for column in keys_of(schema, frame.schema, field.source_id, field.transform)
    ]
    order = [
        Key(column, field.descending, field.nulls_last)
        for field in metadata.sort_order.fields
        for column in keys_of(schema, frame.schema, field.source_id, field.transform)
    ]
    keys = [*partition, *order, *more]
    if not keys:
        return frame
    names = [f"{_PREFIX}{at}" for at in range(len(keys))]
    wide = frame.withColumns({name: key.column for name, key in zip(names, keys, strict=True)})
    spread = _spread(wide, distribution_mode(metadata), names, keys, len(partition), tasks)
    fans_out = switch(metadata.properties, "write.spark.fanout.enabled", default=False)
    first = len(partition) if fans_out else 0
    if keys[first:]:
        spread = spread.sortWithinPartitions(*_ordering(names[first:], keys[first:]))
    return spread.drop(*names)


def spread_settings(metadata: TableMetadata) -> dict[str, str]:
    """Return the session settings that the table's properties require."""
    if _ADVICE not in metadata.properties:
        return {}
    size = whole_number(metadata.properties, _ADVICE, 1, at_least=1)
    return {"spark.sql.adaptive.advisoryPartitionSizeInBytes": str(size)}


def _spread(
    frame: DataFrame, mode: str, names: list[str], keys: list[Key], partition: int, tasks: int | None
) -> DataFrame:
    if mode == "range":
        ordering = _ordering(names, keys)
        return frame.repartitionByRange(*ordering) if tasks is None else frame.repartitionByRange(tasks, *ordering)
    if mode == "hash" and partition:
        if frame.sparkSession.conf.get("spark.sql.adaptive.enabled") == "true":
            return frame.hint("rebalance", *names[:partition])  # splits large partitions and joins small ones
        return frame.repartition(*names[:partition])
    return frame


def _ordering(names: list[str], keys: list[Key]) -> list[Column]:
    from pyspark.sql import functions as F  # noqa: N812  # as everyone knows it

    made = []
    for name, key in zip(names, keys, strict=True):
        column = F.col(name)
        if key.descending:
            made.append(column.desc_nulls_last() if key.nulls_last else column.desc_nulls_first())
        else:
            made.append(column.asc_nulls_last() if key.nulls_last else column.asc_nulls_first())
    return made
