"""Binary rows and bucket numbers: columns and single rows agree, and what was written reads back."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import mmh3
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from esker.errors import Corrupt
from esker.paimon.metadata.types import DataType, decode_type
from esker.paimon.rows.binary_row import BinaryRows, decode_row, encode_row, encode_rows
from esker.paimon.rows.bucket import bucket_numbers, row_hashes

EPOCH = datetime(1970, 1, 1)


def micros(moment: datetime) -> int:
    return (moment - EPOCH) // (datetime(1970, 1, 1, microsecond=1) - EPOCH)


KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any], Any]] = {
    "BOOLEAN": (pa.bool_(), st.booleans(), bool),
    "TINYINT": (pa.int8(), st.integers(-128, 127), int),
    "SMALLINT": (pa.int16(), st.integers(-(1 << 15), (1 << 15) - 1), int),
    "INT": (pa.int32(), st.integers(-(1 << 31), (1 << 31) - 1), int),
    "BIGINT": (pa.int64(), st.integers(-(1 << 63), (1 << 63) - 1), int),
    "DOUBLE": (pa.float64(), st.floats(allow_nan=False), float),
    "FLOAT": (pa.float32(), st.floats(allow_nan=False, width=32), float),
    "DATE": (pa.date32(), st.dates(), lambda day: (day - date(1970, 1, 1)).days),
    "TIME(3)": (
        pa.time32("ms"),
        st.integers(0, 86_399_999).map(lambda ms: time(ms // 3_600_000, ms // 60_000 % 60, ms // 1000 % 60)),
        lambda at: (at.hour * 3600 + at.minute * 60 + at.second) * 1_000_000,
    ),
    "STRING": (pa.string(), st.text(max_size=20), str),
    "BYTES": (pa.binary(), st.binary(max_size=20), bytes),
    "DECIMAL(10, 2)": (
        pa.decimal128(10, 2),
        st.integers(-(10**10) + 1, 10**10 - 1).map(lambda n: Decimal(n).scaleb(-2)),
        lambda d: d,
    ),
    "DECIMAL(38, 5)": (
        pa.decimal128(38, 5),
        st.integers(-(10**33), 10**33).map(lambda n: Decimal(n).scaleb(-5)),
        lambda d: d,
    ),
    "TIMESTAMP(6)": (pa.timestamp("us"), st.datetimes(), micros),
    "TIMESTAMP(3)": (
        pa.timestamp("ms"),
        st.datetimes().map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000)),
        micros,
    ),
}
NAMES = sorted(KINDS)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[list[Any]]]:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=5))
    rows = draw(st.integers(1, 6))
    return names, [draw(st.lists(st.none() | KINDS[name][1], min_size=rows, max_size=rows)) for name in names]


@given(tables())
def test_columns_and_single_rows_have_the_same_bytes_and_read_back(table: tuple[list[str], list[list[Any]]]) -> None:
    names, columns = table
    types = [decode_type(name) for name in names]
    arrays = [pa.array(column, KINDS[name][0]) for name, column in zip(names, columns, strict=True)]
    held = [
        [None if value is None else KINDS[name][2](value) for value in column]
        for name, column in zip(names, columns, strict=True)
    ]
    encoded = encode_rows(types, arrays)
    rows = encoded.to_arrow().to_pylist()
    assert rows == [encode_row(types, values) for values in zip(*held, strict=True)]
    assert [decode_row(row, types) for row in rows] == list(zip(*held, strict=True))
    assert row_hashes(encoded).tolist() == [mmh3.hash(row[4:], 42) for row in rows]


def test_a_short_text_is_inside_its_slot_and_a_long_one_is_after_the_slots() -> None:
    types = [decode_type("STRING"), decode_type("STRING")]
    row = encode_row(types, ["abc", "abcdefgh"])
    assert row.hex() == ("00000002" + "0000000000000000" + "6162630000000083" + "0800000018000000" + "6162636465666768")


def test_a_null_wide_value_keeps_its_place_as_java_writes_it() -> None:
    types = [decode_type("TIMESTAMP(6)"), decode_type("DECIMAL(20, 0)"), decode_type("INT")]
    row = encode_row(types, [None, None, 7])
    assert len(row) == 4 + 8 + 3 * 8 + 8 + 16
    assert decode_row(row, types) == (None, None, 7)


def test_a_row_with_fewer_fields_gives_null_for_the_others() -> None:
    assert decode_row(encode_row([DataType(root="INT")], [5]), [DataType(root="INT"), DataType(root="VARCHAR")]) == (
        5,
        None,
    )


@pytest.mark.parametrize(
    "harm",
    [
        b"\0\0\0\1",  # no body
        encode_row([decode_type("INT")], [1])[:-4],  # no whole slot
        encode_row([decode_type("STRING")], ["a long text here"])[:-8],  # its text is cut
        b"\x7f\xff\xff\xff" + bytes(16),  # more fields than bytes
    ],
)
def test_a_row_that_is_cut_is_corrupt(harm: bytes) -> None:
    with pytest.raises(Corrupt, match="binary row"):
        decode_row(harm, [decode_type("STRING")])


def test_a_bucket_is_the_absolute_rest_of_the_signed_hash() -> None:
    types = [decode_type("BIGINT NOT NULL")]
    keys = pa.array(range(-500, 500), pa.int64())
    found = bucket_numbers(types, [keys], 7)
    hashes = [mmh3.hash(encode_row(types, [key])[4:], 42) for key in keys.to_pylist()]
    assert found.tolist() == [abs(int(np.fmod(hash_, 7))) for hash_ in hashes]
    assert any(hash_ < 0 for hash_ in hashes)


def test_no_rows_are_no_rows() -> None:
    assert encode_rows([decode_type("STRING")], [pa.array([], pa.string())]).to_arrow().to_pylist() == []
    assert BinaryRows(pa.array([None], pa.binary()), "f").column(0, decode_type("STRING")).to_pylist() == [None]
