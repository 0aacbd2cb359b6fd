"""A merge whose source is broadcast leaves the rows of one whose source is not, and a few rows need no worker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from merge_model import COLUMNS, ON, SeveralMatch, apply_rules, in_order, merged, random_rows, random_rules
from spark_writes import described

import esker
from esker.lake import Lake
from esker.spark.rows import resolve, row_keeper
from esker.spark.rows.resolve import DecidingQuery
from esker.spark.rows.row_keeper import RowKeeper
from esker.spark.session.jobs import without_call_sites
from esker.spark.write import local_rows, spark_writer

ARROW = pa.schema([("k", pa.int64()), ("g", pa.string()), ("v", pa.int32())])
OFF = ("spark.sql.autoBroadcastJoinThreshold", "-1")


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Lake:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"), spark=spark)
    lake.create_namespace("a")
    return lake


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each merge so far: whether its pairs were found first, and its new rows then."""
    found: list[bool] = []
    before = DecidingQuery.knowing

    def knowing(self: DecidingQuery, *given: Any, **more: Any) -> DecidingQuery:
        query = before(self, *given, **more)
        found.append(query.in_two_steps)
        return query

    monkeypatch.setattr(DecidingQuery, "knowing", knowing)
    return found


def made(lake: Lake, name: str, rows: list[dict[str, Any]], mode: str = "merge-on-read") -> esker.Table:
    table = lake.create_table(name, COLUMNS, format_version=3, properties={"write.merge.mode": mode})
    table.append(pa.Table.from_pylist(rows, schema=ARROW))
    return table


