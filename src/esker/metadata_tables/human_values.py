"""Partition values as users write them: ``2026-01`` for a month, ``2026-01-31-07`` for an hour."""

from __future__ import annotations

from base64 import b64encode
from typing import Any
from uuid import UUID

from esker.model.transform import TimeTransform, TimeUnit, Transform, civil_month, days_from_month
from esker.model.types import (
    BinaryType,
    BooleanType,
    DateType,
    FixedType,
    TimestampType,
    TimeType,
    Type,
    UuidType,
)


def human(transform: Transform, type_: Type, value: Any) -> str:
    """A partition value as text. Null is ``null``."""
    if value is None:
        return "null"
    match transform:
        case TimeTransform(TimeUnit.YEAR):
            return f"{1970 + value:04d}"
        case TimeTransform(TimeUnit.MONTH):
            return f"{1970 + value // 12:04d}-{value % 12 + 1:02d}"
        case TimeTransform(TimeUnit.HOUR):
            return f"{_day(value // 24)}-{value % 24:02d}"
        case TimeTransform(TimeUnit.DAY):
            return _day(value)
        case _:
            return human_value(type_, value)


def human_value(type_: Type, value: Any) -> str:
    """A value of a type as text."""
    match type_:
        case BooleanType():
            return "true" if value else "false"
        case DateType():
            return _day(value)
        case TimeType():
            return _clock(value, 6)
        case TimestampType(zoned=zoned, nanos=nanos):
            per_day = 86_400 * type_.ticks_per_second
            clock = _clock(value % per_day, 9 if nanos else 6)
            return f"{_day(value // per_day)}T{clock}{'+00:00' if zoned else ''}"
        case UuidType():
            return str(UUID(bytes=value))
        case FixedType() | BinaryType():
            return b64encode(value).decode()
        case _:
            return str(value)


def _day(days: int) -> str:
    """The date of a day number from 1970. Years may have any number of digits."""
    year, month = civil_month(days)
    day = days - days_from_month((year - 1970) * 12 + month - 1) + 1
    return f"{year:04d}-{month:02d}-{day:02d}"


def _clock(ticks: int, digits: int) -> str:
    seconds, fraction = divmod(ticks, 10**digits)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{fraction:0{digits}d}" if fraction else text
