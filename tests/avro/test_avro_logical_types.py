"""Logical types: applied when asked for, raw when not."""

from __future__ import annotations

import datetime as dt
import io
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from avro_cases import calm, container, long, raw_container
from hypothesis import given
from hypothesis import strategies as st

from esker.avro import decode, iter_batches
from esker.errors import Corrupt


def record(type_: Any) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": [{"name": "x", "type": type_}]}


def column(data: bytes, *, logical: bool) -> pa.Array:
    return decode(data, file="f", logical=logical).batch.column(0)


@pytest.mark.parametrize(
    ("kind", "annotation", "type_"),
    [
        ("int", {"logicalType": "date"}, pa.date32()),
        ("int", {"logicalType": "time-millis"}, pa.time32("ms")),
        ("long", {"logicalType": "time-micros"}, pa.time64("us")),
        ("long", {"logicalType": "timestamp-millis"}, pa.timestamp("ms")),
        ("long", {"logicalType": "timestamp-micros"}, pa.timestamp("us")),
        ("long", {"logicalType": "timestamp-micros", "adjust-to-utc": False}, pa.timestamp("us")),
        ("long", {"logicalType": "timestamp-micros", "adjust-to-utc": True}, pa.timestamp("us", tz="UTC")),
        ("long", {"logicalType": "timestamp-nanos", "adjust-to-utc": True}, pa.timestamp("ns", tz="UTC")),
        ("long", {"logicalType": "local-timestamp-millis"}, pa.timestamp("ms")),
        ("long", {"logicalType": "local-timestamp-micros"}, pa.timestamp("us")),
        ("long", {"logicalType": "local-timestamp-nanos"}, pa.timestamp("ns")),
        ("string", {"logicalType": "date"}, None),  # an annotation that does not fit is no annotation
        ("int", {"logicalType": "timestamp-micros"}, None),
        ("long", {"logicalType": "who-knows"}, None),
        ("bytes", {"logicalType": "decimal"}, None),
        ("bytes", {"logicalType": "decimal", "precision": 77}, None),
        ("bytes", {"logicalType": "decimal", "precision": 3, "scale": 4}, None),
    ],
)
def test_a10_an_annotation_gives_its_arrow_type_or_none(kind: str, annotation: Any, type_: pa.DataType | None) -> None:
    stored = {"int": pa.int32(), "long": pa.int64(), "string": pa.string(), "bytes": pa.binary()}[kind]
    data = raw_container(record({"type": kind, **annotation}), (1, long(0)))
    assert column(data, logical=False).type == stored
    assert column(data, logical=True).type == (type_ or stored)


def test_times_are_read_as_fastavro_means_them() -> None:
    moment = dt.datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=dt.UTC)
    utc = {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True}
    [batch] = iter_batches(io.BytesIO(container(record(utc), [{"x": moment}])), file="f")
    assert batch.to_pylist() == [{"x": moment}]
    day = container(record(["null", {"type": "int", "logicalType": "date"}]), [{"x": moment.date()}, {"x": None}])
    assert column(day, logical=True).to_pylist() == [moment.date(), None]
    assert column(day, logical=False).to_pylist() == [19782, None]


def test_a10_a_uuid_is_sixteen_bytes_stored_fixed_or_as_text() -> None:
    value = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
    text = container(record(["null", {"type": "string", "logicalType": "uuid"}]), [{"x": value}, {"x": None}])
    fixed = {"type": "fixed", "name": "u", "size": 16, "logicalType": "uuid"}
    for data in (text, raw_container(record(["null", fixed]), (2, long(1) + value.bytes + long(0)))):
        assert column(data, logical=True).to_pylist() == [value.bytes, None]
        assert column(data, logical=True).type == pa.binary(16)


def test_a_uuid_that_is_none_is_refused() -> None:
    data = raw_container(record({"type": "string", "logicalType": "uuid"}), (1, long(4) + b"nope"))
    with pytest.raises(Corrupt, match="f is corrupt: the text of a uuid is not valid"):
        column(data, logical=True)
    assert column(data, logical=False).to_pylist() == ["nope"]


@calm
@given(st.integers(1, 76), st.data())
def test_a10_decimals_of_any_width_keep_their_value(precision: int, data: st.DataObject) -> None:
    top = 10**precision - 1
    numbers = data.draw(st.lists(st.none() | st.integers(-top, top), max_size=6))
    scale, width = data.draw(st.integers(0, precision)), data.draw(st.sampled_from([0, 1, 20]))
    annotation = {"logicalType": "decimal", "precision": precision, "scale": scale}
    size = next(n for n in range(1, 40) if 1 << (8 * n - 1) > top) + width  # the least that holds them, or more
    expected = [None if n is None else Decimal(n).scaleb(-scale, None) if precision <= 28 else n for n in numbers]
    fixed = {"type": "fixed", "name": "d", "size": size, **annotation}
    body = b"".join(long(0) if n is None else long(1) + n.to_bytes(size, signed=True) for n in numbers)
    found = [column(raw_container(record(["null", fixed]), (len(numbers), body)), logical=True)]
    body = b"".join(long(0) if n is None else long(1) + long(len(_least(n))) + _least(n) for n in numbers)
    stored = raw_container(record(["null", {"type": "bytes", **annotation}]), (len(numbers), body))
    for array in [*found, column(stored, logical=True)]:
        assert array.type == (pa.decimal128 if precision <= 38 else pa.decimal256)(precision, scale)
        read = array.to_pylist()
        unscaled = [None if d is None else _unscaled(d) for d in read]
        assert unscaled == numbers
        assert precision > 28 or read == expected


def _least(number: int) -> bytes:
    return number.to_bytes((8 + (number + (number < 0)).bit_length()) // 8, signed=True)


def _unscaled(value: Decimal) -> int:
    sign, digits, _ = value.as_tuple()
    return int("".join(map(str, digits))) * (-1 if sign else 1)


@pytest.mark.parametrize(
    ("precision", "stored", "reason"),
    [
        (2, b"\x03\xe8", "a decimal has more than 2 digits"),
        (38, b"\x01" + bytes(16), "a decimal does not fit 128 bits"),
        (38, bytes(1) + b"\x80" + bytes(15), "a decimal does not fit 128 bits"),
        (76, b"\x01" + bytes(32), "a decimal does not fit 256 bits"),
    ],
)
def test_a_decimal_that_does_not_fit_is_refused(precision: int, stored: bytes, reason: str) -> None:
    type_ = {"type": "bytes", "logicalType": "decimal", "precision": precision}
    with pytest.raises(Corrupt, match=f"f is corrupt: {reason}"):
        column(raw_container(record(type_), (1, long(len(stored)) + stored)), logical=True)


def test_an_empty_decimal_is_zero() -> None:
    type_ = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
    assert column(raw_container(record(type_), (1, long(0))), logical=True).to_pylist() == [Decimal("0.00")]


def test_enums_are_text_with_nulls_kept() -> None:
    data = container(record(["null", {"type": "enum", "name": "e", "symbols": ["A", "B"]}]), [{"x": "B"}, {"x": None}])
    for logical in (True, False):
        assert column(data, logical=logical).to_pylist() == ["B", None]
