"""What a Parquet footer says of its row groups, as evidence for the verdict that also prunes whole files."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from esker.arrow.convert import convert
from esker.arrow.file_columns import FileColumn, by_field_id
from esker.errors import EskerError
from esker.model.predicate import Bound, field_ids
from esker.model.schema import Schema
from esker.model.statistics import Statistics
from esker.model.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    Field,
    FixedType,
    FloatType,
    IntType,
    LongType,
    StringType,
    StructType,
    TimestampType,
    TimeType,
    Type,
    UuidType,
)
from esker.model.values import from_unscaled, to_bytes
from esker.tree.manifest import ColumnMetrics


def row_group_statistics(
    metadata: pq.FileMetaData, columns: tuple[FileColumn, ...], residual: Bound, schema: Schema
) -> Statistics:
    """Counts and bounds of the columns that the filter asks about, a row per row group."""
    metrics = {}
    for field_id in field_ids(residual):
        path = schema.path_by_id.get(field_id)
        leaf = None if path is None else _leaf(path, columns)
        if path is not None and leaf is not None:
            metrics[field_id] = _metrics(metadata, path[-1], leaf)
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    counts = pa.array([group.num_rows for group in groups], pa.int64())
    return Statistics(schema=schema, rows=len(groups), metrics=metrics, record_count=counts)


def _leaf(path: tuple[Field, ...], columns: tuple[FileColumn, ...]) -> FileColumn | None:
    """The file's column for a field, where there is one value of it per row."""
    column: FileColumn | None = None
    for depth, field in enumerate(path):
        column = by_field_id(columns).get(field.id)
        if column is None or (depth < len(path) - 1 and not isinstance(field.type, StructType)):
            return None
        columns = column.children
    return None if column is None or column.children else column


def _metrics(metadata: pq.FileMetaData, field: Field, column: FileColumn) -> ColumnMetrics:
    lower, upper, values, nulls = [], [], [], []
    bound = _bound_maker(field.type, column.type)
    for group in range(metadata.num_row_groups):
        chunk = metadata.row_group(group).column(column.first_leaf)
        facts = chunk.statistics if chunk.is_stats_set else None
        trusted = facts is not None and facts.has_min_max  # pyarrow knows which writers got their order wrong
        pair = (bound(facts.min_raw), bound(facts.max_raw)) if facts is not None and trusted else (None, None)
        # One side that is NaN, or makes no sense, says that the writer ordered wrongly: then neither counts.
        lower.append(pair[0] if None not in pair else None)
        upper.append(pair[1] if None not in pair else None)
        values.append(chunk.num_values)
        nulls.append(facts.null_count if facts is not None and facts.has_null_count else None)
    return ColumnMetrics(
        lower=pa.array(lower, pa.binary()),
        upper=pa.array(upper, pa.binary()),
        value_count=pa.array(values, pa.int64()),
        null_count=pa.array(nulls, pa.int64()),
        nan_count=pa.nulls(metadata.num_row_groups, pa.int64()),
    )


BoundMaker = Callable[[Any], bytes | None]


def _bound_maker(type_: Type, held: pa.DataType) -> BoundMaker:
    """From a footer's raw minimum or maximum to single-value bytes of the table's type; None where it cannot be."""

    def make(raw: Any) -> bytes | None:
        try:
            value = _held(raw, type_, held)
            return None if value is None else to_bytes(type_, value)
        except (EskerError, ValueError, TypeError, OverflowError, ArithmeticError, pa.ArrowException):
            return None

    return make


def _held(raw: Any, type_: Type, held: pa.DataType) -> Any:
    match type_:
        case IntType() | LongType() | DateType() | TimeType() | TimestampType():
            return _ticks(raw, type_, held)
        case FloatType() | DoubleType():
            return None if math.isnan(raw) else float(raw)
        case BooleanType():
            return bool(raw)
        case DecimalType(scale=scale):
            if not pa.types.is_decimal(held) or held.scale != scale:
                return None
            return from_unscaled(int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else raw, scale)
        case StringType():
            return bytes(raw).decode()
        case UuidType() | FixedType() | BinaryType():
            return bytes(raw)
        case _:
            return None


def _ticks(raw: Any, type_: Type, held: pa.DataType) -> int | None:
    """An integer as the table counts, through the same conversion that the rows take."""
    if not isinstance(raw, int) or pa.types.is_unsigned_integer(held):
        return None  # INT96 is ordered by no rule that anybody kept; unsigned ones are not by the sign they are given
    width = pa.int32() if held.bit_width == 32 else pa.int64()
    array = pa.array([raw], pa.int64()).cast(width) if held.bit_width >= 32 else pa.array([raw], pa.int64())
    if pa.types.is_temporal(held):
        array = array.view(held)
    found: Sequence[Any] = convert(array, type_, file="", column="").cast(_integers(type_)).to_pylist()
    return int(found[0])


def _integers(type_: Type) -> pa.DataType:
    return pa.int32() if isinstance(type_, IntType | DateType) else pa.int64()
