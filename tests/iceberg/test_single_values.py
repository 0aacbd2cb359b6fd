"""Single values as JSON (checklist T9, E12)."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esker.iceberg.metadata.single_values import (
    decode_single_value,
    encode_single_value,
    format_date,
    format_timestamp,
    parse_date,
    parse_timestamp,
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
    DecimalType,
    Field,
    FixedType,
    ListType,
    MapType,
    StructType,
    Type,
)

STRUCT = StructType((Field(id=7, name="a", type=INT), Field(id=8, name="b", type=DATE)))
LIST = ListType(element_id=2, element=DATE)
MAP = MapType(key_id=2, key=STRING, value_id=3, value=DecimalType(9, 2))
INSTANT = 1_510_871_468_000_000


@pytest.mark.parametrize(
    ("type_", "json", "held"),
    [
        (BOOLEAN, True, True),
        (INT, 34, 34),
        (LONG, -(2**63), -(2**63)),
        (FLOAT, 1.5, 1.5),
        (DOUBLE, 0.1, 0.1),
        (DOUBLE, "NaN", math.nan),
        (FLOAT, "-Infinity", -math.inf),
        (DecimalType(9, 2), "14.20", Decimal("14.20")),
        (DecimalType(9, 2), "0.00", Decimal("0.00")),
        (DecimalType(9, -20), "2E+20", Decimal("2E+20")),
        (DATE, "2017-11-16", 17486),
        (DATE, "1969-12-31", -1),
        (DATE, "+12345-01-01", 3789391),
        (DATE, "-0001-03-01", -719834),
        (TIME, "22:31:08.123456", 81068123456),
        (TIMESTAMP, "2017-11-16T22:31:08.000001", INSTANT + 1),
        (TIMESTAMPTZ, "2017-11-16T22:31:08.000001+00:00", INSTANT + 1),
        (TIMESTAMP_NS, "2017-11-16T22:31:08.000001001", INSTANT * 1000 + 1001),
        (TIMESTAMPTZ_NS, "2017-11-16T22:31:08.000001001+00:00", INSTANT * 1000 + 1001),
        (TIMESTAMP, "1969-12-31T23:59:59.999999", -1),
        (STRING, "iceberg", "iceberg"),
        (STRING, "", ""),
        (UUID, "f79c3e09-677c-4bbd-a479-3f349cb785e7", bytes.fromhex("f79c3e09677c4bbda4793f349cb785e7")),
        (FixedType(4), "00010203", b"\0\1\2\3"),
        (BINARY, "", b""),
        (STRUCT, {"7": 1, "8": "1970-01-02"}, ((7, 1), (8, 1))),
        (STRUCT, {}, ()),
        (LIST, ["1970-01-02", None], (1, None)),
        (MAP, {"keys": ["a", "b"], "values": ["1.50", None]}, (("a", Decimal("1.50")), ("b", None))),
        (UNKNOWN, None, None),
        (INT, None, None),
    ],
)
def test_t9_a_single_value_has_one_json_form(type_: Type, json: Any, held: Any) -> None:
    decoded = decode_single_value(type_, json)
    assert decoded == held or (math.isnan(held) and math.isnan(decoded))
    assert type(decoded) is type(held)
    assert encode_single_value(type_, held) == json


@pytest.mark.parametrize(
    ("type_", "json", "held", "written"),
    [
        (UUID, "F79C3E09-677C-4BBD-A479-3F349CB785E7", None, "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
        (BINARY, "ABCD", b"\xab\xcd", "abcd"),
        (DecimalType(9, 2), "1.5", Decimal("1.50"), "1.50"),
        (DecimalType(9, 2), 7, Decimal("7.00"), "7.00"),
        (DecimalType(9, 2), "0E+99", Decimal("0.00"), "0.00"),
        (FLOAT, 0.1, struct.unpack("<f", struct.pack("<f", 0.1))[0], struct.unpack("<f", struct.pack("<f", 0.1))[0]),
        (DOUBLE, 3, 3.0, 3.0),
        (TIME, "10:20", 37_200_000_000, "10:20:00.000000"),
        (TIMESTAMP, "2017-11-16T22:31:08", INSTANT, "2017-11-16T22:31:08.000000"),
        (TIMESTAMP, "2017-11-16T22:31:08.000000000", INSTANT, "2017-11-16T22:31:08.000000"),
        (TIMESTAMPTZ, "2017-11-16T22:31:08Z", INSTANT, "2017-11-16T22:31:08.000000+00:00"),
    ],
)
def test_e12_what_others_spell_differently_is_read_and_written_the_one_way(
    type_: Type, json: Any, held: Any, written: Any
) -> None:
    decoded = decode_single_value(type_, json)
    assert held is None or decoded == held
    assert encode_single_value(type_, decoded) == written


@pytest.mark.parametrize(
    ("type_", "json", "reason"),
    [
        (BOOLEAN, 1, "true or false expected, not '1'"),
        (INT, 2**31, "2147483648 does not fit into 32 bits"),
        (LONG, 2**63, "does not fit into 64 bits"),
        (INT, True, "a whole number expected, not 'True'"),
        (INT, 1.0, "a whole number expected, not '1.0'"),
        (FLOAT, 1e39, "is too large"),
        (DOUBLE, "1.5", "a number expected, not '1.5'"),
        (DOUBLE, 10**400, "is too large"),
        (DecimalType(9, 2), 1.5, "a string expected, not '1.5'"),
        (DecimalType(9, 2), "x", "'x' is not a number"),
        (DecimalType(9, 2), "NaN", "NaN has more than 9 digits"),
        (DecimalType(9, 2), "12345678.00", "has more than 9 digits"),
        (DecimalType(9, 2), "1E+999999999", "has more than 9 digits"),
        (DecimalType(9, 2), "1E-999999999", "has more than 2 digits behind the point"),
        (DecimalType(9, 2), "1.234", "1.234 has more than 2 digits behind the point"),
        (DecimalType(9, 2), "1." + "0" * 200 + "1", "has more than 2 digits behind the point"),
        (DATE, 5, "a string expected, not '5'"),
        (DATE, "2017-13-01", "there is no month 13"),
        (DATE, "2017-02-29", "2017-02 has no day 29"),
        (DATE, "17-02-29", "'17-02-29' is not a date such as 2007-12-03"),
        (DATE, "999999999-01-01", "it does not fit 32 bits"),
        (TIME, "24:00:00", "there is no time 24:00:00"),
        (TIME, "noon", "'noon' is not a time such as"),
        (TIME, "10:00:00.0000001", "a fraction of 7 digits is finer than the type's 6"),
        (TIMESTAMP, "2017-11-16 22:31:08", "is not a timestamp such as"),
        (TIMESTAMP, "2017-11-16T22:31:08+00:00", "has a zone, but the type has none"),
        (TIMESTAMPTZ, "2017-11-16T22:31:08", r"must be in UTC and end with \+00:00"),
        (TIMESTAMPTZ, "2017-11-16T22:31:08+02:00", r"must be in UTC and end with \+00:00"),
        (TIMESTAMP_NS, "3000-01-01T00:00:00", "it does not fit 64 bits"),
        (STRING, 5, "a string expected, not '5'"),
        (UUID, "f79c3e09677c4bbda4793f349cb785e7", "is no uuid"),
        (BINARY, "abc", "'abc' is no hex"),
        (FixedType(4), "0001", "4 bytes expected, not 2"),
        (STRUCT, [], r"an object expected, not '\[\]'"),
        (STRUCT, {"9": 1}, "the struct has no field 9"),
        (STRUCT, {"7": "x"}, "a whole number expected, not 'x'"),
        (LIST, {}, r"an array expected, not '{}'"),
        (MAP, {"keys": ["a"]}, "an array of values expected, not 'None'"),
        (MAP, {"keys": ["a"], "values": []}, "1 keys with 0 values"),
        (UNKNOWN, 1, "only null is possible"),
    ],
)
def test_t9_what_is_no_value_of_the_type_is_refused(type_: Type, json: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decode_single_value(type_, json)


@given(st.integers(-(2**31), 2**31 - 1))
def test_every_date_that_32_bits_hold_reads_back(days: int) -> None:
    assert parse_date(format_date(days)) == days


@given(st.integers(-(2**63), 2**63 - 1), st.booleans(), st.booleans())
def test_every_timestamp_that_64_bits_hold_reads_back(ticks: int, zoned: bool, nanos: bool) -> None:
    text = format_timestamp(ticks, zoned=zoned, nanos=nanos)
    assert parse_timestamp(text, zoned=zoned, nanos=nanos) == ticks


@given(st.decimals(min_value=-(10**7), max_value=10**7, places=2))
def test_every_decimal_reads_back_with_its_scale(value: Decimal) -> None:
    type_ = DecimalType(38, 2)
    decoded = decode_single_value(type_, encode_single_value(type_, value))
    assert decoded == value
    assert decoded.as_tuple().exponent == -2
