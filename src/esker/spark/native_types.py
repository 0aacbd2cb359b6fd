"""Whether Spark's own reader makes of a file's column exactly what the table means by it."""

from __future__ import annotations

import pyarrow as pa

from esker.arrow.file_columns import FileColumn, by_field_id
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

_SIGNED = (pa.int8(), pa.int16(), pa.int32())
_VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


def reads_natively(type_: Type, column: FileColumn, file_format: str) -> bool:
    """Whether the reader of that format takes the column for the type, with no value changed."""
    held = _stored(column.type)
    match type_:
        case StructType(fields):
            members = by_field_id(column.children)
            return pa.types.is_struct(held) and all(_member_reads(f, members, file_format) for f in fields)
        case ListType():
            return _is_list(held) and reads_natively(type_.element, column.children[0], file_format)
        case MapType():
            return pa.types.is_map(held) and all(
                reads_natively(part, child, file_format)
                for part, child in zip((type_.key, type_.value), column.children, strict=True)
            )
        case UnknownType():
            return True
        case VariantType():
            return file_format == "parquet" and pa.types.is_struct(held)
        case _:
            return _parquet(type_, held) if file_format == "parquet" else _orc(type_, held)


def _stored(held: pa.DataType) -> pa.DataType:
    """The type in the file, without what its writer noted of its own memory: Arrow's views and dictionaries."""
    if isinstance(held, pa.BaseExtensionType):
        return _stored(held.storage_type)
    if pa.types.is_dictionary(held):
        return _stored(held.value_type)
    return _VIEWS.get(held, held)


def _is_list(held: pa.DataType) -> bool:
    kinds = pa.types
    return any(
        is_so(held) for is_so in (kinds.is_list, kinds.is_large_list, kinds.is_list_view, kinds.is_large_list_view)
    )


def _member_reads(field: Field, members: dict[int, FileColumn], file_format: str) -> bool:
    found = members.get(field.id)
    if found is None:  # null is what the reader gives for it
        return field.initial_default is None and not field.required
    return reads_natively(field.type, found, file_format)


def _parquet(type_: Type, held: pa.DataType) -> bool:
    match type_:
        case BooleanType():
            return pa.types.is_boolean(held)
        case IntType():
            return held in _SIGNED
        case LongType():
            return held in (*_SIGNED, pa.int64())
        case FloatType():
            return held == pa.float32()
        case DoubleType():
            return held in (pa.float32(), pa.float64())
        case DecimalType(precision, scale):
            return pa.types.is_decimal(held) and held.scale == scale and held.precision <= precision
        case DateType():
            return pa.types.is_date32(held)
        case TimeType():
            return held == pa.time64("us")
        case TimestampType(zoned):
            micros = pa.types.is_timestamp(held) and held.unit in ("us", "ms")
            return micros or (pa.types.is_date32(held) and not zoned)
        case StringType() | BinaryType() | GeometryType() | GeographyType():
            return held in (pa.string(), pa.binary(), pa.large_string(), pa.large_binary())
        case UuidType():
            return held in (pa.binary(16), pa.binary())
        case FixedType(length):
            return held in (pa.binary(length), pa.binary())
        case _:
            return False


def _orc(type_: Type, held: pa.DataType) -> bool:
    """Times are left to Arrow: Spark reads them by the zone of its JVM. So are promoted columns."""
    match type_:
        case BooleanType():
            return pa.types.is_boolean(held)
        case IntType():
            return held == pa.int32()
        case LongType():
            return held == pa.int64()
        case FloatType():
            return held == pa.float32()
        case DoubleType():
            return held == pa.float64()
        case DecimalType(precision, scale):
            return pa.types.is_decimal(held) and (held.precision, held.scale) == (precision, scale)
        case StringType():
            return held == pa.string()
        case BinaryType():
            return held == pa.binary()
        case _:
            return False
