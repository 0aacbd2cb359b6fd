"""The delete files of one scan: each is read once and kept within a memory budget. Also the rows that deletes
remove."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from esker.arrow.deletes.deleted_positions import (
    Bitmap,
    Deleted,
    PositionDeletes,
    read_position_deletes,
    read_vector_positions,
)
from esker.arrow.equal_rows import KeySet
from esker.arrow.read.file_columns import FileColumn, branch, by_field_id, every_column, path_of, tip, wanted_leaves
from esker.arrow.read.format_reader import Chunk, ChunkRequest
from esker.arrow.read.open_data import GetMapping, open_data, renumbered
from esker.arrow.read.project import Origin, project
from esker.errors import Corrupt
from esker.model.schema import Schema
from esker.model.types import Field
from esker.ports.engine import ScanTask
from esker.ports.storage import Storage
from esker.tree.data_file import DataFile, FileContent
from esker.tree.table_metadata import TableMetadata

BUDGET = 256 << 20
LARGE = 8 << 20  # a position delete file with more rows is searched for one data file instead of kept in memory


class Sized(Protocol):
    """Something with a size in memory."""

    @property
    def nbytes(self) -> int:
        """Its approximate memory in bytes."""
        ...


Kept = TypeVar("Kept", bound=Sized)


@dataclass(frozen=True, slots=True)
class EqualityDelete:
    """Keys to delete, and the path to each of their columns."""

    paths: tuple[tuple[Field, ...], ...]
    keys: KeySet


@dataclass(frozen=True, slots=True)
class EqualityRows:
    """The rows of equality delete files that compare the same columns, and the path to each column."""

    paths: tuple[tuple[Field, ...], ...]
    columns: tuple[pa.Array, ...]


@dataclass(frozen=True, slots=True)
class _Keys:
    """The key columns of one delete file."""

    columns: tuple[pa.Array, ...]

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self.columns)


class DeleteStore:
    """Reads delete files when they are needed. Drops the least recently used ones if they need too much memory."""

    def __init__(
        self,
        storage: Storage,
        metadata: TableMetadata,
        schema: Schema,
        get_mapping: GetMapping,
    ) -> None:
        self._storage, self._metadata, self._schema, self._get_mapping = storage, metadata, schema, get_mapping
        self._kept: OrderedDict[Hashable, Sized] = OrderedDict()

    def positions(self, data_file: DataFile, deletes: Sequence[DataFile]) -> tuple[Deleted, ...]:
        """The positions that these deletes remove from the data file."""
        return tuple(
            self._positions(data_file.path, delete)
            for delete in deletes
            if delete.content is FileContent.POSITION_DELETES
        )

    def equality(self, deletes: Sequence[DataFile]) -> tuple[EqualityDelete, ...]:
        """The keys that these deletes remove, one set for each set of columns."""
        return tuple(self._equality(ids, files) for ids, files in self._by_columns(deletes).items())

    def equality_paths(self, deletes: Sequence[DataFile]) -> tuple[tuple[Field, ...], ...]:
        """The path to every column that these deletes compare."""
        groups = self._by_columns(deletes)
        return tuple(self._path(id_, files[0].path) for ids, files in groups.items() for id_ in ids)

    def equality_rows(self, deletes: Sequence[DataFile]) -> tuple[EqualityRows, ...]:
        """The keys themselves, for engines that compare in another way."""
        return tuple(self._equality_rows(ids, files) for ids, files in self._by_columns(deletes).items())

    def _by_columns(self, deletes: Sequence[DataFile]) -> dict[tuple[int, ...], list[DataFile]]:
        groups: dict[tuple[int, ...], list[DataFile]] = {}
        for delete in deletes:
            if delete.content is FileContent.EQUALITY_DELETES:
                groups.setdefault(self._equality_ids(delete), []).append(delete)
        return groups

    def _equality_rows(self, ids: tuple[int, ...], files: Sequence[DataFile]) -> EqualityRows:
        paths = tuple(self._path(id_, files[0].path) for id_ in ids)
        read = [self._keys(paths, file).columns for file in files]
        return EqualityRows(paths, tuple(pa.concat_arrays(columns) for columns in zip(*read, strict=True)))

    def _positions(self, path: str, delete: DataFile) -> Deleted:
        if delete.is_deletion_vector:
            key = (delete.path, delete.content_offset)
            return self._once(key, lambda: read_vector_positions(self._storage, delete))
        if delete.record_count > LARGE:
            return self._position_deletes(delete, path).of(path)
        return self._once(delete.path, partial(self._position_deletes, delete)).of(path)

    def _position_deletes(self, delete: DataFile, only: str | None = None) -> PositionDeletes:
        source = open_data(self._storage, delete, lambda columns: columns)
        return read_position_deletes(source, delete.path, only=only)

    def _equality(self, ids: tuple[int, ...], files: Sequence[DataFile]) -> EqualityDelete:
        paths = tuple(self._path(id_, files[0].path) for id_ in ids)
        key = (ids, tuple(file.path for file in files))
        return EqualityDelete(paths, self._once(key, lambda: self._key_set(paths, files)))

    def _key_set(self, paths: tuple[tuple[Field, ...], ...], files: Sequence[DataFile]) -> KeySet:
        read = [self._once((file.path, paths), partial(self._keys, paths, file)).columns for file in files]
        return KeySet([pa.concat_arrays(columns) for columns in zip(*read, strict=True)])

    def _keys(self, paths: tuple[tuple[Field, ...], ...], file: DataFile) -> _Keys:
        """The key columns of a delete file, in the table's current types."""
        source = open_data(self._storage, file, renumbered(file, self._schema, self._get_mapping))
        wanted = tuple(_placed(path, source.columns, file.path) for path in paths)
        leaves = wanted_leaves([branch(path) for path in wanted], source.columns)
        origin = Origin(file=file.path)
        parts: list[list[pa.Array]] = [[] for _ in wanted]
        for chunk in source.chunks(ChunkRequest(leaves=leaves, schema=self._schema)):
            held = {column.field_id: (column, array) for column, array in reversed(chunk.columns)}
            for part, path in zip(parts, wanted, strict=True):
                array = project(branch(path), held.get(path[0].id), chunk.length, origin)
                part.append(tip(array, path))
        empty = [project(path[-1], None, 0, origin) for path in wanted]
        return _Keys(tuple(pa.concat_arrays([*part, none]) for part, none in zip(parts, empty, strict=True)))

    def _path(self, field_id: int, file: str) -> tuple[Field, ...]:
        path = path_of(field_id, self._schema, self._metadata)
        if path is None:
            raise Corrupt(file, f"it deletes by the field {field_id}, which no schema of the table has")
        if field_id in self._schema.by_id:
            return path
        # The column was dropped, perhaps while it was required. Files that were written later do not have it: null
        # (H4).
        return tuple(replace(part, required=False) for part in path)

    @staticmethod
    def _equality_ids(delete: DataFile) -> tuple[int, ...]:
        if not delete.equality_ids:
            raise Corrupt(delete.path, "its manifest entry does not record which columns the equality deletes compare")
        return tuple(sorted(set(delete.equality_ids)))

    def _once(self, key: Hashable, read: Callable[[], Kept]) -> Kept:
        """The cached value of the key, or a new one. The oldest values are dropped when the budget is used up."""
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]  # type: ignore[return-value]  # a key is always used with one type
        found = read()
        self._kept[key] = found
        while len(self._kept) > 1 and sum(thing.nbytes for thing in self._kept.values()) > BUDGET:
            self._kept.popitem(last=False)
        return found


