"""Decoding many bounds at once gives what decoding each alone gives."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from fake_ports import arrow_type
from hypothesis import given
from hypothesis import strategies as st

from esker.metadata_tables.readable_metrics import decode_bounds
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
    TIMESTAMPTZ_NS,
    UUID,
    DecimalType,
    FixedType,
    Type,
)
from esker.model.values import from_bytes, to_bytes

EXAMPLES: list[tuple[Type, list[Any]]] = [
    (BOOLEAN, [True, False]),
    (INT, [-(2**31), 0, 5]),
    (LONG, [2**40, -1]),
    (FLOAT, [1.5, -0.0]),
    (DOUBLE, [1e300, 0.25]),
    (DATE, [0, -1, 19_000]),
    (TIME, [0, 86_399_999_999]),
    (TIMESTAMP, [0, -1]),
    (TIMESTAMPTZ_NS, [0, 10**15]),
    (STRING, ["", "grüße"]),
    (BINARY, [b"", b"\xff"]),
    (UUID, [bytes(range(16))]),
    (FixedType(3), [b"abc"]),
]


@pytest.mark.parametrize(("type_", "values"), EXAMPLES, ids=lambda x: str(x) if not isinstance(x, list) else "")
def test_bounds_of_every_type_decode_with_nulls_between(type_: Type, values: list[Any]) -> None:
    arrow = arrow_type(type_)
    bounds = pa.array([None, *(to_bytes(type_, v) for v in values), None], pa.binary())
    got = decode_bounds(type_, bounds, arrow)
    assert got.type == arrow
    assert got.null_count == 2
    storage = got.storage if isinstance(arrow, pa.BaseExtensionType) else got
    plain = storage.cast(pa.int64()) if pa.types.is_temporal(arrow) and arrow.bit_width == 64 else storage
    plain = storage.cast(pa.int32()) if arrow == pa.date32() else plain
    assert plain.to_pylist()[1:-1] == values


def test_decimal_bounds_decode_at_any_width() -> None:
    from decimal import Decimal

    type_ = DecimalType(20, 2)
    values = [Decimal("-1.28"), Decimal("123456789012345678.90")]
    got = decode_bounds(type_, pa.array([to_bytes(type_, v) for v in values], pa.binary()), pa.decimal128(20, 2))
    assert got.to_pylist() == values


@given(st.lists(st.one_of(st.none(), st.binary(max_size=9)), max_size=8))
def test_any_bytes_decode_alike_one_by_one_and_all_at_once_and_nothing_crashes(raw: list[bytes | None]) -> None:
    for type_ in (INT, LONG, DOUBLE, STRING, BOOLEAN):
        got = decode_bounds(type_, pa.array(raw, pa.binary()), arrow_type(type_))
        assert len(got) == len(raw)
        for mine, data in zip(got.to_pylist(), raw, strict=True):
            if mine is not None and mine == mine:
                assert data is not None
                assert mine == from_bytes(type_, data)
