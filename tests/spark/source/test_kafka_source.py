"""Topics of Kafka in Spark: streams over restarts, limits and replays, batches, and what is said when it cannot be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka_broker import Broker, broker

import esker
from esker.spark.source.register_source import PUSH_DOWN


class Topic:
    """The topic ``t``, followed into the table ``k.copy``."""

    def __init__(self, spark: Any, folder: Path, kafka: Broker) -> None:
        self.spark, self.folder, self.kafka = spark, folder, kafka
        self.lake = esker.connect(f"sqlite:///{folder}/catalog.db")
        self.lake.create_namespace("k")
        self.copy = self.lake.create_table("k.copy", "value string, `partition` int, `offset` bigint")
        esker.spark.register(spark, self.lake)

    def frame(self, reader: Any = None, **options: Any) -> Any:
        given = {"bootstrap.servers": self.kafka.address, "subscribe": "t", "kafkaConsumer.pollTimeoutMs": "5000"}
        return (reader or self.spark.readStream).format("esker_kafka").options(**{**given, **options}).load()

    def run(self, **options: Any) -> Any:
        """Stream until nothing is left; the query."""
        frame = self.frame(**options).selectExpr("cast(value as string) value", "`partition`", "`offset`")
        writer = frame.writeStream.format("esker").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(self.folder / "checkpoint")).start("k.copy")
        assert query.awaitTermination(120)
        return query

    def send(self, *numbers: int, partition: int = 0) -> None:
        self.kafka.send("t", *(b"%d" % number for number in numbers), partition=partition)

    def copied(self) -> list[int]:
        return sorted(map(int, self.copy.refresh().scan().to_arrow()["value"].to_pylist()))


@pytest.fixture
def topic(spark: Any, tmp_path: Path) -> Iterator[Topic]:
    with broker() as kafka:
        yield Topic(spark, tmp_path, kafka)
    spark.conf.unset(PUSH_DOWN)


def test_a_stream_reads_every_message_once_over_restarts_limits_and_batches_sent_again(topic: Topic) -> None:
    topic.send(1, 2, 3)
    topic.send(4, 5, partition=2)
    topic.run(startingOffsets="earliest", maxOffsetsPerTrigger=2)
    assert topic.copied() == [1, 2, 3, 4, 5]
    assert len(topic.copy.snapshots) == 3  # two offsets a batch
    topic.send(6)
    topic.run(startingOffsets="earliest")
    assert topic.copied() == [1, 2, 3, 4, 5, 6]
    topic.run()  # nothing new
    commits = topic.folder / "checkpoint" / "commits"
    last = max(int(file.name) for file in commits.iterdir() if file.name.isdigit())
    for name in (str(last), f".{last}.crc"):  # as if Spark had died right after the sink's commit
        (commits / name).unlink(missing_ok=True)
    topic.send(7)
    topic.run()
    assert topic.copied() == [1, 2, 3, 4, 5, 6, 7]


def test_a_stream_that_starts_at_the_latest_offsets_stays_with_what_was_latest_then(topic: Topic) -> None:
    topic.send(1, 2)
    topic.run()  # latest by default, as Spark's own
    assert topic.copied() == []
    topic.send(3)
    topic.run()
    assert topic.copied() == [3]


def test_what_retention_took_stops_a_stream_or_is_counted_in_its_progress(topic: Topic) -> None:
    topic.send(1)
    topic.run(startingOffsets="earliest")
    topic.kafka.overflow("t", b"2" * 100_000)
    with pytest.raises(Exception, match=r"no longer has offsets before \d+"):
        topic.run()
    query = topic.run(failOnDataLoss="false")
    (source,) = query.lastProgress["sources"]
    end = json.loads(source["endOffset"]) if isinstance(source["endOffset"], str) else source["endOffset"]
    read = topic.copy.refresh().scan().count()
    assert end["skipped"] > 0
    assert read + end["skipped"] == end["ends"]["t"]["0"]


def test_a_batch_reads_from_offset_to_offset(topic: Topic) -> None:
    topic.send(*range(10))
    assert topic.frame(topic.spark.read).count() == 10
    ends = {"t": {"0": 7, "1": -1, "2": -1, "3": -1}}
    starts = {"t": {"0": 4, "1": -2, "2": -2, "3": -2}}
    chosen = {"startingOffsets": json.dumps(starts), "endingOffsets": json.dumps(ends), "includeHeaders": "true"}
    rows = topic.frame(topic.spark.read, **chosen)
    assert [row.asDict()["offset"] for row in rows.orderBy("offset").collect()] == [4, 5, 6]
    assert rows.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
    assert topic.frame(topic.spark.read, startingOffsets=json.dumps(ends)).count() == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffset": "earliest"}, "did you mean startingOffsets"),
        ({"assign": '{"t": [0]}'}, "give one of subscribe, subscribePattern and assign, not subscribe and assign"),
        ({"startingOffsets": "sometime"}, "cannot use startingOffsets"),
        ({"startingOffsets": "latest"}, "cannot start a batch at the latest offsets"),
        ({"maxOffsetsPerTrigger": "5"}, r"it is for spark\.readStream"),
        ({"subscribe": "nowhere"}, "cannot read topic nowhere"),
        ({"kafka.auto.offset.reset": "latest"}, "the reader's own checkpoint keeps the offsets"),
        ({"bootstrap.servers": "127.0.0.1:1", "kafkaConsumer.pollTimeoutMs": "500"}, "Connection refused"),
    ],
)
def test_what_cannot_be_read_is_said_so(topic: Topic, options: dict[str, str], message: str) -> None:
    topic.kafka.make("t")
    with pytest.raises(Exception, match=message):
        topic.frame(topic.spark.read, **options).count()


def test_messages_have_a_schema_of_their_own(topic: Topic) -> None:
    with pytest.raises(Exception, match="cannot read messages of Kafka with other columns"):
        topic.frame(topic.spark.read.schema("value string")).count()
