"""Parquet footers taken apart and put together again, to make files that no writer at hand will make.

A Thrift struct is a dict from field id to (type, value); lists are (element type, values).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

I32, I64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12
SCHEMA, ROW_GROUPS = 2, 4  # of FileMetaData
REPETITION, NAME, CHILDREN, FIELD_ID, LOGICAL = 3, 4, 5, 9, 10  # of SchemaElement
REPEATED = 2


def edited(data: bytes, edit: Callable[[dict[int, Any]], None]) -> bytes:
    """The file with its footer changed in place by ``edit``."""
    size = struct.unpack("<I", data[-8:-4])[0]
    footer, _ = _struct(data[-8 - size : -8], 0)
    edit(footer)
    out = _put_struct(footer)
    return data[: -8 - size] + out + struct.pack("<I", len(out)) + b"PAR1"


def elements(footer: dict[int, Any]) -> list[dict[int, Any]]:
    """The schema's elements, depth first."""
    return footer[SCHEMA][1][1]


def column_chunks(footer: dict[int, Any]) -> list[dict[int, Any]]:
    """The metadata of every column chunk, row group by row group."""
    return [chunk[3][1] for group in footer[ROW_GROUPS][1][1] for chunk in group[1][1][1]]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, at


def _value(kind: int, data: bytes, at: int) -> tuple[Any, int]:
    if kind in (1, 2):
        return kind == 1, at
    if kind == 3:
        return data[at], at + 1
    if kind in (4, I32, I64):
        number, at = _varint(data, at)
        return (number >> 1) ^ -(number & 1), at
    if kind == 7:
        return data[at : at + 8], at + 8
    if kind == BINARY:
        size, at = _varint(data, at)
        return data[at : at + size], at + size
    if kind == LIST:
        return _list(data, at)
    return _struct(data, at)


def _list(data: bytes, at: int) -> tuple[Any, int]:
    head = data[at]
    at += 1
    size, kind = head >> 4, head & 15
    if size == 15:
        size, at = _varint(data, at)
    values = []
    for _ in range(size):
        if kind in (1, 2):
            value, at = data[at] == 1, at + 1
        else:
            value, at = _value(kind, data, at)
        values.append(value)
    return (kind, values), at


def _struct(data: bytes, at: int) -> tuple[dict[int, Any], int]:
    found: dict[int, Any] = {}
    last = 0
    while data[at]:
        head = data[at]
        at += 1
        kind = head & 15
        if head >> 4:
            last += head >> 4
        else:
            number, at = _varint(data, at)
            last = (number >> 1) ^ -(number & 1)
        value, at = _value(kind, data, at)
        found[last] = (kind, value)
    return found, at + 1


def _put_varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _put_value(kind: int, value: Any) -> bytes:
    if kind in (1, 2):
        return b""
    if kind == 3:
        return bytes([value])
    if kind in (4, I32, I64):
        return _put_varint((value << 1) ^ (value >> 63) if value < 0 else value << 1)
    if kind == 7:
        return bytes(value)
    if kind == BINARY:
        return _put_varint(len(value)) + value
    if kind == LIST:
        inner, values = value
        head = (
            bytes([len(values) << 4 | inner]) if len(values) < 15 else bytes([0xF0 | inner]) + _put_varint(len(values))
        )
        if inner in (1, 2):
            return head + bytes(1 if v else 2 for v in values)
        return head + b"".join(_put_value(inner, v) for v in values)
    return _put_struct(value)


def _put_struct(fields: dict[int, Any]) -> bytes:
    out = bytearray()
    last = 0
    for id_, (kind, value) in sorted(fields.items()):
        kind = (1 if value else 2) if kind in (1, 2) else kind
        step = id_ - last
        out += bytes([step << 4 | kind]) if 0 < step < 16 else bytes([kind]) + _put_varint(id_ << 1)
        out += _put_value(kind, value)
        last = id_
    return bytes(out) + b"\0"
