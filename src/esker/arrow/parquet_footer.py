"""Parquet footers, read and changed as bytes: Thrift's compact encoding, the statistics of row groups, and the
annotation of variants.

pyarrow's own accessors end the process on a footer that contradicts itself: a C++ exception reaches Python. So the
statistics for pruning are decoded here. A footer that makes no sense has no statistics, which prunes nothing. The
reader of the rows then reports what is wrong with the file.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, BinaryIO, TypeAlias

import pyarrow as pa

# ---------------------------------------------------------------- Thrift's compact encoding
#
# The input may be hostile: reads and nesting are limited, and a fault is a ``ValueError``.


_MAX_DEPTH = 32

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)


class Cursor:
    """A position in some bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def fields(self) -> Iterator[tuple[int, int]]:
        """The id and kind of each field. The caller reads or skips its value before the next."""
        last = 0
        while head := self._data[self.take(1)]:
            last = last + (head >> 4) if head >> 4 else self.number()
            yield last, head & 15

    def items(self, expected: int) -> range:
        """The indices of a list of that kind. The caller reads or skips each item."""
        head = self._data[self.take(1)]
        count = head >> 4 if head >> 4 != 15 else self.varint()
        if head & 15 != expected or count > len(self._data):
            raise ValueError("a list of something else")
        return range(count)

    def skip(self, kind: int, depth: int = 0) -> None:
        """Skip a value."""
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
        elif kind not in (TRUE, FALSE):  # includes maps, which Parquet does not use
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
        """An unsigned number."""
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
        """Skip ``length`` bytes. Returns where they start."""
        start = self.at
        if start + length > len(self._data):
            raise ValueError("it ends too early")
        self.at = start + length
        return start


# ---------------------------------------------------------------- Statistics of row groups


MAGIC = b"PAR1"
LARGEST_FOOTER = 128 << 20

# Field ids of parquet.thrift.
_SCHEMA, _ROW_GROUPS, _COLUMN_ORDERS = 2, 4, 7  # FileMetaData
_PHYSICAL_TYPE, _CHILDREN = 1, 5  # SchemaElement
_COLUMNS, _NUM_ROWS = 1, 3  # RowGroup
_META_DATA = 3  # ColumnChunk
_NUM_VALUES, _STATISTICS = 5, 12  # ColumnMetaData
_OLD_MAX, _OLD_MIN, _NULL_COUNT, _MAX, _MIN = 1, 2, 3, 5, 6  # Statistics

_FORMS = {0: "<?", 1: "<i", 2: "<q", 4: "<f", 5: "<d"}  # physical types of a fixed size
_BYTES = (6, 7)  # BYTE_ARRAY and FIXED_LEN_BYTE_ARRAY


@dataclass(frozen=True, slots=True)
class ChunkStatistics:
    """The footer's statistics of one column in one row group. None is unknown."""

    value_count: int | None = None
    null_count: int | None = None
    minimum: Any = None  # bool, int, float or bytes, by the physical type
    maximum: Any = None


@dataclass(frozen=True, slots=True)
class RowGroupStatistics:
    """The footer's statistics of one row group, for the wanted leaves."""

    rows: int
    columns: dict[int, ChunkStatistics]


_Groups: TypeAlias = "tuple[RowGroupStatistics, ...] | None"


def read_statistics(source: pa.NativeFile, leaves: Collection[int]) -> tuple[RowGroupStatistics, ...] | None:
    """The statistics of these leaves per row group. None if the footer makes no sense."""
    size = source.size()
    if size < 12:
        return None
    tail = source.read_at(8, size - 8)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != MAGIC or length > min(size - 8, LARGEST_FOOTER):
        return None
    footer = source.read_at(length, size - 8 - length)
    return (_compiled() or _statistics)(footer, leaves)


@cache
def _compiled() -> Callable[[bytes, Collection[int]], _Groups] | None:
    """The same by compiled code, in a hundredth of the time. None where it was not built."""
    try:
        from esker.arrow.flat._parquet import statistics
    except ImportError:
        return None

    def read(footer: bytes, leaves: Collection[int]) -> _Groups:
        wanted = tuple(sorted(leaves))
        found = statistics(footer, wanted)
        if found is None:
            return None
        ordered, types, groups = found
        return tuple(
            RowGroupStatistics(
                rows,
                {
                    at: _bounded(facts, physical, ordered=bool(ordered))
                    for at, physical, facts in zip(wanted, types, columns, strict=True)
                },
            )
            for rows, columns in groups
        )

    return read


def _statistics(footer: bytes, leaves: Collection[int]) -> _Groups:
    try:
        return _Footer(footer).statistics(frozenset(leaves))
    except (IndexError, ValueError, TypeError, AttributeError, struct.error):
        return None


