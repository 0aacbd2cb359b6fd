"""Literals: from Python values, and from text as Spark reads it under ANSI rules with the session in UTC."""

from __future__ import annotations

import datetime
import math
import re
import uuid
from decimal import Decimal
from typing import Any, NamedTuple

from esker.errors import InvalidInput
from esker.model.predicates.unbound_predicate import Literal
from esker.model.transform import days_from_month
from esker.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    LONG,
    STRING,
    TIME,
    TIMESTAMP_NS,
    TIMESTAMPTZ_NS,
    UUID,
    DecimalType,
)

# ---------------------------------------------------------------- Text
#
# Every function returns a held value, and raises ``ValueError`` with the reason if the text is not valid. Times and
# timestamps are in nanoseconds, so that nothing is lost before the unit of the column is known.


NANOS_PER_SECOND = 1_000_000_000
NANOS_PER_DAY = 86_400 * NANOS_PER_SECOND

_DATE = r"(?P<year>[+-]?\d{4,7})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})"
_TIME = r"(?P<hour>\d{1,2})(?::(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?:\.(?P<fraction>\d{0,30}))?)?)?"
_DATE_TEXT = re.compile(_DATE + r"(?:[ T].*)?)?)?", re.DOTALL)
_TIME_TEXT = re.compile(_TIME)
_TIMESTAMP_TEXT = re.compile(_DATE + rf"(?:[ T]{_TIME}\s*(?P<zone>[A-Za-z+-][\w/+:-]*)?)?)?)?")
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?(?P<sign>[+-])(?P<hour>\d{1,2})(?::?(?P<minute>\d{2})(?::?(?P<second>\d{2}))?)?")
_TRUE, _FALSE = frozenset(("true", "t", "yes", "y", "1")), frozenset(("false", "f", "no", "n", "0"))


class Moment(NamedTuple):
    """A timestamp as read: the local time, and its offset from UTC if the text has one."""

    wall: int  # nanoseconds from 1970
    ahead: int | None

    @property
    def instant(self) -> int:
        """Nanoseconds from 1970 in UTC. A text without a zone is in UTC."""
        return self.wall - (self.ahead or 0)


def read_date(text: str) -> int:
    """Days from 1970. A time of day after the date is ignored."""
    match = _DATE_TEXT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{_shown(text)} is not a date")
    return _days(match, text)


def read_timestamp(text: str) -> Moment:
    """Date, time of day and zone. Everything after the year may be omitted, from the end on."""
    match = _TIMESTAMP_TEXT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{_shown(text)} is not a timestamp")
    days = _days(match, text)
    wall = days * NANOS_PER_DAY + (_time_of_day(match, text) if match["hour"] else 0)
    return Moment(wall, None if match["zone"] is None else _ahead(match["zone"], wall))


def read_time(text: str) -> int:
    """Nanoseconds from midnight."""
    match = _TIME_TEXT.fullmatch(text.strip())
    if match is None or match["minute"] is None:
        raise ValueError(f"{_shown(text)} is not a time of day")
    return _time_of_day(match, text)


def read_boolean(text: str) -> bool:
    """The words and letters that Spark accepts for true and false."""
    folded = text.strip().lower()
    if folded in _TRUE or folded in _FALSE:
        return folded in _TRUE
    raise ValueError(f"{_shown(text)} is not a boolean")


def read_integer(text: str) -> int:
    """A whole number without a point or exponent."""
    if not re.fullmatch(r"[+-]?\d{1,400}", text.strip(), re.ASCII):
        raise ValueError(f"{_shown(text)} is not a whole number")
    return int(text)


def read_double(text: str) -> float:
    """A number, NaN or infinity."""
    folded = text.strip().lower()
    if not re.fullmatch(r"[+-]?(\d+\.?\d*(e[+-]?\d+)?|\.\d+(e[+-]?\d+)?|inf|infinity|nan)", folded, re.ASCII):
        raise ValueError(f"{_shown(text)} is not a number")
    value = float(folded)
    return math.nan if math.isnan(value) else value


def read_uuid(text: str) -> bytes:
    """The sixteen bytes."""
    try:
        return uuid.UUID(text.strip()).bytes
    except ValueError:
        raise ValueError(f"{_shown(text)} is not a uuid") from None


def days_of(year: int, month: int, day: int) -> int:
    """Days from 1970 to a date of the proleptic Gregorian calendar. Raises ``ValueError`` if there is no such day."""
    if not 1 <= month <= 12:
        raise ValueError(f"there is no month {month}")
    first = days_from_month((year - 1970) * 12 + month - 1)
    if not 1 <= day <= days_from_month((year - 1970) * 12 + month) - first:
        raise ValueError(f"month {month} of {year} has no day {day}")
    return first + day - 1


def _days(match: re.Match[str], text: str) -> int:
    try:
        return days_of(int(match["year"]), int(match["month"] or 1), int(match["day"] or 1))
    except ValueError as error:
        raise ValueError(f"{_shown(text)} is not a date: {error}") from None


def _time_of_day(match: re.Match[str], text: str) -> int:
    hour, minute, second = int(match["hour"]), int(match["minute"] or 0), int(match["second"] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"{_shown(text)} has no valid time of day")
    fraction = int(((match["fraction"] or "") + "0" * 9)[:9])
    return ((hour * 60 + minute) * 60 + second) * NANOS_PER_SECOND + fraction


