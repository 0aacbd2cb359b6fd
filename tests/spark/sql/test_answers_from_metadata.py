"""A query of counts and bounds that metadata answers starts no job, and gives what Spark gives over the rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import esker
from esker.spark.sql.queries import rewrite_query

ANSWERED = [
    "SELECT count(*) FROM a.t",
    "SELECT count(1), COUNT(*) AS n, count(id) FROM a.t",
    "SELECT count(*) FROM a.t WHERE part = 1",
    "SELECT count(*), max(id) FROM a.t AS o WHERE o.part IN (1, 2) AND (o.part <> 2)",
    "SELECT min(id), max(t.id), min(day), max(ts), min(wall), max(price), max(ratio), min(small), max(flag) FROM a.t",
    "SELECT max(id), min(day), count(name) FROM a.t WHERE part = 99",
    "SELECT count(*) FROM a.t WHERE ts >= TIMESTAMP '1999-12-31 00:00:00'",
    "SELECT count(*) FROM a.t VERSION AS OF 'first'",
]
NOT_ANSWERED = [
    "SELECT count(*) FROM a.t WHERE id > 2",
    "SELECT count(DISTINCT part) FROM a.t",
    "SELECT count(*) FROM a.t WHERE part = 1 AND rand() < 2",
    "SELECT part, count(*) FROM a.t GROUP BY part ORDER BY part",
    "SELECT min(name) FROM a.t",
    "SELECT count(*) + 1 FROM a.t",
    "SELECT count(*) FROM a.t LIMIT 0",
    "SELECT count(*) FILTER (WHERE id > 2) FROM a.t",
    "SELECT max(id) FROM a.t HAVING max(id) > 1000",
    "SELECT count(*) FROM a.t a1 JOIN a.t a2 ON a1.id = a2.id",
    "SELECT count(*) FROM a.t TABLESAMPLE (1 ROWS)",
    "SELECT DISTINCT count(*) FROM a.t",
]


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> esker.Lake:
    lake = esker.connect(f"file://{tmp_path}/lake", spark=spark)
    lake.create_namespace("a")
    table = lake.create_table(
        "a.t",
        """part int, id bigint not null, day date, ts timestamp, wall timestamp_ntz, price decimal(9,2), ratio double,
        small float, flag boolean, name string""",
        partition_by=["part"],
    )
    lake.sql(
        """INSERT INTO a.t SELECT n % 3, n, date_from_unix_date(n - 2), timestamp_micros(1000000000000001 + n),
        timestamp_ntz'1969-12-31 23:59:59.5', n / 3, n + 0.1D, float(n + 0.1), n > 2, if(n = 1, null, 'x')
        FROM VALUES (1), (2), (3), (4), (5), (6) AS given(n)"""
    )
    table.refresh().tag("first")
    lake.sql("INSERT INTO a.t (part, id, name) VALUES (7, -5, 'only nulls beside it')")
    return lake


def by_rows(lake: esker.Lake, text: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    with monkeypatch.context() as patched:
        patched.setattr(rewrite_query, "_answer", lambda *given: None)
        return lake.sql(text)


@pytest.mark.parametrize("text", ANSWERED)
def test_metadata_gives_what_the_rows_give(
    spark: Any,
    lake: esker.Lake,
    no_jobs: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    text: str,
) -> None:
    found = lake.sql(text)
    rows = found.collect()
    no_jobs()
    expected = by_rows(lake, text, monkeypatch)
    assert rows == expected.collect()
    assert columns(found) == columns(expected)


def columns(frame: Any) -> list[tuple[str, str, bool]]:
    return [(field.name, field.dataType.simpleString(), field.nullable) for field in frame.schema.fields]


@pytest.mark.parametrize("text", NOT_ANSWERED)
def test_other_queries_are_left_to_spark(
    spark: Any, lake: esker.Lake, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    given: list[object] = []
    monkeypatch.setattr(rewrite_query, "answer_text", lambda *asked: given.append(real(*asked)) or given[-1])
    found = lake.sql(text)
    assert given in ([], [None])
    assert found.columns == by_rows(lake, text, monkeypatch).columns


real = rewrite_query.answer_text


def test_an_attached_session_answers_so_too(spark: Any, lake: esker.Lake) -> None:
    from esker.spark import attach, detach

    attach(spark, lake, name="here")
    try:
        scheduler = spark.sparkContext._jsc.sc().dagScheduler()
        before = scheduler.numTotalJobs()
        assert spark.sql("SELECT count(*), max(id) FROM here.a.t").collect() == [(7, 6)]
        assert scheduler.numTotalJobs() == before
    finally:
        detach(spark)
