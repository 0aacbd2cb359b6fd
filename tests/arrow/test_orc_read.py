"""ORC data files."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from arrow_tables import Files, batches, column, metadata, read, schema, task, with_id_key

from esker.arrow.arrow_types import to_arrow_schema
from esker.errors import Unsupported
from esker.model.predicates.predicate import Compare, Op
from esker.model.types import (
    BINARY,
    DATE,
    DOUBLE,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    UUID,
    DecimalType,
    FixedType,
    ListType,
    MapType,
    StructType,
)

UTC = dt.UTC


def orc_table(fields: list[tuple[int, str, pa.DataType]], *columns: pa.Array) -> pa.Table:
    names = [pa.field(name, type_, metadata={b"iceberg.id": str(id_).encode()}) for id_, name, type_ in fields]
    return pa.table(list(columns), schema=pa.schema(names))


def test_columns_are_found_by_the_id_attribute_at_every_depth() -> None:
    old = schema(
        column(1, "a", INT),
        column(2, "s", StructType((column(3, "x", INT), column(4, "y", STRING)))),
        column(5, "l", ListType(element_id=6, element=StructType((column(7, "p", INT),)))),
        column(8, "m", MapType(key_id=9, key=STRING, value_id=10, value=INT)),
    )
    new = schema(
        column(8, "mm", MapType(key_id=9, key=STRING, value_id=10, value=LONG)),
        column(5, "l", ListType(element_id=6, element=StructType((column(11, "q", INT), column(7, "pp", LONG))))),
        column(2, "s", StructType((column(4, "why", STRING),))),
    )
    files = Files()
    rows = [{"a": 1, "s": {"x": 1, "y": "b"}, "l": [{"p": 1}, None], "m": [("k", 2)]}, dict.fromkeys("aslm")]
    got = read(files, metadata(old, new), task(files.rows(old, rows, format="orc")))
    assert got.to_pylist() == [
        {"mm": [("k", 2)], "l": [{"q": None, "pp": 1}, None], "s": {"why": "b"}},
        {"mm": None, "l": None, "s": None},
    ]


def test_types_that_orc_keeps_in_another_form_read_as_the_tables_own() -> None:
    of = schema(
        column(1, "t", TIME),
        column(2, "u", UUID),
        column(3, "f", FixedType(2)),
        column(4, "w", TIMESTAMP),
        column(5, "z", TIMESTAMPTZ),
        column(6, "n", TIMESTAMP_NS),
        column(7, "d", DecimalType(20, 3)),
        column(8, "day", DATE),
        column(9, "x", DOUBLE),
        column(10, "b", BINARY),
    )
    table = orc_table(
        [
            (1, "t", pa.int64()),  # iceberg.long-type TIME
            (2, "u", pa.binary()),
            (3, "f", pa.binary()),
            (4, "w", pa.timestamp("ns")),
            (5, "z", pa.timestamp("ns", "UTC")),
            (6, "n", pa.timestamp("ns")),
            (7, "d", pa.decimal128(10, 3)),
            (8, "day", pa.date32()),
            (9, "x", pa.float32()),
            (10, "b", pa.binary()),
        ],
        pa.array([3_600_000_000]),
        pa.array([b"0" * 16]),
        pa.array([b"ab"]),
        pa.array([-1], pa.timestamp("ns")),
        pa.array([dt.datetime(2020, 7, 1, tzinfo=UTC)], pa.timestamp("ns", "UTC")),
        pa.array([1001], pa.timestamp("ns")),
        pa.array([1], pa.decimal128(10, 3)),
        pa.array([dt.date(2020, 1, 1)]),
        pa.array([1.5], pa.float32()),
        pa.array([b"\xff"]),
    )
    files = Files()
    got = read(files, metadata(of), task(files.orc(table)))
    assert got.schema == to_arrow_schema(of)
    assert got["t"].to_pylist() == [dt.time(1)]
    assert got["u"].cast(pa.binary(16)).to_pylist() == [b"0" * 16]
    assert got["w"].to_pylist() == [dt.datetime(1969, 12, 31, 23, 59, 59, 999999)]
    assert got["z"].to_pylist() == [dt.datetime(2020, 7, 1, tzinfo=UTC)]
    assert got["n"].chunk(0).view(pa.int64()).to_pylist() == [1001]
    assert got["x"].to_pylist() == [1.5]


def test_a_column_named_with_a_dot_is_not_taken_for_a_member() -> None:
    of = schema(column(1, "s.x", INT), column(2, "s", StructType((column(3, "x", INT),))), column(4, "o", INT))
    files = Files()
    data_file = files.rows(of, [{"s.x": 1, "s": {"x": 2}, "o": 3}], format="orc")
    got = read(files, metadata(of), task(data_file), projection=schema(of.fields[0]))
    assert got.to_pylist() == [{"s.x": 1}]


def test_stripes_are_read_one_at_a_time_and_positions_go_on() -> None:
    of = schema(column(1, "a", LONG), column(2, "pad", STRING))
    rows = pa.table(
        {"a": range(20_000), "pad": [f"{n * 7919:>60}" for n in range(20_000)]},
        schema=with_id_key(to_arrow_schema(of), b"iceberg.id"),
    )
    files = Files()
    data_file = files.orc(rows, stripe_size=64 << 10)
    pos = column(2147483645, "_pos", LONG, required=True)
    found = list(batches(files, metadata(of), [task(data_file)], projection=schema(of.fields[0], pos)))
    assert len(found) > 1
    whole = pa.Table.from_batches(found)
    assert whole["a"].to_pylist() == whole["_pos"].to_pylist() == list(range(20_000))


def test_filters_apply_to_orc() -> None:
    of = schema(column(1, "a", INT))
    files = Files()
    data_file = files.rows(of, [{"a": n} for n in range(5)], format="orc")
    got = read(files, metadata(of), task(data_file, where=Compare(of.fields[0], Op.GT, 3)))
    assert got["a"].to_pylist() == [4]


def test_timestamps_that_pyarrow_cannot_read_from_orc_are_refused_by_name() -> None:
    of = schema(column(1, "t", TIMESTAMP))
    table = orc_table([(1, "t", pa.timestamp("us"))], pa.array([dt.datetime(9999, 12, 31)], pa.timestamp("us")))
    files = Files()
    with pytest.raises(Unsupported, match=r"00001.orc: it has timestamps that do not fit 64-bit nanoseconds") as info:
        read(files, metadata(of), task(files.orc(table)))
    assert info.value.feature == "ORC timestamps before 1677 or after 2262"
