"""Every job that Esker starts has a name in Spark's UI, and none of them makes Spark warn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import DataSourceStreamReader
from telemetry_samples import spans, write

import esker
from esker.lake import Lake
from esker.otlp import pipeline, telemetry_sink

GROUP = "spark.jobGroup.id"
ROWS = "cast(id % 3 AS int) v"


def rows(spark: Any, start: int, end: int) -> Any:
    return spark.range(start, end, 1, 2).selectExpr("id", ROWS)


def append(lake: Lake, spark: Any) -> None:
    lake.table("a.t").append(rows(spark, 0, 20))


def delete(lake: Lake, spark: Any) -> None:
    lake.sql("DELETE FROM a.t WHERE pmod(hash(cast(id AS string)), 1) = 0 AND id % 5 = 0")


def update(lake: Lake, spark: Any) -> None:
    lake.sql("UPDATE a.t SET v = length(repeat('x', 7)) WHERE id % 5 = 1")


def merge(lake: Lake, spark: Any) -> None:
    rows(spark, 10, 30).createOrReplaceTempView("given")
    lake.sql(
        """MERGE INTO a.t t USING given s ON t.id = s.id
           WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"""
    )


def upsert(lake: Lake, spark: Any) -> None:
    lake.table("a.t").upsert(rows(spark, 0, 5), on=["id"])


def insert(lake: Lake, spark: Any) -> None:
    lake.sql("INSERT INTO a.t SELECT id, 1 FROM range(40, 50)")


def create(lake: Lake, spark: Any) -> None:
    lake.sql("CREATE TABLE a.other AS SELECT id, v FROM a.t")


def sink(lake: Lake, spark: Any) -> None:
    frame = spark.createDataFrame([(bytearray(spans([1])),)], "value binary")
    telemetry_sink(lake, application="sink")(frame, 0)


STATEMENTS = (append, delete, update, merge, upsert, insert, create, sink)


def descriptions(spark: Any, work: Callable[[], object]) -> list[str]:
    """The names of the jobs of some work, as the UI shows them."""
    context = spark.sparkContext
    group = f"watched-{id(work)}"
    context.setLocalProperty(GROUP, group)
    try:
        work()
    finally:
        context.setLocalProperty(GROUP, None)
    store = context._jsc.sc().statusStore()
    context._jsc.sc().listenerBus().waitUntilEmpty()
    found = [store.job(job).description() for job in context.statusTracker().getJobIdsForGroup(group)]
    return [one.get() if one.isDefined() else "" for one in found]


@pytest.mark.parametrize("place", ["sqlite", "memory"])
def test_every_job_of_a_statement_has_a_name(spark: Any, tmp_path: Path, place: str) -> None:
    uri = "memory://" if place == "memory" else f"sqlite:///{tmp_path}/catalog.db"
    lake = esker.connect(uri, spark=spark)
    lake.create_namespace("a")
    lake.create_table("a.t", "id bigint, v int")
    for statement in STATEMENTS if place == "sqlite" else (append,):
        names = descriptions(spark, lambda statement=statement: statement(lake, spark))  # type: ignore[misc]
        assert names, statement.__name__
        assert all(name.startswith("esker: ") for name in names), (statement.__name__, names)


# What Spark says of every streaming query: that plans are not adapted, that there is no job to cancel when it ends.
SAID_OF_ANY_QUERY = ("ResolveWriteToStream", "DAGScheduler: Failed to cancel job group", "ProcessingTimeExecutor")


@pytest.mark.skipif(not hasattr(DataSourceStreamReader, "getDefaultReadLimit"), reason="a pipeline needs Spark 4.2")
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the log of the JVM is found by /proc")
def test_a_pipeline_and_a_statement_make_spark_warn_of_nothing(spark: Any, tmp_path: Path) -> None:
    lake = esker.connect(f"sqlite:///{tmp_path}/lake/catalog.db", spark=spark)
    write(tmp_path / "in", "a.jsonl", spans([1]), b"{broken\n")
    log = Path(f"/proc/{spark._jvm.java.lang.ProcessHandle.current().pid()}/fd/2").resolve()
    if not log.is_file():
        pytest.skip("this session was started by somebody else, and its log is no file")
    before = log.stat().st_size
    spark.sparkContext.setLogLevel("WARN")
    try:
        query = pipeline(spark, tmp_path / "in", lake, available_now=True)
        assert query.awaitTermination(120)
        lake.table("otel.spans").append(lake.table("otel.spans").scan().to_spark())
        spark._jvm.org.apache.logging.log4j.LogManager.getLogger("esker").warn("the log is written")
    finally:
        spark.sparkContext.setLogLevel("ERROR")
    said = [line for line in log.read_bytes()[before:].decode().splitlines() if " WARN " in line or " ERROR " in line]
    assert said, "a warning is not seen"
    assert "the log is written" in said.pop()
    assert [line for line in said if not any(known in line for known in SAID_OF_ANY_QUERY)] == []
