"""A variant as JSON text. Values that JSON does not have become text, like in Spark's ``to_json``."""

from __future__ import annotations

import base64
import json
import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from esker.model.variant import Moment, decode

_PER_SECOND = {"us": 10**6, "ns": 10**9}
_DAYS_OF_400_YEARS = 146_097
_CYCLE_START = 11_017  # 2000-03-01, in days since 1970


def to_json(metadata: bytes, value: bytes) -> str:
    """The JSON text of one variant. Raises ``InvalidInput`` if the bytes are not valid."""
    return json_text(decode(metadata, value))


def json_text(value: Any) -> str:
    """A value of ``decode`` as JSON, with all digits of numbers."""
    match value:
        case dict():
            members = [f"{_quoted(key)}:{json_text(inner)}" for key, inner in value.items()]
            return f"{{{','.join(members)}}}"
        case list():
            return f"[{','.join(map(json_text, value))}]"
        case Decimal():
            return f"{value:f}"
        case float() if not math.isfinite(value):
            return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
        case None | bool() | int() | float():
            return json.dumps(value)
        case str():
            return _quoted(value)
        case bytes():
            return _quoted(base64.b64encode(value).decode())
        case _:
            return _quoted(moment_text(value))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def moment_text(value: Any) -> str:
    """A date, time, timestamp or uuid as text."""
    match value:
        case datetime():
            return value.isoformat(" ")
        case date() | time():
            return value.isoformat()
        case UUID():
            return str(value)
        case Moment(count=count, unit="days"):
            return _far_date(count)
        case Moment():
            seconds, rest = divmod(value.count, _PER_SECOND[value.unit])
            days, seconds = divmod(seconds, 86_400)
            fraction = f"{rest:0{len(str(_PER_SECOND[value.unit])) - 1}}"
            clock = timedelta(seconds=seconds)
            zone = "+00:00" if value.zoned else ""
            return f"{_far_date(days)} {str(clock).zfill(8)}.{fraction}{zone}"
        case _:
            raise AssertionError(f"no value of a variant: {value!r}")


def _far_date(days: int) -> str:
    """The date in the proleptic Gregorian calendar, computed from a cycle of 400 years that starts on a first of
    March."""
    cycles, left = divmod(days - _CYCLE_START, _DAYS_OF_400_YEARS)
    found = date(2000, 3, 1) + timedelta(days=left)
    year = found.year + 400 * cycles
    sign = "" if 0 <= year <= 9999 else "-" if year < 0 else "+"
    return f"{sign}{abs(year):04}-{found.month:02}-{found.day:02}"
