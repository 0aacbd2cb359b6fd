"""Esker's types as Arrow types: the schema in which rows are returned.

Every Arrow field has its Iceberg id as ``PARQUET:field_id``. pyarrow writes and reads this key, so a batch that pyarrow
writes keeps the ids of its columns.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from esker.model.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    Field,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IntType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    TimeType,
    Type,
    UnknownType,
    UuidType,
    VariantType,
)

FIELD_ID = b"PARQUET:field_id"
DOC = b"doc"


def to_arrow_schema(fields: Iterable[Field]) -> pa.Schema:
    """The Arrow schema of these columns."""
    return pa.schema([to_arrow_field(field) for field in fields])


def to_arrow_field(field: Field) -> pa.Field:
    """One column, with its id and its comment as metadata."""
    metadata = {FIELD_ID: str(field.id).encode()}
    if field.doc:
        metadata[DOC] = field.doc.encode()
    return pa.field(field.name, to_arrow(field.type), nullable=not field.required, metadata=metadata)


def to_arrow(type_: Type) -> pa.DataType:
    """The Arrow type for values of this type."""
    match type_:
        case StructType(fields):
            return pa.struct([to_arrow_field(field) for field in fields])
        case ListType():
            return pa.list_(to_arrow_field(type_.element_field))
        case MapType():
            return pa.map_(to_arrow_field(type_.key_field), to_arrow_field(type_.value_field))
        case VariantType():
            return pa.struct(
                [pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)]
            )
        case _:
            return _primitive(type_)


def _primitive(type_: Type) -> pa.DataType:
    match type_:
        case BooleanType():
            return pa.bool_()
        case IntType():
            return pa.int32()
        case LongType():
            return pa.int64()
        case FloatType():
            return pa.float32()
        case DoubleType():
            return pa.float64()
        case DecimalType(precision, scale):
            return pa.decimal128(precision, scale)
        case DateType():
            return pa.date32()
        case TimeType():
            return pa.time64("us")
        case TimestampType(zoned, nanos):
            return pa.timestamp("ns" if nanos else "us", tz="UTC" if zoned else None)
        case StringType():
            return pa.string()
        case UuidType():
            return pa.uuid()
        case FixedType(length):
            return pa.binary(length)
        case BinaryType() | GeometryType() | GeographyType():
            return pa.binary()
        case UnknownType():
            return pa.null()
        case _:
            raise AssertionError(f"{type_} is nested")
