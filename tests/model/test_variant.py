"""Variants and Python's values: what goes in comes out, and hostile bytes are told as such."""

from __future__ import annotations

import json
import struct
from contextlib import suppress
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from esker.errors import InvalidInput
from esker.model.variant import MAX_DEPTH, Dictionary, Moment, decode, encode
from esker.model.variant_layout import (
    EMPTY_METADATA,
    Basic,
    Kind,
    array_value,
    binary_value,
    int_value,
    metadata_of,
    object_value,
    primitive,
    text_value,
)
from esker.model.variant_text import to_json

TEXTS = st.text(st.characters(codec="utf-8"), max_size=80)
DECIMALS = st.builds(
    lambda number, scale: Decimal(number).scaleb(-scale), st.integers(-(10**28) + 1, 10**28 - 1), st.integers(0, 28)
)
MOMENTS = st.builds(Moment, st.integers(-(1 << 63), (1 << 63) - 1), st.just("ns"), st.booleans())
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.floats(allow_nan=False),
    TEXTS,
    st.binary(max_size=80),
    DECIMALS,
    st.dates(),
    st.times(),
    st.datetimes(),
    st.datetimes(timezones=st.just(UTC)),
    st.uuids(),
    MOMENTS,
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5), max_leaves=25
)


@given(VALUES)
def test_every_value_comes_back(value: Any) -> None:
    back = decode(*encode(value))
    assert back == value
    assert type(back) is type(value)


@given(VALUES)
def test_every_value_has_a_json_text(value: Any) -> None:
    json.loads(to_json(*encode(value)))


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_are_a_value_or_are_refused(metadata: bytes, value: bytes) -> None:
    with suppress(InvalidInput):
        decode(metadata, value)


@given(VALUES, st.integers(0, 10_000), st.integers(0, 255))
def test_one_byte_changed_is_a_value_or_is_refused(value: Any, at: int, byte: int) -> None:
    metadata, data = encode(value)
    whole = bytearray(metadata + data)
    whole[at % len(whole)] = byte
    with suppress(InvalidInput):
        decode(bytes(whole[: len(metadata)]), bytes(whole[len(metadata) :]))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "00"),
        (True, "04"),
        (False, "08"),
        (1, "0c01"),
        (-129, "107fff"),
        (1 << 20, "1400001000"),
        (-(1 << 63), "180000000000000080"),
        (1.0, "1c000000000000f03f"),
        (Decimal("-1.5"), "2001f1ffffff"),
        (Decimal("1234567890.12"), "2402" + (123456789012).to_bytes(8, "little").hex()),
        (1 << 63, "2800" + (1 << 63).to_bytes(16, "little").hex()),
        (date(1970, 1, 2), "2c01000000"),
        (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "30" + (1_000_000).to_bytes(8, "little").hex()),
        (datetime(1970, 1, 1, 0, 0, 1), "34" + (1_000_000).to_bytes(8, "little").hex()),
        (b"\x01", "3c0100000001"),
        ("ab", "096162"),
        ("a" * 64, "4040000000" + "61" * 64),
        (time(0, 0, 1), "44" + (1_000_000).to_bytes(8, "little").hex()),
        (Moment(1, "ns", zoned=True), "480100000000000000"),
        (Moment(1, "ns"), "4c0100000000000000"),
        (UUID(int=1), "50" + "00" * 15 + "01"),
        ([1, "a"], "03020002040c010561"),
        ({}, "020000"),
    ],
)
def test_values_are_spelt_as_the_encoding_has_them(value: Any, expected: str) -> None:
    assert encode(value)[1].hex() == expected


def test_an_object_is_in_the_order_of_its_keys_and_so_is_the_dictionary() -> None:
    metadata, value = encode({"b": 1, "a": {"é": 2}, "B": None})
    assert Dictionary(metadata).all_keys() == [b"B", b"a", b"b", "é".encode()]
    assert metadata[0] == 0x11
    assert list(decode(metadata, value)) == ["B", "a", "b"]


def test_many_members_and_long_ones_take_wider_numbers() -> None:
    value = {f"key{at}": "x" * at for at in range(300)}
    metadata, data = encode(value)
    assert data[0] & 3 == Basic.OBJECT
    assert data[0] >> 6 == 1  # large: more members than a byte counts
    assert metadata[0] >> 6 == 1  # two bytes an offset
    assert decode(metadata, data) == value
    assert decode(*encode(["x" * 100_000] * 300)) == ["x" * 100_000] * 300


def test_a_float_is_read_as_a_number() -> None:
    assert decode(EMPTY_METADATA, primitive(Kind.FLOAT, struct.pack("<f", 1.5))) == 1.5


