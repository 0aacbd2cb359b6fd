"""Partition transforms: the spec's own vectors, and what they do before 1970."""

from __future__ import annotations

import uuid
from decimal import Decimal
from typing import Any

import mmh3
import pytest
from hypothesis import given
from hypothesis import strategies as st
from predicate_strategies import TYPES, values

from esker.errors import InvalidInput
from esker.model.transform import (
    DAY,
    HOUR,
    IDENTITY,
    MONTH,
    VOID,
    YEAR,
    BucketTransform,
    TimeUnit,
    Transform,
    TruncateTransform,
    UnknownTransform,
    accepts,
    apply_transform,
    bucket_hash,
    civil_month,
    days_from_month,
    parse_transform,
    result_type,
)
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
    TIMESTAMPTZ_NS,
    UNKNOWN,
    UUID,
    VARIANT,
    DecimalType,
    FixedType,
    GeometryType,
    ListType,
    Type,
)
from esker.model.values import from_unscaled

NOON_ISH = (17486 * 86_400 + 22 * 3600 + 31 * 60 + 8) * 1_000_000  # 2017-11-16T22:31:08
HOUR_US = 3_600_000_000

VECTORS: list[tuple[Type, Any, int]] = [
    (INT, 34, 2017239379),
    (LONG, 34, 2017239379),
    (DecimalType(9, 2), Decimal("14.20"), -500754589),
    (DATE, 17486, -653330422),
    (TIME, (22 * 3600 + 31 * 60 + 8) * 1_000_000, -662762989),
    (TIMESTAMP, NOON_ISH, -2047944441),
    (TIMESTAMPTZ, NOON_ISH, -2047944441),
    (TIMESTAMP_NS, NOON_ISH * 1000, -2047944441),
    (TIMESTAMPTZ_NS, NOON_ISH * 1000, -2047944441),
    (TIMESTAMP, NOON_ISH + 1, -1207196810),
    (TIMESTAMP_NS, NOON_ISH * 1000 + 1001, -1207196810),
    (STRING, "iceberg", 1210000089),
    (STRING, "34", -427558391),
    (UUID, uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes, 1488055340),
    (FixedType(4), b"\x00\x01\x02\x03", -188683207),
    (BINARY, b"\x00\x01\x02\x03", -188683207),
]


@pytest.mark.parametrize(("type_", "value", "expected"), VECTORS)
def test_t7_f5_the_hash_of_the_specs_own_vectors(type_: Type, value: Any, expected: int) -> None:
    assert bucket_hash(type_, value) == expected


@pytest.mark.parametrize(
    ("type_", "value", "bucket"),
    [
        (INT, 34, 3),
        (DecimalType(9, 2), Decimal("14.20"), 3),
        (DATE, 17486, 10),
        (STRING, "iceberg", 9),
        (DecimalType(9, 2), Decimal("-1.28"), 13),
    ],
)
def test_t7_f5_sixteen_buckets(type_: Type, value: Any, bucket: int) -> None:
    assert apply_transform(BucketTransform(16), type_, value) == bucket


def test_t7_the_hashes_kept_for_types_that_are_not_bucketed_are_those_of_murmur3() -> None:
    assert mmh3.hash((1).to_bytes(8, "little"), 0) == 1392991556
    for type_ in (BOOLEAN, FLOAT, DOUBLE):
        with pytest.raises(InvalidInput, match=f"cannot use bucket on a column of type {type_}"):
            bucket_hash(type_, 1)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(1, 2**31 - 1))
def test_f5_a_bucket_is_never_negative(value: int, buckets: int) -> None:
    assert 0 <= apply_transform(BucketTransform(buckets), LONG, value) < buckets


@pytest.mark.parametrize(
    ("type_", "width", "value", "expected"),
    [
        (INT, 10, 1, 0),
        (INT, 10, -1, -10),
        (INT, 10, -10, -10),
        (LONG, 10, 19, 10),
        (DecimalType(9, 2), 50, Decimal("10.65"), Decimal("10.50")),
        (DecimalType(9, 2), 10, Decimal("-0.05"), Decimal("-0.10")),
        (STRING, 3, "iceberg", "ice"),
        (STRING, 3, "a😀bcd", "a😀b"),
        (STRING, 3, "ab", "ab"),
        (BINARY, 3, b"\x01\x02\x03\x04\x05", b"\x01\x02\x03"),
    ],
)
def test_t6_f6_truncate(type_: Type, width: int, value: Any, expected: Any) -> None:
    assert apply_transform(TruncateTransform(width), type_, value) == expected


def test_f6_truncate_keeps_every_digit_of_a_long_decimal() -> None:
    value = from_unscaled(12345678901234567890123456789012345678, 10)
    assert apply_transform(TruncateTransform(10), DecimalType(38, 10), value) == from_unscaled(
        12345678901234567890123456789012345670, 10
    )


