"""Z-order: one number per row, near for rows whose values are near in every column.

Each value becomes its rank among a sample of the column, so that columns of any type and spread count the same. The
bits of the ranks are interleaved, the highest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from esker.arrow.value_arrays import held_array
from esker.model.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    StringType,
    Type,
    UuidType,
)

Int64s = npt.NDArray[np.int64]

_BITS, _ALL = 10, 62  # at most, of one column and of all
_LEAST = np.iinfo(np.int64).min


def comparable(array: pa.Array, type_: Type) -> Int64s:
    """Numbers in the order of the values; null is the least. Of text and bytes, the first eight bytes count."""
    held = held_array(array, type_)
    null = held.is_null().to_numpy(zero_copy_only=False)
    match type_:
        case FloatType() | DoubleType():
            found = _of_floats(held.cast(pa.float64()))
        case DecimalType():
            found = _of_floats(held.cast(pa.float64()))
        case StringType() | BinaryType() | FixedType() | UuidType():
            found = _of_bytes(held.cast(pa.binary()))
        case _:
            found = pc.fill_null(held.cast(pa.int64()), 0).to_numpy(zero_copy_only=False).copy()
    found[null] = _LEAST
    return found


def _of_floats(array: pa.Array) -> Int64s:
    wide = pc.fill_null(array, 0.0).to_numpy(zero_copy_only=False).copy()
    wide[np.isnan(wide)] = np.inf
    bits = wide.view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)


def _of_bytes(array: pa.Array) -> Int64s:
    heads = np.array([value or b"" for value in array.to_pylist()], dtype="S8")
    numbers = heads.astype("S8").view(">u8").astype(np.uint64)
    return (numbers ^ np.uint64(1 << 63)).view(np.int64)


def cuts_of(values: Int64s, columns: int) -> Int64s:
    """The values that divide a sample of a column into equal parts; ``columns`` is how many take part in the order."""
    parts = 1 << _bits(columns)
    if not len(values):
        return np.array([], dtype=np.int64)
    places = (np.arange(1, parts) * len(values)) // parts
    found: Int64s = np.unique(np.sort(values)[places])
    return found


def z_values(columns: Sequence[Int64s], cuts: Sequence[Int64s]) -> Int64s:
    """The number of each row: the interleaved ranks of its values among the cuts."""
    bits = _bits(len(columns))
    ranks = [_ranks(values, cut, bits) for values, cut in zip(columns, cuts, strict=True)]
    found: Any = np.zeros(len(columns[0]), dtype=np.int64)
    for bit in range(bits - 1, -1, -1):
        for rank in ranks:
            found = (found << 1) | ((rank >> bit) & 1)
    return np.asarray(found, dtype=np.int64)


def _ranks(values: Int64s, cuts: Int64s, bits: int) -> Int64s:
    """Ranks spread over the whole range, also where few values are distinct."""
    ranks = np.searchsorted(cuts, values, side="right").astype(np.int64)
    return (ranks << bits) // (len(cuts) + 1)


def _bits(columns: int) -> int:
    return max(1, min(_BITS, _ALL // columns))