def _placed(path: tuple[Field, ...], columns: tuple[FileColumn, ...], file: str) -> tuple[Field, ...]:
    """The path to a key column in the delete file: as in the table, or the column alone at the top."""
    if path[0].id in by_field_id(columns) and any(c.field_id == path[-1].id for c in every_column(columns)):
        return path
    if path[-1].id in by_field_id(columns):
        return path[-1:]
    raise Corrupt(file, f"it does not have the column {path[-1].name!r} that its equality deletes compare")


# ---------------------------------------------------------------- The rows that deletes remove, for change feeds


if TYPE_CHECKING:
    from pyroaring import BitMap64

    Bools = npt.NDArray[np.bool_]


class RowsOfChunk(Protocol):
    """A chunk as rows of the table."""

    @property
    def chunk(self) -> Chunk:
        """The position of the rows in the file."""
        ...

    def at(self, path: tuple[Field, ...]) -> pa.Array:
        """A column at any depth."""
        ...


@dataclass(frozen=True, slots=True)
class Takers:
    """Positions and keys. A row is selected if it has one of them."""

    positions: tuple[Deleted, ...]
    keys: tuple[EqualityDelete, ...]

    @property
    def are_none(self) -> bool:
        """Whether no row can be selected, so that the file need not be opened."""
        return not self.keys and not any(taken.nbytes for taken in self.positions)

    @property
    def touches(self) -> Callable[[int, int], bool] | None:
        """A function that says whether a range of the file has a selected row. None if keys decide."""
        return None if self.keys else self._touches

    def _touches(self, start: int, length: int) -> bool:
        return any(len(taken.within(start, length)) for taken in self.positions)

    def hits(self, rows: RowsOfChunk) -> Bools:
        """Which rows of a chunk are selected."""
        chunk = rows.chunk
        hit = np.zeros(chunk.length, dtype=bool)
        for taken in self.positions:
            hit[taken.within(chunk.position, chunk.length)] = True
        for delete in self.keys:
            hit |= delete.keys.hits([rows.at(path) for path in delete.paths])
        return hit


def takers_of(task: ScanTask, store: DeleteStore) -> Takers | None:
    """The deletes whose rows a task selects. None if it selects all remaining rows."""
    if task.taken_by is None:
        return None
    keys = store.equality(task.taken_by)
    taken = store.positions(task.data_file, task.taken_by)
    if keys or not taken:
        return Takers(taken, keys)
    # A vector contains the positions of the vector before it. The difference decides whether to open the file. It stays
    # a bitmap, because the recorded number of rows may be huge.
    mine = _united(taken) - _united(store.positions(task.data_file, task.deletes))
    return Takers((Bitmap(mine, len(mine)),), ())


def _united(parts: tuple[Deleted, ...]) -> BitMap64:
    from pyroaring import BitMap64

    found = BitMap64()
    for part in parts:
        found |= part.as_bitmap()
    return found


def touches_of(task: ScanTask, takers: Takers | None) -> Callable[[int, int], bool] | None:
    """A function that says whether a range of the file has a selected row. None if any range may have one."""
    if takers is not None:
        return takers.touches
    gone = task.gone
    if gone is None:
        return None
    return lambda start, length: gone.range_cardinality(start, start + length) < length