def held(table: esker.Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.refresh().scan().to_arrow().to_pylist()
    return found


def keys_and_values(table: esker.Table) -> list[tuple[Any, Any]]:
    return sorted(((row["k"], row["v"]) for row in held(table)), key=repr)


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_both_ways_leave_the_same_rows(lake: Lake, spark: Any, steps: list[bool], mode: str) -> None:
    random, done = Random(7), 0
    while done < 3:
        rows, source = random_rows(random, 12, 9), random_rows(random, 6, 12)
        on, rules = random.choice(list(ON)), random_rules(random)
        if not any(rule.about == "insert" for rule in rules) or any(rule.about == "rest" for rule in rules):
            continue
        try:
            expected = in_order(merged(rows, source, on, rules))
        except SeveralMatch:
            continue
        frame = spark.createDataFrame(pa.Table.from_pylist(source, schema=ARROW))
        one, other = (made(lake, f"a.{name}{done}", rows, mode) for name in ("one", "other"))
        apply_rules(one.merge(frame, on), rules).commit()
        spark.conf.set(*OFF)
        apply_rules(other.merge(frame, on), rules).commit()
        spark.conf.unset(OFF[0])
        assert in_order(held(one)) == in_order(held(other)) == expected, (on, rules, source)
        done += 1
    assert steps == [True, False] * 3


def test_a_row_that_matches_without_a_clause_does_not_come_as_new(lake: Lake, spark: Any, steps: list[bool]) -> None:
    table = made(lake, "a.t", [{"k": 1, "g": "a", "v": 1}, {"k": 2, "g": "a", "v": 2}])
    source = spark.sql("VALUES (1L, 'b', 10), (2L, 'b', 20), (3L, 'b', 30), (NULL, 'n', 40)").toDF("k", "g", "v")
    merge = table.merge(source, "t.k = s.k").when_matched_update({"v": "s.v"}, "s.v > 15")
    merge.when_not_matched_insert().commit()
    assert keys_and_values(table) == [(1, 1), (2, 20), (3, 30), (None, 40)]
    assert steps == [True]


def test_chance_in_the_source_decides_once(lake: Lake, spark: Any, steps: list[bool]) -> None:
    table = made(lake, "a.t", [{"k": n, "g": "a", "v": n} for n in range(200)])
    source = spark.range(400).selectExpr("CAST(rand() * 100000 AS BIGINT) % 400 AS k", "'s' AS g", "1 AS v")
    source = source.dropDuplicates(["k"])
    table.merge(source, "t.k = s.k").when_matched_update({"g": "s.g"}).when_not_matched_insert().commit()
    keys = [row["k"] for row in held(table)]
    assert len(keys) == len(set(keys)) >= 200
    assert steps == [True]


@pytest.mark.parametrize(
    ("columns", "most"),
    [("k, g, v", 1), ("k, g, v, array(1) AS more", 1 << 20), ("k, g, v, named_struct('x', 1) AS more", 1 << 20)],
)
def test_a_large_or_nested_source_is_not_broadcast(
    lake: Lake, spark: Any, steps: list[bool], monkeypatch: pytest.MonkeyPatch, columns: str, most: int
) -> None:
    monkeypatch.setattr(resolve, "_MOST_BROADCAST", most)
    table = made(lake, "a.t", [{"k": 1, "g": "a", "v": 1}])
    source = spark.sql(f"SELECT {columns} FROM VALUES (1L, 'b', 2), (3L, 'c', 4) AS t(k, g, v)")
    merge = table.merge(source, "t.k = s.k").when_matched_update({"v": "s.v"})
    merge.when_not_matched_insert({"k": "s.k", "v": "s.v"}).commit()
    assert keys_and_values(table) == [(1, 2), (3, 4)]
    assert steps == [False]


# ---------------------------------------------------------------- few rows


COLUMNS_OF_MANY_TYPES = """
id bigint, n int, x double, d decimal(12,2), s string, b binary, day date, at timestamp, wall timestamp_ntz, y boolean
""".strip()
ROWS_OF_MANY_TYPES = """
SELECT id, CAST(id AS int) AS n, id / 7 AS x, CAST(id / 4 AS decimal(12,2)) AS d, concat('s', id) AS s,
  CAST(concat('b', id) AS binary) AS b, date_add(DATE '2026-01-01', CAST(id AS int)) AS day,
  timestamp_micros(1767225600000000 + id) AS at, TIMESTAMP_NTZ '2026-01-01 12:00:00.123456' AS wall, id % 2 = 0 AS y
FROM range(60)
"""
UPDATE = "UPDATE a.{0} SET x = NULL, s = upper(s) WHERE id % 3 = 0"


def test_few_rows_are_written_without_a_worker_as_workers_write_them(
    lake: Lake, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = {"write.update.mode": "merge-on-read"}
    here, there = (
        lake.create_table(f"a.{name}", COLUMNS_OF_MANY_TYPES, format_version=3, properties=properties)
        for name in ("here", "there")
    )
    for table in (here, there):
        lake.sql(f"INSERT INTO {table.name} {ROWS_OF_MANY_TYPES}")
    with monkeypatch.context() as patched:
        patched.setattr(spark_writer, "files_written_by", _refuse)
        lake.sql(UPDATE.format("here"))
    with monkeypatch.context() as patched:
        patched.setattr(local_rows, "MOST_AT_ONCE", 19)
        patched.setattr(local_rows, "MOST_FETCHED", 19)
        patched.setattr(spark_writer.SparkWriter, "_write_few", _refuse)
        lake.sql(UPDATE.format("there"))
    found = [table.refresh().scan().to_arrow().sort_by("id") for table in (here, there)]
    assert found[0].equals(found[1])
    assert described(here) == described(there)


def test_an_update_of_a_few_rows_is_one_job_and_of_more_rows_the_same(
    lake: Lake, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = {"write.update.mode": "merge-on-read", "write.delete.mode": "merge-on-read"}
    found = []
    for name, most in (("at_once", 19), ("kept", 18)):  # 19 rows change
        table = lake.create_table(f"a.{name}", COLUMNS_OF_MANY_TYPES, format_version=3, properties=properties)
        lake.sql(f"INSERT INTO {table.name} {ROWS_OF_MANY_TYPES}")
        table.delete("id = 3")
        with monkeypatch.context() as patched:
            patched.setattr(local_rows, "MOST_AT_ONCE", most)
            if name == "at_once":
                patched.setattr(RowKeeper, "keep", _refuse)
            answer = lake.sql(UPDATE.format(name)).drop("snapshot_id").collect()
        rows = (
            table.refresh()
            .scan(columns=[*(field.name for field in table.schema.fields), "_row_id"])
            .to_arrow()
            .sort_by("id")
        )
        found.append((answer, rows, described(table), table.current_snapshot.rows_updated))
    assert found[0][1].equals(found[1][1])
    assert (found[0][0], *found[0][2:]) == (found[1][0], *found[1][2:])
    assert found[0][3] == 19


def test_rows_at_once_are_all_rows_or_none(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = spark.range(30, numPartitions=3).selectExpr("id", "id AS ID2", "rand() AS r")
    monkeypatch.setattr(local_rows, "MOST_AT_ONCE", 30)
    rows = local_rows.rows_at_once(frame, 3)
    assert rows is not None
    assert sorted(rows.column("id").to_pylist()) == list(range(30))
    assert local_rows.rows_at_once(frame, local_rows.MOST_TASKS + 1) is None
    assert local_rows.rows_at_once(frame.selectExpr("array(id) AS l"), 3) is None
    monkeypatch.setattr(local_rows, "MOST_AT_ONCE", 29)
    assert local_rows.rows_at_once(frame, 3) is None


def test_more_rows_and_nested_rows_go_to_the_workers(spark: Any) -> None:
    frame = spark.range(3)
    assert local_rows.few_rows(frame, None) is None
    assert local_rows.few_rows(frame, local_rows.MOST_FETCHED + 1) is None
    assert local_rows.few_rows(frame.selectExpr("array(id) AS l"), 3) is None
    brought = local_rows.few_rows(frame, 3)
    assert brought is not None
    assert sum(batch.num_rows for batch in brought) == 3


def _refuse(*given: object) -> Callable[[], None]:
    raise AssertionError("no worker is needed")


def test_a_change_of_a_few_rows_makes_few_calls_to_the_jvm(
    lake: Lake, jvm_calls: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.errors import utils

    monkeypatch.setattr(utils, "_enable_debugging_cache", True)
    properties = {"write.update.mode": "merge-on-read"}
    lake.create_table("a.counted", COLUMNS_OF_MANY_TYPES, format_version=3, properties=properties)
    lake.sql(f"INSERT INTO a.counted {ROWS_OF_MANY_TYPES}")
    lake.sql(UPDATE.format("counted"))
    before = jvm_calls()
    lake.sql(UPDATE.format("counted"))
    assert jvm_calls() - before < 700  # 1,300, if PySpark records where each expression was made


def test_places_of_calls_are_recorded_again_after_a_change(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.errors import utils

    monkeypatch.setattr(utils, "_enable_debugging_cache", True)
    with without_call_sites():
        with pytest.raises(ValueError, match="inner"), without_call_sites():
            raise ValueError("inner")
        assert not utils.is_debugging_enabled()
    assert utils.is_debugging_enabled()


def test_rows_that_are_kept_in_files_stay_until_the_merge_is_written(
    lake: Lake, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a cluster, where a merge keeps its pairs and its new rows in two folders."""
    monkeypatch.setattr(row_keeper, "runs_in_driver", lambda _: False)
    lake.create_table("a.kept", "id bigint, n bigint").append(pa.table({"id": [1, 2], "n": [1, 2]}))
    spark.createDataFrame(pa.table({"id": [2, 3], "n": [20, 30]})).createOrReplaceTempView("kept_source")
    try:
        lake.sql(
            "MERGE INTO a.kept t USING kept_source s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = s.n "
            "WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, s.n)"
        )
    finally:
        spark.catalog.dropTempView("kept_source")
    assert sorted(map(tuple, lake.sql("SELECT id, n FROM a.kept").collect())) == [(1, 1), (2, 20), (3, 30)]
