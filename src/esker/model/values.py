"""Single values: their held form in Python, and their bytes in bounds.

The *held form* is how Esker stores a value: bool, int (int, long, date as days, time as microseconds, timestamps as
microseconds or nanoseconds), float, ``Decimal``, str, and bytes (uuid, fixed, binary). Bounds that were written before
a type promotion have the old width. So bytes are decoded by their length, not only by the current type.
"""

from __future__ import annotations

import struct
from decimal import Context, Decimal
from typing import Any

from esker.errors import InvalidInput
from esker.model.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
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

_WIDE = Context(prec=100)


def unscaled(value: Decimal, scale: int) -> int:
    """The integer that stores a decimal of that scale."""
    return int(value.scaleb(scale, _WIDE).to_integral_value())


def from_unscaled(number: int, scale: int) -> Decimal:
    """The decimal that an integer stores."""
    return Decimal(number).scaleb(-scale, _WIDE)


def int_to_bytes(number: int) -> bytes:
    """Minimal big-endian two's complement: 127 needs one byte, 128 two, -128 one."""
    length = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return number.to_bytes(length, "big", signed=True)


def decimal_to_bytes(value: Decimal, scale: int) -> bytes:
    """The unscaled value of a decimal, minimal big-endian."""
    return int_to_bytes(unscaled(value, scale))


def to_bytes(type_: Type, value: Any) -> bytes:
    """A held value in Iceberg's single-value form, as in bounds. Raises `InvalidInput` if the type has none."""
    match type_:
        case BooleanType():
            return b"\x01" if value else b"\x00"
        case IntType() | DateType():
            return struct.pack("<i", value)
        case LongType() | TimeType() | TimestampType():
            return struct.pack("<q", value)
        case FloatType():
            return struct.pack("<f", value)
        case DoubleType():
            return struct.pack("<d", value)
        case DecimalType(scale=scale):
            return decimal_to_bytes(value, scale)
        case StringType():
            return value.encode()
        case UuidType() | FixedType() | BinaryType():
            return bytes(value)
        case _:
            raise InvalidInput(f"cannot encode a bound: a {type_} has no single-value form", type=str(type_))


def from_bytes(type_: Type, data: bytes) -> Any:
    """The held value of single-value bytes. Raises ``ValueError`` if they cannot be of the type.

    Old bounds of a promoted column are shorter: 4 bytes are an int in ``long``, a float in ``double``, a date in a
    timestamp.
    """
    match type_:
        case BooleanType():
            return _exactly(data, 1)[0] != 0
        case IntType() | DateType():
            # One writer writes 8 bytes for an int bound; the value is still clear.
            return int.from_bytes(_exactly(data, 4, 8), "little", signed=True)
        case LongType() | TimeType():
            return int.from_bytes(_exactly(data, 4, 8), "little", signed=True)
        case TimestampType():
            number = int.from_bytes(_exactly(data, 4, 8), "little", signed=True)
            return number * 86_400 * type_.ticks_per_second if len(data) == 4 else number
        case FloatType() | DoubleType():
            return struct.unpack("<f" if len(_exactly(data, 4, 8)) == 4 else "<d", data)[0]
        case DecimalType(scale=scale):
            if not 1 <= len(data) <= 17:
                raise ValueError(f"{len(data)} bytes cannot be a decimal")
            return from_unscaled(int.from_bytes(data, "big", signed=True), scale)
        case StringType():
            return data.decode()
        case UuidType():
            return bytes(_exactly(data, 16))
        case FixedType(length=length):
            return bytes(_exactly(data, length))
        case BinaryType():
            return bytes(data)
        case _:
            raise ValueError(f"a {type_} has no single-value form")


def _exactly(data: bytes, *lengths: int) -> bytes:
    if len(data) not in lengths:
        raise ValueError(f"{len(data)} bytes where {' or '.join(map(str, lengths))} are expected")
    return data