@pytest.mark.parametrize("type_", [TIMESTAMP, TIMESTAMPTZ, TIMESTAMP_NS, TIMESTAMPTZ_NS])
@pytest.mark.parametrize("transform", [HOUR, DAY, MONTH, YEAR])
def test_f3_an_instant_before_1970_is_in_a_unit_before_zero(transform: Transform, type_: Type) -> None:
    assert apply_transform(transform, type_, -1) == -1
    assert apply_transform(transform, type_, 0) == 0


@pytest.mark.parametrize(
    ("transform", "type_", "value", "expected"),
    [
        (YEAR, DATE, 17486, 47),
        (MONTH, DATE, 17486, 574),
        (DAY, DATE, 17486, 17486),
        (YEAR, DATE, -1, -1),
        (YEAR, DATE, -365, -1),
        (YEAR, DATE, -366, -2),
        (MONTH, DATE, -31, -1),
        (MONTH, DATE, -32, -2),
        (YEAR, TIMESTAMP, NOON_ISH, 47),
        (MONTH, TIMESTAMP, NOON_ISH, 574),
        (DAY, TIMESTAMP, NOON_ISH, 17486),
        (HOUR, TIMESTAMP, NOON_ISH, 419686),
        (HOUR, TIMESTAMP, -HOUR_US, -1),
        (HOUR, TIMESTAMP, -HOUR_US - 1, -2),
        (HOUR, TIMESTAMP_NS, NOON_ISH * 1000, 419686),
    ],
)
def test_t6_f3_time_transforms_floor(transform: Transform, type_: Type, value: int, expected: int) -> None:
    assert apply_transform(transform, type_, value) == expected


@pytest.mark.parametrize(
    "transform", [IDENTITY, VOID, YEAR, MONTH, DAY, HOUR, BucketTransform(4), TruncateTransform(2)]
)
def test_f7_every_transform_maps_null_to_null(transform: Transform) -> None:
    assert all(apply_transform(transform, type_, None) is None for type_ in TYPES)


def test_f4_day_yields_a_date_and_the_others_integers() -> None:
    assert [result_type(transform, TIMESTAMP) for transform in (YEAR, MONTH, DAY, HOUR)] == [INT, INT, DATE, INT]
    assert result_type(BucketTransform(4), STRING) == INT
    assert result_type(TruncateTransform(4), STRING) == result_type(IDENTITY, STRING) == STRING


def test_t6_which_columns_a_transform_takes() -> None:
    nested = ListType(element_id=2, element=INT)
    assert accepts(IDENTITY, UUID)
    assert not any(accepts(IDENTITY, type_) for type_ in (GeometryType(), VARIANT, nested))
    assert not any(accepts(BucketTransform(4), type_) for type_ in (BOOLEAN, FLOAT, DOUBLE, UNKNOWN, nested))
    assert accepts(DAY, DATE)
    assert not accepts(HOUR, DATE)
    assert not any(accepts(TruncateTransform(4), type_) for type_ in (DATE, FixedType(4), UUID))
    assert accepts(VOID, nested)


def test_transforms_are_read_as_metadata_spells_them() -> None:
    for text in ("identity", "void", "year", "month", "day", "hour", "bucket[16]", "truncate[4]"):
        assert str(parse_transform(text)) == text
    assert parse_transform(" Bucket[ 16 ] ") == BucketTransform(16)


@pytest.mark.parametrize("text", ["zorder", "bucket[0]", "bucket", "truncate[-1]", ""])
def test_f9_a_transform_nobody_knows_is_kept_and_cannot_be_computed(text: str) -> None:
    transform = parse_transform(text)
    assert transform == UnknownTransform(text)
    with pytest.raises(InvalidInput, match="cannot compute the unknown partition transform"):
        apply_transform(transform, INT, 1)


@given(st.integers(-(10**9), 10**9))
def test_a_month_starts_on_its_first_day(days: int) -> None:
    year, month = civil_month(days)
    ordinal = (year - 1970) * 12 + month - 1
    assert days_from_month(ordinal) <= days < days_from_month(ordinal + 1)


@pytest.mark.parametrize("type_", [type_ for type_ in TYPES if type_ not in (FLOAT, DOUBLE)], ids=str)
@given(data=st.data())
def test_transforms_but_bucket_keep_order(type_: Type, data: st.DataObject) -> None:
    low, high = sorted((data.draw(values(type_)), data.draw(values(type_))))
    kept = (IDENTITY, YEAR, MONTH, DAY, HOUR, TruncateTransform(3))
    for transform in filter(lambda transform: accepts(transform, type_), kept):
        assert apply_transform(transform, type_, low) <= apply_transform(transform, type_, high)


def test_time_units_are_spelt_as_metadata_spells_them() -> None:
    assert [unit.value for unit in TimeUnit] == ["year", "month", "day", "hour"]