def _ahead(zone: str, wall: int) -> int:
    """The offset of a zone from UTC in nanoseconds, at the local time ``wall``."""
    if zone.upper() in ("Z", "UTC", "GMT", "UT"):
        return 0
    if match := _OFFSET.fullmatch(zone):
        hour, minute, second = int(match["hour"]), int(match["minute"] or 0), int(match["second"] or 0)
        seconds = (hour * 60 + minute) * 60 + second
        if seconds > 18 * 3600 or minute > 59 or second > 59:
            raise ValueError(f"{_shown(zone)} is not a time zone: offsets are up to 18 hours")
        return seconds * NANOS_PER_SECOND * (-1 if match["sign"] == "-" else 1)
    return _region_ahead(zone, wall)


def _region_ahead(zone: str, wall: int) -> int:
    import datetime
    import zoneinfo

    try:
        info = zoneinfo.ZoneInfo(zone)
        local = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=wall // 1000)
        offset = info.utcoffset(local)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OverflowError, OSError):
        raise ValueError(f"{_shown(zone)} is not a known time zone") from None
    return int((offset or datetime.timedelta()).total_seconds()) * NANOS_PER_SECOND


def _shown(text: str) -> str:
    """A literal as a message shows it: whole if it is short."""
    return repr(text if len(text) <= 60 else text[:57] + "…")


# ---------------------------------------------------------------- Python values


NULL = Literal(None, None)
_EPOCH = datetime.datetime(1970, 1, 1)


def literal_of(value: Any) -> Literal:
    """The literal of a Python value, including numpy and pandas scalars. Raises `InvalidInput` for other types."""
    match value:
        case None:
            return NULL
        case Literal():
            return value
        case bool():
            return Literal(value, BOOLEAN)
        case int():
            return Literal(int(value), LONG)
        case float():
            return Literal(float(value), DOUBLE)
        case Decimal():
            return decimal_literal(value)
        case str():
            return text_literal(str(value))
        case bytes() | bytearray() | memoryview():
            return Literal(bytes(value), BINARY)
        case uuid.UUID():
            return Literal(value.bytes, UUID)
        case datetime.datetime():
            return _timestamp(value)
        case datetime.date():
            return Literal(value.toordinal() - _EPOCH.toordinal(), DATE)
        case datetime.time():
            return _time(value)
        case _:
            return _foreign(value)


def decimal_literal(value: Decimal) -> Literal:
    """An exact number. The decimals NaN and infinity become doubles."""
    if not value.is_finite():
        return Literal(float(value) if value.is_infinite() else math.nan, DOUBLE)
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    return Literal(value, DecimalType(max(len(digits), scale, 1), scale))


def text_literal(text: str, place: str | None = None) -> Literal:
    """A string literal. Raises `InvalidInput` for half of a surrogate pair, which UTF-8 cannot store."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(
            f"cannot use the string {text!a}: it has half of a surrogate pair, which is not a character"
        ) from None
    return Literal(text, STRING, place)


def _timestamp(value: datetime.datetime) -> Literal:
    if value != value:  # pandas' NaT is a datetime that equals nothing
        return NULL
    offset = value.utcoffset()
    wall = value.replace(tzinfo=None)
    delta = datetime.datetime(*wall.timetuple()[:6], wall.microsecond) - _EPOCH
    if offset is not None:
        delta -= offset
    nanos = _nanos(delta) + getattr(value, "nanosecond", 0)
    return Literal(nanos, TIMESTAMP_NS if offset is None else TIMESTAMPTZ_NS)


def _nanos(delta: datetime.timedelta) -> int:
    return delta.days * NANOS_PER_DAY + (delta.seconds * 1_000_000 + delta.microseconds) * 1000


def _time(value: datetime.time) -> Literal:
    if value.tzinfo is not None:
        raise InvalidInput(f"cannot use the time of day {value}: it has a zone, and a time column has none")
    return Literal(
        ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000_000 + value.microsecond * 1000, TIME
    )


def _foreign(value: Any) -> Literal:
    """Scalars of numpy and pyarrow, recognized without importing either."""
    import numpy as np

    if isinstance(value, np.datetime64):
        return _numpy_datetime(value)
    if isinstance(value, np.generic):
        plain = value.item()
        if not isinstance(plain, np.generic):
            return literal_of(plain)
    as_py = getattr(value, "as_py", None)
    if callable(as_py):
        return literal_of(as_py())
    if type(value).__name__ == "NAType":
        return NULL
    raise InvalidInput(f"cannot compare a column with {value!r}: a {type(value).__name__} is not a literal")


def _numpy_datetime(value: Any) -> Literal:
    import numpy as np

    if np.isnat(value):
        return NULL
    unit, _ = np.datetime_data(value.dtype)
    if unit in ("Y", "M", "W", "D"):
        return Literal(int(value.astype("datetime64[D]").astype(np.int64)), DATE)
    if unit in ("h", "m", "s", "ms", "us"):
        return Literal(int(value.astype("datetime64[us]").astype(np.int64)) * 1000, TIMESTAMP_NS)
    return Literal(int(value.astype("datetime64[ns]").astype(np.int64)), TIMESTAMP_NS)
