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

from esker.arrow.compact_thrift import BINARY, I16, I32, I64, LIST, STRUCT, Cursor

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
