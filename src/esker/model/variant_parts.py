"""An object's members as bytes, each a variant's value of its own, without reading what is in them."""

from __future__ import annotations

from esker.model.variant_layout import SIZES, Basic, Kind


def object_members(value: bytes) -> list[tuple[int, bytes]]:
    """Places in the dictionary and values; ``ValueError`` where the bytes are no object, or members share bytes."""
    header = _byte(value, 0)
    if header & 3 != Basic.OBJECT:
        raise ValueError("a value beside an object's members is no object")
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
    """How many bytes the value that begins there says it has."""
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
