"""Partition transforms: from a column's value to a partition value. Also Murmur3, the hash of the bucket transform.

Values are in the held form (`esker.model.values`): dates as days, times and timestamps as ticks. Every transform of
null is null. Time transforms round down: a time before 1970 has a negative day, never day 0. No time zone is involved.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from esker.errors import InvalidInput
from esker.model.types import (
    DATE,
    INT,
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IntType,
    LongType,
    StringType,
    TimestampType,
    TimeType,
    Type,
    UnknownType,
    UuidType,
    VariantType,
    is_nested,
)
from esker.model.values import decimal_to_bytes, from_unscaled, unscaled

# ---------------------------------------------------------------- Murmur3, 32 bits, seed 0
#
# In C if mmh3 is installed; a Spark executor need not have it.


try:
    from mmh3 import hash as _in_c
except ImportError:  # an executor has pyarrow and numpy, and the modules that were sent to it
    _in_c = None  # type: ignore[assignment]

_C1, _C2, _ALL = 0xCC9E2D51, 0x1B873593, 0xFFFFFFFF


def murmur3(data: bytes) -> int:
    """The hash as an unsigned number."""
    return _in_c(data, 0, signed=False) if _in_c is not None else murmur3_in_python(data)


def murmur3_in_python(data: bytes) -> int:
    """The same hash, in Python."""
    state = 0
    whole = len(data) & ~3
    for start in range(0, whole, 4):
        state ^= _scrambled(int.from_bytes(data[start : start + 4], "little"))
        state = (_rotated(state, 13) * 5 + 0xE6546B64) & _ALL
    if whole < len(data):
        state ^= _scrambled(int.from_bytes(data[whole:], "little"))
    state ^= len(data)
    state = ((state ^ (state >> 16)) * 0x85EBCA6B) & _ALL
    state = ((state ^ (state >> 13)) * 0xC2B2AE35) & _ALL
    return state ^ (state >> 16)


def _scrambled(word: int) -> int:
    return (_rotated((word * _C1) & _ALL, 15) * _C2) & _ALL


def _rotated(word: int, by: int) -> int:
    return ((word << by) | (word >> (32 - by))) & _ALL


# ---------------------------------------------------------------- Transforms


SECONDS_PER_DAY = 86_400


class TimeUnit(Enum):
    """The unit of a time transform. The value is its name in metadata."""

    YEAR = "year"
    MONTH = "month"
    DAY = "day"
    HOUR = "hour"


@dataclass(frozen=True, slots=True)
class IdentityTransform:
    """The value itself."""

    def __str__(self) -> str:
        return "identity"


@dataclass(frozen=True, slots=True)
class BucketTransform:
    """The hash of the value, modulo ``buckets``."""

    buckets: int

    def __str__(self) -> str:
        return f"bucket[{self.buckets}]"


@dataclass(frozen=True, slots=True)
class TruncateTransform:
    """The value cut to ``width``: characters, bytes, or the multiple of ``width`` below a number."""

    width: int

    def __str__(self) -> str:
        return f"truncate[{self.width}]"


@dataclass(frozen=True, slots=True)
class TimeTransform:
    """Years, months, days or hours from 1970."""

    unit: TimeUnit

    def __str__(self) -> str:
        return self.unit.value


@dataclass(frozen=True, slots=True)
class VoidTransform:
    """Always null: a dropped partition field that keeps its position (v1)."""

    def __str__(self) -> str:
        return "void"


@dataclass(frozen=True, slots=True)
class UnknownTransform:
    """A transform that this version does not know. Tables with it can be read, but not written."""

    text: str

    def __str__(self) -> str:
        return self.text


Transform: TypeAlias = (
    IdentityTransform | BucketTransform | TruncateTransform | TimeTransform | VoidTransform | UnknownTransform
)

IDENTITY, VOID = IdentityTransform(), VoidTransform()
YEAR, MONTH, DAY, HOUR = (TimeTransform(unit) for unit in TimeUnit)

_LARGEST_SIZE = (1 << 31) - 1  # other engines read it as an integer of 32 bits
_PARAMETERISED = re.compile(r"\s*(bucket|truncate)\s*\[\s*(\d+)\s*\]\s*", re.IGNORECASE)


def parse_transform(text: str) -> Transform:
    """The transform with that name in metadata. An unknown one is kept as text."""
    folded = text.strip().lower()
    if folded == "identity":
        return IDENTITY
    if folded == "void":
        return VOID
    if folded in {unit.value for unit in TimeUnit}:
        return TimeTransform(TimeUnit(folded))
    if (match := _PARAMETERISED.fullmatch(text)) and len(match[2]) <= 10:
        size = int(match[2])
        if 0 < size <= _LARGEST_SIZE:
            return BucketTransform(size) if match[1].lower() == "bucket" else TruncateTransform(size)
    return UnknownTransform(text)


def accepts(transform: Transform, source: Type) -> bool:
    """Whether the spec allows the transform on a column of that type."""
    match transform:
        case IdentityTransform():
            return not is_nested(source) and not isinstance(source, GeometryType | GeographyType | VariantType)
        case BucketTransform():
            return not is_nested(source) and not isinstance(
                source,
                BooleanType | FloatType | DoubleType | UnknownType | VariantType | GeometryType | GeographyType,
            )
        case TruncateTransform():
            return isinstance(source, IntType | LongType | DecimalType | StringType | BinaryType)
        case TimeTransform(TimeUnit.HOUR):
            return isinstance(source, TimestampType)
        case TimeTransform():
            return isinstance(source, DateType | TimestampType)
        case VoidTransform() | UnknownTransform():
            return True


def result_type(transform: Transform, source: Type) -> Type:
    """The type of the partition values. ``day`` gives a date, which old writers record as an int."""
    match transform:
        case BucketTransform() | TimeTransform(TimeUnit.YEAR | TimeUnit.MONTH | TimeUnit.HOUR):
            return INT
        case TimeTransform():
            return DATE
        case IdentityTransform() | TruncateTransform() | VoidTransform() | UnknownTransform():
            return source


def apply_transform(transform: Transform, source: Type, value: Any) -> Any:
    """The partition value of one held value. Raises `InvalidInput` for an unknown transform."""
    if value is None:
        return None
    match transform:
        case IdentityTransform():
            return value
        case VoidTransform():
            return None
        case BucketTransform(buckets):
            return (bucket_hash(source, value) & 0x7FFFFFFF) % buckets
        case TruncateTransform(width):
            return truncate(source, width, value)
        case TimeTransform(unit):
            return time_ordinal(unit, source, value)
        case UnknownTransform(text):
            raise InvalidInput(f"cannot compute the unknown partition transform {text!r}", transform=text)


def bucket_hash(source: Type, value: Any) -> int:
    """The 32-bit Murmur3 hash of a held value as in the spec, signed."""
    match source:
        case IntType() | LongType() | DateType() | TimeType():
            data = int(value).to_bytes(8, "little", signed=True)
        case TimestampType(nanos=nanos):
            data = (int(value) // 1000 if nanos else int(value)).to_bytes(8, "little", signed=True)
        case DecimalType(scale=scale):
            data = decimal_to_bytes(value, scale)
        case StringType():
            data = value.encode()
        case UuidType() | FixedType() | BinaryType():
            data = bytes(value)
        case _:
            raise InvalidInput(f"cannot use bucket on a column of type {source}", type=str(source))
    unsigned = murmur3(data)
    return unsigned - (1 << 32) if unsigned >> 31 else unsigned


def truncate(source: Type, width: int, value: Any) -> Any:
    """The value cut to ``width``. Numbers round down, strings count code points, binary counts bytes."""
    match source:
        case IntType() | LongType():
            return value - value % width
        case DecimalType(scale=scale):
            whole = unscaled(value, scale)
            return from_unscaled(whole - whole % width, scale)
        case StringType() | BinaryType():
            return value[:width]
        case _:
            raise InvalidInput(f"cannot use truncate on a column of type {source}", type=str(source))


def time_ordinal(unit: TimeUnit, source: Type, value: int) -> int:
    """Whole units from 1970, rounded down."""
    if isinstance(source, TimestampType):
        if unit is TimeUnit.HOUR:
            return value // (3600 * source.ticks_per_second)
        days = value // (SECONDS_PER_DAY * source.ticks_per_second)
    else:
        days = value
    if unit is TimeUnit.DAY:
        return days
    year, month = civil_month(days)
    return year - 1970 if unit is TimeUnit.YEAR else (year - 1970) * 12 + month - 1


def civil_month(days: int) -> tuple[int, int]:
    """Year and month of a day number from 1970, in the proleptic Gregorian calendar without limits."""
    shifted = days + 719468
    era, day_of_era = divmod(shifted, 146097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * day_of_year + 2) // 153
    month = month + 3 if month < 10 else month - 9
    return year_of_era + era * 400 + (month <= 2), month


def days_from_month(months: int) -> int:
    """The first day of a month number from 1970-01."""
    year, month = divmod(months, 12)
    year, month = year + 1970, month + 1
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * 146097 + day_of_era - 719468
