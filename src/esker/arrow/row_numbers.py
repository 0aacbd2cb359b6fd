"""Rows as numbers: equal rows get the same one, whatever their columns are, and no loop goes over them.

Values compare as the keys of equality deletes do: null equals null, NaN equals NaN, and -0.0 is not 0.0. A map is
compared with its entries in their order, so two that hold the same in another order differ.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from esker.arrow.convert import plain
from esker.arrow.equality_keys import comparable

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_NOTHING: Int64s = np.empty(0, dtype=np.int64)


def row_numbers(columns: Sequence[pa.ChunkedArray], rows: int) -> Int64s:
    """A number per row, from 0 on."""
    return _combined([_of_chunks(column) for column in columns], rows)


def unmatched(ours: Int64s, theirs: Int64s) -> tuple[Bools, Bools]:
    """Which rows of each side are left when equal ones cancel out, one for one."""
    size = int(max(ours.max(initial=-1), theirs.max(initial=-1))) + 1
    mine, other = np.bincount(ours, minlength=size), np.bincount(theirs, minlength=size)
    common = np.minimum(mine, other)
    return _beyond(ours, common, mine > common), _beyond(theirs, common, other > common)


def net_rows(numbers: Int64s, signs: Int64s) -> Int64s:
    """Which rows of a feed are left when those put in (1) and those taken out (-1) cancel out, number by number.

    As in Iceberg, rows that are left are told by the first one since all that came before it cancelled out: it is
    there as often as rows are left.
    """
    order = np.argsort(numbers, kind="stable")
    if not len(order):
        return _NOTHING
    sorted_numbers, steps = numbers[order], signs[order]
    starts = np.flatnonzero(np.concatenate(([True], sorted_numbers[1:] != sorted_numbers[:-1])))
    ends = np.append(starts[1:], len(order))
    total = np.cumsum(steps)
    running = total - np.repeat((total - steps)[starts], ends - starts)
    first = np.where(running == steps, np.arange(len(order)), -1)  # nothing was left before this row
    begins, left = np.maximum.reduceat(first, starts), running[ends - 1]
    found: Int64s = np.sort(np.repeat(order[begins], np.abs(left)))
    return found


def _beyond(numbers: Int64s, common: Int64s, has_more: Bools) -> Bools:
    """Of the rows with a number, all but the first so many."""
    left: Bools = common[numbers] == 0
    some = np.flatnonzero((has_more & (common > 0))[numbers])  # few: rows must be counted off only where sides differ
    order = some[np.argsort(numbers[some], kind="stable")]
    ordered = numbers[order]
    first = np.searchsorted(ordered, ordered, side="left")
    left[order] = np.arange(len(order)) - first >= common[ordered]
    return left


def _of_chunks(column: pa.ChunkedArray) -> Int64s:
    if pa.types.is_nested(column.type):
        return _numbers(plain(column)) if len(column) else _NOTHING
    # Chunks are numbered together but never put together: a column of text may be too large for one array.
    if not len(column):
        return _NOTHING
    encoded = pa.chunked_array([comparable(chunk) for chunk in column.chunks]).dictionary_encode(null_encoding="encode")
    return np.concatenate([part.indices.to_numpy(zero_copy_only=False) for part in encoded.chunks]).astype(np.int64)


def _numbers(array: pa.Array) -> Int64s:
    kinds = pa.types
    array = plain(array)
    if kinds.is_struct(array.type):
        members = [_numbers(pc.struct_field(array, [at])) for at in range(array.type.num_fields)]
        return _combined([_truth(array.is_null()), *members], len(array))
    if kinds.is_map(array.type):
        array = _compact(array)
        keys, items = array.keys, array.items
        return _sequences(array, _combined([_numbers(keys), _numbers(items)], len(keys)))
    if kinds.is_list(array.type):
        array = _compact(array)
        return _sequences(array, _numbers(array.values))
    return _encoded(comparable(array))


def _combined(columns: Sequence[Int64s], rows: int) -> Int64s:
    """One number for the numbers of several columns."""
    if not columns:
        return np.zeros(rows, dtype=np.int64)
    if len(columns) == 1:
        return columns[0]
    packed = np.ascontiguousarray(np.stack([column.astype(np.int32) for column in columns], axis=1))
    width = pa.binary(4 * len(columns))
    return _encoded(pa.Array.from_buffers(width, rows, [None, pa.py_buffer(packed)]))


def _sequences(lists: pa.Array, inner: Int64s) -> Int64s:
    """Lists by the numbers of their items, each list being so many bytes."""
    offsets = lists.offsets.to_numpy(zero_copy_only=False).astype(np.int64) * 8
    validity = None if not lists.null_count else lists.is_valid().buffers()[1]
    held = [validity, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(inner))]
    return _encoded(pa.Array.from_buffers(pa.large_binary(), len(lists), held))


def _encoded(array: pa.Array) -> Int64s:
    numbers: Int64s = array.dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
    return numbers.astype(np.int64)


def _truth(array: pa.BooleanArray) -> Int64s:
    found: Int64s = array.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _compact(array: pa.Array) -> pa.Array:
    """From position 0 on, since offsets are used as they stand."""
    return pa.concat_arrays([array]) if array.offset else array
