"""Rows as numbers: equal rows get the same one, and equal ones of two sides cancel out one for one."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
from held_rows import telling
from hypothesis import given
from hypothesis import strategies as st

from esker.arrow.equal_rows import row_numbers, unmatched

_FLOATS = st.sampled_from([None, 0.0, -0.0, math.nan, 1.5])
_TEXTS = st.sampled_from([None, "", "a", "b"])
COLUMNS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int64(), st.sampled_from([None, 0, 1, -(2**63)])),
    (pa.float32(), _FLOATS),
    (pa.float64(), _FLOATS),
    (pa.string(), _TEXTS),
    (pa.bool_(), st.sampled_from([None, True, False])),
    (pa.date32(), st.sampled_from([None, 0, 1])),
    (pa.timestamp("us", "UTC"), st.sampled_from([None, 0, 1])),
    (pa.decimal128(9, 2), st.sampled_from([None, 0, 1])),
    (pa.binary(2), st.sampled_from([None, b"ab", b"ba"])),
    (pa.null(), st.none()),
    (pa.list_(pa.float64()), st.none() | st.lists(_FLOATS, max_size=2)),
    (pa.list_(pa.list_(pa.string())), st.none() | st.lists(st.none() | st.lists(_TEXTS, max_size=2), max_size=2)),
    (
        pa.struct([("x", pa.float64()), ("y", pa.list_(pa.string()))]),
        st.none() | st.fixed_dictionaries({"x": _FLOATS, "y": st.none() | st.lists(_TEXTS, max_size=1)}),
    ),
    (pa.struct([]), st.sampled_from([None, {}])),
    (
        pa.map_(pa.string(), pa.int64()),
        st.none() | st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([None, 1])), max_size=2),
    ),
]


@st.composite
def columns(draw: st.DrawFn) -> tuple[list[pa.ChunkedArray], list[Any]]:
    """A few columns in chunks, some of them slices, and their rows."""
    rows = draw(st.integers(0, 8))
    chosen = draw(st.lists(st.sampled_from(COLUMNS), max_size=3))
    values = [[draw(values) for _ in range(rows)] for _, values in chosen]
    cut, extra = draw(st.integers(0, rows)), draw(st.integers(0, 2))
    made = [_chunked(type_, held, cut, extra) for (type_, _), held in zip(chosen, values, strict=True)]
    return made, [telling(row) for row in zip(*values, strict=True)] if chosen else [()] * rows


def _chunked(type_: pa.DataType, held: list[Any], cut: int, extra: int) -> pa.ChunkedArray:
    whole = pa.array(held[:1] * extra + held, type_).slice(extra if held else 0)
    return pa.chunked_array([whole.slice(0, cut), whole.slice(cut)], type_)


@given(columns())
def test_rows_have_one_number_just_where_they_are_equal(found: tuple[list[pa.ChunkedArray], list[Any]]) -> None:
    made, rows = found
    numbers = row_numbers(made, len(rows)).tolist()
    assert len(numbers) == len(rows)
    assert len(set(zip(numbers, rows, strict=True))) == len(set(rows)) == len(set(numbers))


_BAG = st.lists(st.integers(0, 4), max_size=12)


@given(_BAG, _BAG)
def test_equal_rows_cancel_out_one_for_one(ours: list[int], theirs: list[int]) -> None:
    left, right = (np.array(side, dtype=np.int64) for side in (ours, theirs))
    mine, other = unmatched(left, right)
    assert Counter(left[mine].tolist()) == Counter(ours) - Counter(theirs)
    assert Counter(right[other].tolist()) == Counter(theirs) - Counter(ours)
