"""What Spark's reader may drop by itself, and what it must not: filters put on a frame after Esker made it."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import esker
from esker.lake import Lake
from esker.model.types import TIMESTAMP
from esker.spark.expressions.column_expressions import number_of

NAN = math.nan


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Lake:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"), spark=spark)
    lake.create_namespace("a")
    return lake


def plan_of(frame: Any) -> str:
    text: str = frame._jdf.queryExecution().toString()
    return text


def ids(frame: Any) -> list[int]:
    return sorted(row["id"] for row in frame.collect())


# ---------------------------------------------------------------- pruning that stays


def test_filters_reach_files_without_nan_and_zeros(lake: Lake, spark: Any) -> None:
    table = lake.create_table("a.t", "id bigint, g double, s struct<g: double>")
    table.append(pa.table({"id": [1, 2], "g": [1.0, 9.0], "s": [{"g": 1.0}, {"g": 9.0}]}))
    whole = table.scan().to_spark(spark)
    assert "PushedFilters: [IsNotNull(g), GreaterThan(g,5.0)]" in plan_of(whole.filter("g > 5"))
    assert "GreaterThan(s.g,5.0)" in plan_of(whole.filter("s.g > 5"))
    assert ids(whole.filter("g > 5 AND s.g > 5")) == [2]


def test_esker_pushes_its_own_conditions_wherever_they_are_exact(lake: Lake, spark: Any) -> None:
    table = lake.create_table("a.t", "id bigint, g double")
    table.append(pa.table({"id": [1, 2], "g": [0.0, 9.0]}))  # a zero, which may be the negative one
    assert "GreaterThan(g,5.0)" in plan_of(table.scan("g > 5").to_spark(spark))
    assert "GreaterThan(g,5.0)" in plan_of(lake.sql("SELECT id FROM a.t WHERE g > 5"))
    assert "GreaterThan(g," not in plan_of(table.scan().to_spark(spark).filter("g > 5"))
    table.overwrite(pa.table({"id": [1, 2], "g": [NAN, 9.0]}))
    assert "LessThan(g,9.5)" in plan_of(table.scan("g < 9.5").to_spark(spark))  # which NaN never is
    assert "GreaterThan(g," not in plan_of(table.scan("g > 9.5").to_spark(spark))
    assert "GreaterThan(g,8.5)" in plan_of(table.scan("g > 8.5 AND g < 9.5").to_spark(spark))
    assert ids(lake.sql("SELECT id FROM a.t WHERE g > 9.5")) == [1]


def test_only_files_that_may_hold_nan_are_protected(lake: Lake, spark: Any) -> None:
    table = lake.create_table("a.t", "id bigint, g double")
    table.append(pa.table({"id": [1, 2], "g": [1.0, NAN]}))
    table.append(pa.table({"id": [3, 4], "g": [3.0, 4.0]}))
    frame = table.scan().to_spark(spark).filter("g > 3.5")
    assert plan_of(frame).split("== Physical Plan ==")[1].count("GreaterThan(g,3.5)") == 1
    assert ids(frame) == [2, 4]


def test_files_with_and_without_a_zero_are_one_scan(lake: Lake, spark: Any) -> None:
    table = lake.create_table("a.t", "id bigint, g double")
    table.append(pa.table({"id": [1, 2], "g": [-0.0, 9.0]}))
    table.append(pa.table({"id": [3, 4], "g": [3.0, 4.0]}))
    frame = table.scan().to_spark(spark)
    assert "Union" not in plan_of(frame)
    assert ids(frame.filter("g = 0")) == [1]
    assert "GreaterThan(g,3.5)" in plan_of(table.scan("g > 3.5").to_spark(spark))


# ---------------------------------------------------------------- literals that Spark cuts


def wide(*values: str, precision: int) -> pa.Table:
    decimals = pa.array([Decimal(value) for value in values], pa.decimal128(precision, 2))
    return pa.table({"id": pa.array(range(len(values)), pa.int64()), "p": decimals, "s": [{"p": v} for v in decimals]})


@pytest.mark.parametrize("as_integer", [True, False])
def test_a_decimal_with_more_digits_than_the_file_has(as_integer: bool, lake: Lake, spark: Any, tmp_path: Path) -> None:
    """Spark would cut the literal to the file's 32 bits, or fail where it does not fit in the file's bytes."""
    table = lake.create_table("a.t", "id bigint, p decimal(9, 2), s struct<p: decimal(9, 2)>")
    if as_integer:
        path = tmp_path / "warehouse" / "given.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(wide("1.00", "2.00", precision=9), path, store_decimal_as_integer=True)
        table.add_files([str(path)])
    else:
        table.append(wide("1.00", "2.00", precision=9))
    with table.alter() as change:
        change.widen_column("p", "decimal(20, 2)")
        change.widen_column("s.p", "decimal(20, 2)")
    for where, expected in [
        ("{0} < 42949672.96", [0, 1]),  # 2^32 hundredths, 0 in 32 bits
        ("{0} <> 42949674.96", [0, 1]),
        ("{0} < 99999999999.00", [0, 1]),
        ("{0} > 99999999999.00", []),
        ("{0} = 2.00", [1]),
    ]:
        for column in ("p", "s.p"):
            text = where.format(column)
            assert ids(table.scan().to_spark(spark).filter(text)) == expected, text
            assert ids(table.scan(text).to_spark(spark)) == expected, text
            assert sorted(table.scan(text).to_arrow()["id"].to_pylist()) == expected, text


def test_decimals_that_were_never_widened_are_pushed(lake: Lake, spark: Any) -> None:
    table = lake.create_table("a.t", "id bigint, p decimal(9, 2)")
    table.append(wide("1.00", "2.00", precision=9).drop_columns("s"))
    assert "GreaterThan(p,1.50)" in plan_of(table.scan().to_spark(spark).filter("p > 1.50"))


def test_an_instant_between_the_milliseconds_of_a_file(lake: Lake, spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "warehouse" / "given.parquet"
    path.parent.mkdir(exist_ok=True)
    at = pa.array([10], pa.timestamp("ms", tz="UTC"))
    pq.write_table(pa.table({"id": [1], "ts": at, "n": at.cast(pa.timestamp("ms"))}), path)
    table = lake.create_table("a.t", "id bigint, ts timestamp, n timestamp_ntz")
    table.add_files([str(path)])
    for operator in ("<", "<>", "<="):
        for where in (
            f"ts {operator} TIMESTAMP '1970-01-01 00:00:00.0105+00:00'",
            f"n {operator} TIMESTAMP_NTZ '1970-01-01 00:00:00.0105'",
        ):
            assert ids(table.scan().to_spark(spark).filter(where)) == [1], where
            assert ids(table.scan(where).to_spark(spark)) == [1], where
    assert "MapInArrow" not in plan_of(table.scan().to_spark(spark))


def test_columns_that_changed_are_filtered_as_they_are_now(lake: Lake, spark: Any) -> None:
    """Promoted, renamed, dropped and added again, with a dot in the name, filled in by a default."""
    table = lake.create_table("a.t", "id bigint, i int, f float, d date, x int, old int, `a.b` int", format_version=3)
    first = pa.schema([("id", pa.int64()), ("i", pa.int32()), ("f", pa.float32()), ("d", pa.date32())])
    more = pa.schema([*first, ("x", pa.int32()), ("old", pa.int32()), ("a.b", pa.int32())])
    row = {"id": 1, "i": 7, "f": 0.1, "d": dt.date(2020, 1, 1), "x": 5, "old": 6, "a.b": 8}
    table.append(pa.Table.from_pylist([row], schema=more))
    with table.alter() as change:
        change.widen_column("i", "bigint")
        change.widen_column("f", "double")
        change.widen_column("d", "timestamp_ntz")
        change.drop_column("x")
        change.rename_column("old", "new")
    with table.alter() as change:
        change.add_column("x", "int")
        change.add_column("old", "int", default=3)
    whole = table.scan().to_spark(spark)
    for where, expected in [
        ("i < 4294967296", [1]),
        ("i <> 4294967303", [1]),
        ("f < 0.1000000015", [1]),
        ("f <> 0.1D", [1]),
        ("d < TIMESTAMP_NTZ '2020-01-01 00:00:01'", [1]),
        ("x IS NULL", [1]),
        ("x = 5", []),
        ("new = 6", [1]),
        ("old = 3", [1]),
        ("old = 6", []),
        ("`a.b` > 7", [1]),
        ("ID = 1 AND NEW = 6", [1]),
    ]:
        assert ids(whole.filter(where)) == expected, where


# ---------------------------------------------------------------- changes of rows


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_changes_on_spark_find_the_rows_with_nan(mode: str, lake: Lake, spark: Any) -> None:
    properties = {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")}
    table = lake.create_table("a.t", "g double, v int", properties=properties)
    table.append(pa.table({"g": [1.0, NAN, 2.0], "v": pa.array([1, 2, 3], pa.int32())}))
    lake.sql("UPDATE a.t SET v = v + 10 WHERE g > 5")
    source = "SELECT CAST('NaN' AS DOUBLE) AS g, 50 AS v UNION ALL SELECT 2.0D, 60"
    lake.sql(
        f"MERGE INTO a.t AS t USING ({source}) AS s ON t.g = s.g "
        "WHEN MATCHED THEN UPDATE SET v = t.v + s.v WHEN NOT MATCHED THEN INSERT *"
    )
    found = sorted((repr(row["g"]), row["v"]) for row in lake.table("a.t").scan().to_arrow().to_pylist())
    assert found == [("1.0", 1), ("2.0", 63), ("nan", 62)]
    lake.sql("DELETE FROM a.t WHERE g <= 2")
    assert [row["v"] for row in lake.table("a.t").scan().to_arrow().to_pylist()] == [62]
    lake.sql("DELETE FROM a.t WHERE g = CAST('NaN' AS DOUBLE)")
    assert lake.table("a.t").scan().count() == 0


def test_min_and_max_come_from_rows_whatever_readers_the_session_prefers(lake: Lake, spark: Any, route: str) -> None:
    """Spark's newer readers answer them from footers, by a column's place and not by its id."""
    table = lake.create_table("a.t", "id bigint, g double, x int")
    table.append(pa.table({"id": [1, 2], "g": [1.0, NAN], "x": pa.array([5, 6], pa.int32())}))
    with table.alter() as change:
        change.drop_column("x")
    with table.alter() as change:
        change.add_column("x", "int")
    settings = {"spark.sql.sources.useV1SourceList": "", "spark.sql.parquet.aggregatePushdown": "true"}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        (of_g,) = lake.sql("SELECT max(g) AS most FROM a.t").collect()
        (of_x,) = lake.sql("SELECT max(x) AS most FROM a.t").collect()
    finally:
        for key in settings:
            spark.conf.unset(key)
    assert math.isnan(of_g["most"])
    assert of_x["most"] is None


@pytest.mark.spark
def test_a_time_without_zone_is_the_number_that_it_is_held_as(spark: Any, tmp_path: Path) -> None:
    """In a zone with summer time, at the ends of the range, and before 1970."""
    numbers = [0, -1, 999_999, 1_772_962_200_000_000, -12_219_292_800_000_001, -(2**63), 2**63 - 1]
    times = pa.array(numbers, pa.timestamp("us"))
    pq.write_table(pa.table({"n": pa.array(numbers, pa.int64()), "t": times}), tmp_path / "times.parquet")
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    try:
        frame = spark.read.parquet(str(tmp_path / "times.parquet"))
        found = frame.select("n", number_of(TIMESTAMP, frame["t"]).alias("held")).collect()
        assert [row.held for row in found] == [row.n for row in found]
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
