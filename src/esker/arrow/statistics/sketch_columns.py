"""Theta sketches of columns: the hashes of the bytes that each value has in bounds (checklist T8, J2).

Null has no value, and an empty string has no bytes: DataSketches ignores both. Spark's workers use this module too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from esker.arrow.convert import plain
from esker.arrow.value_arrays import held_array, leaf_array
from esker.iceberg.theta_sketch import EMPTY, Hashes, ThetaSketch, hash_binary, hash_short
from esker.model.schema import Schema
from esker.model.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FixedType,
    FloatType,
    IntType,
    StringType,
    Type,
    UuidType,
)

_DECIMAL_BYTES = 16


def sketch_columns(
    batches: Iterable[pa.RecordBatch], projection: Schema, field_ids: Sequence[int]
) -> dict[int, ThetaSketch]:
    """A sketch of each of these columns over all batches, by field id."""
    found = dict.fromkeys(field_ids, EMPTY)
    paths = [projection.path_by_id[field_id] for field_id in field_ids]
    for batch in batches:
        for path in paths:
            column = path[-1]
            hashes = column_hashes(leaf_array(batch, path), column.type)
            found[column.id] = found[column.id].with_hashes(hashes)
    return found


def column_hashes(array: pa.Array, type_: Type) -> Hashes:
    """One hash per value of a column of a primitive type. Equal values have equal hashes."""
    array = held_array(plain(array), type_).drop_null()
    match type_:
        case BooleanType():
            return hash_short(array.cast(pa.uint8()).to_numpy().astype(np.uint64), None, 1)
        case IntType() | DateType() | FloatType():
            return hash_short(_numbers(array, np.dtype("<u4")).astype(np.uint64), None, 4)
        case DecimalType():
            return hash_binary(*_shortest(array))
        case UuidType() | FixedType():
            width = array.type.byte_width
            return hash_binary(_bytes(array, width), np.arange(len(array) + 1, dtype=np.int64) * width)
        case StringType() | BinaryType():
            return _hash_strings(array)
        case _:  # long, double, time and timestamps
            return hash_short(_numbers(array, np.dtype("<u8")), None, 8)


def _bytes(array: pa.Array, width: int) -> npt.NDArray[np.uint8]:
    """The bytes of values of a fixed width."""
    if not len(array):
        return np.empty(0, dtype=np.uint8)
    return np.frombuffer(array.buffers()[1], np.uint8, len(array) * width, array.offset * width)


def _numbers(array: pa.Array, kind: np.dtype[np.unsignedinteger]) -> npt.NDArray[np.unsignedinteger]:
    return _bytes(array, kind.itemsize).view(kind)


def _hash_strings(array: pa.Array) -> Hashes:
    if not len(array):
        return np.empty(0, dtype=np.uint64)
    _, ends, data = array.buffers()
    offsets = np.frombuffer(ends, np.int32, len(array) + 1, array.offset * 4).astype(np.int64)
    first = int(offsets[0])
    size = int(offsets[-1]) - first
    content = np.empty(0, np.uint8) if data is None or not size else np.frombuffer(data, np.uint8, size, first)
    return hash_binary(content, offsets - first)[np.diff(offsets) > 0]


def _shortest(array: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Decimals as big-endian two's complement without needless bytes, one after the other, and where each begins."""
    digits = _bytes(array, _DECIMAL_BYTES).reshape(-1, _DECIMAL_BYTES)[:, ::-1]
    sign = np.where(digits[:, 0] >= 0x80, 0xFF, 0).astype(np.uint8)
    counts = np.ones(len(digits), dtype=np.int64)
    for at in range(_DECIMAL_BYTES - 1):  # a byte is needed if it is not the sign, or if the next byte hides the sign
        needed = (digits[:, at] != sign) | ((digits[:, at + 1] ^ sign) >= 0x80)
        counts = np.maximum(counts, np.where(needed, _DECIMAL_BYTES - at, 0))
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
    kept = np.arange(_DECIMAL_BYTES) >= (_DECIMAL_BYTES - counts)[:, None]
    return digits[kept], offsets
