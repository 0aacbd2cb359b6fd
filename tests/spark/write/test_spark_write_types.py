"""Every type of Iceberg's, written from what Spark can hold of it: it comes back as it was, or is refused by name."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from spark_writes import lake_at, on_disk

from esker.errors import EskerError

UTC = dt.UTC
WALL = dt.datetime(2024, 3, 10, 2, 30, 0, 1)  # an hour that the session's zone has not
U = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")

# The table's column, what Spark gives, and what is read back.
TAKEN = [
    ("boolean", "true", True),
    ("int", "2147483647", 2147483647),
    ("int", "tinyint(-128)", -128),
    ("int", "smallint(-32768)", -32768),
    ("int", "7L", 7),
    ("bigint", "-9223372036854775808", -(2**63)),
    ("bigint", "7", 7),
    ("float", "float(0.1)", 0.10000000149011612),
    ("double", "-0D", -0.0),
    ("double", "float(0.5)", 0.5),
    ("decimal(9,2)", "-1234567.89BD", Decimal("-1234567.89")),
    ("decimal(18,4)", "cast('12345678901234.5678' as decimal(18,4))", Decimal("12345678901234.5678")),
    ("decimal(38,10)", "cast('-1234567890123456789012345678.0123456789' as decimal(38,10))",
     Decimal("-1234567890123456789012345678.0123456789")),
    ("decimal(20,2)", "12.5BD", Decimal("12.50")),
    ("date", "date'-0001-12-31'", None),
    ("date", "date'1969-12-31'", dt.date(1969, 12, 31)),
    ("timestamp", "timestamp_micros(-1)", dt.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)),
    ("timestamp", "timestamp'2024-03-10 10:30:00Z'", dt.datetime(2024, 3, 10, 10, 30, tzinfo=UTC)),
    ("timestamp_ntz", "timestamp_ntz'2024-03-10 02:30:00.000001'", WALL),
    ("timestamp_ns", "timestamp_ntz'2024-03-10 02:30:00.000001'", WALL),
    ("timestamptz_ns", "timestamp_micros(-1)", dt.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)),
    ("time", "time'23:59:59.999999'", dt.time(23, 59, 59, 999999)),
    ("string", "'naïve ☃ 𝄞'", "naïve ☃ 𝄞"),
    ("string", "cast('x' as char(3))", "x"),
    ("uuid", f"'{str(U).upper()}'", U),
    ("uuid", f"unhex('{U.hex}')", U),
    ("fixed(3)", "unhex('00FF01')", b"\x00\xff\x01"),
    ("binary", "unhex('00FF')", b"\x00\xff"),
    ("unknown", "null", None),
    ("int", "null", None),
    ("array<timestamp>", "array(timestamp_micros(5), null)", [dt.datetime(1970, 1, 1, 0, 0, 0, 5, UTC), None]),
    ("map<string, decimal(5,1)>", "map('k', 1.5BD)", [("k", Decimal("1.5"))]),
    ("struct<a: uuid, b: array<struct<c: timestamp_ntz>>>",
     f"named_struct('b', array(named_struct('c', timestamp_ntz'2024-03-10 02:30:00.000001')), 'a', '{U}')",
     {"a": U, "b": [{"c": WALL}]}),
]  # fmt: skip


@pytest.mark.parametrize(("column", "given", "expected"), TAKEN, ids=[f"{c} from {g}"[:60] for c, g, _ in TAKEN])
def test_a_value_comes_back_as_it_was(spark: Any, tmp_path: Path, column: str, given: str, expected: object) -> None:
    table = lake_at(tmp_path).create_table("a.t", f"id bigint, x {column}", format_version=3)
    table.append(spark.range(0, 2, 1, 1).selectExpr("id", f"if(id = 0, {given}, null) x"))
    read: pa.Table = table.scan().to_arrow()
    if "-0001" in given:  # Python has no such date; Arrow has
        assert read["x"].cast(pa.int32()).to_pylist() == [-719529, None]
        return
    found = dict(zip(read["id"].to_pylist(), read["x"].to_pylist(), strict=True))
    assert repr(found[0]) == repr(expected) or found[0] == expected
    assert found[1] is None


REFUSED = [
    ("int", "3000000000L", "column 'x' does not fit: Integer value 3000000000 not in range"),
    ("int", "1.5D", "column 'x' is double in the data, which does not fit the table's int"),
    ("float", "1.5D", "column 'x' is double in the data, which does not fit the table's float"),
    ("decimal(5,2)", "12345.6BD", "column 'x' does not fit"),
    ("decimal(5,1)", "1.25BD", "column 'x' does not fit"),
    ("timestamp", "timestamp_ntz'2020-01-01'", "one has a time zone and the other has none"),
    ("timestamp_ntz", "current_timestamp()", "one has a time zone and the other has none"),
    ("timestamptz_ns", "timestamp'3000-01-01'", "column 'x' does not fit"),
    ("date", "'2020-01-01'", "column 'x' is string in the data, which does not fit the table's date"),
    ("uuid", "'no uuid'", "column 'x' does not fit: badly formed hexadecimal UUID string"),
    ("uuid", "unhex('00')", "column 'x' does not fit"),
    ("fixed(3)", "unhex('00')", "column 'x' does not fit"),
    ("string", "unhex('00')", "column 'x' is binary in the data, which does not fit the table's string"),
    ("variant", "'1'", "column 'x' is string in the data, which does not fit the table's variant"),
    ("string", "parse_json('1')", "column 'x' is variant in the data, which does not fit the table's string"),
    ("string", "interval 1 month", "column 'x' cannot be written: its Spark type is 'interval month'"),
    ("string", "make_interval(1)", "column 'x' cannot be written: its Spark type is 'interval'"),
    ("array<int>", "array(1L, 3000000000L)", "column 'x.element' does not fit"),
    ("struct<a: int not null>", "named_struct('a', int(null))", "column 'x.a' does not fit: it is required"),
]  # fmt: skip


@pytest.mark.parametrize(("column", "given", "message"), REFUSED, ids=[f"{c} from {g}"[:60] for c, g, _ in REFUSED])
def test_a_value_that_cannot_be_kept_is_refused_by_name(
    spark: Any, tmp_path: Path, column: str, given: str, message: str
) -> None:
    table = lake_at(tmp_path).create_table("a.t", f"x {column}", format_version=3)
    with pytest.raises(EskerError) as refused:
        table.append(spark.range(0, 1, 1, 1).selectExpr(f"{given} x"))
    assert message in str(refused.value)
    assert table.refresh().current_snapshot is None


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles", "Asia/Kathmandu"])
def test_the_sessions_zone_changes_no_value_and_no_partition(spark: Any, tmp_path: Path, zone: str) -> None:
    columns = "ts timestamp, wall timestamp_ntz"
    table = lake_at(tmp_path).create_table("a.t", columns, partition_by=["day(ts)", "hour(wall)"], sort_by=["hour(ts)"])
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", zone)
        rows = spark.range(1).selectExpr(
            "timestamp_micros(1710030600000000) ts", "timestamp_ntz'1969-12-31 23:59:59.999999' wall"
        )
        table.append(rows)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    (file,) = table.inspect.files().to_pylist()
    assert file["partition"] == {"ts_day": dt.date(2024, 3, 10), "wall_hour": -1}
    (row,) = table.scan().to_arrow().to_pylist()
    assert row == {
        "ts": dt.datetime(2024, 3, 10, 0, 30, tzinfo=UTC),
        "wall": dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
    }


def test_a_geometry_of_spark_is_refused_by_name(spark: Any, tmp_path: Path) -> None:
    table = lake_at(tmp_path).create_table("a.t", "x binary")
    try:
        rows = spark.range(1).selectExpr("st_geomfromwkb(unhex('0101000000000000000000F03F0000000000000040')) x")
        rows.schema.jsonValue()
    except Exception:
        pytest.skip("this Spark has no geometry")
    with pytest.raises(EskerError, match="column 'x' cannot be written: its Spark type is"):
        table.append(rows)


@pytest.mark.parametrize(("column", "given", "expected"), TAKEN, ids=[f"{c} from {g}"[:60] for c, g, _ in TAKEN])
def test_a_value_in_the_driver_comes_back_as_it_was(
    spark: Any, tmp_path: Path, no_jobs: Callable[[], None], column: str, given: str, expected: object
) -> None:
    table = lake_at(tmp_path).create_table("a.t", f"id bigint, x {column}", format_version=3)
    table.append(spark.sql(f"SELECT id, if(id = 0, {given}, null) x FROM VALUES (0L), (1L) AS given(id)"))
    no_jobs()
    read: pa.Table = table.scan().to_arrow()
    if "-0001" in given:  # Python has no such date; Arrow has
        assert read["x"].cast(pa.int32()).to_pylist() == [-719529, None]
        return
    found = dict(zip(read["id"].to_pylist(), read["x"].to_pylist(), strict=True))
    assert repr(found[0]) == repr(expected) or found[0] == expected
    assert found[1] is None


@pytest.mark.parametrize(("column", "given", "message"), REFUSED, ids=[f"{c} from {g}"[:60] for c, g, _ in REFUSED])
def test_a_value_in_the_driver_that_cannot_be_kept_is_refused_by_name(
    spark: Any, tmp_path: Path, no_jobs: Callable[[], None], column: str, given: str, message: str
) -> None:
    table = lake_at(tmp_path).create_table("a.t", f"x {column}", format_version=3)
    with pytest.raises(EskerError) as refused:
        table.append(spark.sql(f"SELECT {given} x FROM VALUES (0L) AS given(id)"))
    no_jobs()
    assert message in str(refused.value)
    assert table.refresh().current_snapshot is None
    assert not on_disk(table)
