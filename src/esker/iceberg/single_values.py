"""Single values as JSON: the defaults of columns (checklist T9, E12).

The held forms are those of `esker.model.values`. A struct is held as pairs of field id and value, a list as a
tuple, a map as pairs of key and value: tuples, so that a field with a default can still be hashed.
Decoding raises ``ValueError`` with what is wrong; the caller knows the file and the column.
"""

from __future__ import annotations

import math
import re
import struct
from decimal import Decimal, InvalidOperation
from typing import Any

from esker.iceberg.iso_times import (
    format_date,
    format_time,
    format_timestamp,
    parse_date,
    parse_time,
    parse_timestamp,
)
from esker.model.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    TimeType,
    Type,
    UuidType,
)
from esker.model.values import from_unscaled, unscaled

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}  # JSON has no numbers for these


def decode_single_value(type_: Type, value: Any) -> Any:
    """The held form of a JSON value; None for null."""
    if value is None:
        return None
    match type_:
        case BooleanType():
            return _of(bool, value, "true or false")
        case IntType() | LongType():
            return _whole(value, bits=32 if isinstance(type_, IntType) else 64)
        case FloatType() | DoubleType():
            return _floating(type_, value)
        case DecimalType():
            return _decimal(type_, value)
        case DateType():
            return parse_date(_of(str, value, "a string"))
        case TimeType():
            return parse_time(_of(str, value, "a string"))
        case TimestampType():
            return parse_timestamp(_of(str, value, "a string"), zoned=type_.zoned, nanos=type_.nanos)
        case StringType():
            return _of(str, value, "a string")
        case UuidType() | FixedType() | BinaryType():
            return _bytes(type_, _of(str, value, "a string"))
        case StructType() | ListType() | MapType():
            return _nested(type_, value)
        case _:
            raise ValueError("only null is possible")


def encode_single_value(type_: Type, value: Any) -> Any:
    """A held value as JSON; null for None."""
    if value is None:
        return None
    match type_:
        case FloatType() | DoubleType() if not math.isfinite(value):
            return next(text for text, held in _NOT_FINITE.items() if str(held) == str(float(value)))
        case DecimalType(scale=scale):
            return str(from_unscaled(unscaled(value, scale), scale))
        case DateType():
            return format_date(value)
        case TimeType():
            return format_time(value)
        case TimestampType():
            return format_timestamp(value, zoned=type_.zoned, nanos=type_.nanos)
        case UuidType():
            text = value.hex()
            return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
        case FixedType() | BinaryType():
            return value.hex()
        case StructType(fields):
            types = {field.id: field.type for field in fields}
            return {str(field_id): encode_single_value(types[field_id], held) for field_id, held in value}
        case ListType():
            return [encode_single_value(type_.element, item) for item in value]
        case MapType():
            return {
                "keys": [encode_single_value(type_.key, key) for key, _ in value],
                "values": [encode_single_value(type_.value, held) for _, held in value],
            }
        case _:
            return value


def _of(kind: type, value: Any, expected: str) -> Any:
    if not isinstance(value, kind):
        raise _unexpected(expected, value)
    return value


def _unexpected(expected: str, value: Any) -> ValueError:
    return ValueError(f"{expected} expected, not {str(value)[:40]!r}")


def _whole(value: Any, *, bits: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _unexpected("a whole number", value)
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ValueError(f"{str(value)[:40]} does not fit into {bits} bits")
    return value


def _floating(type_: Type, value: Any) -> float:
    if isinstance(value, str) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _unexpected("a number", value)
    try:
        form = "<f" if isinstance(type_, FloatType) else "<d"
        held: float = struct.unpack(form, struct.pack(form, value))[0]
    except (OverflowError, struct.error):
        raise ValueError(f"{str(value)[:40]} is too large") from None
    return held


def _decimal(type_: DecimalType, value: Any) -> Decimal:
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise _unexpected("a string", value)
    try:
        number = Decimal(value)
    except InvalidOperation:
        raise ValueError(f"{str(value)[:40]!r} is no number") from None
    # the size first: an exponent of a million must not become a million digits
    if not number.is_finite() or (number.adjusted() >= type_.precision - type_.scale and number != 0):
        raise ValueError(f"{str(value)[:40]} has more than {type_.precision} digits")
    if number == 0:
        return from_unscaled(0, type_.scale)
    if number.adjusted() < -type_.scale - 100:
        raise ValueError(f"{str(value)[:40]} has more than {type_.scale} digits behind the point")
    whole = unscaled(number, type_.scale)
    if from_unscaled(whole, type_.scale) != number:
        raise ValueError(f"{str(value)[:40]} has more than {type_.scale} digits behind the point")
    return from_unscaled(whole, type_.scale)


def _bytes(type_: UuidType | FixedType | BinaryType, text: str) -> bytes:
    if isinstance(type_, UuidType):
        if not _UUID.fullmatch(text):
            raise ValueError(f"{text[:40]!r} is no uuid")
        return bytes.fromhex(text.replace("-", ""))
    try:
        content = bytes.fromhex(text)
    except ValueError:
        raise ValueError(f"{text[:40]!r} is no hex") from None
    if isinstance(type_, FixedType) and len(content) != type_.length:
        raise ValueError(f"{len(content)} bytes where {type_.length} belong")
    return content


def _nested(type_: StructType | ListType | MapType, value: Any) -> tuple[Any, ...]:
    match type_:
        case StructType(fields):
            by_id = {str(field.id): field for field in fields}
            pairs = _of(dict, value, "an object")
            if unknown := next((name for name in pairs if name not in by_id), None):
                raise ValueError(f"the struct has no field {unknown[:40]}")
            return tuple((by_id[id_].id, decode_single_value(by_id[id_].type, item)) for id_, item in pairs.items())
        case ListType():
            return tuple(decode_single_value(type_.element, item) for item in _of(list, value, "an array"))
        case MapType():
            document = _of(dict, value, "an object")
            keys = _of(list, document.get("keys"), "an array of keys")
            values = _of(list, document.get("values"), "an array of values")
            if len(keys) != len(values):
                raise ValueError(f"{len(keys)} keys with {len(values)} values")
            return tuple(
                (decode_single_value(type_.key, key), decode_single_value(type_.value, item))
                for key, item in zip(keys, values, strict=True)
            )
