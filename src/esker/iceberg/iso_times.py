"""Dates, times and timestamps as ISO-8601 text, over the whole range that Iceberg can hold.

Python's datetime ends at the years 1 and 9999 and at microseconds, Iceberg does not; so the text is taken apart here.
"""

from __future__ import annotations

import re

from esker.model.transform import civil_month, days_from_month

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
        raise ValueError(f"{text[:40]!r} is no date such as 2007-12-03")
    return _checked(_days(match[1], match[2], match[3]), 32)


def parse_time(text: str) -> int:
    """Microseconds from midnight."""
    match = _ONLY_TIME.fullmatch(text)
    if not match:
        raise ValueError(f"{text[:40]!r} is no time such as 22:31:08.123456")
    return _ticks(match.groups(), digits=6)


def parse_timestamp(text: str, *, zoned: bool, nanos: bool) -> int:
    """Micro- or nanoseconds from 1970-01-01T00:00; a zoned one must be in UTC."""
    match = _TIMESTAMP.fullmatch(text)
    if not match:
        raise ValueError(f"{text[:40]!r} is no timestamp such as 2007-12-03T22:31:08.123456")
    zone = match[8]
    if zoned and zone not in _UTC:
        raise ValueError(f"{text[:40]!r} must be in UTC and end with +00:00")
    if not zoned and zone:
        raise ValueError(f"{text[:40]!r} has a zone where none belongs")
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
    """The timestamp, with six or nine fraction digits; a zoned one in UTC."""
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
        raise ValueError(f"it lies beyond what {bits} bits can hold")
    return number


def _format_year(year: int) -> str:
    if year < 0:
        return f"-{-year:04}"
    return f"{year:04}" if year <= 9999 else f"+{year}"


def _format_ticks(ticks: int, *, digits: int) -> str:
    seconds, fraction = divmod(ticks, 10**digits)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:0{digits}}"
