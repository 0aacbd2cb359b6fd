"""A cursor over Thrift's compact encoding, in which Parquet writes its footers.

Input is hostile: nothing is read past the end, nothing is nested deeper than a footer can be, and whatever makes no
sense is a ``ValueError``.
"""

from __future__ import annotations

from collections.abc import Iterator

_MAX_DEPTH = 32

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)


class Cursor:
    """Where reading has come to in some bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def fields(self) -> Iterator[tuple[int, int]]:
        """Id and kind of each field; the caller reads or skips its value before asking for the next."""
        last = 0
        while head := self._data[self.take(1)]:
            last = last + (head >> 4) if head >> 4 else self.number()
            yield last, head & 15

    def items(self, expected: int) -> range:
        """The places of a list of that kind; the caller reads or skips each item."""
        head = self._data[self.take(1)]
        count = head >> 4 if head >> 4 != 15 else self.varint()
        if head & 15 != expected or count > len(self._data):
            raise ValueError("a list of something else")
        return range(count)

    def skip(self, kind: int, depth: int = 0) -> None:
        """Step over a value."""
        if depth > _MAX_DEPTH:
            raise ValueError("nested too deep")
        if kind in (I16, I32, I64):
            self.varint()
        elif kind == BINARY:
            self.take(self.varint())
        elif kind == BYTE:
            self.take(1)
        elif kind == DOUBLE:
            self.take(8)
        elif kind == STRUCT:
            for _, inner in self.fields():
                self.skip(inner, depth + 1)
        elif kind in (LIST, SET):
            head = self._data[self.take(1)]
            count = head >> 4 if head >> 4 != 15 else self.varint()
            for _ in range(count):
                self.take(1) if head & 15 in (TRUE, FALSE) else self.skip(head & 15, depth + 1)
        elif kind not in (TRUE, FALSE):  # maps, which Parquet has none of, included
            raise ValueError(f"no field of kind {kind}")

    def bytes(self) -> bytes:
        """Text or binary."""
        length = self.varint()
        start = self.take(length)
        return self._data[start : start + length]

    def number(self) -> int:
        """A signed number."""
        number = self.varint()
        return number >> 1 ^ -(number & 1)

    def varint(self) -> int:
        """An unsigned one."""
        number = shift = 0
        while True:
            byte = self._data[self.take(1)]
            number |= (byte & 0x7F) << shift
            if number >> 64:
                raise ValueError("a number too large")
            if byte < 0x80:
                return number
            shift += 7

    def take(self, length: int) -> int:
        """Step over so many bytes; where they start."""
        start = self.at
        if start + length > len(self._data):
            raise ValueError("it ends too early")
        self.at = start + length
        return start
