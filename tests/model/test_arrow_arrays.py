"""Numpy and Arrow, there and back, without the functions that import pandas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from esker.model.arrow_arrays import arrow_array, null_mask, numbers_of, typed_array

COLUMNS = st.lists(st.none() | st.integers(-100, 100), max_size=40)
TYPES = [pa.int8(), pa.int32(), pa.int64(), pa.float64()]


@settings(max_examples=50, deadline=None)
@given(column=COLUMNS, type_=st.sampled_from(TYPES), start=st.integers(0, 10))
def test_a_column_is_read_as_arrow_reads_it(column: list[int | None], type_: pa.DataType, start: int) -> None:
    array = pa.array(column, type_)[start:]
    assert null_mask(array).tolist() == [value is None for value in column[start:]]
    assert numbers_of(array, null=-7).tolist() == [-7 if value is None else value for value in column[start:]]


@settings(max_examples=50, deadline=None)
@given(column=COLUMNS, dtype=st.sampled_from([np.int8, np.int32, np.int64, np.float64]))
def test_a_column_is_made_as_arrow_makes_it(column: list[int | None], dtype: Any) -> None:
    values = np.array([value or 0 for value in column], dtype)
    null = np.array([value is None for value in column], bool)
    made = arrow_array(values, null=null)
    made.validate(full=True)
    assert made == pa.array(values, mask=null)
    assert arrow_array(values) == pa.array(values)


@pytest.mark.parametrize("truth", [[], [True], [True, False] * 9])
def test_truth_values_are_packed(truth: list[bool]) -> None:
    assert arrow_array(np.array(truth, bool)).to_pylist() == truth


def test_a_part_of_a_numpy_array_is_made_whole() -> None:
    assert arrow_array(np.arange(10)[::3]).to_pylist() == [0, 3, 6, 9]


@pytest.mark.parametrize("array", [pa.nulls(3, pa.int64()), pa.nulls(0, pa.int64()), pa.array([], pa.int64())])
def test_nothing_but_nulls_reads_too(array: pa.Array) -> None:
    assert null_mask(array).tolist() == [True] * len(array)
    assert numbers_of(array, null=5).tolist() == [5] * len(array)


NUMBERS = st.lists(st.none() | st.integers(-100, 100), max_size=20)
TEXTS = st.lists(st.none() | st.text(max_size=5), max_size=20)
BYTES = st.lists(st.none() | st.binary(max_size=5), max_size=20)
MAPS = st.lists(st.none() | st.dictionaries(st.integers(0, 9), st.none() | st.binary(max_size=3)), max_size=9)


@settings(max_examples=100, deadline=None)
@given(
    st.one_of(
        *(
            st.tuples(values, st.just(type_))
            for values, type_ in (
                (NUMBERS, pa.int32()),
                (NUMBERS, pa.int64()),
                (TEXTS, pa.string()),
                (BYTES, pa.binary()),
                (st.lists(st.none() | BYTES, max_size=9), pa.list_(pa.binary())),
                (st.lists(st.none() | NUMBERS, max_size=9), pa.list_(pa.int64())),
                (MAPS, pa.map_(pa.int32(), pa.binary())),
            )
        )
    )
)
def test_values_become_what_arrow_makes_of_them(case: tuple[list[Any], pa.DataType]) -> None:
    values, type_ = case
    made = typed_array(values, type_)
    made.validate(full=True)
    assert made.equals(pa.array(values, type_))
