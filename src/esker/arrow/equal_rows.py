"""Keys of rows, and equal rows found without a loop.

The columns that can be a key, sets of keys for equality deletes and upserts, and numbers that are the same for equal
rows. Values compare as Java's boxed values: null equals null, NaN equals NaN, and -0.0 is not 0.0 (checklist H3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from esker.arrow.convert import plain
from esker.errors import InvalidInput
from esker.model.schema import Schema
from esker.model.types import PrimitiveType, VariantType, is_floating

# ---------------------------------------------------------------- The columns of a key


def key_schema(schema: Schema, on: Sequence[str]) -> Schema:
    """The key's columns, in the table's order. Raises ``InvalidInput`` if a column cannot be part of a key."""
    if isinstance(on, str) or not on:
        raise InvalidInput(f'cannot use on={on!r} as the key: give a list of columns: ["id"]', on=on)
    wanted = [schema.find(name).id for name in on]
    fields = tuple(field for field in schema if field.id in wanted)
    if len(fields) < len(set(wanted)):
        nested = next(name for name in on if schema.find(name).id not in {field.id for field in fields})
        raise InvalidInput(f"cannot use {nested!r} as part of a key: it is inside another column", column=nested)
    for field in fields:
        if not isinstance(field.type, PrimitiveType) or isinstance(field.type, VariantType) or is_floating(field.type):
            raise InvalidInput(
                f"cannot use {field.name!r} as part of a key: values of type {field.type} are not compared for "
                "equality",
                column=field.name,
            )
    return Schema(fields=fields, schema_id=schema.schema_id)


Int64s = npt.NDArray[np.int64]


def distinct(numbers: Int64s) -> Int64s:
    """Each number once, sorted. ``np.unique`` uses a hash table, which needs twenty times as long for a million
    numbers."""
    found = np.sort(numbers)
    return found[np.append(True, found[1:] != found[:-1])] if len(found) else found


# ---------------------------------------------------------------- Sets of keys


Bools = npt.NDArray[np.bool_]


class KeySet:
    """Rows to delete, by the values of some columns.

    The distinct values of each column get numbers. The numbers of two columns make a pair, and the pairs get numbers
    again. So any number of columns of any type becomes one integer per row.
    """

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        self._columns: list[_Column] = []
        self._pairs: list[Int64s] = []
        self.count = 0
        numbers: Int64s | None = None
        for column in columns:
            keys = comparable(column)
            known = _Integers(keys) if pa.types.is_integer(keys.type) else _Values(keys)
            own = known.numbers(keys)
            self._columns.append(known)
            if numbers is None:
                numbers = own
                continue
            pairs = numbers * known.count + own
            self._pairs.append(distinct(pairs))
            numbers = np.searchsorted(self._pairs[-1], pairs)
        if numbers is not None:
            self.count = len(self._pairs[-1]) if self._pairs else self._columns[0].count

    @property
    def nbytes(self) -> int:
        """The approximate memory of the keys, in bytes."""
        return sum(column.nbytes for column in self._columns) + sum(pairs.nbytes for pairs in self._pairs)

    def hits(self, columns: Sequence[pa.Array]) -> Bools:
        """Which rows have a key of the set."""
        return self.numbers(columns) >= 0

    def numbers(self, columns: Sequence[pa.Array]) -> Int64s:
        """The number of each row's key among the ``count`` keys of the set. -1 if it is not in the set."""
        numbers = self._columns[0].numbers(comparable(columns[0]))
        for column, known, pairs in zip(columns[1:], self._columns[1:], self._pairs, strict=True):
            own = known.numbers(comparable(column))
            numbers = _places(np.where((numbers < 0) | (own < 0), -1, numbers * known.count + own), pairs)
        return numbers


class _Integers:
    """Distinct whole numbers, sorted, so that a lookup needs no hash table."""

    def __init__(self, keys: pa.Array) -> None:
        self._sorted: Int64s = distinct(_whole_numbers(keys.drop_null()))
        self._null = len(self._sorted) if keys.null_count else -1
        self.count = len(self._sorted) + (1 if keys.null_count else 0)

    @property
    def nbytes(self) -> int:
        return self._sorted.nbytes

    def numbers(self, keys: pa.Array) -> Int64s:
        found = _places(_whole_numbers(keys.fill_null(0)), self._sorted)
        if keys.null_count:
            found[keys.is_null().to_numpy(zero_copy_only=False)] = self._null
        return found


