"""Bucket numbers: Murmur3 of the bucket key's binary row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from esker.paimon.metadata.types import DataType
from esker.paimon.rows.binary_row import EncodedRows, encode_rows

_SEED = 42
_C1, _C2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)


def bucket_numbers(types: Sequence[DataType], columns: Sequence[pa.Array], buckets: int) -> npt.NDArray[np.int32]:
    """The bucket of every row of a table with a fixed number of buckets, as Java computes it."""
    hashes = row_hashes(encode_rows(types, columns)).astype(np.int64)
    return np.abs(np.fmod(hashes, buckets)).astype(np.int32)


def row_hashes(rows: EncodedRows) -> npt.NDArray[np.int32]:
    """Murmur3_x86_32 with seed 42 over the words of each body. Bodies are whole words."""
    words = np.ascontiguousarray(rows.data).view("<u4")
    starts = rows.starts[:-1] // 4
    counts = np.diff(rows.starts) // 4
    hashes = np.full(len(counts), _SEED, np.uint32)
    with np.errstate(over="ignore"):
        for at in range(int(counts.max()) if len(counts) else 0):
            live = np.flatnonzero(counts > at)
            word = words[starts[live] + at] * _C1
            mixed = hashes[live] ^ (_rotated(word, 15) * _C2)
            hashes[live] = _rotated(mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
        hashes ^= (counts * 4).astype(np.uint32)
        hashes = (hashes ^ (hashes >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        hashes = (hashes ^ (hashes >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        hashes ^= hashes >> np.uint32(16)
    return hashes.view(np.int32)


def _rotated(values: npt.NDArray[np.uint32], by: int) -> npt.NDArray[np.uint32]:
    return (values << np.uint32(by)) | (values >> np.uint32(32 - by))
