"""Protobuf's wire format, only as much as is needed to look into a message and to write one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from esker.otlp.protocol.walk import CUT, NUMBER, WIRE, Data

VARINT, FIXED64, SIZED, FIXED32 = 0, 1, 2, 5


class Malformed(Exception):
    """A message that cannot be read further (``code``, of the walk)."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class WireField(NamedTuple):
    """A field as it was sent: a number, or the place of its bytes."""

    number: int
    wire: int
    value: int  # of a number
    start: int
    end: int
    tag: int  # where the whole field begins


def read_varint(data: Data, at: int, end: int) -> tuple[int, int]:
    """Return a number, and where it ends. Bits after the 64th are dropped, as in other implementations."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= end:
            raise Malformed(CUT)
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
    raise Malformed(NUMBER)


def fields(data: Data, start: int, end: int) -> Iterator[WireField]:
    """The fields of a message, in the order they were sent. Raises ``Malformed``."""
    at = start
    while at < end:
        begin = at
        tag = data[at]
        if tag < 0x80:
            at += 1
        else:
            tag, at = read_varint(data, at, end)
        if tag > 0xFFFF_FFFF or tag < 8:
            raise Malformed(WIRE)
        number, wire = tag >> 3, tag & 7
        value, first = 0, at
        if wire == VARINT:
            value, at = read_varint(data, at, end)
        elif wire in (FIXED64, FIXED32):
            at += 8 if wire == FIXED64 else 4
            if at > end:
                raise Malformed(CUT)
            value = int.from_bytes(data[first:at], "little")
        elif wire == SIZED:
            size = data[at] if at < end else 0x80
            first = at + 1
            if size >= 0x80:
                size, first = read_varint(data, at, end)
            if size > end - first:
                raise Malformed(CUT)
            at = first + size
        else:
            raise Malformed(WIRE)
        yield WireField(number, wire, value, first, at, begin)


def varint(value: int) -> bytes:
    """The bytes of a number."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def sized(number: int, content: bytes) -> bytes:
    """A field with its length and content."""
    return varint(number << 3 | SIZED) + varint(len(content)) + content
