"""Filtering Arrow data with Spark's semantics."""

from __future__ import annotations

import math
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from esker.arrow.read.filter import matches
from esker.arrow.value_arrays import leaf_array
from esker.errors import InvalidInput
from esker.model.parsing.predicate_text import parse
from esker.model.predicates.bind import bind
from esker.model.predicates.predicate import FALSE, TRUE
from esker.model.schema import Schema
from esker.model.types import (
    BINARY,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMPTZ,
    UUID,
    DecimalType,
    Field,
    FixedType,
    StructType,
    Type,
)


def selected(text: str, type_: Type, column: Any) -> list[int]:
    """The rows that pass."""
    schema = Schema(fields=(Field(id=1, name="x", type=type_),))
    answer = matches(bind(parse(text), schema), {1: column}, len(column))
    assert isinstance(answer, pa.BooleanArray)
    assert answer.null_count == 0
    return np.flatnonzero(answer.to_numpy(zero_copy_only=False)).tolist()


NUMBERS = pa.array([1.0, -0.0, 0.0, math.nan, None, math.inf, -5.5], pa.float64())


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("x > 1", [3, 5]), ("x >= 1", [0, 3, 5]), ("x < 1", [1, 2, 6]), ("x <= 0", [1, 2, 6]), ("x = 0", [1, 2]),
        ("x <> 0", [0, 3, 5, 6]), ("x in (0, 1)", [0, 1, 2]), ("x not in (0, 1)", [3, 5, 6]), ("isnan(x)", [3]),
        ("not isnan(x)", [0, 1, 2, 4, 5, 6]), ("x = double('nan')", [3]), ("x <= double('nan')", [0, 1, 2, 3, 5, 6]),
        ("x is null", [4]), ("x is not null", [0, 1, 2, 3, 5, 6]), ("x <=> null or x > 5", [3, 4, 5]),
        ("x in (double('nan'), 1)", [0, 3]), ("x not in (double('nan'), 1)", [1, 2, 5, 6]), ("x = -0.0", [1, 2]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("type_", [DOUBLE, FLOAT])
def test_n3_n4_nan_is_the_largest_and_the_zeros_are_one(text: str, rows: list[int], type_: Type) -> None:
    column = NUMBERS if type_ == DOUBLE else NUMBERS.cast(pa.float32())
    assert selected(text, type_, column) == rows
    assert selected(text, type_, column.dictionary_encode()) == rows


def test_a_float_is_compared_as_a_double() -> None:
    column = pa.array([0.1], pa.float32())
    assert selected("x = 0.1", FLOAT, column) == []
    assert selected("x > 0.1", FLOAT, column) == [0]
    assert selected("x = 0.1F", FLOAT, column) == [0]


@pytest.mark.parametrize(
    ("type_", "column", "text"),
    [
        (INT, pa.array([1, 2, None], pa.int32()), "x > 1"),
        (LONG, pa.array([1, 2, None], pa.int32()), "x > 1"),
        (DATE, pa.array([0, 1, None], pa.date32()), "x > DATE '1970-01-01'"),
        (TIMESTAMPTZ, pa.array([0, 1, None], pa.timestamp("us", "UTC")), "x > '1970-01-01'"),
        (DecimalType(5, 2), pa.array([Decimal("1.00"), Decimal("1.01"), None], pa.decimal128(5, 2)), "x > 1"),
        (DecimalType(9, 2), pa.array([Decimal("1.00"), Decimal("1.01"), None], pa.decimal128(5, 2)), "x in (1.01, 9)"),
        (STRING, pa.array(["a", "b", None], pa.large_string()), "x > 'a'"),
        (STRING, pa.array(["a", "b", None], pa.string_view()), "x in ('b', 'c')"),
        (STRING, pa.array(["a", "b", None]).dictionary_encode(), "x like '_' and x <> 'a'"),
        (UUID, pa.array([bytes(16), uuid.UUID(int=7).bytes, None], pa.binary(16)), f"x = '{uuid.UUID(int=7)}'"),
        (UUID, pa.array([bytes(16), uuid.UUID(int=7).bytes, None], pa.uuid()), f"x in ('{uuid.UUID(int=7)}')"),
        (FixedType(2), pa.array([b"\x00\x00", b"\x00\x01", None], pa.binary(2)), "x > X'0000'"),
        (BINARY, pa.array([b"\x00", b"\x00\x00", None], pa.binary()), "x = X'0000'"),
        (BINARY, pa.array([b"\x00", b"\x00\x00", None], pa.binary_view()), "x in (X'0000', X'ff')"),
        (INT, pa.chunked_array([pa.array([1, 2], pa.int32()), pa.array([None], pa.int32())]), "x = 2"),
        (INT, pa.RunEndEncodedArray.from_arrays([1, 2, 3], pa.array([1, 2, None], pa.int32())), "x = 2"),
    ],
)  # fmt: skip
def test_every_form_of_a_column_is_understood(type_: Type, column: Any, text: str) -> None:
    assert selected(text, type_, column) == [1]


def test_like_matches_the_whole_text_by_character_and_over_lines() -> None:
    column = pa.array(["abc", "a😀c", "a\nc", "ac", "abcd", None, "a.c"])
    assert selected("x like 'a_c'", STRING, column) == [0, 1, 2, 6]
    assert selected("x not like 'a_c'", STRING, column) == [3, 4]
    assert selected("x like 'a.c'", STRING, column) == [6]
    assert selected("x like '%c'", STRING, column) == [0, 1, 2, 3, 6]
    assert selected("x like 'ab%'", STRING, column) == [0, 4]
    assert selected("x not like 'ab%'", STRING, column) == [1, 2, 3, 6]


def test_a_column_of_nothing_but_null_satisfies_only_what_asks_for_null() -> None:
    column = pa.nulls(2)
    assert selected("x = 1", INT, column) == []
    assert selected("x is null", INT, column) == [0, 1]
    assert selected("not isnan(x)", DOUBLE, column) == [0, 1]


def test_constants_need_no_column() -> None:
    assert matches(TRUE, {}, 3).to_pylist() == [True] * 3
    assert matches(FALSE, {}, 2).to_pylist() == [False] * 2
    assert matches(TRUE, {}, 0).to_pylist() == []


def test_a_member_is_null_where_its_struct_is() -> None:
    y = Field(id=3, name="y", type=INT)
    t = Field(id=2, name="t", type=StructType((y,)))
    s = Field(id=1, name="s", type=StructType((t,)))
    schema = Schema(fields=(s,))
    struct = pa.array([{"t": {"y": 1}}, {"t": None}, None, {"t": {"y": None}}, {"t": {"y": 2}}])
    batch = pa.record_batch({"s": struct})
    columns = {3: leaf_array(batch, (s, t, y)), 2: leaf_array(batch, (s, t))}
    assert matches(bind(parse("s.t.y is null"), schema), columns, 5).to_pylist() == [False, True, True, True, False]
    assert matches(bind(parse("s.t is not null"), schema), columns, 5).to_pylist() == [True, False, False, True, True]
    assert matches(bind(parse("s.t.y <> 1"), schema), columns, 5).to_pylist() == [False] * 4 + [True]


def test_a_column_of_another_length_is_refused() -> None:
    schema = Schema(fields=(Field(id=1, name="x", type=INT),))
    with pytest.raises(InvalidInput, match="column 'x' has 1 values where 2 rows are filtered"):
        matches(bind(parse("x = 1"), schema), {1: pa.array([1], pa.int32())}, 2)
