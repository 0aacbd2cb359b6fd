"""Iceberg's functions in SQL: their values against the transforms of the spec, and what they leave unread."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from row_oracle import in_java
from sql_lakes import lake_of, names_in, rewritten

import esker
from esker.errors import InvalidInput
from esker.lake import Lake
from esker.model.predicates.transform_predicate import transform_named
from esker.model.types import DATE, INT, LONG, STRING, TIMESTAMP, TIMESTAMPTZ, BinaryType, DecimalType, TimeType, Type
from esker.read.scan import Scan
from esker.spark.expressions.function_calls import expanded, local_calls

EPOCH = datetime.datetime(1970, 1, 1)
MICRO = datetime.timedelta(microseconds=1)
CHANCE = random.Random(7)


def same(value: Any) -> Any:
    return value


def days(value: datetime.date) -> int:
    return (value - EPOCH.date()).days


def micros(value: datetime.datetime) -> int:
    return (value - EPOCH) // MICRO


Column = tuple[str, Type, list[Any], Callable[[Any], Any], str]
MOMENTS = [EPOCH, EPOCH - MICRO, datetime.datetime(2026, 3, 8, 2, 30), datetime.datetime(1582, 10, 10, 5)]
COLUMNS: dict[str, Column] = {
    "i": ("int", INT, [0, 34, -1, -(2**31), 2**31 - 1, None], same, "bucket truncate"),
    "l": ("bigint", LONG, [0, 34, -1, -(2**63), 2**63 - 1, None], same, "bucket truncate"),
    "d": (
        "decimal(9,2)",
        DecimalType(precision=9, scale=2),
        [Decimal(text) for text in ("14.20", "0.00", "-0.05", "1234567.89", "-1.28", "-9999999.99", "327.67")],
        same,
        "bucket truncate",
    ),
    "w": (
        "decimal(38,10)",
        DecimalType(precision=38, scale=10),
        [Decimal(text) for text in ("0E-10", "1E-10", "-1E-10", "-1234567890123456789012345678.0123456789")]
        + [Decimal(text) for text in ("1844674407.3709551616", "922337203.6854775808", "-922337203.6854775809")],
        same,
        "bucket truncate",
    ),
    "s": ("string", STRING, ["", "a", "ab", "abc", "iceberg", "é😀x", "😀" * 5, None], same, "bucket truncate"),
    "b": (
        "binary",
        BinaryType(),
        [b"", b"\0", b"\xff\xfe\xfd", *(CHANCE.randbytes(n) for n in range(9)), None],
        same,
        "bucket truncate",
    ),
    "t": (
        "date",
        DATE,
        [EPOCH.date(), datetime.date(1969, 12, 31), datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None],
        days,
        "bucket years months days",
    ),
    "h": (
        "time(6)",
        TimeType(),
        [datetime.time(), datetime.time(7, 8, 9, 500_000), datetime.time(23, 59, 59, 999_999), None],
        lambda value: micros(datetime.datetime.combine(EPOCH, value)),
        "bucket",
    ),
    "n": ("timestamp_ntz", TIMESTAMP, [*MOMENTS, None], micros, "bucket years months days hours"),
    "z": ("timestamp", TIMESTAMPTZ, [*MOMENTS, None], micros, "bucket years months days hours"),
}


def frame_of(spark: Any, kind: str, values: list[Any]) -> Any:
    if kind != "timestamp":
        return spark.createDataFrame([(value,) for value in values], f"c {kind}")
    numbers = [(None if value is None else micros(value),) for value in values]
    return spark.createDataFrame(numbers, "c bigint").selectExpr("timestamp_micros(c) AS c")


def shown(value: Any) -> Any:
    if isinstance(value, datetime.date):
        return days(value)
    return bytes(value) if isinstance(value, bytearray) else value


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("name", COLUMNS)
def test_every_function_gives_the_value_of_the_transform_for_every_type(spark: Any, name: str) -> None:
    """On any rows, whatever the session's zone and rules of arithmetic are; computed once, or of a column."""
    kind, type_, values, held, functions = COLUMNS[name]
    frame_of(spark, kind, values).createOrReplaceTempView("esker_rows")
    asked = [
        (function, size)
        for function in functions.split()
        for size in {"bucket": (16, 7), "truncate": (1, 3, 1000)}.get(function, (0,))
    ]
    calls = [f"system.{function}({f'{size}, ' if size else ''}%s)" for function, size in asked]
    lake = esker.connect("memory:", spark=spark)
    columns = [call % argument for call in calls for argument in ("c", "coalesce(c, c)")]
    try:
        for ansi in ("true", "false"):
            spark.conf.set("spark.sql.ansi.enabled", ansi)
            rows = lake.sql(f"SELECT {', '.join(columns)} FROM esker_rows").collect()
            for at, (function, size) in enumerate(asked):
                transform = transform_named(function, size)
                expected = [None if v is None else in_java(transform, type_, held(v)) for v in values]
                for form in (0, 1):
                    assert [shown(row[2 * at + form]) for row in rows] == expected, columns[2 * at + form]
        assert list(rows[0].asDict()) == columns
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
        spark.catalog.dropTempView("esker_rows")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("call", "why"),
    [
        ("system.bucket(4, true)", "cannot compute system.bucket of boolean: expected a date, time, timestamp, whole"),
        ("system.bucket(4, 1.5D)", "cannot compute system.bucket of double"),
        ("system.truncate(4, DATE '2026-01-01')", "cannot compute system.truncate of date: expected a whole number"),
        ("system.hours(DATE '2026-01-01')", "cannot compute system.hours of date: expected timestamp"),
        ("system.years('2026')", "cannot compute system.years of string: expected date or timestamp"),
    ],
)
def test_a_type_without_the_transform_is_refused_before_a_row_is_read(spark: Any, call: str, why: str) -> None:
    lake = esker.connect("memory:", spark=spark)
    with pytest.raises(InvalidInput, match=why):
        lake.sql(f"SELECT {call} AS x FROM range(0)")


