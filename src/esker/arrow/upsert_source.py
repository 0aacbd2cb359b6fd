"""The rows of an upsert, by key: which of them replaces which row of the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from esker.arrow.equality_keys import KeySet
from esker.arrow.held import held_array
from esker.errors import InvalidInput
from esker.model.predicate import FALSE, TRUE, Bound, Compare, IsNull, Op, all_of, any_of
from esker.model.predicate import OneOf as Among
from esker.model.schema import Schema
from esker.model.types import Field

Int64s = npt.NDArray[np.int64]
FEW = 256  # so many keys are looked for one by one; more, between the least and the largest
_SLICE = 1 << 16


@dataclass(slots=True)
class UpsertSource:
    """Rows with distinct keys, and which of them have met a row of the table."""

    rows: pa.Table
    keys: KeySet
    row_of: Int64s  # the row of each key's number
    met: npt.NDArray[np.bool_] = field(repr=False)

    @classmethod
    def of(cls, rows: pa.Table, key: Schema) -> UpsertSource:
        """``InvalidInput`` names a key that occurs twice: which of its rows should win?"""
        columns = [_whole(rows.column(f.name)) for f in key]
        keys = KeySet(columns)
        numbers = keys.numbers(columns)
        row_of = np.empty(keys.count, dtype=np.int64)
        row_of[numbers] = np.arange(rows.num_rows)
        if keys.count < rows.num_rows:
            twice = int(np.flatnonzero(row_of[numbers] != np.arange(rows.num_rows))[0])
            shown = ", ".join(f"{f.name} = {column[twice]}" for f, column in zip(key, columns, strict=True))
            raise InvalidInput(f"cannot upsert: the key {shown} occurs twice in the rows given", row=twice)
        return cls(rows, keys, row_of, np.zeros(rows.num_rows, dtype=bool))

    def meeting(self, columns: Sequence[pa.Array]) -> Int64s:
        """For each row of the table the row that replaces it, -1 for none."""
        numbers = self.keys.numbers(columns)
        if not len(self.row_of):
            return numbers
        found = np.where(numbers >= 0, self.row_of[numbers], -1)
        self.met[found[found >= 0]] = True
        return found

    def take(self, rows: Int64s) -> Iterator[pa.RecordBatch]:
        """These rows, in their order."""
        for start in range(0, len(rows), _SLICE):
            yield from self.rows.take(pa.array(rows[start : start + _SLICE])).combine_chunks().to_batches()

    def unmet(self) -> Iterator[pa.RecordBatch]:
        """Rows that have met none."""
        return self.take(np.flatnonzero(~self.met))


def key_predicate(rows: pa.Table, key: Schema) -> Bound:
    """TRUE of every row that may have one of the keys: what prunes the table's files, and what must not arrive
    meanwhile."""
    if not rows.num_rows:
        return FALSE
    return all_of(_one_key(f, _whole(rows.column(f.name))) for f in key)


def _one_key(f: Field, column: pa.Array) -> Bound:
    held = held_array(column, f.type)
    null = IsNull(f) if held.null_count else FALSE
    values = held.drop_null()
    if not len(values):
        return null
    distinct = values.unique()
    if len(distinct) <= FEW:
        return any_of((Among(f, frozenset(distinct.to_pylist())), null))
    ends = _ends(values)
    if ends is None:
        return TRUE
    return any_of((all_of((Compare(f, Op.GE, ends[0]), Compare(f, Op.LE, ends[1]))), null))


def _ends(values: pa.Array) -> tuple[Any, Any] | None:
    try:
        found = pc.min_max(values)
    except pa.ArrowNotImplementedError:  # fixed-length bytes have no kernel
        return None
    return found["min"].as_py(), found["max"].as_py()


def _whole(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks()
    return array if isinstance(array, pa.Array) else pa.concat_arrays(array.chunks)
