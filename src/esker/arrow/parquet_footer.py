"""The statistics in a Parquet footer, read by hand.

pyarrow's own accessors end the whole process on a footer that contradicts itself: a C++ exception crosses into
Python. So what pruning needs is decoded here, from Thrift's compact encoding, and nothing else is. Whatever cannot
be understood is no statistics, which prunes nothing; the reader of the rows then says what is wrong with the file.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

MAGIC = b"PAR1"
LARGEST_FOOTER = 128 << 20
_MAX_DEPTH = 32

# Field ids of parquet.thrift.
_SCHEMA, _ROW_GROUPS, _COLUMN_ORDERS = 2, 4, 7  # FileMetaData
_PHYSICAL_TYPE, _CHILDREN = 1, 5  # SchemaElement
_COLUMNS, _NUM_ROWS = 1, 3  # RowGroup
_META_DATA = 3  # ColumnChunk
_NUM_VALUES, _STATISTICS = 5, 12  # ColumnMetaData
_OLD_MAX, _OLD_MIN, _NULL_COUNT, _MAX, _MIN = 1, 2, 3, 5, 6  # Statistics

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_FORMS = {0: "<?", 1: "<i", 2: "<q", 4: "<f", 5: "<d"}  # physical types with a fixed form
_BYTES = (6, 7)  # BYTE_ARRAY and FIXED_LEN_BYTE_ARRAY


@dataclass(frozen=True, slots=True)
class ChunkStatistics:
    """What the footer says of one column in one row group; None is unknown."""

    value_count: int | None = None
    null_count: int | None = None
    minimum: Any = None  # bool, int, float or bytes, as the physical type has it
    maximum: Any = None


@dataclass(frozen=True, slots=True)
class RowGroupStatistics:
    """What the footer says of one row group, for the leaves that were asked about."""

    rows: int
    columns: dict[int, ChunkStatistics]


def read_statistics(source: pa.NativeFile, leaves: Collection[int]) -> tuple[RowGroupStatistics, ...] | None:
    """Per row group the statistics of these leaves; None where the footer makes no sense."""
    size = source.size()
    if size < 12:
        return None
    tail = source.read_at(8, size - 8)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != MAGIC or length > min(size - 8, LARGEST_FOOTER):
        return None
    try:
        return _Footer(source.read_at(length, size - 8 - length)).statistics(frozenset(leaves))
    except (IndexError, ValueError, TypeError, AttributeError, struct.error):
        return None


class _Footer:
    """A cursor over compact Thrift."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def statistics(self, leaves: frozenset[int]) -> tuple[RowGroupStatistics, ...]:
        """Walk the whole footer once, decoding what is asked for."""
        types: list[int] = []
        groups: list[tuple[int, dict[int, Any]]] = []
        ordered = False
        for id_, kind in self._fields():
            if id_ == _SCHEMA and kind == _LIST:
                elements = [self._struct((_PHYSICAL_TYPE, _CHILDREN)) for _ in self._items(_STRUCT)]
                types = [element.get(_PHYSICAL_TYPE, -1) for element in elements[1:] if not element.get(_CHILDREN)]
            elif id_ == _ROW_GROUPS and kind == _LIST:
                groups = [self._row_group(leaves) for _ in self._items(_STRUCT)]
            else:
                ordered = ordered or id_ == _COLUMN_ORDERS
                self._skip(kind)
        return tuple(
            RowGroupStatistics(rows, {at: _decoded(facts, types[at], ordered=ordered) for at, facts in columns.items()})
            for rows, columns in groups
        )

    def _row_group(self, leaves: frozenset[int]) -> tuple[int, dict[int, Any]]:
        rows, columns = -1, {}
        for id_, kind in self._fields():
            if id_ == _COLUMNS and kind == _LIST:
                for at in self._items(_STRUCT):
                    if at in leaves:
                        columns[at] = self._column_chunk()
                    else:
                        self._skip(_STRUCT)
            elif id_ == _NUM_ROWS:
                rows = self._number()
            else:
                self._skip(kind)
        if rows < 0:
            raise ValueError("a row group without a number of rows")
        return rows, columns

    def _column_chunk(self) -> dict[int, Any]:
        found: dict[int, Any] = {}
        for id_, kind in self._fields():
            if id_ == _META_DATA and kind == _STRUCT:
                found = self._struct((_NUM_VALUES, _STATISTICS))
            else:
                self._skip(kind)
        return found

    def _struct(self, wanted: tuple[int, ...]) -> dict[int, Any]:
        """The wanted fields of a struct; a struct in it is decoded whole, but for what is nested deeper."""
        found: dict[int, Any] = {}
        for id_, kind in self._fields():
            if id_ not in wanted:
                self._skip(kind)
            elif kind in (_I16, _I32, _I64):
                found[id_] = self._number()
            elif kind == _BINARY:
                found[id_] = self._bytes()
            elif kind == _STRUCT:
                found[id_] = self._struct((_OLD_MAX, _OLD_MIN, _NULL_COUNT, _MAX, _MIN))
            else:
                self._skip(kind)
        return found

    def _fields(self) -> Any:
        """Id and kind of each field; the caller reads or skips its value before asking for the next."""
        last = 0
        while head := self._data[self._take(1)]:
            last = last + (head >> 4) if head >> 4 else self._number()
            yield last, head & 15

    def _items(self, expected: int) -> range:
        head = self._data[self._take(1)]
        count = head >> 4 if head >> 4 != 15 else self._varint()
        if head & 15 != expected or count > len(self._data):
            raise ValueError("a list of something else")
        return range(count)

    def _skip(self, kind: int, depth: int = 0) -> None:
        if depth > _MAX_DEPTH:
            raise ValueError("nested too deep")
        if kind in (_I16, _I32, _I64):
            self._varint()
        elif kind == _BINARY:
            self._take(self._varint())
        elif kind == _BYTE:
            self._take(1)
        elif kind == _DOUBLE:
            self._take(8)
        elif kind == _STRUCT:
            for _, inner in self._fields():
                self._skip(inner, depth + 1)
        elif kind in (_LIST, _SET):
            head = self._data[self._take(1)]
            count = head >> 4 if head >> 4 != 15 else self._varint()
            for _ in range(count):
                self._take(1) if head & 15 in (_TRUE, _FALSE) else self._skip(head & 15, depth + 1)
        elif kind not in (_TRUE, _FALSE):  # maps, which Parquet has none of, included
            raise ValueError(f"no field of kind {kind}")

    def _bytes(self) -> bytes:
        length = self._varint()
        start = self._take(length)
        return self._data[start : start + length]

    def _number(self) -> int:
        number = self._varint()
        return number >> 1 ^ -(number & 1)

    def _varint(self) -> int:
        number = shift = 0
        while True:
            byte = self._data[self._take(1)]
            number |= (byte & 0x7F) << shift
            if number >> 64:
                raise ValueError("a number too large")
            if byte < 0x80:
                return number
            shift += 7

    def _take(self, length: int) -> int:
        """Step over so many bytes; where they start."""
        start = self._at
        if start + length > len(self._data):
            raise ValueError("it ends too early")
        self._at = start + length
        return start


def _decoded(facts: dict[int, Any], physical: int, *, ordered: bool) -> ChunkStatistics:
    held = facts.get(_STATISTICS, {})
    values, nulls = facts.get(_NUM_VALUES), held.get(_NULL_COUNT)
    if not isinstance(values, int | None) or not isinstance(nulls, int | None):
        raise TypeError("a count that is no number")
    low, high = held.get(_MIN), held.get(_MAX)
    if not ordered or low is None or high is None:
        # The older pair compares by sign whatever the type, which is right for numbers and wrong for bytes.
        low, high = (held.get(_OLD_MIN), held.get(_OLD_MAX)) if physical in _FORMS else (None, None)
    return ChunkStatistics(
        value_count=values,
        null_count=nulls,
        minimum=_raw(low, physical),
        maximum=_raw(high, physical),
    )


def _raw(data: bytes | None, physical: int) -> Any:
    if data is None or physical in _BYTES:
        return data
    form = _FORMS.get(physical)  # INT96 has none: no two writers agree on its order
    return struct.unpack(form, data)[0] if form is not None and len(data) == struct.calcsize(form) else None