@pytest.mark.parametrize(
    ("call", "place", "why"),
    [
        ("system.bucket(id)", "line 1, column 8", "system.bucket takes 2 arguments, not 1"),
        ("lake.system.days()", "line 1, column 13", "system.days takes 1 arguments, not 0"),
        ("system.iceberg_version(1)", "line 1, column 8", "takes 0 arguments, not 1"),
        ("system.bucket(n, id)", "line 1, column 22", "system.bucket takes a whole number first"),
        ("system.truncate(0, id)", "line 1, column 24", "from 1 to 2147483647"),
    ],
)
def test_wrong_arguments_are_refused_with_their_place(call: str, place: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why) as refused:
        local_calls(f"SELECT {call} FROM t.a", "lake")
    assert refused.value.facts["place"] == place


def test_only_calls_are_replaced() -> None:
    for text in (
        "SELECT system.bucket FROM system.days",
        "SELECT 'system.days(ts)', x.system.days(ts) FROM t",
        "SELECT `system.days(ts)` FROM t -- system.days(ts)",
    ):
        assert expanded(text) == text
    assert local_calls("SELECT Lake.SYSTEM.Days(ts)", "lake") == "SELECT      SYSTEM.Days(ts)"
    assert local_calls("SELECT other.system.days(ts)", "lake") == "SELECT other.system.days(ts)"
    assert expanded("SELECT system.iceberg_version() FROM t").endswith("AS `system.iceberg_version()` FROM t")
    assert " AS " not in expanded("SELECT 1 FROM t GROUP BY system.iceberg_version()")
    assert " AS " not in expanded("SELECT f(1, system.iceberg_version()) FROM t")


# ---------------------------------------------------------------- pruning

MARCH = [datetime.datetime(2026, 3, day, 23, 30, tzinfo=datetime.UTC) for day in range(1, 9)]


@pytest.fixture(scope="module")
def lake() -> Lake:
    """A file for each row; `t.p` is partitioned by transforms, `t.q` knows bounds alone."""
    rows = [{"id": [n], "name": [f"{'abcd' * (n % 2)}{n}"], "ts": [MARCH[n]]} for n in range(8)]
    return lake_of(
        {
            "t.p": ("id bigint, name string, ts timestamp", rows, ("bucket(8, id)", "truncate(4, name)", "day(ts)")),
            "t.q": ("id bigint, name string, ts timestamp", rows, ()),
        }
    )


def kept(lake: Lake, table: str, where: str) -> int:
    (rows,) = rewritten(lake, f"SELECT * FROM {table} WHERE {where}").frames.values()
    assert isinstance(rows, Scan)
    return rows.plan().funnel.files_kept


