"""Variants to and from Python values.

| Python | variant |
  | --- | --- |
  | None, bool, str, bytes, UUID, list, dict of texts | the same |
  | int | the narrowest integer; beyond 64 bits a decimal |
  | float | double; a variant's float is also read as float |
  | Decimal | the narrowest decimal |
  | date, time | date, time of microseconds |
  | datetime | a timestamp of microseconds, with a zone if it has one |
  | ``Moment`` | a value that datetime cannot store: nanoseconds, the year 12000 |

The bytes may come from an untrusted file. So nothing is read after the end, nesting is limited to ``MAX_DEPTH``, and no
byte is used for two values: a small variant cannot become a large object.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

from esker.errors import InvalidInput
from esker.model import variant_layout as layout
from esker.model.values import from_unscaled
from esker.model.variant_layout import SIZES, VERSION, Basic, Kind

MAX_DEPTH = 256
_EPOCH = datetime(1970, 1, 1)
_DAY_ONE = date(1970, 1, 1)
_DAY = timedelta(days=1)
_MICRO = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Moment:
    """A date or timestamp that Python's types cannot store."""

    count: int  # since 1970
    unit: Literal["days", "us", "ns"]
    zoned: bool = False


# ---- writing ----


def encode(value: Any) -> tuple[bytes, bytes]:
    """The metadata and the value. Raises ``InvalidInput`` if a variant cannot store the value."""
    keys: set[str] = set()
    _gather_keys(value, keys, 0)
    try:
        encoded = sorted(key.encode() for key in keys)
        places = {key.decode(): place for place, key in enumerate(encoded)}
        return layout.metadata_of(encoded), _encoded(value, places)
    except UnicodeEncodeError:
        raise InvalidInput("cannot make a variant: a text has half of a surrogate pair, which is not UTF-8") from None
    except OverflowError as error:
        raise InvalidInput(f"cannot make a variant: {error}") from None


