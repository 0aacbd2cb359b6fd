"""Columns of plain values as columns of variants' values, all rows at once; null where they are null."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from esker.errors import Unsupported
from esker.model.variant_layout import LONGEST_SHORT, Basic, Kind

_FIXED = {
    pa.int8(): Kind.INT8,
    pa.int16(): Kind.INT16,
    pa.int32(): Kind.INT32,
    pa.int64(): Kind.INT64,
    pa.float32(): Kind.FLOAT,
    pa.float64(): Kind.DOUBLE,
    pa.date32(): Kind.DATE,
    pa.time64("us"): Kind.TIME,
    pa.binary(16): Kind.UUID,
}
_TIMESTAMPS = {
    ("us", True): Kind.TIMESTAMPTZ,
    ("us", False): Kind.TIMESTAMP,
    ("ns", True): Kind.TIMESTAMPTZ_NANOS,
    ("ns", False): Kind.TIMESTAMP_NANOS,
}
_DECIMALS = ((9, Kind.DECIMAL4, 4), (18, Kind.DECIMAL8, 8), (38, Kind.DECIMAL16, 16))


def encoded(array: pa.Array) -> pa.Array:
    """The values as bytes; ``Unsupported`` for a type that no shredded value has."""
    kinds, type_ = pa.types, array.type
    if kinds.is_boolean(type_):
        true, false = (pa.scalar(bytes((kind << 2,)), pa.binary()) for kind in (Kind.TRUE, Kind.FALSE))
        return pc.if_else(array, true, false)
    if kinds.is_string(type_) or kinds.is_large_string(type_):
        return _texts(array.cast(pa.binary()))
    if kinds.is_binary(type_) or kinds.is_large_binary(type_):
        return _long(array.cast(pa.binary()), Kind.BINARY)
    if kinds.is_timestamp(type_) and (kind := _TIMESTAMPS.get((type_.unit, type_.tz is not None))) is not None:
        return _fixed(array, bytes((kind << 2,)), 8, 8)
    if kinds.is_decimal128(type_) and 0 <= type_.scale <= 38:
        _, kind, width = next(each for each in _DECIMALS if type_.precision <= each[0])
        return _fixed(array, bytes((kind << 2, type_.scale)), 16, width)
    if type_ in _FIXED:
        return _fixed(array, bytes((_FIXED[type_] << 2,)), type_.bit_width // 8, type_.bit_width // 8)
    raise Unsupported(f"there is no variant of {type_}", feature=f"variant shredded as {type_}")


def _fixed(array: pa.Array, header: bytes, held: int, width: int) -> pa.Array:
    """A header, and the first bytes of each value as it lies in memory."""
    made = np.empty((len(array), len(header) + width), dtype=np.uint8)
    made[:, : len(header)] = np.frombuffer(header, np.uint8)
    if len(array):
        data = np.frombuffer(array.buffers()[1], np.uint8)[array.offset * held : (array.offset + len(array)) * held]
        made[:, len(header) :] = data.reshape(-1, held)[:, :width]
    valid = array.is_valid().buffers()[1] if array.null_count else None
    type_ = pa.binary(made.shape[1])
    return pa.Array.from_buffers(type_, len(array), [valid, pa.py_buffer(made)]).cast(pa.binary())


def _texts(array: pa.Array) -> pa.Array:
    lengths = pc.binary_length(array).cast(pa.int64())
    short = pc.less_equal(lengths, LONGEST_SHORT)
    headers = pa.array([bytes((size << 2 | Basic.SHORT_TEXT,)) for size in range(LONGEST_SHORT + 1)], pa.binary())
    header = headers.take(pc.min_element_wise(lengths, pa.scalar(LONGEST_SHORT)))
    joined = pc.binary_join_element_wise(header, array, pa.scalar(b"", pa.binary()))
    return joined if pc.all(short).as_py() in (True, None) else pc.if_else(short, joined, _long(array, Kind.TEXT))


def _long(array: pa.Array, kind: Kind) -> pa.Array:
    header = _fixed(pc.binary_length(array).cast(pa.int32()), bytes((kind << 2,)), 4, 4)
    return pc.binary_join_element_wise(header, array, pa.scalar(b"", pa.binary()))