@pytest.mark.parametrize(
    ("where", "by_partition", "by_bounds"),
    [
        ("system.days(ts) = DATE '2026-03-02'", 1, 1),
        ("system.days(ts) IN (DATE '2026-03-02', DATE '2026-03-04')", 2, 2),
        ("system.days(p.ts) BETWEEN '2026-03-02' AND '2026-03-04'", 3, 3),
        ("system.months(ts) = 674 AND id < 3", 3, 3),
        ("system.years(ts) > 56", 0, 0),
        ("system.hours(ts) < system.hours(ts)", 8, 8),
        ("system.truncate(4, name) = 'abcd'", 4, 4),
        ("system.truncate(2, id) = 2", 2, 2),
        ("NOT system.truncate(4, name) = 'abcd'", 4, 4),
        ("system.bucket(4, id) IS NULL", 0, 0),
        ("system.bucket(8, id) < 0", 0, 0),
        ("system.days(ts) = TIMESTAMP '2026-03-02 00:00:00'", 8, 8),
        ("system.bucket(8, id + 1) = 2", 8, 8),
    ],
)
def test_conditions_on_functions_leave_files_unread(lake: Lake, where: str, by_partition: int, by_bounds: int) -> None:
    zone = "America/Los_Angeles"
    assert kept_in(lake, zone, "t.p", where) == by_partition
    assert kept_in(lake, zone, "t.q", where.replace("p.ts", "q.ts")) == by_bounds


def kept_in(lake: Lake, zone: str, table: str, where: str) -> int:
    from esker.spark.sql.grammar.parse_statement import read_statement
    from esker.spark.sql.grammar.statements import Query
    from esker.spark.sql.queries.rewrite_query import Surroundings, rewrite

    names = names_in(lake)
    query = read_statement(f"SELECT * FROM {table} WHERE {where}", names)
    assert isinstance(query, Query)
    (rows,) = rewrite(query, Surroundings(names, lambda: zone, lambda text: 0)).frames.values()
    assert isinstance(rows, Scan)
    return rows.plan().funnel.files_kept


@pytest.mark.parametrize("buckets", [8, 4, 2])
def test_a_bucket_is_found_by_the_partition_of_it_or_of_a_multiple(lake: Lake, buckets: int) -> None:
    for wanted in range(buckets):
        where = f"system.bucket({buckets}, id) = {wanted}"
        rows = lake.table("t.p").scan(where).to_arrow().num_rows
        assert kept(lake, "t.p", where) == rows == lake.table("t.q").scan(where).to_arrow().num_rows
        assert kept(lake, "t.q", where) == 8
    assert kept(lake, "t.p", "system.bucket(3, id) = 1") == 8


# ---------------------------------------------------------------- statements


@pytest.mark.spark
@pytest.mark.slow
def test_functions_work_in_changes_of_rows_in_views_and_in_an_attached_session(spark: Any, tmp_path: Any) -> None:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", spark=spark)
    lake.sql("CREATE NAMESPACE n")
    lake.sql("CREATE TABLE n.t (id bigint, s string, b bigint) PARTITIONED BY (bucket(4, id))")
    lake.sql("INSERT INTO n.t SELECT id, concat('name', id), 0 FROM range(20)")
    transform = transform_named("bucket", 4)
    bucket = {n: in_java(transform, LONG, n) for n in range(20)}
    lake.sql("UPDATE n.t SET b = system.bucket(4, id) WHERE system.truncate(5, s) = 'name1'")
    first = [n for n in range(20) if str(n).startswith("1")]
    rows = {row.id: row.b for row in lake.sql("SELECT id, b FROM n.t").collect()}
    assert rows == {n: bucket[n] if n in first else 0 for n in range(20)}
    lake.sql("CREATE VIEW n.v AS SELECT id, system.bucket(4, id) AS k FROM n.t")
    found = lake.sql("SELECT k, count(*) AS c FROM n.v GROUP BY k ORDER BY k").collect()
    assert [(row.k, row.c) for row in found] == [(k, list(bucket.values()).count(k)) for k in range(4)]
    snapshot = lake.sql("DELETE FROM n.t WHERE lake.system.bucket(4, id) = 1").collect()[0]
    assert snapshot.deleted_records == list(bucket.values()).count(1)
    assert lake.table("n.t").scan("system.bucket(4, id) = 1").to_arrow().num_rows == 0
    merged = (
        "MERGE INTO n.t USING (SELECT id FROM range(3)) s ON t.id = s.id AND system.bucket(4, t.id) = "
        "system.bucket(4, s.id) WHEN MATCHED THEN UPDATE SET s = system.truncate(2, t.s)"
    )
    lake.sql(merged)
    left = {row.id: row.s for row in lake.sql("SELECT id, s FROM n.t WHERE id < 3").collect()}
    assert left == {n: "na" for n in range(3) if bucket[n] != 1}
    esker.spark.attach(spark, lake)
    try:
        assert spark.sql("SELECT lake.system.bucket(4, 3L) AS k").head().k == bucket[3]
        grouped = spark.sql("SELECT system.bucket(4, id) FROM lake.n.t GROUP BY system.bucket(4, id) ORDER BY 1")
        assert grouped.columns == ["system.bucket(4, id)"]
        assert [row[0] for row in grouped.collect()] == [0, 2, 3]
    finally:
        esker.spark.detach(spark)
