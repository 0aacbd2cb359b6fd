"""INSERT … VALUES of plain literals needs no Spark, and stores what Spark stores."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from spark_writes import rows_of

import esker
from esker.model.parsing.column_definitions import parse_columns
from esker.model.schema import Schema
from esker.spark.rows.store_assignment import assigned
from esker.spark.sql.changes import literal_values
from esker.spark.sql.changes.literal_values import literal_rows

WHOLE = ("0", "-0", "7", "- 7", "007", "2147483647", "-2147483648", "2147483648", "16777217", "9007199254740993")
HUGE = ("9223372036854775807", "-9223372036854775808", "9223372036854775808", "-9223372036854775807")
DECIMALS = (
    "1.50",
    "-1.50",
    "0.1",
    "-0.0",
    "0.000001",
    "999.99",
    "1000.0",
    "12345678901.12",
    "1.005",
    "0.30000000000004",
)
TEXTS = (
    "'x'",
    "''",
    "'ä✓'",
    "'a -- b'",
    "'a, (b'",
    "'a''b'",
    "'a\\nb'",
    '"x"',
    "r'x'",
    "'a' 'b'",
    "'  7 '",
    "'2026-01-01'",
)
TIMES = (
    "DATE '2026-01-01'",
    "date'0001-01-01'",
    "DATE '2026-02-30'",
    "DATE '2026-1-1'",
    "TIMESTAMP '2026-01-01 00:00:00'",
    "TIMESTAMP '1582-10-10 23:59:59.123456'",
    "TIMESTAMP '2026-01-01 00:00:00+02:00'",
    "TIMESTAMP '2026-01-01'",
    "TIMESTAMP_NTZ '2026-03-08 02:30:00.5'",
    "TIMESTAMP_LTZ '2026-01-01 12:00:00'",
)
OTHERS = ("1L", "1e3", "1.5D", ".5", "5.", "X'1F'", "1 + 1", "upper('x')", "INTERVAL '1' DAY", "current_date()")
POOLS: dict[str, tuple[str, ...]] = {
    "int": WHOLE,
    "bigint": WHOLE + HUGE,
    "float": WHOLE + DECIMALS,
    "double": WHOLE + HUGE + DECIMALS,
    "decimal(5,2)": WHOLE + DECIMALS,
    "decimal(38,10)": WHOLE + HUGE + DECIMALS,
    "string": TEXTS,
    "boolean": ("TRUE", "false"),
    "date": TIMES,
    "timestamp": TIMES,
    "timestamp_ntz": TIMES,
}
ALL = tuple(literal for pool in POOLS.values() for literal in pool) + OTHERS


def schema_of(columns: str) -> Schema:
    return Schema(fields=tuple(replace(field, id=at) for at, field in enumerate(parse_columns(columns), 1)))


def statements(count: int) -> list[tuple[str, str]]:
    """Random column lists, and VALUES that mostly fit them."""
    chosen, made = random.Random(16), []
    for _ in range(count):
        types = [chosen.choice(list(POOLS)) for _ in range(chosen.randint(1, 2))]
        rows = []
        for _ in range(chosen.randint(1, 2)):
            row = [_literal(chosen, type_) for type_ in types]
            rows.append(f"({', '.join(row)})")
        made.append((", ".join(f"c{at} {type_}" for at, type_ in enumerate(types)), f"VALUES {', '.join(rows)}"))
    return made


def _literal(chosen: random.Random, type_: str) -> str:
    if chosen.random() < 0.1:
        return "NULL"
    return chosen.choice(POOLS[type_] if chosen.random() < 0.95 else ALL)


def test_rows_made_here_are_those_of_spark(spark: Any) -> None:
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    here = 0
    try:
        for columns, text in statements(250):
            schema = schema_of(columns)
            rows = literal_rows(text, schema, schema.fields, spark.conf.get, lambda: "UTC")
            if rows is None:
                continue
            here += 1
            told = assigned(spark.sql(text), schema.fields, [], by_name=False).toArrow()
            assert list(map(repr, told.cast(rows.schema).to_pylist())) == list(map(repr, rows.to_pylist())), text
    finally:
        spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    assert here > 50  # else the law says little


def made(text: str, columns: str = "a bigint, b string", zone: str = "UTC", **settings: str) -> Any:
    schema = schema_of(columns)
    found = literal_rows(text, schema, schema.fields, settings.get, lambda: zone)
    return None if found is None else found.to_pylist()


def test_plain_literals_are_read_here() -> None:
    assert made("VALUES (1, 'x'), (-2, NULL) -- two") == [{"a": 1, "b": "x"}, {"a": -2, "b": None}]
    assert made("VALUES (0.1)", "a double") == [{"a": 0.1}]
    assert repr(made("VALUES (-0.0)", "a double")) == "[{'a': 0.0}]"


@pytest.mark.parametrize(
    "text",
    [
        "VALUES (1, 'x') LIMIT 1",
        "VALUES (1, 'x') AS t(a, b)",
        "VALUES (1)",
        "VALUES (1, 'x', 2)",
        "VALUES (1, 'x'), (2)",
        "VALUES (1, 2)",
        "VALUES ('1', 'x')",
        "VALUES (1.0, 'x')",
        "VALUES (1, '${x}')",
        "VALUES (1, 'a\\'b')",
        "VALUES (1, DEFAULT)",
        "VALUES (1, 'x'), (2.5, 'y')",
        "VALUES 1, 2",
        "(VALUES (1, 'x'))",
        "SELECT 1, 'x'",
    ],
)
def test_everything_else_is_left_to_spark(text: str) -> None:
    assert made(text) is None


def test_a_timestamp_depends_on_the_session() -> None:
    text = "VALUES (TIMESTAMP '2026-01-01 00:00:00')"
    assert made(text, "a timestamp") is not None
    assert made(text, "a timestamp", zone="Europe/Berlin") is None
    assert made(text, "a timestamp", **{"spark.sql.timestampType": "TIMESTAMP_NTZ"}) is None
    assert made("VALUES (TIMESTAMP_NTZ '2026-01-01 00:00:00')", "a timestamp_ntz", zone="Europe/Berlin") is not None


def test_a_null_for_a_required_column_is_left_to_spark() -> None:
    assert made("VALUES (NULL)", "a bigint not null") is None
    assert made("VALUES (1)", "a bigint not null") == [{"a": 1}]


def test_an_insert_of_literals_makes_no_call(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jvm_calls: Callable[[], int]
) -> None:
    lake = esker.connect(f"file://{tmp_path}/lake", spark=spark)
    lake.create_namespace("a")
    lake.create_table("a.t", "id bigint not null, name string, day date, more int", partition_by=["day"])
    before = jvm_calls()
    answer = lake.sql("INSERT INTO a.t (day, id, name) VALUES (DATE '2026-01-01', 1, 'x'), (NULL, 2, NULL)")
    assert answer.collect()[0].added_records == 2
    assert jvm_calls() == before
    fast = rows_of(lake.table("a.t"))
    monkeypatch.setattr(literal_values, "_WHOLE", literal_values._DATE)  # no number is read here
    lake.sql("TRUNCATE TABLE a.t")
    lake.sql("INSERT INTO a.t (day, id, name) VALUES (DATE '2026-01-01', 1, 'x'), (NULL, 2, NULL)")
    assert jvm_calls() > before
    assert rows_of(lake.table("a.t")) == fast


def test_the_answer_becomes_a_frame_where_more_is_asked(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import DataFrame

    lake = esker.connect(f"file://{tmp_path}/lake", spark=spark)
    lake.create_namespace("a")
    lake.create_table("a.t", "id bigint")
    answer = lake.sql("INSERT INTO a.t VALUES (1)")
    assert isinstance(answer, DataFrame)
    rows = answer.collect()
    assert answer.columns == ["operation", "snapshot_id", "added_records", "updated_records", "deleted_records"]
    assert type(answer) is type(spark.range(1))
    assert answer.collect() == rows
    assert lake.sql("INSERT INTO a.t VALUES (1)").select("added_records").collect()[0].asDict() == {"added_records": 1}
    assert [row.operation for row in lake.sql("INSERT INTO a.t VALUES (1)").toLocalIterator()] == ["append"]
    assert lake.sql("INSERT INTO a.t VALUES (1)").added_records is not None  # a column
    assert repr(lake.sql("INSERT INTO a.t VALUES (1)")).startswith("DataFrame[operation: string, snapshot_id: bigint")
