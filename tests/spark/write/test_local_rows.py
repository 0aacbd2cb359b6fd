"""Rows that are in Spark's driver already are written without a job, and the files are those that a job writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from spark_writes import COLUMNS, described, lake_at, local_frame, on_disk, rows_of

import esker
from esker.errors import InvalidInput
from esker.spark.session.jvm import Jvm
from esker.spark.write import local_rows, spark_writer

MOST_CALLS = 50
"""Calls to the JVM of one small INSERT. There were 360 when a job wrote it."""


@pytest.fixture
def lake(tmp_path: Path) -> esker.Lake:
    return lake_at(tmp_path)


@contextmanager
def by_a_job(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setattr(spark_writer, "local_rows", lambda frame: None)
        yield


@pytest.mark.parametrize(
    ("partition_by", "sort_by"),
    [((), ()), (("bucket(3, name)", "month(wall)"), ()), (("day(ts)",), ("ratio desc",)), ((), ("price desc", "id"))],
)
def test_the_files_are_those_that_a_job_writes(
    spark: Any,
    lake: esker.Lake,
    monkeypatch: pytest.MonkeyPatch,
    partition_by: tuple[str, ...],
    sort_by: tuple[str, ...],
) -> None:
    here = lake.create_table("a.here", COLUMNS, partition_by=partition_by, sort_by=sort_by)
    by_job = lake.create_table("a.job", COLUMNS, partition_by=partition_by, sort_by=sort_by)
    local = local_frame(spark, 200)
    assert local_rows.local_rows(local) is not None
    here.append(local)
    with by_a_job(monkeypatch):
        by_job.append(local.coalesce(1))
    assert list(map(repr, rows_of(here))) == list(map(repr, rows_of(by_job)))
    assert described(here) == described(by_job)


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO a.t VALUES (1, 'x'), (2, NULL)",
        "INSERT INTO a.t (name, id) VALUES ('x', 1), (DEFAULT, 1 + 1)",
        "INSERT INTO a.t BY NAME SELECT col2 AS NAME, col1 AS id FROM VALUES (1, 'x'), (2, NULL)",
        "INSERT INTO a.t SELECT * FROM VALUES (1, 'x'), (2, NULL), (3, 'z') WHERE col1 < 3",
        "INSERT OVERWRITE a.t VALUES (1, 'x'), (2, NULL)",
    ],
)
def test_an_insert_of_values_starts_no_job(spark: Any, tmp_path: Path, no_jobs: Callable[[], None], text: str) -> None:
    lake = esker.connect(f"file://{tmp_path}/lake", spark=spark)
    lake.create_namespace("a")
    lake.create_table("a.t", "id bigint not null, name string")
    answer = lake.sql(text)
    no_jobs()
    assert answer.collect()[0].added_records == 2
    no_jobs()
    assert sorted(map(str, rows_of(lake.table("a.t")))) == ["{'id': 1, 'name': 'x'}", "{'id': 2, 'name': None}"]


def test_a_select_without_a_table_is_one_row(spark: Any, tmp_path: Path, no_jobs: Callable[[], None]) -> None:
    lake = esker.connect(f"file://{tmp_path}/lake", spark=spark)
    lake.create_namespace("a")
    lake.create_table("a.t", "id bigint, name string")
    lake.sql("INSERT INTO a.t SELECT 1 + 1, upper('x')")
    no_jobs()
    assert rows_of(lake.table("a.t")) == [{"id": 2, "name": "X"}]


def test_the_calls_of_a_small_insert_are_bounded(spark: Any, tmp_path: Path, jvm_calls: Callable[[], int]) -> None:
    lake = esker.connect(f"file://{tmp_path}/lake", spark=spark)
    lake.create_namespace("a")
    lake.create_table("a.t", "id bigint, name string, ts timestamp")
    text = (
        "INSERT INTO a.t VALUES (1, 'x', TIMESTAMP '2024-01-01 00:00:00')"  # of the session's zone, so Spark reads it
    )
    lake.sql(text)  # the first one looks classes up
    before = jvm_calls()
    lake.sql(text)
    assert 2 < jvm_calls() - before <= MOST_CALLS


def test_rows_that_do_not_fit_leave_nothing(spark: Any, lake: esker.Lake) -> None:
    table = lake.create_table("a.t", "part int, id bigint not null", partition_by=["part"])
    with pytest.raises(InvalidInput, match="column 'id' does not fit: it is required"):
        table.append(spark.sql("VALUES (1, 1L), (2, 2L), (3, NULL)").toDF("part", "id"))
    assert table.refresh().current_snapshot is None
    assert not on_disk(table)


def test_many_rows_go_to_the_workers(spark: Any, lake: esker.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_rows, "MOST_ROWS", 2)
    assert local_rows.local_rows(spark.sql("VALUES (1), (2)")) is not None
    assert local_rows.local_rows(spark.sql("VALUES (1), (2), (3)")) is None
    assert local_rows.local_rows(spark.range(2)) is None


def test_a_release_with_other_classes_writes_by_a_job(
    spark: Any, lake: esker.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def singleton(self: Jvm, name: str) -> Any:
        raise AttributeError(name)

    monkeypatch.setattr(Jvm, "singleton", singleton)
    table = lake.create_table("a.t", "id int")
    rows = spark.sql("VALUES (1), (2)").toDF("id")
    assert local_rows.local_rows(rows) is None
    table.append(rows)
    assert rows_of(table) == [{"id": 1}, {"id": 2}]
