"""Parquet footers by hand: Thrift's compact encoding, the statistics of row groups, and the annotation of variants."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa

# ---------------------------------------------------------------- compact thrift
#
# A cursor over Thrift's compact encoding, in which Parquet writes its footers.
#
# Input is hostile: nothing is read past the end, nothing is nested deeper than a footer can be, and whatever makes no
# sense is a ``ValueError``.


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


# ---------------------------------------------------------------- The statistics in a Parquet footer, read by hand
#
# pyarrow's own accessors end the whole process on a footer that contradicts itself: a C++ exception crosses into
# Python. So what pruning needs is decoded here, from Thrift's compact encoding, and nothing else is. Whatever cannot
# be understood is no statistics, which prunes nothing; the reader of the rows then says what is wrong with the file.


MAGIC = b"PAR1"
LARGEST_FOOTER = 128 << 20

# Field ids of parquet.thrift.
_SCHEMA, _ROW_GROUPS, _COLUMN_ORDERS = 2, 4, 7  # FileMetaData
_PHYSICAL_TYPE, _CHILDREN = 1, 5  # SchemaElement
_COLUMNS, _NUM_ROWS = 1, 3  # RowGroup
_META_DATA = 3  # ColumnChunk
_NUM_VALUES, _STATISTICS = 5, 12  # ColumnMetaData
_OLD_MAX, _OLD_MIN, _NULL_COUNT, _MAX, _MIN = 1, 2, 3, 5, 6  # Statistics

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


class _Footer(Cursor):
    """A footer being read."""

    def statistics(self, leaves: frozenset[int]) -> tuple[RowGroupStatistics, ...]:
        """Walk the whole footer once, decoding what is asked for."""
        types: list[int] = []
        groups: list[tuple[int, dict[int, Any]]] = []
        ordered = False
        for id_, kind in self.fields():
            if id_ == _SCHEMA and kind == LIST:
                elements = [self._struct((_PHYSICAL_TYPE, _CHILDREN)) for _ in self.items(STRUCT)]
                types = [element.get(_PHYSICAL_TYPE, -1) for element in elements[1:] if not element.get(_CHILDREN)]
            elif id_ == _ROW_GROUPS and kind == LIST:
                groups = [self._row_group(leaves) for _ in self.items(STRUCT)]
            else:
                ordered = ordered or id_ == _COLUMN_ORDERS
                self.skip(kind)
        return tuple(
            RowGroupStatistics(rows, {at: _decoded(facts, types[at], ordered=ordered) for at, facts in columns.items()})
            for rows, columns in groups
        )

    def _row_group(self, leaves: frozenset[int]) -> tuple[int, dict[int, Any]]:
        rows, columns = -1, {}
        for id_, kind in self.fields():
            if id_ == _COLUMNS and kind == LIST:
                for at in self.items(STRUCT):
                    if at in leaves:
                        columns[at] = self._column_chunk()
                    else:
                        self.skip(STRUCT)
            elif id_ == _NUM_ROWS:
                rows = self.number()
            else:
                self.skip(kind)
        if rows < 0:
            raise ValueError("a row group without a number of rows")
        return rows, columns

    def _column_chunk(self) -> dict[int, Any]:
        found: dict[int, Any] = {}
        for id_, kind in self.fields():
            if id_ == _META_DATA and kind == STRUCT:
                found = self._struct((_NUM_VALUES, _STATISTICS))
            else:
                self.skip(kind)
        return found

    def _struct(self, wanted: tuple[int, ...]) -> dict[int, Any]:
        """The wanted fields of a struct; a struct in it is decoded whole, but for what is nested deeper."""
        found: dict[int, Any] = {}
        for id_, kind in self.fields():
            if id_ not in wanted:
                self.skip(kind)
            elif kind in (I16, I32, I64):
                found[id_] = self.number()
            elif kind == BINARY:
                found[id_] = self.bytes()
            elif kind == STRUCT:
                found[id_] = self._struct((_OLD_MAX, _OLD_MIN, _NULL_COUNT, _MAX, _MIN))
            else:
                self.skip(kind)
        return found


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


# ---------------------------------------------------------------- variant annotation
#
# Parquet's mark that a group is a variant, set in the footer as it is written.
#
# pyarrow writes such a group but cannot mark it: it knows the annotation in C++, and no type of Python's reaches it.
# Without the mark other readers take the group for a struct. So the end of the file, which is the footer, is held back
# when the writer closes; a few bytes are put into the schema's elements for variants; and then it is written. Nothing
# in a footer points into the footer itself, so nothing else changes.


_SCHEMA_ELEMENTS = 2  # of FileMetaData
_NAME, _CHILD_COUNT, _LOGICAL_TYPE = 4, 5, 10  # of SchemaElement
# LogicalType's member 16 is a VariantType, whose field 1, a byte, is the version of the encoding.
_VARIANT = bytes((STRUCT, 16 << 1, 1 << 4 | 3, 1, 0, 0))

Path = tuple[str, ...]


class HeldFooter:
    """A sink that can keep what is written to it for a while."""

    def __init__(self, under: BinaryIO) -> None:
        self._under = under
        self._held: list[bytes] | None = None
        self.closed = False

    def hold(self) -> None:
        """Keep what is written from here on."""
        self._held = []

    def release(self, variants: Collection[Path]) -> None:
        """Write what was kept, with these groups marked."""
        held, self._held = b"".join(self._held or ()), None
        self._under.write(annotated(held, variants))

    def write(self, data: bytes) -> int:
        """Take some bytes."""
        if self._held is None:
            return self._under.write(data)
        self._held.append(bytes(data))
        return len(data)

    def tell(self) -> int:
        """How many bytes were written, with those that are kept."""
        return self._under.tell() + sum(map(len, self._held or ()))

    def flush(self) -> None:
        """What is kept stays so."""
        self._under.flush()

    def close(self) -> None:
        """The file below belongs to somebody else."""
        self.closed = True

    def readable(self) -> bool:
        """Never."""
        return False

    def writable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Never."""
        return False


