"""Topics as the source of a pipeline, without Spark: which batches it plans, and how these are shared."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_broker import Broker, broker

from esker.errors import InvalidInput, StorageFailed
from esker.ingest.checkpoint import Checkpoint, Plan
from esker.ingest.otlp.kafka_topics import KIND
from esker.ingest.pipeline.stream_source import Feed
from esker.ingest.pipeline.watched_inputs import Watch, shares_of
from esker.ingest.receipts import BatchCounts
from esker.ingest.spark.topics_job import even_shares
from esker.kafka.address import source_of
from esker.kafka.subscription import OffsetRange, Source

VALUE = b"x" * 100


class Query:
    """The driver's checkpoint and a source for it, asked as Spark asks."""

    def __init__(self, folder: Path, source: Source, **limits: Any) -> None:
        self.driver = Checkpoint(folder / "checkpoint", kind=KIND)
        watch = Watch(
            checkpoint=str(folder / "checkpoint"),
            kind=KIND,
            term=self.driver.term,
            since=0,
            topics=pickle.dumps(source),
            most_files=1,
            most_bytes=1 << 30,
            most_rows=None,
            tasks=8,
            settle_s=0.0,
            half_line_s=0.0,
            keep_segments=False,
        )
        self.feed = Feed(msgspec.json.encode(replace(watch, **limits)).decode())
        self.at = self.feed.initial()

    def step(self) -> int:
        """Ask for the next batch; gives how many batches it covers, as far as offsets tell."""
        before, self.at = self.at, self.feed.latest(self.at)
        return int(self.at["next"] - before["next"])

    def finish(self, records: int = 1) -> list[tuple[int, int, int]]:
        """Take the planned batches in; gives the partition, start and end of their ranges."""
        plans = self.driver.unfinished()
        for plan in plans:
            offsets = sum(one.end - one.start for one in plan.ranges)
            self.driver.tick_off(
                plan.number, BatchCounts(received=offsets * records, requests=offsets, bytes=offsets * len(VALUE))
            )
        return [(one.partition, one.start, one.end) for plan in plans for one in plan.ranges]

    def close(self) -> None:
        """Let go of both."""
        self.feed.close()
        self.driver.close()


@pytest.fixture
def kafka() -> Iterator[Broker]:
    with broker() as made:
        yield made


def topic(kafka: Broker, rest: str = "") -> Source:
    return replace(source_of(f"kafka://{kafka.address}/t{rest}"), timeout_s=5)


def test_batches_follow_each_other_and_what_waits_is_counted(kafka: Broker, tmp_path: Path) -> None:
    kafka.send("t", *[VALUE] * 5)
    kafka.send("t", *[VALUE] * 2, partition=1)
    query = Query(tmp_path, topic(kafka), most_offsets=4)
    assert query.step() == 1
    assert query.feed.newest() | {"ingest": ""} == {"ingest": "", "next": 1, "waiting_offsets": 3}
    assert query.feed.latest(query.feed.initial())["next"] == 1, "a batch was planned ahead of one that is unfinished"
    assert query.finish() == [(0, 0, 3), (1, 0, 1)]
    assert query.step() == 1
    assert query.finish() == [(0, 3, 5), (1, 1, 2)]
    assert query.step() == 0
    assert query.feed.newest()["waiting_offsets"] == 0
    query.close()


def test_bytes_and_rows_bound_a_batch_by_what_was_read_before(kafka: Broker, tmp_path: Path) -> None:
    kafka.send("t", *[VALUE] * 100)
    query = Query(tmp_path, topic(kafka), most_bytes=20 * len(VALUE))
    query.step()
    assert query.finish(records=5) == [(0, 0, 1)]  # a message is taken for 16 KiB until one was read
    query.step()
    assert query.finish(records=5) == [(0, 1, 21)]
    query.close()
    by_rows = Query(tmp_path, topic(kafka), most_rows=50)
    by_rows.step()
    assert by_rows.finish() == [(0, 21, 31)]  # five rows a message
    by_rows.close()


def test_a_withdrawn_batch_is_planned_again_and_one_that_is_done_is_not(kafka: Broker, tmp_path: Path) -> None:
    kafka.send("t", *[VALUE] * 3)
    query = Query(tmp_path, topic(kafka))
    query.step()
    query.driver.withdraw(0)
    assert query.step() == 1
    assert query.finish() == [(0, 0, 3)]
    assert query.feed.latest(query.feed.initial()) == query.feed.initial()  # Spark's checkpoint was lost
    query.close()


def test_a_query_that_ends_takes_nothing_that_comes_later(kafka: Broker, tmp_path: Path) -> None:
    kafka.send("t", VALUE)
    query = Query(tmp_path, topic(kafka))
    query.feed.stop_at_now()
    kafka.send("t", VALUE)
    assert query.step() == 1
    assert query.finish() == [(0, 0, 1)]
    assert query.step() == 0
    query.close()


def test_a_broker_that_is_away_is_no_batch_and_ends_only_a_query_that_ends(tmp_path: Path) -> None:
    away = replace(source_of("kafka://127.0.0.1:1/t"), timeout_s=0.3)
    query = Query(tmp_path, away)
    assert query.step() == 0
    assert "Connection refused" in query.feed.newest()["trouble"]
    assert query.driver.trouble == query.feed.newest()["trouble"]
    with pytest.raises(StorageFailed, match="whether the broker runs"):
        query.feed.stop_at_now()
    query.close()


def test_a_topic_that_is_none_and_offsets_of_another_cluster_end_a_query(kafka: Broker, tmp_path: Path) -> None:
    kafka.send("t", VALUE)
    query = Query(tmp_path, topic(kafka))
    query.step()
    query.finish()
    query.close()
    with broker() as another:
        another.send("t", VALUE)
        query = Query(tmp_path, topic(another))
        with pytest.raises(InvalidInput, match=r"its offsets are of the Kafka cluster \S+, and"):
            query.step()
        query.close()
    query = Query(tmp_path, replace(source_of(f"kafka://{kafka.address}/nowhere"), timeout_s=5))
    with pytest.raises(InvalidInput, match="cannot read topic nowhere"):
        query.step()
    query.close()


def test_tasks_are_as_many_as_the_messages_are_worth() -> None:
    def worth(size: int) -> int:
        return shares_of(Plan(number=0, files=(), planned_at_us=0, about_bytes=size))

    assert [worth(size) for size in (0, 1 << 20, 100 << 20)] == [1, 1, 7]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50), st.integers(1, 30))), st.integers(1, 9))
def test_shares_hold_every_offset_once_and_are_even(drawn: list[tuple[int, int, int]], most: int) -> None:
    ranges = [
        OffsetRange(topic=f"t{at}", partition=partition, start=start, end=start + length)
        for at, (partition, start, length) in enumerate(drawn)
    ]
    shares = list(even_shares(ranges, most))
    found = [(one.topic, one.partition, at) for share in shares for one in share for at in range(one.start, one.end)]
    assert found == [(one.topic, one.partition, at) for one in ranges for at in range(one.start, one.end)]
    sizes = [sum(one.end - one.start for one in share) for share in shares]
    assert len(shares) <= most
    assert all(size == sizes[0] for size in sizes[:-1])
    assert not sizes or sizes[-1] <= sizes[0]
