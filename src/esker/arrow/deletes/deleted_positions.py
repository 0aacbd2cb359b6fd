"""Deleted positions of one data file, from position delete files and deletion vectors."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from esker.arrow.convert import convert
from esker.arrow.read.file_columns import FileColumn, by_field_id
from esker.arrow.read.format_reader import BATCH_ROWS, Chunk, ChunkRequest, DataSource
from esker.arrow.value_arrays import repeated
from esker.errors import Corrupt
from esker.model.file_paths import same_file, split_location
from esker.model.schema import Schema
from esker.model.types import LONG, STRING
from esker.ports.storage import Storage
from esker.tree.data_file import DataFile

if TYPE_CHECKING:
    from pyroaring import BitMap64

FILE_PATH, POS = 2147483546, 2147483545
Int64s = npt.NDArray[np.int64]
_NOTHING: Int64s = np.empty(0, dtype=np.int64)


class Deleted(Protocol):
    """Positions of deleted rows."""

    @property
    def nbytes(self) -> int:
        """The approximate memory in bytes."""
        ...

    def within(self, start: int, length: int) -> Int64s:
        """The positions from ``start`` on, relative to ``start``."""
        ...

    def as_bitmap(self) -> BitMap64:
        """All positions. Must not be changed."""
        ...


@dataclass(frozen=True, slots=True)
class SortedPositions:
    """Positions in ascending order."""

    positions: Int64s

    @property
    def nbytes(self) -> int:
        """The approximate memory in bytes."""
        return self.positions.nbytes

    def within(self, start: int, length: int) -> Int64s:
        """The positions from ``start`` on, relative to ``start``."""
        first, last = np.searchsorted(self.positions, (start, start + length))
        return self.positions[first:last] - start

    def as_bitmap(self) -> BitMap64:
        """All positions. Must not be changed."""
        return bitmap_of(self.positions)


@dataclass(frozen=True, slots=True)
class Bitmap:
    """A deletion vector. It stays a bitmap: a few bytes may mean billions of positions."""

    bitmap: BitMap64
    nbytes: int

    def within(self, start: int, length: int) -> Int64s:
        """The positions from ``start`` on, relative to ``start``."""
        from pyroaring import BitMap64

        inside = self.bitmap & BitMap64(range(start, start + length))
        return np.frombuffer(inside.to_array(), dtype=np.uint64).astype(np.int64) - start

    def as_bitmap(self) -> BitMap64:
        """All positions. Must not be changed."""
        return self.bitmap


def bitmap_of(positions: npt.NDArray[np.integer]) -> BitMap64:
    """Positions as a bitmap. They may be in any order and repeated."""
    from pyroaring import BitMap64

    return BitMap64(array("Q", np.ascontiguousarray(positions, dtype=np.uint64).tobytes()))


def read_deletion_vector(storage: Storage, file: DataFile) -> Bitmap:
    """The vector that a manifest entry points at, in a Puffin file or in an index file."""
    blob = _vector_blob(storage, file)
    if file.file_format == "index":
        from esker.paimon.rows.deletion_vector import decode_vector

        return Bitmap(decode_vector(file.path, blob, cardinality=file.record_count), len(blob))
    from esker.iceberg.deletion_vector import decode_deletion_vector

    return Bitmap(decode_deletion_vector(file.path, blob, cardinality=file.record_count), len(blob))


def read_vector_positions(storage: Storage, file: DataFile) -> Deleted:
    """The positions of the vector. As an array if this process has no bitmap library, like some Spark workers."""
    try:
        import pyroaring  # noqa: F401  # only checked
    except ImportError:
        pass
    else:
        return read_deletion_vector(storage, file)
    blob = _vector_blob(storage, file)
    if file.file_format == "index":
        from esker.paimon.rows.deletion_vector import decode_vector_positions

        return SortedPositions(decode_vector_positions(file.path, blob, cardinality=file.record_count))
    from esker.iceberg.deletion_vector import decode_positions

    return SortedPositions(decode_positions(file.path, blob, cardinality=file.record_count))


def _vector_blob(storage: Storage, file: DataFile) -> bytes:
    from esker.iceberg.puffin import LARGEST_BLOB

    offset, size = file.content_offset, file.content_size
    if offset is None or size is None:
        raise Corrupt(file.path, "its manifest entry does not record where the deletion vector is")
    if offset < 0 or not 0 <= size <= LARGEST_BLOB:
        raise Corrupt(file.path, f"its manifest entry puts a deletion vector of {size} bytes at {offset}")
    missing = offset + size - storage.size(file.path)  # checked first: not every offset can be read
    if missing > 0:
        raise Corrupt(file.path, f"it ends {missing} bytes before the deletion vector at {offset} does")
    with storage.open(file.path) as source:
        source.seek(offset)
        return source.read(size)


Stretch = tuple[str, int, int]
"""The name of a data file, and the range of its positions."""


@dataclass(frozen=True, slots=True)
class PositionDeletes:
    """The content of a position delete file: its positions, sorted for each data file."""

    positions: Int64s
    stretches: Mapping[str, tuple[Stretch, ...]]  # by path without scheme and host

    @property
    def nbytes(self) -> int:
        """The approximate memory in bytes."""
        return self.positions.nbytes + sum(len(path) + 200 for path in self.stretches)

    def of(self, path: str) -> SortedPositions:
        """The positions deleted from a data file."""
        named = self.stretches.get(split_location(path)[2], ())
        parts = [self.positions[first:last] for name, first, last in named if same_file(name, path)]
        return SortedPositions(parts[0] if len(parts) == 1 else np.sort(np.concatenate([*parts, _NOTHING])))


def read_position_deletes(source: DataSource, file: str, *, only: str | None = None) -> PositionDeletes:
    """All of a position delete file, or only the positions of the data file ``only``."""
    paths, positions = [], []
    for path, pos in position_rows(source, file, only=only):
        paths.append(path.dictionary_encode())
        positions.append(pos)
    return _grouped(paths, positions)


def position_rows(source: DataSource, file: str, *, only: str | None = None) -> Iterator[tuple[pa.Array, Int64s]]:
    """The rows of a position delete file, batch by batch. Rows without a data file are skipped."""
    path_column = _column(source.columns, FILE_PATH, "file_path", file)
    pos_column = _column(source.columns, POS, "pos", file)
    leaves = frozenset((path_column.first_leaf, pos_column.first_leaf))
    for chunk in source.chunks(ChunkRequest(leaves=leaves, schema=Schema(fields=()))):
        path = convert(_array(chunk, path_column), STRING, file=file, column="file_path")
        pos = convert(_array(chunk, pos_column), LONG, file=file, column="pos")
        kept = path.is_valid() if only is None else _may_be(path, only)
        yield path.filter(kept), _checked(pos.filter(kept), file)


def vector_rows(vector: Bitmap, data_file: str) -> Iterator[tuple[pa.Array, Int64s]]:
    """A deletion vector as the rows of a position delete file, batch by batch."""
    left = iter(vector.bitmap)
    while some := list(islice(left, BATCH_ROWS)):
        yield repeated(STRING, data_file, len(some)), np.array(some, dtype=np.int64)


def _may_be(path: pa.Array, only: str) -> pa.Array:
    import pyarrow.compute as pc

    return pc.fill_null(pc.ends_with(path, pattern=split_location(only)[2]), False)


def _checked(pos: pa.Array, file: str) -> Int64s:
    if pos.null_count:
        raise Corrupt(file, "a deleted position is null")
    numbers: Int64s = pos.to_numpy(zero_copy_only=False)
    if len(numbers) and numbers.min() < 0:
        raise Corrupt(file, f"a deleted position is negative: {numbers.min()}")
    return numbers


def _grouped(paths: list[pa.DictionaryArray], positions: list[Int64s]) -> PositionDeletes:
    if not positions:
        return PositionDeletes(_NOTHING, {})
    encoded = pa.chunked_array(paths).unify_dictionaries().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):  # older pyarrow: one chunk
        encoded = encoded.chunk(0)
    codes: Int64s = encoded.indices.to_numpy(zero_copy_only=False)
    flat = np.concatenate(positions)
    order = np.lexsort((flat, codes))
    codes = codes[order]
    names = encoded.dictionary.to_pylist()
    ends = np.searchsorted(codes, np.arange(len(names)), side="right")
    starts = np.searchsorted(codes, np.arange(len(names)), side="left")
    stretches: dict[str, tuple[Stretch, ...]] = {}
    for name, first, last in zip(names, starts, ends, strict=True):
        place = split_location(name)[2]
        stretches[place] = (*stretches.get(place, ()), (name, int(first), int(last)))
    return PositionDeletes(flat[order], stretches)


def _column(columns: tuple[FileColumn, ...], field_id: int, name: str, file: str) -> FileColumn:
    """The column of the reserved id. By the reserved name if the writer wrote no ids."""
    found = by_field_id(columns).get(field_id) or next((c for c in columns if c.name == name), None)
    if found is None or found.children:
        raise Corrupt(file, f"a position delete file needs a column {name!r}, this one does not have it")
    return found


def _array(chunk: Chunk, wanted: FileColumn) -> pa.Array:
    return next(array for column, array in chunk.columns if column.name == wanted.name)
