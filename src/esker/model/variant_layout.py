"""The bytes of a variant in Parquet's variant encoding (version 1), and the fields of an object.

A variant has two byte strings. The *metadata* is a dictionary of the keys in its objects. The *value* is a tree. Each
node starts with a header byte: two bits for the kind (primitive, short text, object or array), six bits for details.
All numbers are little-endian.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from itertools import pairwise

VERSION = 1
SORTED = 0x10  # in the header of the metadata: keys are sorted and unique
LONGEST_SHORT = 63


class Basic(IntEnum):
    """The two low bits of a header byte."""

    PRIMITIVE = 0
    SHORT_TEXT = 1
    OBJECT = 2
    ARRAY = 3


class Kind(IntEnum):
    """The six high bits of a primitive's header byte."""

    NULL = 0
    TRUE = 1
    FALSE = 2
    INT8 = 3
    INT16 = 4
    INT32 = 5
    INT64 = 6
    DOUBLE = 7
    DECIMAL4 = 8
    DECIMAL8 = 9
    DECIMAL16 = 10
    DATE = 11
    TIMESTAMPTZ = 12
    TIMESTAMP = 13
    FLOAT = 14
    BINARY = 15
    TEXT = 16
    TIME = 17
    TIMESTAMPTZ_NANOS = 18
    TIMESTAMP_NANOS = 19
    UUID = 20


# How many bytes follow the header of a primitive. Binary and text have their length in four bytes.
SIZES = {
    Kind.NULL: 0,
    Kind.TRUE: 0,
    Kind.FALSE: 0,
    Kind.INT8: 1,
    Kind.INT16: 2,
    Kind.INT32: 4,
    Kind.INT64: 8,
    Kind.DOUBLE: 8,
    Kind.DECIMAL4: 5,
    Kind.DECIMAL8: 9,
    Kind.DECIMAL16: 17,
    Kind.DATE: 4,
    Kind.TIMESTAMPTZ: 8,
    Kind.TIMESTAMP: 8,
    Kind.FLOAT: 4,
    Kind.TIME: 8,
    Kind.TIMESTAMPTZ_NANOS: 8,
    Kind.TIMESTAMP_NANOS: 8,
    Kind.UUID: 16,
}

EMPTY_METADATA = bytes((VERSION | SORTED, 0, 0))
NULL_VALUE = b"\x00"


def primitive(kind: Kind, payload: bytes = b"") -> bytes:
    """A value without parts."""
    return bytes((kind << 2,)) + payload


def text_value(data: bytes) -> bytes:
    """A text, from its UTF-8 bytes."""
    if len(data) <= LONGEST_SHORT:
        return bytes((len(data) << 2 | Basic.SHORT_TEXT,)) + data
    return primitive(Kind.TEXT, len(data).to_bytes(4, "little") + data)


def binary_value(data: bytes) -> bytes:
    """A binary value."""
    return primitive(Kind.BINARY, len(data).to_bytes(4, "little") + data)


def int_value(number: int) -> bytes:
    """An integer of at most 64 bits, in the fewest bytes of an integer kind."""
    for kind in (Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64):
        if -(1 << 8 * SIZES[kind] - 1) <= number < 1 << 8 * SIZES[kind] - 1:
            return primitive(kind, number.to_bytes(SIZES[kind], "little", signed=True))
    raise OverflowError("an integer of more than 64 bits")


def decimal_value(number: int, scale: int) -> bytes:
    """An integer divided by a power of ten, in the fewest bytes of a decimal kind."""
    digits = len(str(abs(number)))
    kind = Kind.DECIMAL4 if digits <= 9 else Kind.DECIMAL8 if digits <= 18 else Kind.DECIMAL16
    if digits > 38 or not 0 <= scale <= 38:
        raise OverflowError("a decimal of more than 38 digits")
    return primitive(kind, bytes((scale,)) + number.to_bytes(SIZES[kind] - 1, "little", signed=True))


def array_value(items: Sequence[bytes]) -> bytes:
    """An array of values."""
    size = sum(map(len, items))
    width, large = width_of(size), len(items) > 0xFF
    header = (width - 1 | large << 2) << 2 | Basic.ARRAY
    return b"".join((bytes((header,)), _count(len(items), large), _offsets(items, width), *items))


