"""Streams from and into tables: every row once, over restarts, replays and commits that never came about."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSourceStreamReader

import esker
from esker.spark.source.register_source import PUSH_DOWN

needs_limits = pytest.mark.skipif(
    not hasattr(DataSourceStreamReader, "getDefaultReadLimit"),
    reason="before Spark 4.2 a stream takes all there is at its start, in one batch",
)


class Pipe:
    """A stream from ``sales.orders`` into ``sales.copy``, run until nothing is left."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.lake = esker.connect(f"sqlite:///{folder}/catalog.db")
        self.lake.create_namespace("sales")
        self.source = self.lake.create_table("sales.orders", "id bigint, region string")
        self.sink = self.lake.create_table("sales.copy", "id bigint, region string", partition_by=["region"])
        esker.spark.register(spark, self.lake)

    def run(self, *, checkpoint: str = "one", to: str = "sales.copy", change: Any = None, **options: str) -> str:
        """Start the query and wait for its end; gives its id."""
        frame = self.spark.readStream.format("esker").options(**options).load("sales.orders")
        frame = frame if change is None else change(frame)
        writer = frame.writeStream.format("esker").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(self.folder / checkpoint)).start(to)
        query.awaitTermination(120)
        return str(query.id)

    def add(self, *ids: int) -> None:
        """Some more rows."""
        self.source.append(pa.table({"id": pa.array(ids, pa.int64()), "region": [f"r{id_ % 2}" for id_ in ids]}))

    def copied(self) -> list[int]:
        """The ids that have arrived."""
        return sorted(self.sink.refresh().scan().to_arrow()["id"].to_pylist())

    def files(self) -> set[str]:
        """The data files that lie in the copy's folder."""
        return {path.name for path in Path(self.sink.location).rglob("*.parquet")}

    def forget_last_commit(self, checkpoint: str = "one") -> int:
        """Let the checkpoint be as if Spark had died right after the sink's commit."""
        folder = self.folder / checkpoint / "commits"
        last = max(int(file.name) for file in folder.iterdir() if file.name.isdigit())
        for name in (str(last), f".{last}.crc"):
            (folder / name).unlink(missing_ok=True)
        return last


@pytest.fixture
def pipe(spark: Any, tmp_path: Path) -> Iterator[Pipe]:
    yield Pipe(spark, tmp_path)
    spark.conf.unset(PUSH_DOWN)


@needs_limits
def test_a_stream_goes_on_where_it_was_over_restarts_limits_and_changes_of_rows(pipe: Pipe) -> None:
    pipe.add(1, 2, 3)
    pipe.run()
    assert pipe.copied() == [1, 2, 3]
    pipe.run()  # nothing new
    assert len(pipe.sink.snapshots) == 1
    for number in (4, 5):
        pipe.add(number)
    pipe.run(**{"streaming-max-files-per-micro-batch": "1"})
    assert pipe.copied() == [1, 2, 3, 4, 5]
    assert len(pipe.sink.snapshots) == 3  # a batch for each file
    pipe.source.delete("id = 1")
    pipe.add(6)
    with pytest.raises(
        Exception, match=r"cannot stream past snapshot .* set streaming-skip-overwrite-snapshots = true"
    ):
        pipe.run()
    pipe.run(**{"streaming-skip-overwrite-snapshots": "true"})
    assert pipe.copied() == [1, 2, 3, 4, 5, 6]


@needs_limits
def test_a_batch_that_spark_sends_again_is_not_committed_again(pipe: Pipe) -> None:
    pipe.add(1, 2)
    query = pipe.run()
    assert pipe.copied() == [1, 2]
    snapshot = pipe.sink.current_snapshot
    assert snapshot is not None
    assert snapshot.summary["spark.sql.streaming.queryId"] == query
    assert snapshot.summary["spark.sql.streaming.epochId"] == "0"
    assert [key for key in pipe.sink.properties if query in key] == [f"esker.applied.main/{query}"]
    files = pipe.files()
    assert pipe.forget_last_commit() == 0
    pipe.add(3)
    pipe.run()
    assert pipe.copied() == [1, 2, 3]
    assert files < pipe.files()
    assert len(pipe.files()) == pipe.sink.inspect.files().num_rows  # the second copy of batch 0 is gone


def test_a_batch_that_was_written_and_not_committed_is_committed_once(pipe: Pipe) -> None:
    pipe.add(1, 2)
    catalog, away = pipe.folder / "catalog.db", pipe.folder / "catalog.away"

    def losing_the_catalog(frame: Any) -> Any:
        """Rows, and the catalog is out of reach as soon as a task has seen them: it cannot be committed to."""

        def lose(batches: Any) -> Any:
            if catalog.exists():
                catalog.rename(away)
            yield from batches

        return frame.mapInArrow(lose, "id bigint, region string")

    with pytest.raises(Exception, match="Writing job failed"):
        pipe.run(change=losing_the_catalog)
    assert pipe.files()  # left by the run that failed: nobody could say whether they are part of the table
    away.rename(catalog)
    assert pipe.copied() == []
    pipe.run()
    pipe.run()
    assert pipe.copied() == [1, 2]
    assert len(pipe.sink.snapshots) == 1


def test_two_queries_into_one_table_do_not_disturb_each_other(pipe: Pipe) -> None:
    pipe.add(1)
    one, two = pipe.run(checkpoint="one"), pipe.run(checkpoint="two")
    pipe.forget_last_commit("one")
    pipe.run(checkpoint="one")
    assert pipe.copied() == [1, 1]
    assert {f"esker.applied.main/{query}" for query in (one, two)} <= set(pipe.sink.properties)


def test_a_complete_answer_takes_the_place_of_the_last_one(pipe: Pipe) -> None:
    pipe.lake.create_table("sales.counts", "region string, many bigint")
    for ids in ([1, 2, 3], [4, 5]):
        pipe.add(*ids)
        frame = pipe.spark.readStream.format("esker").load("sales.orders").groupBy("region").count()
        writer = frame.toDF("region", "many").writeStream.format("esker").outputMode("complete")
        writer = writer.trigger(availableNow=True).option("checkpointLocation", str(pipe.folder / "counts"))
        writer.start("sales.counts").awaitTermination(120)
    counts = pipe.lake.table("sales.counts").scan().to_arrow().to_pylist()
    assert sorted((row["region"], row["many"]) for row in counts) == [("r0", 2), ("r1", 3)]


def test_a_function_for_each_batch_may_mark_it_too(pipe: Pipe) -> None:
    pipe.add(1, 2)
    frame = pipe.spark.readStream.format("esker").load("sales.orders")

    def load(batch: Any, number: int) -> None:
        for _ in range(2):
            pipe.sink.append(batch, batch=("loader", number))

    query = frame.writeStream.foreachBatch(load).trigger(availableNow=True)
    query.option("checkpointLocation", str(pipe.folder / "each")).start().awaitTermination(120)
    assert pipe.copied() == [1, 2]
