"""Values of attributes and bodies as text, like ``_walk_values.h``."""

from __future__ import annotations

import base64
import json
import math
import struct
from dataclasses import dataclass

from esker.otlp.protocol.walk import DEEP, INDEX, MAX_NESTED, TEXT, Data
from esker.otlp.protocol.wire import FIXED64, SIZED, VARINT, Malformed, WireField, fields

KINDS = ("", "string", "bool", "int", "double", "array", "kvlist", "bytes")
NOTHING, STRING, BOOL, INT, DOUBLE, ARRAY, KVLIST, BYTES = range(8)
_WIRES = (-1, SIZED, VARINT, VARINT, FIXED64, SIZED, SIZED, SIZED)

Range = tuple[int, int]
Entries = dict[str, Range | None]  # by key: where the value is, if there is one


@dataclass(slots=True)
class Tally:
    """Counters of a walk."""

    unknown: int = 0
    repeated: int = 0


def text_of(data: Data, start: int, end: int) -> str:
    """Return the text. Raises ``Malformed`` if it is not UTF-8."""
    try:
        return bytes(data[start:end]).decode()
    except UnicodeDecodeError:
        raise Malformed(TEXT) from None


def read_entry(data: Data, start: int, end: int, into: Entries, tally: Tally) -> None:
    """Read a KeyValue. If a key is sent twice, the last value replaces the first, in the first one's place."""
    key, value = "", None
    for field in fields(data, start, end):
        if field.number == 3 and field.wire == VARINT:
            raise Malformed(INDEX)
        if field.number > 2 or field.wire != SIZED:
            tally.unknown += 1
        elif field.number == 2:
            value = (field.start, field.end)
        else:
            key = text_of(data, field.start, field.end)
    tally.repeated += key in into
    into[key] = value


def value_of(data: Data, place: Range | None, tally: Tally) -> tuple[int, str]:
    """The kind of an AnyValue, and its text."""
    if place is None:
        return NOTHING, ""
    kind, field = _find(data, place, tally)
    return kind, "" if field is None else _write(data, kind, field, tally, nested=False, depth=0)


def _find(data: Data, place: Range, tally: Tally) -> tuple[int, WireField | None]:
    found: tuple[int, WireField | None] = (NOTHING, None)
    for field in fields(data, *place):
        if field.number == 8 and field.wire == VARINT:
            raise Malformed(INDEX)
        if field.number > BYTES or field.wire != _WIRES[field.number]:
            tally.unknown += 1
            continue
        if field.number == STRING:
            text_of(data, field.start, field.end)
        found = (field.number, field)
    return found


def _write(data: Data, kind: int, field: WireField, tally: Tally, *, nested: bool, depth: int) -> str:
    content = bytes(data[field.start : field.end])
    match kind:
        case 1:
            return _quoted(content.decode()) if nested else content.decode()
        case 2:
            return "true" if field.value else "false"
        case 3:
            return str(field.value - (1 << 64) if field.value >> 63 else field.value)
        case 4:
            return _double(struct.unpack("<d", content)[0], nested)
        case 5:
            return _array(data, field, tally, depth)
        case 6:
            return _kvlist(data, field, tally, depth)
        case _:
            text = base64.b64encode(content).decode()
            return f'{{"$bytes":"{text}"}}' if nested else text


def _double(number: float, nested: bool) -> str:
    if math.isfinite(number):
        return repr(number)
    name = "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    return f'{{"$double":"{name}"}}' if nested else name


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _nested(data: Data, place: Range, tally: Tally, depth: int) -> str:
    if depth > MAX_NESTED:
        raise Malformed(DEEP)
    kind, field = _find(data, place, tally)
    return "null" if field is None else _write(data, kind, field, tally, nested=True, depth=depth)


def _array(data: Data, array: WireField, tally: Tally, depth: int) -> str:
    items = []
    for field in fields(data, array.start, array.end):
        if field.number != 1 or field.wire != SIZED:
            tally.unknown += 1
            continue
        items.append(_nested(data, (field.start, field.end), tally, depth + 1))
    return f"[{','.join(items)}]"


def _kvlist(data: Data, pairs: WireField, tally: Tally, depth: int) -> str:
    entries: Entries = {}
    for field in fields(data, pairs.start, pairs.end):
        if field.number == 1 and field.wire == SIZED:
            read_entry(data, field.start, field.end, entries, tally)
        else:
            tally.unknown += 1
    members = (
        f"{_quoted(key)}:{'null' if place is None else _nested(data, place, tally, depth + 1)}"
        for key, place in entries.items()
    )
    return f"{{{','.join(members)}}}"
