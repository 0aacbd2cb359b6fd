"""Deleted positions of one data file, from position delete files and deletion vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from esker.arrow.chunk import Chunk, ChunkRequest, DataSource
from esker.arrow.convert import convert
from esker.arrow.file_columns import FileColumn, by_field_id
from esker.errors import Corrupt
from esker.iceberg.deletion_vector import decode_deletion_vector
from esker.iceberg.puffin import LARGEST_BLOB
from esker.model.schema import Schema
from esker.model.types import LONG, STRING
from esker.ports.storage import Storage
from esker.tree.data_file import DataFile

if TYPE_CHECKING:
    from pyroaring import BitMap64

FILE_PATH, POS = 2147483546, 2147483545
Int64s = npt.NDArray[np.int64]


class Deleted(Protocol):
    """Positions of deleted rows."""

    @property
    def nbytes(self) -> int:
        """About how much memory they take."""
        ...

    def within(self, start: int, length: int) -> Int64s:
        """Those from ``start`` on, counted from there."""
        ...


@dataclass(frozen=True, slots=True)
class SortedPositions:
    """Positions in ascending order."""

    positions: Int64s

    @property
    def nbytes(self) -> int:
        """About how much memory they take."""
        return self.positions.nbytes

    def within(self, start: int, length: int) -> Int64s:
        """Those from ``start`` on, counted from there."""
        first, last = np.searchsorted(self.positions, (start, start + length))
        return self.positions[first:last] - start


@dataclass(frozen=True, slots=True)
class Bitmap:
    """A deletion vector. It stays a bitmap: a few bytes of runs may stand for billions of positions."""

    bitmap: BitMap64
    nbytes: int

    def within(self, start: int, length: int) -> Int64s:
        """Those from ``start`` on, counted from there."""
        from pyroaring import BitMap64

        inside = self.bitmap & BitMap64(range(start, start + length))
        return np.frombuffer(inside.to_array(), dtype=np.uint64).astype(np.int64) - start


def read_deletion_vector(storage: Storage, file: DataFile) -> Bitmap:
    """The vector that a manifest entry points at inside a Puffin file."""
    offset, size = file.content_offset, file.content_size
    if offset is None or size is None:
        raise Corrupt(file.path, "its manifest entry does not say where in it the deletion vector lies")
    if offset < 0 or not 0 <= size <= LARGEST_BLOB:
        raise Corrupt(file.path, f"its manifest entry puts a deletion vector of {size} bytes at {offset}")
    with storage.open(file.path) as source:
        source.seek(offset)
        blob = source.read(size)
    if len(blob) < size:
        raise Corrupt(file.path, f"it ends {size - len(blob)} bytes before the deletion vector at {offset} does")
    return Bitmap(decode_deletion_vector(file.path, blob, cardinality=file.record_count), size)


@dataclass(frozen=True, slots=True)
class PositionDeletes:
    """A position delete file, read: its positions sorted within each data file's stretch."""

    positions: Int64s
    stretches: Mapping[str, tuple[int, int]]

    @property
    def nbytes(self) -> int:
        """About how much memory it takes."""
        return self.positions.nbytes + sum(len(path) + 200 for path in self.stretches)

    def of(self, path: str) -> SortedPositions:
        """The positions deleted from a data file, which must be named byte for byte (checklist H5)."""
        first, last = self.stretches.get(path, (0, 0))
        return SortedPositions(self.positions[first:last])


def read_position_deletes(source: DataSource, file: str, *, only: str | None = None) -> PositionDeletes:
    """All of a position delete file, or just what it says of the data file ``only``."""
    path_column = _column(source.columns, FILE_PATH, "file_path", file)
    pos_column = _column(source.columns, POS, "pos", file)
    leaves = frozenset((path_column.first_leaf, pos_column.first_leaf))
    paths, positions = [], []
    for chunk in source.chunks(ChunkRequest(leaves=leaves, schema=Schema(fields=()))):
        path = convert(_array(chunk, path_column), STRING, file=file, column="file_path")
        pos = convert(_array(chunk, pos_column), LONG, file=file, column="pos")
        kept = path.is_valid() if only is None else _equal(path, only)
        paths.append(path.filter(kept).dictionary_encode())
        positions.append(_checked(pos.filter(kept), file))
    return _grouped(paths, positions)


def _equal(path: pa.Array, only: str) -> pa.Array:
    import pyarrow.compute as pc

    return pc.fill_null(pc.equal(path, only), False)


def _checked(pos: pa.Array, file: str) -> Int64s:
    if pos.null_count:
        raise Corrupt(file, "a deleted position is null")
    numbers: Int64s = pos.to_numpy(zero_copy_only=False)
    if len(numbers) and numbers.min() < 0:
        raise Corrupt(file, f"a deleted position is negative: {numbers.min()}")
    return numbers


def _grouped(paths: list[pa.DictionaryArray], positions: list[Int64s]) -> PositionDeletes:
    if not positions:
        return PositionDeletes(np.empty(0, dtype=np.int64), {})
    encoded = pa.chunked_array(paths).unify_dictionaries().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):  # older pyarrow: one chunk inside
        encoded = encoded.chunk(0)
    codes: Int64s = encoded.indices.to_numpy(zero_copy_only=False)
    flat = np.concatenate(positions)
    order = np.lexsort((flat, codes))
    codes = codes[order]
    names = encoded.dictionary.to_pylist()
    ends = np.searchsorted(codes, np.arange(len(names)), side="right")
    starts = np.searchsorted(codes, np.arange(len(names)), side="left")
    return PositionDeletes(flat[order], {n: (int(a), int(b)) for n, a, b in zip(names, starts, ends, strict=True)})


def _column(columns: tuple[FileColumn, ...], field_id: int, name: str, file: str) -> FileColumn:
    """By the reserved id, or by the reserved name for writers that left the ids out."""
    found = by_field_id(columns).get(field_id) or next((c for c in columns if c.name == name), None)
    if found is None or found.children:
        raise Corrupt(file, f"a position delete file has a column {name!r}, this one has not")
    return found


def _array(chunk: Chunk, wanted: FileColumn) -> pa.Array:
    return next(array for column, array in chunk.columns if column.name == wanted.name)
