"""What a Parquet footer says of its row groups, as evidence for the verdict that also prunes whole files."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from esker.arrow.convert import convert
from esker.arrow.file_columns import FileColumn, LeafFinder
from esker.arrow.parquet_footer import ChunkStatistics, RowGroupStatistics
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
    TimestampType,
    TimeType,
    Type,
    UuidType,
)
from esker.model.values import from_unscaled, to_bytes
from esker.tree.manifest import ColumnMetrics


def columns_asked(residual: Bound, schema: Schema, columns: tuple[FileColumn, ...]) -> dict[int, FileColumn]:
    """The file's columns that the filter asks about, by field id, where there is one value of them per row."""
    paths = {id_: schema.path_by_id[id_] for id_ in field_ids(residual) if id_ in schema.path_by_id}
    leaves = LeafFinder(columns)
    found = {id_: leaves.find(path) for id_, path in paths.items()}
    return {id_: column for id_, column in found.items() if column is not None}


def row_group_evidence(
    groups: Sequence[RowGroupStatistics], asked: Mapping[int, FileColumn], schema: Schema
) -> Statistics:
    """Counts and bounds of the columns that the filter asks about, a row per row group."""
    metrics = {id_: _metrics(groups, schema.by_id[id_], column) for id_, column in asked.items()}
    counts = pa.array([group.rows for group in groups], pa.int64())
    return Statistics(schema=schema, rows=len(groups), metrics=metrics, record_count=counts)


def _metrics(groups: Sequence[RowGroupStatistics], field: Field, column: FileColumn) -> ColumnMetrics:
    chunks = [group.columns.get(column.first_leaf, ChunkStatistics()) for group in groups]
    bound = _bound_maker(field.type, column.type)
    pairs = [(bound(chunk.minimum), bound(chunk.maximum)) for chunk in chunks]
    # One side that is NaN, or makes no sense, says that the writer ordered wrongly: then neither counts.
    trusted = [pair if None not in pair else (None, None) for pair in pairs]
    return ColumnMetrics(
        lower=pa.array([low for low, _ in trusted], pa.binary()),
        upper=pa.array([high for _, high in trusted], pa.binary()),
        value_count=pa.array([chunk.value_count for chunk in chunks], pa.int64()),
        null_count=pa.array([chunk.null_count for chunk in chunks], pa.int64()),
        nan_count=pa.nulls(len(chunks), pa.int64()),
    )


BoundMaker = Callable[[Any], bytes | None]


def _bound_maker(type_: Type, held: pa.DataType) -> BoundMaker:
    """From a footer's raw minimum or maximum to single-value bytes of the table's type; None where it cannot be."""

    def make(raw: Any) -> bytes | None:
        if raw is None:
            return None
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
