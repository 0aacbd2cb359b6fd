"""A stretch of a data file, as its reader gives it: the file's own columns, and where in the file they stand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from esker.arrow.file_columns import FileColumn
from esker.model.predicate import TRUE, Bound
from esker.model.schema import Schema

BATCH_ROWS = 1 << 16
BATCH_BYTES = 32 << 20  # what a batch should stay below, where rows are wide


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Consecutive rows of a file. ``residual`` is what of the filter its statistics do not settle."""

    position: int
    length: int
    columns: tuple[tuple[FileColumn, pa.Array], ...]
    residual: Bound = TRUE


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRequest:
    """Which part of a file is wanted: leaves by number, and rows that may pass the filter."""

    leaves: frozenset[int]
    residual: Bound = TRUE
    schema: Schema  # the one the residual was bound to
    batch_rows: int = BATCH_ROWS
    touches: Callable[[int, int], bool] | None = None  # whether so many rows from a position on have one that is wanted


class DataSource(Protocol):
    """An opened data file of some format."""

    @property
    def columns(self) -> tuple[FileColumn, ...]:
        """What the file has."""
        ...

    def chunks(self, request: ChunkRequest) -> Iterator[Chunk]:
        """The rows in file order, but for those that cannot pass the filter."""
        ...


class Renumbered(Protocol):
    """How ids are found for the columns of a file whose writer left none."""

    def __call__(self, columns: tuple[FileColumn, ...]) -> tuple[FileColumn, ...]:
        """The same columns with ids."""
        ...
