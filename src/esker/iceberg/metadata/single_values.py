"""Single values to and from JSON: the defaults of columns (checklist T9, E12). Dates and times are ISO-8601."""

from __future__ import annotations

import math
import re
import struct
from decimal import Decimal, InvalidOperation
from typing import Any

from esker.model.transform import civil_month, days_from_month
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

# ---------------------------------------------------------------- ISO-8601
#
# Python's datetime is limited to the years 1 to 9999 and to microseconds. Iceberg is not, so the text is parsed here.


_DATE = r"([+-]?\d{4,9})-(\d{2})-(\d{2})"
_TIME = r"(\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?"
_ONLY_DATE = re.compile(_DATE, re.ASCII)
_ONLY_TIME = re.compile(_TIME, re.ASCII)
_TIMESTAMP = re.compile(f"{_DATE}T{_TIME}(.*)", re.ASCII)
_UTC = ("+00:00", "-00:00", "Z")
_SECONDS_PER_DAY = 86_400


def parse_date(text: str) -> int:
    """Days from 1970-01-01."""
    match = _ONLY_DATE.fullmatch(text)
    if not match:
        raise ValueError(f"{text[:40]!r} is not a date such as 2007-12-03")
    return _checked(_days(match[1], match[2], match[3]), 32)


def parse_time(text: str) -> int:
    """Microseconds from midnight."""
    match = _ONLY_TIME.fullmatch(text)
    if not match:
        raise ValueError(f"{text[:40]!r} is not a time such as 22:31:08.123456")
    return _ticks(match.groups(), digits=6)


def parse_timestamp(text: str, *, zoned: bool, nanos: bool) -> int:
    """Microseconds or nanoseconds from 1970-01-01T00:00. A zoned timestamp must be in UTC."""
    match = _TIMESTAMP.fullmatch(text)
    if not match:
        raise ValueError(f"{text[:40]!r} is not a timestamp such as 2007-12-03T22:31:08.123456")
    zone = match[8]
    if zoned and zone not in _UTC:
        raise ValueError(f"{text[:40]!r} must be in UTC and end with +00:00")
    if not zoned and zone:
        raise ValueError(f"{text[:40]!r} has a zone, but the type has none")
    digits = 9 if nanos else 6
    days = _days(match[1], match[2], match[3])
    return _checked(days * _SECONDS_PER_DAY * 10**digits + _ticks(match.groups()[3:7], digits=digits), 64)


def format_date(days: int) -> str:
    """The date of that many days from 1970-01-01."""
    year, month = civil_month(days)
    day = days - days_from_month((year - 1970) * 12 + month - 1) + 1
    return f"{_format_year(year)}-{month:02}-{day:02}"


def format_time(micros: int) -> str:
    """The time of day, with six fraction digits."""
    return _format_ticks(micros, digits=6)


def format_timestamp(ticks: int, *, zoned: bool, nanos: bool) -> str:
    """The timestamp, with six or nine fraction digits. A zoned timestamp is in UTC."""
    digits = 9 if nanos else 6
    days, rest = divmod(ticks, _SECONDS_PER_DAY * 10**digits)
    return f"{format_date(days)}T{_format_ticks(rest, digits=digits)}{'+00:00' if zoned else ''}"


def _days(year: str, month: str, day: str) -> int:
    if not 1 <= int(month) <= 12:
        raise ValueError(f"there is no month {month}")
    months = (int(year) - 1970) * 12 + int(month) - 1
    first = days_from_month(months)
    if not 1 <= int(day) <= days_from_month(months + 1) - first:
        raise ValueError(f"{year}-{month} has no day {day}")
    return first + int(day) - 1


def _ticks(parts: tuple[str | None, ...], *, digits: int) -> int:
    hour, minute, second, fraction = (part or "0" for part in parts)
    if int(hour) > 23 or int(minute) > 59 or int(second) > 59:
        raise ValueError(f"there is no time {hour}:{minute}:{second}")
    if fraction[digits:].strip("0"):
        raise ValueError(f"a fraction of {len(fraction)} digits is finer than the type's {digits}")
    seconds = int(hour) * 3600 + int(minute) * 60 + int(second)
    return seconds * 10**digits + int(fraction[:digits].ljust(digits, "0"))


def _checked(number: int, bits: int) -> int:
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError(f"it does not fit {bits} bits")
    return number


def _format_year(year: int) -> str:
    if year < 0:
        return f"-{-year:04}"
    return f"{year:04}" if year <= 9999 else f"+{year}"


def _format_ticks(ticks: int, *, digits: int) -> str:
    seconds, fraction = divmod(ticks, 10**digits)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:0{digits}}"


# ---------------------------------------------------------------- Values
#
# The held forms are those of `esker.model.values`. A struct is pairs of field id and value, a list is a tuple, a map is
# pairs of key and value: tuples, so that a field with a default is hashable. Decoding raises ``ValueError``; the caller
# knows the file and the column.


_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}  # JSON has no such numbers


def decode_single_value(type_: Type, value: Any) -> Any:
    """The held form of a JSON value. None for null."""
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
    """A value as JSON. Null for None."""
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
        raise ValueError(f"{str(value)[:40]!r} is not a number") from None
    # Check the size first: an exponent of a million must not become a million digits.
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
        raise ValueError(f"{type_.length} bytes expected, not {len(content)}")
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