def annotated(data: bytes, variants: Collection[Path]) -> bytes:
    """The end of a Parquet file, with the groups at these paths of its schema marked as variants."""
    length = int.from_bytes(data[-8:-4], "little")
    if data[-4:] != MAGIC or length > len(data) - 8:
        raise ValueError("these bytes do not end as a Parquet file does")
    footer = data[len(data) - 8 - length : -8]
    pieces, start = [], 0
    for end, last in _ends(footer, frozenset(variants)):
        pieces += [footer[start:end], bytes((_LOGICAL_TYPE - last << 4 | STRUCT,)), _VARIANT]
        start = end
    marked = b"".join((*pieces, footer[start:]))
    return b"".join((data[: len(data) - 8 - length], marked, len(marked).to_bytes(4, "little"), MAGIC))


def _ends(footer: bytes, variants: frozenset[Path]) -> list[tuple[int, int]]:
    """For each variant where its element's fields end, and the id of the last of them."""
    cursor = Cursor(footer)
    found: dict[Path, tuple[int, int]] = {}
    for id_, kind in cursor.fields():
        if id_ != _SCHEMA_ELEMENTS or kind != LIST:
            cursor.skip(kind)
            continue
        above: list[tuple[Path, int]] = []  # the groups that are open: a path, and how many children are to come
        for at in cursor.items(STRUCT):
            name, children, last = _element(cursor)
            while above and not above[-1][1]:
                above.pop()
            path = (*above[-1][0], name) if above else ()
            if above:
                above[-1] = (above[-1][0], above[-1][1] - 1)
            if children or not at:
                above.append((path, children))
            if path in variants and at:
                found[path] = (cursor.at - 1, last)
    if found.keys() != variants or any(last >= _LOGICAL_TYPE for _, last in found.values()):
        raise ValueError(f"the file's schema has no plain groups {sorted(variants)}")
    return sorted(found.values())


def _element(cursor: Cursor) -> tuple[str, int, int]:
    """An element's name, its number of children, and the id of its last field."""
    name, children, last = "", 0, 0
    for id_, kind in cursor.fields():
        last = id_
        if id_ == _NAME and kind == BINARY:
            name = cursor.bytes().decode()
        elif id_ == _CHILD_COUNT and kind == I32:
            children = cursor.number()
        else:
            cursor.skip(kind)
    return name, children, last
