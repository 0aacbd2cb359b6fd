"""Lists and maps of any make, taken apart and put together again over other values.

Done on offsets rather than with Arrow's kernels, which do not know maps, nor lists of extension types, and which get
slices of list views wrong.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int64s = npt.NDArray[np.int64]


def values_inside(array: pa.Array) -> pa.Array:
    """What all lists hold, in order, or all maps as structs of key and value; what null ones hide is left out."""
    starts, lengths = _spans(array)
    total = int(lengths.sum())
    values = _raw_values(array)
    held = lengths > 0
    firsts, sizes = starts[held], lengths[held]
    if not total or np.array_equal(firsts[1:], firsts[:-1] + sizes[:-1]):
        return values.slice(int(firsts[0]) if total else 0, total)
    before = np.cumsum(sizes) - sizes
    return values.take(pa.array(np.repeat(firsts - before, sizes) + np.arange(total)))


def over(array: pa.Array, type_: pa.DataType, inner: pa.Array, *, nulls: bool = True) -> pa.Array:
    """Lists or maps of the same lengths over other values, null where ``array`` is unless that is not wanted."""
    ends = np.zeros(len(array) + 1, dtype=np.int32)
    np.cumsum(_spans(array)[1], out=ends[1:], dtype=np.int32)
    valid = array.is_valid().buffers()[1] if array.null_count and nulls else None
    return pa.Array.from_buffers(type_, len(array), [valid, pa.py_buffer(ends)], children=[inner])


def _spans(array: pa.Array) -> tuple[Int64s, Int64s]:
    """Where in the raw values each list begins and how long it is; a null one has no length."""
    if pa.types.is_fixed_size_list(array.type):
        size = array.type.list_size
        starts = (array.offset + np.arange(len(array), dtype=np.int64)) * size
        lengths = np.full(len(array), size, dtype=np.int64)
    elif pa.types.is_list_view(array.type) or pa.types.is_large_list_view(array.type):
        starts = array.offsets.to_numpy().astype(np.int64)
        lengths = array.sizes.to_numpy().astype(np.int64)
    else:
        ends = array.offsets.to_numpy().astype(np.int64)
        starts, lengths = ends[:-1], np.diff(ends)
    if array.null_count:
        lengths = np.where(array.is_valid().to_numpy(zero_copy_only=False), lengths, 0)
    return starts, lengths


def _raw_values(array: pa.Array) -> pa.Array:
    if pa.types.is_map(array.type):
        return pa.StructArray.from_arrays([array.keys, array.items], fields=list(array.type.field(0).type))
    return array.values