def test_times_beyond_pythons_are_moments() -> None:
    far_day = primitive(Kind.DATE, struct.pack("<i", 3_663_000))
    assert decode(EMPTY_METADATA, far_day) == Moment(3_663_000, "days")
    far = Moment(1 << 60, "us", zoned=True)
    assert decode(*encode(far)) == far
    assert to_json(*encode(far)) == f'"+{numpy.datetime64(1 << 60, "us")}+00:00"'.replace("T", " ")
    assert to_json(EMPTY_METADATA, far_day) == f'"+{numpy.datetime64(3_663_000, "D")}"'
    assert to_json(*encode(Moment(-1, "ns"))) == '"1969-12-31 23:59:59.999999999"'
    assert to_json(*encode(Moment(-800_000, "days"))) == '"-0221-09-04"'


def test_json_has_all_digits_and_the_names_of_what_is_no_number() -> None:
    value = {"d": Decimal("0.10"), "n": float("nan"), "i": float("-inf"), "b": b"\x00", "t": "ü\n", "x": [True, None]}
    assert to_json(*encode(value)) == '{"b":"AA==","d":0.10,"i":"-Infinity","n":"NaN","t":"ü\\n","x":[true,null]}'


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({1: 2}, "cannot make a variant: the key 1 is not text"),
        (object(), "cannot make a variant of a object"),
        ("\ud800", "half of a surrogate pair"),
        ({"\ud800": 1}, "half of a surrogate pair"),
        (10**38, "a decimal of more than 38 digits"),
        (Decimal("1e60"), "a decimal of more than 38 digits"),
        (Decimal("1e-39"), "a decimal of more than 38 digits"),
        (Decimal("NaN"), "cannot make a variant of the decimal NaN: it is not a number"),
        (time(1, tzinfo=UTC), "cannot make a variant of a time"),
        (Moment(1 << 70, "us"), "is out of range"),
    ],
)
def test_what_no_variant_can_hold_is_refused_by_name(value: Any, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        encode(value)


@pytest.mark.parametrize(
    ("metadata", "value", "why"),
    [
        (b"", b"\0", "its metadata is not of version 1"),
        (b"\x02\0\0", b"\0", "its metadata is not of version 1"),
        (b"\x01\x05\0", b"\0", "its metadata ends too early"),
        (EMPTY_METADATA, b"", "it ends too early"),
        (EMPTY_METADATA, b"\x18\x00", "it ends too early"),
        (EMPTY_METADATA, bytes((63 << 2,)), "there is no primitive of kind 63"),
        (EMPTY_METADATA, primitive(Kind.DECIMAL4, b"\xff\0\0\0\0"), "a decimal has a scale of 255"),
        (EMPTY_METADATA, primitive(Kind.TIME, b"\xff" * 8), "a time of day is not within a day"),
        (EMPTY_METADATA, b"\x05\xff", "a text is not UTF-8"),
        (EMPTY_METADATA, object_value([(0, b"\0")]), "a key is not in its metadata"),
        (metadata_of([b"a"]), object_value([(0, b"\0"), (0, b"\0")]), "an object has the key 'a' twice"),
        (b"\x01\x01\x05\x09a", object_value([(0, b"\0")]), "a key is outside of its metadata"),
    ],
)
def test_bytes_that_are_no_variant_are_refused_by_what_is_wrong(metadata: bytes, value: bytes, why: str) -> None:
    with pytest.raises(InvalidInput, match=f"cannot read a variant: {why}"):
        decode(metadata, value)


def test_values_that_share_their_bytes_are_refused_before_they_multiply() -> None:
    bomb = int_value(1)
    for _ in range(100):  # arrays of 100 items, all of which are the one array inside
        shared = b"".join((0).to_bytes(2, "little") for _ in range(100)) + len(bomb).to_bytes(2, "little")
        bomb = bytes((1 << 2 | Basic.ARRAY, 100)) + shared + bomb
    with pytest.raises(InvalidInput, match="two of its values share bytes"):
        decode(EMPTY_METADATA, bomb)


def test_nesting_is_bounded_on_the_way_in_and_out() -> None:
    deep: Any = None
    for _ in range(MAX_DEPTH):
        deep = [deep]
    assert decode(*encode(deep)) == deep
    with pytest.raises(InvalidInput, match=f"nested deeper than {MAX_DEPTH} times"):
        encode([deep])
    data = array_value([encode(deep)[1]])
    with pytest.raises(InvalidInput, match=f"nested deeper than {MAX_DEPTH} times"):
        decode(EMPTY_METADATA, data)


def test_short_and_long_forms_are_chosen_by_length() -> None:
    assert text_value(b"a" * 63)[0] & 3 == Basic.SHORT_TEXT
    assert text_value(b"a" * 64)[0] >> 2 == Kind.TEXT
    assert binary_value(b"")[0] >> 2 == Kind.BINARY
