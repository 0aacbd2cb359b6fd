"""Values as files hold them, in the type the table has now (checklist T15, E6, E10)."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from arrow_tables import Files, column, metadata, read, schema, task

from esker.arrow.arrow_types import to_arrow, to_arrow_schema
from esker.arrow.convert import convert
from esker.errors import Corrupt
from esker.model.predicates.predicate import Compare, Op
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
    UUID,
    DecimalType,
    FixedType,
    Type,
    UnknownType,
)

HOUR = 3_600_000_000


def converted(array: pa.Array, type_: Type) -> pa.Array:
    return convert(array, type_, file="f.parquet", column="c")


@pytest.mark.parametrize(
    ("held", "type_", "expected"),
    [
        (pa.array([1, None], pa.int32()), LONG, [1, None]),
        (pa.array([1.5, None], pa.float32()), DOUBLE, [1.5, None]),
        (pa.array([Decimal("1.20")], pa.decimal128(9, 2)), DecimalType(20, 2), [Decimal("1.20")]),
        (pa.array([dt.date(1969, 12, 31)]), TIMESTAMP, [dt.datetime(1969, 12, 31)]),
        (pa.nulls(2), STRING, [None, None]),
    ],
)
def test_t15_a_promoted_column_reads_old_values(held: pa.Array, type_: Type, expected: list[Any]) -> None:
    got = converted(held, type_)
    assert got.type == to_arrow(type_)
    assert got.to_pylist() == expected


def test_t15_a_date_becomes_nanoseconds_too() -> None:
    got = converted(pa.array([dt.date(1969, 12, 31), None]), TIMESTAMP_NS)
    assert got.view(pa.int64()).to_pylist() == [-86_400 * 10**9, None]


def test_t15_an_unknown_column_that_got_a_type_reads_old_files_as_null() -> None:
    files = Files()
    data_file = files.rows(schema(column(1, "a", INT)), [{"a": 1}])
    of = metadata(schema(column(1, "a", INT), column(2, "b", UnknownType())), schema(column(2, "b", STRING)))
    assert read(files, of, task(data_file)).to_pylist() == [{"b": None}]


@pytest.mark.parametrize(
    ("held", "type_"),
    [
        (pa.array([1], pa.int32()), STRING),
        (pa.array(["1"]), INT),
        (pa.array([1.0], pa.float64()), FLOAT),
        (pa.array([1]), DOUBLE),
        (pa.array([dt.date(2020, 1, 1)]), TIMESTAMPTZ),
        (pa.array([1]), BOOLEAN),
        (pa.array([Decimal("1.23")]), DecimalType(9, 1)),
        (pa.array([b"\xff"]), STRING),
        (pa.array([b"abc"]), FixedType(2)),
        (pa.array([2**40]), INT),
        (pa.array([dt.date(9999, 1, 1)]), TIMESTAMP_NS),
    ],
)
def test_t15_what_is_no_promotion_is_refused_naming_file_and_column(held: pa.Array, type_: Type) -> None:
    with pytest.raises(Corrupt, match=r"f.parquet is corrupt: column 'c' .* as "):
        converted(held, type_)


@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
@pytest.mark.parametrize("type_", [TIMESTAMP, TIMESTAMPTZ, TIMESTAMP_NS, TIMESTAMPTZ_NS])
def test_e10_the_tables_type_decides_about_the_zone_and_the_number_stays(zone: str | None, type_: Type) -> None:
    got = converted(pa.array([HOUR], pa.timestamp("us", zone)), type_)
    assert got.type == to_arrow(type_)
    assert got.view(pa.int64())[0].as_py() == HOUR * (1000 if got.type.unit == "ns" else 1)


def test_e10_parquet_written_with_either_flag_reads_as_the_table_says() -> None:
    files = Files()
    of = schema(column(1, "t", TIMESTAMPTZ), column(2, "w", TIMESTAMP))
    as_written = schema(column(1, "t", TIMESTAMP), column(2, "w", TIMESTAMPTZ))
    data_file = files.rows(as_written, [{"t": dt.datetime(2020, 1, 1), "w": dt.datetime(2020, 1, 1)}])
    got = read(files, metadata(of), task(data_file))
    utc = dt.UTC
    assert got.to_pylist() == [{"t": dt.datetime(2020, 1, 1, tzinfo=utc), "w": dt.datetime(2020, 1, 1)}]


def test_finer_times_than_the_table_keeps_are_floored_before_1970_too() -> None:
    got = converted(pa.array([-1, -1000, 1999, None], pa.timestamp("ns")), TIMESTAMP)
    assert got.view(pa.int64()).to_pylist() == [-1, -1, 1, None]


@pytest.mark.parametrize(
    ("held", "type_", "expected"),
    [
        (pa.array(["a", "b", "a"]).dictionary_encode(), STRING, ["a", "b", "a"]),
        (pa.array(["a"], pa.large_string()), STRING, ["a"]),
        (pa.array(["a"], pa.string_view()), STRING, ["a"]),
        (pa.array([b"a"], pa.large_binary()), BINARY, [b"a"]),
        (pa.array([7], pa.int8()), INT, [7]),
        (pa.array([7], pa.uint32()), LONG, [7]),
        (pa.array([1], pa.int32()), DATE, [dt.date(1970, 1, 2)]),
        (pa.array([HOUR]), TIME, [dt.time(1)]),
        (pa.array([3600], pa.time32("s")), TIME, [dt.time(1)]),
        (pa.array([b"0123456789abcdef"]), FixedType(16), [b"0123456789abcdef"]),
    ],
)
def test_how_a_writer_keeps_a_value_does_not_matter(held: pa.Array, type_: Type, expected: list[Any]) -> None:
    assert converted(held, type_).to_pylist() == expected


def test_a_uuid_reads_from_sixteen_bytes_however_they_are_kept() -> None:
    raw = bytes(range(16))
    fixed = pa.array([raw, None], pa.binary(16))
    for held in (fixed, pa.array([raw, None]), pa.ExtensionArray.from_storage(pa.uuid(), fixed)):
        got = converted(held, UUID)
        assert got.type == pa.uuid()
        assert got.storage.to_pylist() == [raw, None]


@pytest.mark.parametrize(
    ("old", "new", "low", "high", "literal"),
    [
        (INT, LONG, 1, 10, 5),
        (FLOAT, DOUBLE, 1.0, 10.0, 5.0),
        (DATE, TIMESTAMP, dt.date(2020, 1, 1), dt.date(2021, 1, 1), 1_590_000_000_000_000),
        (DecimalType(4, 2), DecimalType(30, 2), Decimal("1.00"), Decimal("9.99"), Decimal("5.00")),
    ],
)
def test_e6_row_groups_are_pruned_right_by_bounds_of_the_older_type(
    old: Type, new: Type, low: Any, high: Any, literal: Any
) -> None:
    files = Files()
    table = pa.Table.from_pylist([{"a": low}, {"a": high}], schema=to_arrow_schema(schema(column(1, "a", old))))
    data_file = files.parquet(table, row_group_size=1)
    promoted = schema(column(1, "a", new))
    sides = [
        read(files, metadata(promoted), task(data_file, where=Compare(promoted.fields[0], op, literal))).num_rows
        for op in (Op.LT, Op.GT, Op.NE)
    ]
    assert sides == [1, 1, 2]
