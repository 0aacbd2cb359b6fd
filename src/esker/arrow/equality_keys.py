"""Equality deletes: sets of keys, matched null-safe and without a loop over rows.

Keys compare as Java's boxed values do: null equals null, NaN equals NaN, and -0.0 is not 0.0 (checklist H3).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from esker.arrow.convert import plain

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class KeySet:
    """Rows to delete, by the values of some columns.

    Each column's distinct values are numbered; numbers of two columns make a pair, and the pairs that occur are
    numbered again, so that any number of columns of any type comes down to one integer per row.
    """

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        self._values: list[pa.Array] = []
        self._pairs: list[Int64s] = []
        numbers: Int64s | None = None
        for column in columns:
            keys = comparable(column)
            values = keys.unique()
            own = _numbers(keys, values)
            self._values.append(values)
            if numbers is None:
                numbers = own
                continue
            pairs = numbers * len(values) + own
            known = np.unique(pairs)
            self._pairs.append(known)
            numbers = np.searchsorted(known, pairs)

    @property
    def nbytes(self) -> int:
        """About how much memory the keys take."""
        return sum(values.nbytes for values in self._values) + sum(pairs.nbytes for pairs in self._pairs)

    def hits(self, columns: Sequence[pa.Array]) -> Bools:
        """Which rows have a key of the set."""
        numbers: Int64s | None = None
        for at, (column, values) in enumerate(zip(columns, self._values, strict=True)):
            own = _numbers(comparable(column), values)
            if numbers is None:
                numbers = own
                continue
            known = self._pairs[at - 1]
            pairs = np.where((numbers < 0) | (own < 0), -1, numbers * max(1, len(values)) + own)
            place = np.searchsorted(known, pairs)
            found = np.zeros(len(pairs), dtype=bool)
            inside = place < len(known)
            found[inside] = known[place[inside]] == pairs[inside]
            numbers = np.where(found, place, -1)
        return np.zeros(0, dtype=bool) if numbers is None else numbers >= 0


def comparable(column: pa.Array) -> pa.Array:
    """The column in a form where equal keys are equal values: floats by their bits, extensions by their storage."""
    column = plain(column)
    if pa.types.is_null(column.type):
        return column.cast(pa.int8())
    if column.type in (pa.float32(), pa.float64()):
        bits = pa.int32() if column.type == pa.float32() else pa.int64()
        one_nan = pc.if_else(pc.fill_null(pc.is_nan(column), False), pa.scalar(float("nan"), column.type), column)
        return one_nan.view(bits)
    return column


def _numbers(keys: pa.Array, values: pa.Array) -> Int64s:
    """Each key's place among the distinct values, -1 where it is none of them; null is a value like others."""
    found = pc.index_in(keys, value_set=values, skip_nulls=False)
    return found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
