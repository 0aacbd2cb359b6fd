"""Rows for data files: their Arrow types, and their values as statistics and keys need them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from esker.errors import InvalidInput, Unsupported
from esker.paimon.metadata.table_schema import TableSchema
from esker.paimon.metadata.types import DataField, DataType

_PLAIN = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIME": pa.time32("ms"),
    "CHAR": pa.string(),
    "VARCHAR": pa.string(),
    "BINARY": pa.binary(),
    "VARBINARY": pa.binary(),
}


def arrow_type(type_: DataType) -> pa.DataType:
    """The Arrow type of a column in a data file. Raises ``Unsupported`` for one that Esker does not write."""
    if type_.root in _PLAIN:
        return _PLAIN[type_.root]
    if type_.root == "DECIMAL":
        return pa.decimal128(type_.digits, type_.scale or 0)
    if type_.is_time_point:
        if type_.digits > 6:
            raise Unsupported(
                f"cannot write a column of {type_.root}({type_.digits}): Esker writes up to 6 digits",
                feature=f"{type_.root}({type_.digits})",
            )
        zone = "UTC" if type_.root == "TIMESTAMP_LTZ" else None
        return pa.timestamp("ms" if type_.digits <= 3 else "us", tz=zone)
    if type_.root == "ROW":
        return pa.struct([_arrow_field(field) for field in type_.fields])
    assert type_.element is not None
    if type_.root == "ARRAY":
        return pa.list_(pa.field("element", arrow_type(type_.element), nullable=type_.element.nullable))
    key, value = (type_.element, DataType(root="INT")) if type_.root == "MULTISET" else (type_.key, type_.element)
    assert key is not None
    return pa.map_(arrow_type(key), pa.field("value", arrow_type(value), nullable=value.nullable))


def _arrow_field(field: DataField) -> pa.Field:
    return pa.field(field.name, arrow_type(field.type), nullable=field.type.nullable)


def conformed(schema: TableSchema, rows: pa.Table) -> pa.Table:
    """Rows with exactly the table's columns, in their order and types. A column that is missing is null.

    Raises ``InvalidInput`` for a column that the table does not have, a value that does not fit, or a null in a column
    that has none.
    """
    unknown = [name for name in rows.column_names if name not in schema.by_name]
    if unknown:
        raise InvalidInput(
            f"cannot write column {unknown[0]!r}: the table has no such column; it has {', '.join(schema.by_name)}",
            column=unknown[0],
        )
    columns = []
    for field in schema.fields:
        wanted = arrow_type(field.type)
        if field.name in rows.column_names:
            column = _cast(field.name, rows[field.name], wanted)
        else:
            column = pa.chunked_array([pa.nulls(rows.num_rows, wanted)])
        if column.null_count and (not field.type.nullable or field.name in schema.primary_keys):
            raise InvalidInput(f"cannot write a null to column {field.name!r}: it is required", column=field.name)
        columns.append(column)
    return pa.table(columns, pa.schema([_arrow_field(field) for field in schema.fields]))


def _cast(name: str, column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_timestamp(wanted) and pa.types.is_timestamp(column.type) and bool(wanted.tz) != bool(column.type.tz):
        raise InvalidInput(
            f"cannot write column {name!r}: it has {column.type}, and the table has {wanted}; give both a zone or none",
            column=name,
        )
    try:
        return column.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInput(f"cannot write column {name!r} as {wanted}: {error}", column=name) from None


def keys_of(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Columns in which equal keys have equal values. In Java's order of keys a negative zero is zero."""
    columns = [rows[name] for name in names]
    return pa.table([pc.add(key, 0.0) if pa.types.is_floating(key.type) else key for key in columns], names=list(names))


def held_values(type_: DataType, values: pa.Array) -> list[Any]:
    """Values of a column in the held form: dates as days, times and timestamps as microseconds."""
    if type_.root == "DATE":
        values = values.cast(pa.int32())
    elif type_.root == "TIME":
        values = pc.multiply(values.cast(pa.int32()).cast(pa.int64()), 1000)
    elif type_.is_time_point:
        numbers = values.cast(pa.int64())
        values = pc.multiply(numbers, 1000) if values.type.unit == "ms" else numbers
    found: list[Any] = values.to_pylist()
    return found


def held_row(types: Sequence[DataType], columns: Sequence[pa.ChunkedArray], at: int) -> tuple[Any, ...]:
    """The values of one row in the held form."""
    return tuple(
        held_values(type_, column.slice(at, 1).combine_chunks())[0]
        for type_, column in zip(types, columns, strict=True)
    )
