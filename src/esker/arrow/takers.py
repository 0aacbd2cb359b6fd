"""Deletes seen from the other side: the rows that they take, rather than those that they leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from esker.arrow.chunk import Chunk
from esker.arrow.delete_store import DeleteStore, EqualityDelete
from esker.arrow.deleted_positions import Bitmap, Deleted
from esker.model.types import Field
from esker.ports.engine import ScanTask

if TYPE_CHECKING:
    from pyroaring import BitMap64

    Bools = npt.NDArray[np.bool_]


class RowsOfChunk(Protocol):
    """A chunk seen as rows of the table."""

    @property
    def chunk(self) -> Chunk:
        """Where the rows stand."""
        ...

    def at(self, path: tuple[Field, ...]) -> pa.Array:
        """A column at any depth."""
        ...


@dataclass(frozen=True, slots=True)
class Takers:
    """Positions and keys of which a row must have one to be meant."""

    positions: tuple[Deleted, ...]
    keys: tuple[EqualityDelete, ...]

    @property
    def are_none(self) -> bool:
        """Whether no row can be meant, so that the file need not be opened."""
        return not self.keys and not any(taken.nbytes for taken in self.positions)

    @property
    def touches(self) -> Callable[[int, int], bool] | None:
        """Whether a stretch of the file, from here so long, has a row that is meant; None where keys decide."""
        return None if self.keys else self._touches

    def _touches(self, start: int, length: int) -> bool:
        return any(len(taken.within(start, length)) for taken in self.positions)

    def hits(self, rows: RowsOfChunk) -> Bools:
        """Which rows of a chunk are meant."""
        chunk = rows.chunk
        hit = np.zeros(chunk.length, dtype=bool)
        for taken in self.positions:
            hit[taken.within(chunk.position, chunk.length)] = True
        for delete in self.keys:
            hit |= delete.keys.hits([rows.at(path) for path in delete.paths])
        return hit


def takers_of(task: ScanTask, store: DeleteStore) -> Takers | None:
    """What takes the rows that a task means; None where it means all that are left."""
    if task.taken_by is None:
        return None
    keys = store.equality(task.taken_by)
    taken = store.positions(task.data_file, task.taken_by)
    if keys or not taken:
        return Takers(taken, keys)
    # A vector holds what the one before it held: what is left without that tells whether to open the file at all.
    # It stays a bitmap, however many rows the file is said to have.
    mine = _united(taken) - _united(store.positions(task.data_file, task.deletes))
    return Takers((Bitmap(mine, len(mine)),), ())


def _united(parts: tuple[Deleted, ...]) -> BitMap64:
    from pyroaring import BitMap64

    found = BitMap64()
    for part in parts:
        found |= part.as_bitmap()
    return found


def touches_of(task: ScanTask, takers: Takers | None) -> Callable[[int, int], bool] | None:
    """Whether a stretch of the file, from here so long, has a row that is meant; None where any may have one."""
    if takers is not None:
        return takers.touches
    gone = task.gone
    if gone is None:
        return None
    return lambda start, length: gone.range_cardinality(start, start + length) < length