class _Values:
    """Distinct values of any other type, found by hashing."""

    def __init__(self, keys: pa.Array) -> None:
        self._values = keys.unique()
        self.count = len(self._values)

    @property
    def nbytes(self) -> int:
        return int(self._values.nbytes)

    def numbers(self, keys: pa.Array) -> Int64s:
        values, places = self._values, None
        if len(values) > 2 * len(keys):
            # Arrow builds a hash table of the right side each time. So it is built of the few keys, and only the other
            # rows are looked up.
            asked = pc.is_in(values, value_set=keys.unique(), skip_nulls=False)
            places = np.flatnonzero(asked.to_numpy(zero_copy_only=False))
            values = values.filter(asked)
        found = pc.index_in(keys, value_set=values, skip_nulls=False).fill_null(-1)
        numbers: Int64s = found.to_numpy(zero_copy_only=False).astype(np.int64)
        return numbers if places is None else np.append(places, -1)[numbers]  # -1 stays -1: it is the last one


_Column: TypeAlias = _Integers | _Values


def comparable(column: pa.Array) -> pa.Array:
    """The column in a form in which equal keys are equal values: floats by their bits, times by their ticks."""
    column = plain(column)
    if pa.types.is_null(column.type):
        return column.cast(pa.int8())
    if pa.types.is_date32(column.type):
        return column.view(pa.int32())
    if pa.types.is_timestamp(column.type) or pa.types.is_time64(column.type):
        return column.view(pa.int64())
    if column.type in (pa.float32(), pa.float64()):
        bits = pa.int32() if column.type == pa.float32() else pa.int64()
        one_nan = pc.if_else(pc.fill_null(pc.is_nan(column), False), pa.scalar(float("nan"), column.type), column)
        return one_nan.view(bits)
    return column


def _whole_numbers(keys: pa.Array) -> Int64s:
    return keys.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)


def _places(numbers: Int64s, known: Int64s) -> Int64s:
    """The index of each number among the sorted known ones. -1 if it is not there."""
    if not len(known):
        return np.full(len(numbers), -1, dtype=np.int64)
    place = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
    return np.where(known[place] == numbers, place, -1)


# ---------------------------------------------------------------- Numbers of rows: equal rows get the same number
#
# Maps are compared with their entries in order, so two maps with the same entries in another order are different.


_NOTHING: Int64s = np.empty(0, dtype=np.int64)


def row_numbers(columns: Sequence[pa.ChunkedArray], rows: int) -> Int64s:
    """A number per row, from 0 on."""
    return _combined([_of_chunks(column) for column in columns], rows)


def unmatched(ours: Int64s, theirs: Int64s) -> tuple[Bools, Bools]:
    """Which rows of each side are left when equal rows cancel out, one for one."""
    size = int(max(ours.max(initial=-1), theirs.max(initial=-1))) + 1
    mine, other = np.bincount(ours, minlength=size), np.bincount(theirs, minlength=size)
    common = np.minimum(mine, other)
    return _beyond(ours, common, mine > common), _beyond(theirs, common, other > common)


def net_rows(numbers: Int64s, signs: Int64s) -> Int64s:
    """Which rows of a feed are left when inserted rows (1) and deleted rows (-1) with the same number cancel out.

    As in Iceberg, the first row after everything before it cancelled out represents the rows that are left. It is
    repeated as often as rows are left.
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
    """The rows with a number, without the first ``common`` ones of each."""
    left: Bools = common[numbers] == 0
    some = np.flatnonzero((has_more & (common > 0))[numbers])  # few: rows are counted only where the sides differ
    order = some[np.argsort(numbers[some], kind="stable")]
    ordered = numbers[order]
    first = np.searchsorted(ordered, ordered, side="left")
    left[order] = np.arange(len(order)) - first >= common[ordered]
    return left


def _of_chunks(column: pa.ChunkedArray) -> Int64s:
    if pa.types.is_nested(column.type):
        return _numbers(plain(column)) if len(column) else _NOTHING
    # Chunks are numbered together but never joined: a column of text may be too large for one array.
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
    """Lists by the numbers of their items. Each list is compared as bytes."""
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
    """A copy that starts at position 0, because its offsets are used directly."""
    return pa.concat_arrays([array]) if array.offset else array
