"""Which files of a primary-key table have common keys: only their rows are merged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from esker.model.arrow_arrays import flags_of, numbers_of
from esker.paimon.metadata.types import DataType
from esker.paimon.rows.binary_row import BinaryRows

Int64s = npt.NDArray[np.int64]


def sections(place_of: Int64s, min_keys: pa.Array, max_keys: pa.Array, types: Sequence[DataType], file: str) -> Int64s:
    """A number for each file: files with the same number are in one bucket, and their ranges of keys overlap.

    Keys with floating-point numbers are not compared: a writer's order of NaN and zeros may be another one.
    """
    if any(type_.root in ("FLOAT", "DOUBLE") for type_ in types) or not len(place_of):
        return np.unique(place_of, return_inverse=True)[1].astype(np.int64)
    low, high = _ranks(min_keys, max_keys, types, file)
    order = np.lexsort((low, place_of))
    span = 2 * len(low) + 1
    starts = place_of[order] * span + low[order]
    reach = np.maximum.accumulate(place_of[order] * span + high[order])
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = starts[1:] > reach[:-1]
    found = np.empty(len(order), np.int64)
    found[order] = np.cumsum(is_new) - 1
    return found


def _ranks(min_keys: pa.Array, max_keys: pa.Array, types: Sequence[DataType], file: str) -> tuple[Int64s, Int64s]:
    """The places of the first and the last keys in the order of all. Equal keys have equal places."""
    count = len(min_keys)
    rows = BinaryRows(pa.concat_arrays([min_keys, max_keys]), file)
    columns = {str(at): rows.column(at, type_) for at, type_ in enumerate(types)}
    if not columns:
        return np.zeros(count, np.int64), np.zeros(count, np.int64)
    table = pa.table(columns)
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in columns])
    placed = table.take(order)
    changes = np.zeros(2 * count, np.bool_)
    for column in (part.combine_chunks() for part in placed.columns):
        one, other = column.slice(1), column.slice(0, 2 * count - 1)
        changes[1:] |= flags_of(pc.not_equal(one, other), null=True)
    ranks = np.empty(2 * count, np.int64)
    ranks[numbers_of(order, null=0).astype(np.int64)] = np.cumsum(changes)
    low, high = ranks[:count], ranks[count:]
    return np.minimum(low, high), np.maximum(low, high)
