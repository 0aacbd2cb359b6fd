"""Lists and maps of any make, taken apart and put together again over other values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def values_inside(array: pa.Array) -> pa.Array:
    """What all lists hold, in order, or all maps as structs of key and value; what null ones hide is left out."""
    return _as_list(array).flatten()


def over(array: pa.Array, type_: pa.DataType, inner: pa.Array, *, nulls: bool = True) -> pa.Array:
    """Lists or maps of the same lengths over other values, null where ``array`` is unless that is not wanted."""
    lengths = pc.list_value_length(_as_list(array)).fill_null(0).to_numpy(zero_copy_only=False)
    ends = np.zeros(len(array) + 1, dtype=np.int32)
    np.cumsum(lengths, out=ends[1:], dtype=np.int32)
    valid = array.is_valid().buffers()[1] if array.null_count and nulls else None
    return pa.Array.from_buffers(type_, len(array), [valid, pa.py_buffer(ends)], children=[inner])


def _as_list(array: pa.Array) -> pa.Array:
    """A map is a list of pairs, which Arrow's list kernels do not know."""
    if not pa.types.is_map(array.type):
        return array
    pairs = array.type.field(0)
    inner = pa.StructArray.from_arrays([array.keys, array.items], fields=list(pairs.type))
    return pa.Array.from_buffers(
        pa.list_(pairs), len(array), array.buffers()[:2], array.null_count, array.offset, children=[inner]
    )
