"""The port of statistics: it computes sketches of columns, and writes and reads the files of statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from esker.model.schema import Schema
from esker.model.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntType,
    LongType,
    StringType,
    TimestampType,
    TimeType,
    Type,
    UuidType,
)
from esker.ports.engine import ReadRequest
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import StatisticsFile

if TYPE_CHECKING:
    import pyarrow as pa

_NUMBERS = (IntType, LongType, FloatType, DoubleType, DecimalType)
_TIMES = (DateType, TimeType, TimestampType)
_OTHERS = (BooleanType, StringType, UuidType, FixedType, BinaryType)


def can_be_sketched(type_: Type) -> bool:
    """Whether distinct values of the type can be counted: whether a value has a form as bytes."""
    return isinstance(type_, _NUMBERS + _TIMES + _OTHERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSketch:
    """A compact theta sketch of one column, and the number of distinct values that follows from it."""

    field_id: int
    content: bytes
    distinct_values: int  # exact up to 4096, then an estimate


class Statistics(Protocol):
    """Computes, writes and reads statistics. A file is invisible until the table's metadata names it."""

    def sketches(self, request: ReadRequest, field_ids: Sequence[int]) -> Mapping[int, ColumnSketch]:
        """Read the rows and return a sketch of each of these columns, by field id. Uses bounded memory."""
        ...

    def write_sketches(
        self, location: str, snapshot: Snapshot, sketches: Sequence[ColumnSketch], replaced: StatisticsFile | None
    ) -> StatisticsFile:
        """Write a new file with these sketches, and describe it.

        The file also gets the other blobs of the file that it replaces. If that file cannot be read, they are left out.
        """
        ...

    def write_partitions(self, location: str, schema: Schema, rows: pa.Table) -> int:
        """Write a new file of partition statistics. Returns its length."""
        ...
