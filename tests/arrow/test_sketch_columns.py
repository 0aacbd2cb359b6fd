"""The hashes that sketches are fed with: of each value's single-value bytes, for every primitive type."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import mmh3
import pyarrow as pa
import pytest

from esker.arrow.arrow_types import to_arrow
from esker.arrow.statistics.sketch_columns import column_hashes
from esker.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIME,
    DecimalType,
    FixedType,
    TimestampType,
    Type,
    UuidType,
)
from esker.model.values import to_bytes
from esker.ports.statistics import can_be_sketched

DRAW = random.Random(7)
EDGES = [0, 1, -1, 127, 128, -128, -129, 255, 256, 32767, 32768, -32768, -32769, 2**31 - 1, -(2**31)]
WIDE = [*EDGES, 2**31, 2**62, -(2**62), 2**63 - 1, -(2**63)]
FLOATS = [0.0, -0.0, 1.5, float("inf"), float("-inf"), float("nan"), -3.25]

VALUES: list[tuple[Type, list[Any]]] = [
    (BOOLEAN, [True, False]),
    (INT, EDGES),
    (LONG, WIDE),
    (FLOAT, FLOATS),
    (DOUBLE, FLOATS),
    (DecimalType(9, 2), [Decimal(n).scaleb(-2) for n in EDGES if abs(n) < 10**9]),
    (DecimalType(38, 10), [Decimal(n).scaleb(-10) for n in (*WIDE, 10**37, -(10**37), 2**64, -(2**64))]),
    (DATE, EDGES),
    (TIME, [0, 1, 86_399_999_999]),
    (TimestampType(zoned=False, nanos=False), WIDE),
    (TimestampType(zoned=True, nanos=False), WIDE),
    (TimestampType(zoned=True, nanos=True), WIDE),
    (STRING, ["a", "é", "😀x", "z" * 15, "z" * 16, "z" * 17, "z" * 31, "z" * 32, "z" * 300]),
    (UuidType(), [bytes(16), bytes(range(16))]),
    (FixedType(3), [b"abc", b"\0\0\0"]),
    (FixedType(21), [bytes(range(21))]),
    (BINARY, [b"\0", b"\xff" * 40]),
]


def expected(type_: Type, value: Any) -> int:
    return mmh3.hash64(to_bytes(type_, value), 9001, x64arch=True, signed=False)[0] >> 1


def array_of(type_: Type, values: list[Any]) -> pa.Array:
    arrow = to_arrow(type_)
    storage = arrow.storage_type if isinstance(arrow, pa.BaseExtensionType) else arrow
    if pa.types.is_temporal(storage):
        return pa.array(values, pa.int32() if storage.bit_width == 32 else pa.int64()).view(storage)
    made = pa.array(values, storage)
    return arrow.wrap_array(made) if isinstance(arrow, pa.BaseExtensionType) else made


@pytest.mark.parametrize(("type_", "values"), VALUES, ids=lambda case: str(case) if not isinstance(case, list) else "")
def test_a_value_hashes_as_its_single_value_bytes(type_: Type, values: list[Any]) -> None:
    assert can_be_sketched(type_)
    wanted = [expected(type_, value) for value in values]
    assert column_hashes(array_of(type_, values), type_).tolist() == wanted
    padded = array_of(type_, [None, *values, None, values[0]])
    assert column_hashes(padded, type_).tolist() == [*wanted, wanted[0]]
    assert column_hashes(padded.slice(2), type_).tolist() == [*wanted[1:], wanted[0]], "a slice has its own values"
    assert column_hashes(padded.slice(0, 1), type_).tolist() == []


def test_null_and_the_empty_string_have_no_hash() -> None:
    assert column_hashes(pa.array(["", "a", None, ""]), STRING).tolist() == [expected(STRING, "a")]
    assert column_hashes(pa.array([b"", None], pa.binary()), BINARY).tolist() == []


def test_decimals_of_random_size_hash_as_their_shortest_bytes() -> None:
    type_ = DecimalType(38, 0)
    values = [Decimal(DRAW.randrange(-(2 ** DRAW.randrange(1, 125)), 2 ** DRAW.randrange(1, 125))) for _ in range(500)]
    assert column_hashes(array_of(type_, values), type_).tolist() == [expected(type_, value) for value in values]
