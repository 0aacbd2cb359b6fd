"""Single values as bytes: the layouts of T8, and bounds from before a promotion."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from predicate_strategies import TYPES, values

from esker.errors import InvalidInput
from esker.model.pruning.orderable import decode, orderable_literal
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
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    UNKNOWN,
    UUID,
    DecimalType,
    FixedType,
    Type,
)
from esker.model.values import from_bytes, int_to_bytes, to_bytes


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0, "00"), (-1, "ff"), (127, "7f"), (128, "0080"), (-128, "80"), (-129, "ff7f"), (255, "00ff"),
        (-32768, "8000"), (32767, "7fff"), (32768, "008000"),
    ],
)  # fmt: skip
def test_t8_g1_a_decimal_takes_no_byte_too_many(number: int, expected: str) -> None:
    assert int_to_bytes(number).hex() == expected
    assert to_bytes(DecimalType(9, 2), Decimal(number).scaleb(-2)).hex() == expected


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        (BOOLEAN, False, "00"),
        (BOOLEAN, True, "01"),
        (INT, -2, "feffffff"),
        (DATE, 1, "01000000"),
        (LONG, 1, "0100000000000000"),
        (TIME, 2, "0200000000000000"),
        (TIMESTAMP, -1, "ffffffffffffffff"),
        (TIMESTAMPTZ, 256, "0001000000000000"),
        (TIMESTAMP_NS, 1, "0100000000000000"),
        (FLOAT, 1.0, "0000803f"),
        (DOUBLE, -0.0, "0000000000000080"),
        (STRING, "aé", "61c3a9"),
        (UUID, bytes(range(16)), "000102030405060708090a0b0c0d0e0f"),
        (FixedType(2), b"\x01\x02", "0102"),
        (BINARY, b"", ""),
    ],
)
def test_t8_the_bytes_of_a_single_value(type_: Type, value: Any, expected: str) -> None:
    assert to_bytes(type_, value).hex() == expected
    assert from_bytes(type_, bytes.fromhex(expected)) == value


def test_t8_any_nonzero_byte_is_true() -> None:
    assert from_bytes(BOOLEAN, b"\x02") is True


@pytest.mark.parametrize("type_", TYPES, ids=str)
@given(data=st.data())
def test_a_value_comes_back_from_its_bytes(type_: Type, data: st.DataObject) -> None:
    value = data.draw(values(type_))
    again = from_bytes(type_, to_bytes(type_, value))
    assert again == value or (again != again and value != value)
    decoded = decode(type_, pa.array([to_bytes(type_, value)], pa.binary()))
    assert not decoded.known[0] if value != value else decoded.values[0] == orderable_literal(type_, value)


def test_e6_a_promoted_columns_old_bounds_are_read_by_their_length() -> None:
    assert from_bytes(LONG, to_bytes(INT, -5)) == -5
    assert from_bytes(DOUBLE, to_bytes(FLOAT, 1.5)) == 1.5
    assert from_bytes(TIMESTAMP, to_bytes(DATE, 2)) == 2 * 86_400_000_000
    assert from_bytes(TIMESTAMP_NS, to_bytes(DATE, -1)) == -86_400_000_000_000
    assert from_bytes(DecimalType(38, 2), b"\x0a") == Decimal("0.10")


def test_e6_many_bounds_of_mixed_lengths_decode_as_each_alone() -> None:
    mixed = pa.array([to_bytes(INT, -5), None, to_bytes(LONG, 2**40), b"abc"], pa.binary())
    assert decode(LONG, mixed).values.tolist() == [-5, 0, 2**40, 0]
    assert decode(LONG, mixed).known.tolist() == [True, False, True, False]
    dates = pa.array([to_bytes(DATE, -1), to_bytes(TIMESTAMP, 7), struct.pack("<i", 2**31 - 1)], pa.binary())
    assert decode(TIMESTAMP_NS, dates).known.tolist() == [True, True, False]
    assert decode(TIMESTAMP_NS, dates).values.tolist()[:2] == [-86_400_000_000_000, 7]
    decimals = pa.array([b"\xff\x7f", b"\x01" + b"\x00" * 15, b"", b"\x00" * 18], pa.binary())
    assert decode(DecimalType(38, 0), decimals).known.tolist() == [True, True, False, False]
    assert decode(DecimalType(38, 0), decimals).values.tolist()[:2] == [-129, 2**120]


@pytest.mark.parametrize(
    ("type_", "data", "reason"),
    [
        (INT, b"\x00", "1 bytes where 4 or 8 are expected"),
        (UUID, b"\x00", "1 bytes where 16 are expected"),
        (FixedType(2), b"\x00", "1 bytes where 2 are expected"),
        (DecimalType(9, 2), b"", "0 bytes cannot be a decimal"),
        (UNKNOWN, b"", "a unknown has no single-value form"),
    ],
)
def test_bytes_that_cannot_be_of_the_type_are_refused(type_: Type, data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        from_bytes(type_, data)


def test_t8_an_unknown_has_no_bytes() -> None:
    with pytest.raises(InvalidInput, match="a unknown has no single-value form"):
        to_bytes(UNKNOWN, None)