class _Footer(Cursor):
    """Reads a footer."""

    def statistics(self, leaves: frozenset[int]) -> tuple[RowGroupStatistics, ...]:
        """Read the whole footer once, and decode the wanted leaves."""
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
        """The wanted fields of a struct. A struct inside is decoded too, without what is nested deeper."""
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
        raise TypeError("a count that is not a number")
    bounds = (held.get(_MIN), held.get(_MAX), held.get(_OLD_MIN), held.get(_OLD_MAX))
    return _bounded((values, nulls, *bounds), physical, ordered=ordered)


def _bounded(facts: tuple[Any, ...], physical: int, *, ordered: bool) -> ChunkStatistics:
    """``facts``: the number of values and of nulls, the bounds, and the older pair of bounds."""
    values, nulls, low, high, *older = facts
    if not ordered or low is None or high is None:
        # The older pair of fields compares signed, which is right for numbers and wrong for bytes.
        low, high = older if physical in _FORMS else (None, None)
    return ChunkStatistics(
        value_count=_count(values),
        null_count=_count(nulls),
        minimum=_raw(low, physical),
        maximum=_raw(high, physical),
    )


def _count(count: int | None) -> int | None:
    return None if count is None or count < 0 else count


def _raw(data: bytes | None, physical: int) -> Any:
    if data is None or physical in _BYTES:
        return data
    form = _FORMS.get(physical)  # INT96 has none: no two writers agree on its order
    return struct.unpack(form, data)[0] if form is not None and len(data) == struct.calcsize(form) else None


# ---------------------------------------------------------------- The annotation of variants
#
# Pyarrow writes a variant as a group, but cannot annotate it from Python. Without the annotation, other readers read a
# struct. So the end of the file, which is the footer, is kept back when the writer closes. A few bytes are added to the
# schema elements of variants, and then it is written. Nothing in a footer points into the footer, so nothing else
# changes.


_SCHEMA_ELEMENTS = 2  # of FileMetaData
_NAME, _CHILD_COUNT, _LOGICAL_TYPE = 4, 5, 10  # of SchemaElement
# Member 16 of LogicalType is a VariantType. Its field 1, a byte, is the version of the encoding.
_VARIANT = bytes((STRUCT, 16 << 1, 1 << 4 | 3, 1, 0, 0))

Path = tuple[str, ...]


class HeldFooter:
    """A sink that can keep back what is written to it."""

    def __init__(self, under: BinaryIO) -> None:
        self._under = under
        self._held: list[bytes] | None = None
        self.closed = False

    def hold(self) -> None:
        """Keep back what is written from now on."""
        self._held = []

    def release(self, variants: Collection[Path]) -> None:
        """Write what was kept back, with these groups annotated."""
        held, self._held = b"".join(self._held or ()), None
        self._under.write(annotated(held, variants))

    def write(self, data: bytes) -> int:
        """Write some bytes."""
        if self._held is None:
            return self._under.write(data)
        self._held.append(bytes(data))
        return len(data)

    def tell(self) -> int:
        """How many bytes were written, including those that are kept back."""
        return self._under.tell() + sum(map(len, self._held or ()))

    def flush(self) -> None:
        """Does nothing: kept bytes stay kept."""
        self._under.flush()

    def close(self) -> None:
        """Does nothing: the file below has another owner."""
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
    """The end of a Parquet file, with the groups at these paths of its schema annotated as variants."""
    length = int.from_bytes(data[-8:-4], "little")
    if data[-4:] != MAGIC or length > len(data) - 8:
        raise ValueError("these bytes are not the end of a Parquet file")
    footer = data[len(data) - 8 - length : -8]
    pieces, start = [], 0
    for end, last in _ends(footer, frozenset(variants)):
        pieces += [footer[start:end], bytes((_LOGICAL_TYPE - last << 4 | STRUCT,)), _VARIANT]
        start = end
    marked = b"".join((*pieces, footer[start:]))
    return b"".join((data[: len(data) - 8 - length], marked, len(marked).to_bytes(4, "little"), MAGIC))


def _ends(footer: bytes, variants: frozenset[Path]) -> list[tuple[int, int]]:
    """For each variant, where the fields of its element end, and the id of the last field."""
    cursor = Cursor(footer)
    found: dict[Path, tuple[int, int]] = {}
    for id_, kind in cursor.fields():
        if id_ != _SCHEMA_ELEMENTS or kind != LIST:
            cursor.skip(kind)
            continue
        above: list[tuple[Path, int]] = []  # the open groups: a path, and how many children are left
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
        raise ValueError(f"the file's schema has no groups {sorted(variants)} without annotation")
    return sorted(found.values())


def _element(cursor: Cursor) -> tuple[str, int, int]:
    """The name of an element, its number of children, and the id of its last field."""
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