def object_value(members: Sequence[tuple[int, bytes]]) -> bytes:
    """An object, from positions in the dictionary and values. The fields are in the order of their keys."""
    items = [value for _, value in members]
    width = width_of(sum(map(len, items)))
    return b"".join((object_head([place for place, _ in members], width), _offsets(items, width), *items))


def object_head(places: Sequence[int], width: int) -> bytes:
    """The start of an object, before its offsets, which have ``width`` bytes each."""
    id_width, large = width_of(max(places, default=0)), len(places) > 0xFF
    header = (width - 1 | id_width - 1 << 2 | large << 4) << 2 | Basic.OBJECT
    ids = b"".join([place.to_bytes(id_width, "little") for place in places])
    return b"".join((bytes((header,)), _count(len(places), large), ids))


def metadata_of(keys: Sequence[bytes]) -> bytes:
    """A dictionary of these keys, in this order. Marked as sorted if it is."""
    width = width_of(max(len(keys), sum(map(len, keys))))
    in_order = all(one < other for one, other in pairwise(keys))
    header = VERSION | (SORTED if in_order else 0) | width - 1 << 6
    return b"".join((bytes((header,)), len(keys).to_bytes(width, "little"), _offsets(keys, width), *keys))


def width_of(number: int) -> int:
    """How many bytes a count or an offset needs."""
    if number >> 32:
        raise OverflowError("more than four gigabytes")
    return max(1, (number.bit_length() + 7) // 8)


def _count(number: int, large: bool) -> bytes:
    return number.to_bytes(4 if large else 1, "little")


def _offsets(items: Sequence[bytes], width: int) -> bytes:
    at, offsets = 0, [b"\0" * width]
    for item in items:
        at += len(item)
        offsets.append(at.to_bytes(width, "little"))
    return b"".join(offsets)


# ---------------------------------------------------------------- The fields of an object as bytes, without decoding
# them


def object_members(value: bytes) -> list[tuple[int, bytes]]:
    """Positions in the dictionary and values. Raises ``ValueError`` if it is not an object, or if fields share
    bytes."""
    header = _byte(value, 0)
    if header & 3 != Basic.OBJECT:
        raise ValueError("the value beside an object's fields is not an object")
    width, id_width, large = (header >> 2 & 3) + 1, (header >> 4 & 3) + 1, header >> 6 & 1
    count = _number(value, 1, 4 if large else 1)
    ids = 5 if large else 2
    offsets = ids + count * id_width
    start = offsets + (count + 1) * width
    if start > len(value):
        raise ValueError("it ends too early")
    found, left = [], len(value) - start
    for at in range(count):
        place = _number(value, ids + at * id_width, id_width)
        begin = start + _number(value, offsets + at * width, width)
        size = value_size(value, begin)
        left -= size
        if left < 0 or begin + size > len(value):
            raise ValueError("it ends too early, or two of its values share bytes")
        found.append((place, value[begin : begin + size]))
    return found


def value_size(value: bytes, at: int) -> int:
    """The recorded size of the value that starts there, in bytes."""
    header = _byte(value, at)
    more = header >> 2
    match header & 3:
        case Basic.PRIMITIVE:
            if more in (Kind.BINARY, Kind.TEXT):
                return 5 + _number(value, at + 1, 4)
            if more > Kind.UUID:
                raise ValueError(f"there is no primitive of kind {more}")
            return 1 + SIZES[Kind(more)]
        case Basic.SHORT_TEXT:
            return 1 + more
        case Basic.OBJECT:
            width, id_width, large = (more & 3) + 1, (more >> 2 & 3) + 1, more >> 4 & 1
        case _:
            width, id_width, large = (more & 3) + 1, 0, more >> 2 & 1
    count_width = 4 if large else 1
    count = _number(value, at + 1, count_width)
    offsets = 1 + count_width + count * id_width
    return offsets + (count + 1) * width + _number(value, at + offsets + count * width, width)


def _byte(value: bytes, at: int) -> int:
    if at >= len(value):
        raise ValueError("it ends too early")
    return value[at]


def _number(value: bytes, at: int, width: int) -> int:
    if at + width > len(value):
        raise ValueError("it ends too early")
    return int.from_bytes(value[at : at + width], "little")
