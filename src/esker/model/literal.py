"""Literals from Python values: what ``col("a") > value`` may be given."""

from __future__ import annotations

import datetime
import math
import uuid
from decimal import Decimal
from typing import Any

from esker.errors import InvalidInput
from esker.model.literal_text import NANOS_PER_DAY
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
from esker.model.unbound import Literal

NULL = Literal(None, None)
_EPOCH = datetime.datetime(1970, 1, 1)


def literal_of(value: Any) -> Literal:
    """The literal a Python value stands for; numpy and pandas scalars included."""
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
    """An exact number; the decimal NaN and infinities are those of a double."""
    if not value.is_finite():
        return Literal(float(value) if value.is_infinite() else math.nan, DOUBLE)
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    return Literal(value, DecimalType(max(len(digits), scale, 1), scale))


def text_literal(text: str, place: str | None = None) -> Literal:
    """A string that UTF-8 can hold: a lone surrogate is no character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"the string {text!a} holds half a surrogate pair, which is no character") from None
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
        raise InvalidInput(f"the time of day {value} has a zone, and a time column has none")
    return Literal(
        ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000_000 + value.microsecond * 1000, TIME
    )


def _foreign(value: Any) -> Literal:
    """Scalars of numpy and pyarrow, known without importing either."""
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
    raise InvalidInput(f"cannot compare a column with {value!r}: a {type(value).__name__} is no literal")


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