def _gather_keys(value: Any, keys: set[str], depth: int) -> None:
    if depth > MAX_DEPTH:
        raise InvalidInput(f"cannot make a variant: the value is nested deeper than {MAX_DEPTH} times")
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise InvalidInput(f"cannot make a variant: the key {key!r} is not text")
            keys.add(key)
            _gather_keys(inner, keys, depth + 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            _gather_keys(inner, keys, depth + 1)


def _encoded(value: Any, places: dict[str, int]) -> bytes:
    match value:
        case None:
            return layout.NULL_VALUE
        case bool():
            return layout.primitive(Kind.TRUE if value else Kind.FALSE)
        case int():
            return layout.int_value(value) if -(1 << 63) <= value < 1 << 63 else layout.decimal_value(value, 0)
        case float():
            return layout.primitive(Kind.DOUBLE, struct.pack("<d", value))
        case str():
            return layout.text_value(value.encode())
        case bytes() | bytearray() | memoryview():
            return layout.binary_value(bytes(value))
        case list() | tuple():
            return layout.array_value([_encoded(item, places) for item in value])
        case dict():
            return layout.object_value(sorted((places[key], _encoded(inner, places)) for key, inner in value.items()))
        case _:
            return _encoded_scalar(value)


def _encoded_scalar(value: Any) -> bytes:
    match value:
        case Decimal():
            return _encoded_decimal(value)
        case UUID():
            return layout.primitive(Kind.UUID, value.bytes)
        case datetime():
            kind = Kind.TIMESTAMP if value.tzinfo is None else Kind.TIMESTAMPTZ
            plain = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
            return layout.primitive(kind, struct.pack("<q", (plain - _EPOCH) // _MICRO))
        case date():
            return layout.primitive(Kind.DATE, struct.pack("<i", (value - _DAY_ONE).days))
        case time(tzinfo=None):
            passed = datetime.combine(_EPOCH, value) - _EPOCH
            return layout.primitive(Kind.TIME, struct.pack("<q", passed // _MICRO))
        case Moment():
            return _encoded_moment(value)
        case _:
            raise InvalidInput(f"cannot make a variant of a {type(value).__name__}: variants have no such type")


def _encoded_decimal(value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise InvalidInput(f"cannot make a variant of the decimal {value}: it is not a number")
    if exponent > 38 or exponent < -1000 or len(digits) > 1000:
        raise OverflowError("a decimal of more than 38 digits")
    number = int("".join(map(str, digits))) * 10 ** max(0, exponent)
    return layout.decimal_value(-number if sign else number, max(0, -exponent))


def _encoded_moment(value: Moment) -> bytes:
    if value.unit == "days":
        kind, form = Kind.DATE, "<i"
    elif value.unit == "us":
        kind, form = Kind.TIMESTAMPTZ if value.zoned else Kind.TIMESTAMP, "<q"
    else:
        kind, form = Kind.TIMESTAMPTZ_NANOS if value.zoned else Kind.TIMESTAMP_NANOS, "<q"
    try:
        return layout.primitive(kind, struct.pack(form, value.count))
    except struct.error:
        raise InvalidInput(f"cannot make a variant: {value} is out of range") from None


# ---- reading ----


def decode(metadata: bytes, value: bytes) -> Any:
    """The value in Python. Raises ``InvalidInput`` if the bytes are not valid."""
    try:
        return _Reading(metadata, value).read(0, 0)
    except (_Malformed, UnicodeDecodeError) as error:
        why = "a text is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise InvalidInput(f"cannot read a variant: {why}") from None


class _Malformed(ValueError):
    """What is wrong with the bytes."""


class Dictionary:
    """The keys of a variant, each decoded when it is needed. Raises ``ValueError`` if the bytes are not valid."""

    def __init__(self, metadata: bytes) -> None:
        if not metadata or metadata[0] & 0x0F != VERSION:
            raise _Malformed("its metadata is not of version 1")
        self._data = metadata
        self._width = (metadata[0] >> 6) + 1
        self._first = 1 + self._width
        self.size = int.from_bytes(metadata[1 : self._first], "little")
        self._texts = self._first + (self.size + 1) * self._width
        if self._texts > len(metadata):
            raise _Malformed("its metadata ends too early")

    def key(self, place: int) -> bytes:
        """The key at a position."""
        if place >= self.size:
            raise _Malformed("a key is not in its metadata")
        start, end = self._offset(place), self._offset(place + 1)
        if not start <= end <= len(self._data) - self._texts:
            raise _Malformed("a key is outside of its metadata")
        return self._data[self._texts + start : self._texts + end]

    def all_keys(self) -> list[bytes]:
        """All keys, in order."""
        return [self.key(place) for place in range(self.size)]

    def _offset(self, place: int) -> int:
        at = self._first + place * self._width
        return int.from_bytes(self._data[at : at + self._width], "little")


class _Reading:
    """Reads one variant."""

    def __init__(self, metadata: bytes, value: bytes) -> None:
        self._dictionary = Dictionary(metadata)
        self._data = value
        self._left = len(value)  # bytes that no value has used yet

    def read(self, at: int, depth: int) -> Any:
        """The value that starts there."""
        if depth > MAX_DEPTH:
            raise _Malformed(f"it is nested deeper than {MAX_DEPTH} times")
        header = self._taken(at, 1)[0]
        match header & 3:
            case Basic.PRIMITIVE:
                return self._primitive(header >> 2, at + 1)
            case Basic.SHORT_TEXT:
                return self._taken(at + 1, header >> 2).decode()
            case Basic.OBJECT:
                return self._object(header >> 2, at + 1, depth)
            case _:
                return self._array(header >> 2, at + 1, depth)

    def _taken(self, at: int, length: int) -> bytes:
        """``length`` bytes from there, for this value alone."""
        if at + length > len(self._data):
            raise _Malformed("it ends too early")
        self._left -= length
        if self._left < 0:
            raise _Malformed("two of its values share bytes")
        return self._data[at : at + length]

    def _number(self, at: int, width: int) -> int:
        return int.from_bytes(self._taken(at, width), "little")

    def _numbers(self, at: int, count: int, width: int) -> list[int]:
        data = self._taken(at, count * width)
        return [int.from_bytes(data[i : i + width], "little") for i in range(0, len(data), width)]

    def _array(self, header: int, at: int, depth: int) -> list[Any]:
        width, large = (header & 3) + 1, header >> 2 & 1
        count = self._number(at, 4 if large else 1)
        at += 4 if large else 1
        offsets = self._numbers(at, count + 1, width)
        start = at + (count + 1) * width
        found = []
        for offset in offsets[:-1]:  # no comprehension: it would use one more frame at every depth
            found.append(self.read(start + offset, depth + 1))  # noqa: PERF401
        return found

    def _object(self, header: int, at: int, depth: int) -> dict[str, Any]:
        width, id_width, large = (header & 3) + 1, (header >> 2 & 3) + 1, header >> 4 & 1
        count = self._number(at, 4 if large else 1)
        at += 4 if large else 1
        places = self._numbers(at, count, id_width)
        offsets = self._numbers(at + count * id_width, count + 1, width)
        start = at + count * id_width + (count + 1) * width
        found: dict[str, Any] = {}
        for place, offset in zip(places, offsets, strict=False):
            key = self._dictionary.key(place).decode()
            if key in found:
                raise _Malformed(f"an object has the key {key!r} twice")
            found[key] = self.read(start + offset, depth + 1)
        return found

    def _primitive(self, number: int, at: int) -> Any:
        try:
            kind = Kind(number)
        except ValueError:
            raise _Malformed(f"there is no primitive of kind {number}") from None
        if kind in (Kind.BINARY, Kind.TEXT):
            data = self._taken(at + 4, self._number(at, 4))
            return data if kind is Kind.BINARY else data.decode()
        return scalar(kind, self._taken(at, SIZES[kind]))


_FORMS = {
    Kind.INT8: "<b",
    Kind.INT16: "<h",
    Kind.INT32: "<i",
    Kind.INT64: "<q",
    Kind.DOUBLE: "<d",
    Kind.FLOAT: "<f",
    Kind.DATE: "<i",
    Kind.TIMESTAMPTZ: "<q",
    Kind.TIMESTAMP: "<q",
    Kind.TIME: "<q",
    Kind.TIMESTAMPTZ_NANOS: "<q",
    Kind.TIMESTAMP_NANOS: "<q",
}


def scalar(kind: Kind, payload: bytes) -> Any:
    """A primitive of a fixed size, in Python."""
    match kind:
        case Kind.NULL:
            return None
        case Kind.TRUE | Kind.FALSE:
            return kind is Kind.TRUE
        case Kind.DECIMAL4 | Kind.DECIMAL8 | Kind.DECIMAL16:
            if payload[0] > 38:
                raise _Malformed(f"a decimal has a scale of {payload[0]}")
            return from_unscaled(int.from_bytes(payload[1:], "little", signed=True), payload[0])
        case Kind.UUID:
            return UUID(bytes=payload)
    number = struct.unpack(_FORMS[kind], payload)[0]
    match kind:
        case Kind.DATE:
            return _date(number)
        case Kind.TIMESTAMPTZ | Kind.TIMESTAMP:
            return _timestamp(number, zoned=kind is Kind.TIMESTAMPTZ)
        case Kind.TIMESTAMPTZ_NANOS | Kind.TIMESTAMP_NANOS:
            return Moment(number, "ns", kind is Kind.TIMESTAMPTZ_NANOS)
        case Kind.TIME:
            if not 0 <= number < _DAY // _MICRO:
                raise _Malformed("a time of day is not within a day")
            return (_EPOCH + timedelta(microseconds=number)).time()
        case _:
            return number


def _date(days: int) -> date | Moment:
    try:
        return _DAY_ONE + timedelta(days=days)
    except OverflowError:
        return Moment(days, "days")


def _timestamp(micros: int, *, zoned: bool) -> datetime | Moment:
    try:
        found = _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return Moment(micros, "us", zoned)
    return found.replace(tzinfo=UTC) if zoned else found
