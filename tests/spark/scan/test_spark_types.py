"""Spark to table to Spark: each type comes back as docs/types.md says, in any zone, and never as INT96."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from spark_writes import lake_at

import esker
from esker.errors import EskerError

# The table's column, an expression of Spark's for it, and the type it has when Spark reads it back.
KEPT = {
    "boolean": ("id = 1", "boolean"),
    "int": ("cast(id as smallint)", "int"),
    "bigint": ("-id", "bigint"),
    "float": ("cast(id / 3 as float)", "float"),
    "double": ("id / 3D", "double"),
    "decimal(9,2)": ("cast(id as decimal(9,2))", "decimal(9,2)"),
    "decimal(38,10)": ("cast('-1234567890123456789012345678.0123456789' as decimal(38,10))", "decimal(38,10)"),
    "date": ("date'1969-12-31'", "date"),
    "timestamp": ("timestamp_micros(id * 1710030600000001 - 1)", "timestamp"),
    "timestamp_ntz": ("timestamp_ntz'2024-03-10 02:30:00.000001'", "timestamp_ntz"),
    "time": ("time'23:59:59.999999'", "time(6)"),
    "string": ("concat('naïve ☃ ', id)", "string"),
    "uuid": ("'f79c3e09-677c-4bbd-a479-3f349cb785e7'", "string"),
    "fixed(3)": ("unhex('00FF01')", "binary"),
    "binary": ("unhex('')", "binary"),
    "geometry": ("unhex('0101000000000000000000F03F0000000000000040')", "binary"),
    "geography": ("unhex('0101000000000000000000F03F0000000000000040')", "binary"),
    "unknown": ("null", "void"),
    "array<timestamp>": ("array(timestamp_micros(id), null)", "array<timestamp>"),
    "map<string, uuid>": ("map('k', 'f79c3e09-677c-4bbd-a479-3f349cb785e7')", "map<string,string>"),
    "struct<a: date, b: array<int>>": (
        "named_struct('a', date'2024-02-29', 'b', array(1, null))",
        "struct<a:date,b:array<int>>",
    ),
}
COLUMNS = ", ".join(f"c{at} {type_}" for at, type_ in enumerate(KEPT))
TIMES = {"ts": "unix_micros(ts)", "wall": "cast(wall as string)", "day": "unix_date(day)"}


def written(spark: Any, folder: Path) -> tuple[esker.Table, Any]:
    """A table of every type, and the frame it was written from; every other row is nulls."""
    table = lake_at(folder).create_table("a.t", f"id bigint, {COLUMNS}", format_version=3)
    given = [f"if(id % 2 = 0, {expression}, null) c{at}" for at, (expression, _) in enumerate(KEPT.values())]
    frame = spark.range(0, 4, 1, 1).selectExpr("id", *given)
    table.append(frame)
    return table, frame


def test_every_type_that_spark_holds_goes_there_and_back(spark: Any, tmp_path: Path) -> None:
    table, frame = written(spark, tmp_path)
    read = table.scan().to_spark(spark)
    assert [kind for _, kind in read.dtypes[1:]] == [shown for _, shown in KEPT.values()]
    found = [row.asDict(recursive=True) for row in read.orderBy("id").collect()]
    assert found == [row.asDict(recursive=True) for row in frame.orderBy("id").collect()]
    assert found == [{**row, "id": at} for at, row in enumerate(found)]


@pytest.mark.parametrize("setting", ["INT96", "TIMESTAMP_MILLIS"])
def test_no_setting_of_the_session_makes_a_timestamp_int96_or_cuts_it(spark: Any, tmp_path: Path, setting: str) -> None:
    spark.conf.set("spark.sql.parquet.outputTimestampType", setting)
    try:
        table, _ = written(spark, tmp_path)
    finally:
        spark.conf.unset("spark.sql.parquet.outputTimestampType")
    paths = [file["file_path"] for file in table.inspect.files().to_pylist()]
    schemas = [pq.ParquetFile(path).schema for path in paths]
    leaves = [schema.column(at) for schema in schemas for at in range(len(schema))]
    assert not any(leaf.physical_type == "INT96" for leaf in leaves)
    times = [json.loads(leaf.logical_type.to_json()) for leaf in leaves]
    units = [time["timeUnit"] for time in times if time["Type"] == "Timestamp"]
    assert (len(units), set(units)) == (3, {"microseconds"})


def test_the_sessions_zone_changes_no_value_that_is_read(spark: Any, tmp_path: Path) -> None:
    table = lake_at(tmp_path).create_table(
        "a.t", "ts timestamp, wall timestamp_ntz, day date", partition_by=["day(ts)"]
    )
    table.append(
        spark.range(0, 3, 1, 1).selectExpr(
            "timestamp_micros(1710030600000001 - id * 86400000000) ts",
            "timestamp_ntz'2024-03-10 02:30:00.000001' wall",
            "date'1969-12-31' day",
        )
    )
    seen = []
    for zone in ("UTC", "America/Los_Angeles", "Asia/Kathmandu"):
        spark.conf.set("spark.sql.session.timeZone", zone)
        frame = table.scan("ts >= '2024-03-09T00:00:00Z'").to_spark(spark)
        seen.append(sorted(map(tuple, frame.selectExpr(*TIMES.values()).collect())))
    spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    assert len(seen[0]) == 2
    assert seen[0] == seen[1] == seen[2]


@pytest.mark.parametrize("type_", ["geometry", "geography"])
def test_shapes_of_the_earth_are_refused_by_name_before_anything_is_written(
    spark: Any, tmp_path: Path, type_: str
) -> None:
    table = lake_at(tmp_path).create_table("a.t", f"id bigint, x {type_}", format_version=3)
    with pytest.raises(EskerError, match="column 'x'"):
        table.append(spark.range(1).selectExpr("id", "1.5D x"))
    assert table.refresh().current_snapshot is None


def test_nanoseconds_are_kept_when_written_and_refused_when_read(spark: Any, tmp_path: Path) -> None:
    table = lake_at(tmp_path).create_table("a.t", "id bigint, x timestamp_ns", format_version=3)
    table.append(spark.range(1).selectExpr("id", "timestamp_ntz'2024-03-10 02:30:00.000001' x"))
    assert str(table.scan().to_arrow()["x"][0].as_py())[:26] == "2024-03-10 02:30:00.000001"
    with pytest.raises(esker.Unsupported, match="cannot give column 'x' to Spark"):
        table.scan().to_spark(spark)
