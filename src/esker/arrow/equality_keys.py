"""Equality deletes: sets of keys, matched null-safe and without a loop over rows.

Keys compare as Java's boxed values do: null equals null, NaN equals NaN, and -0.0 is not 0.0 (checklist H3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from esker.arrow.convert import plain
from esker.arrow.distinct import distinct

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class KeySet:
    """Rows to delete, by the values of some columns.

    Each column's distinct values are numbered; numbers of two columns make a pair, and the pairs that occur are
    numbered again, so that any number of columns of any type comes down to one integer per row.
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
        """About how much memory the keys take."""
        return sum(column.nbytes for column in self._columns) + sum(pairs.nbytes for pairs in self._pairs)

    def hits(self, columns: Sequence[pa.Array]) -> Bools:
        """Which rows have a key of the set."""
        return self.numbers(columns) >= 0

    def numbers(self, columns: Sequence[pa.Array]) -> Int64s:
        """The number of each row's key among the ``count`` keys of the set, -1 where it is none of them."""
        numbers = self._columns[0].numbers(comparable(columns[0]))
        for column, known, pairs in zip(columns[1:], self._columns[1:], self._pairs, strict=True):
            own = known.numbers(comparable(column))
            numbers = _places(np.where((numbers < 0) | (own < 0), -1, numbers * known.count + own), pairs)
        return numbers


class _Integers:
    """Distinct whole numbers, sorted, so that a lookup builds no table."""

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
            # A table is made of the right side each time: make it of the few keys, and look for the rest only.
            asked = pc.is_in(values, value_set=keys.unique(), skip_nulls=False)
            places = np.flatnonzero(asked.to_numpy(zero_copy_only=False))
            values = values.filter(asked)
        found = pc.index_in(keys, value_set=values, skip_nulls=False).fill_null(-1)
        numbers: Int64s = found.to_numpy(zero_copy_only=False).astype(np.int64)
        return numbers if places is None else np.append(places, -1)[numbers]  # -1 stays -1: it is the last one


_Column: TypeAlias = _Integers | _Values


def comparable(column: pa.Array) -> pa.Array:
    """The column in a form where equal keys are equal values: floats by their bits, times by their ticks."""
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
    """Where each number stands among the sorted known ones, -1 where it does not."""
    if not len(known):
        return np.full(len(numbers), -1, dtype=np.int64)
    place = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
    return np.where(known[place] == numbers, place, -1)
