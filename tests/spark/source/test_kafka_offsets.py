"""Offsets of a stream from Kafka: a batch that is sent again is the same batch, whatever the topic has become."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esker.errors import InvalidInput, Unsupported
from esker.kafka.subscription import Bounds, Partition, Positions
from esker.spark.source.kafka_options import read_kafka_options
from esker.spark.source.kafka_read import UNBEGUN, Feed, StreamOffset

ZERO, ONE = Partition("t", 0), Partition("t", 1)
positions = st.dictionaries(st.builds(Partition, st.sampled_from(["a", "b"]), st.integers(0, 3)), st.integers(0, 99))


class TopicFeed(Feed):
    """A feed over bounds that a test sets."""

    def __init__(self, bounds: dict[Partition, Bounds], **options: str) -> None:
        given = {"bootstrap.servers": "nowhere:1", "subscribe": "t", **options}
        super().__init__(pickle.dumps(read_kafka_options(given, stream=True)))
        self.bounds = bounds
        self.reached: Positions = {}  # what the last caller had read

    def _bounds(self, read: Positions) -> dict[Partition, Bounds]:
        self.reached = read
        return self.bounds

    def read(self, start: Any, end: Any) -> list[tuple[int, int, int]]:
        """Partition, start and end of each range."""
        found = [pickle.loads(one) for one in self.ranges(start, end)]
        return [(one.partition, one.start, one.end) for one in found]


@given(positions, positions, st.integers(0, 1 << 40), st.booleans())
def test_an_offset_reads_back_as_it_was_kept(ends: Any, begins: Any, skipped: int, is_begun: bool) -> None:
    offset = StreamOffset(ends=ends, begins=begins, skipped=skipped, is_begun=is_begun)
    assert StreamOffset.of(offset.as_json()) == offset


@pytest.mark.parametrize(
    "kept", [None, {}, {"ends": {}}, {"ends": {"t": 1}, "begins": {}, "skipped": 0, "begun": True}]
)
def test_an_offset_of_another_source_is_refused(kept: Any) -> None:
    with pytest.raises(InvalidInput, match=r"cannot (continue from|use) the checkpoint"):
        StreamOffset.of(kept)


def test_the_first_batch_stays_where_it_began() -> None:
    feed = TopicFeed({ZERO: Bounds(0, 5)})  # latest, unless told
    first = feed.latest(feed.initial(), None)
    assert feed.read(feed.initial(), first) == []
    feed.bounds = {ZERO: Bounds(0, 9)}
    second = feed.latest(first, None)
    assert feed.read(first, second) == [(0, 5, 9)]
    assert feed.reached == {ZERO: 5}  # a broker that starts and has fewer offsets is asked again
    early = TopicFeed({ZERO: Bounds(2, 5)}, startingOffsets="earliest")
    begun = early.latest(early.initial(), None)
    early.bounds = {ZERO: Bounds(4, 50)}  # what was earliest is gone when the batch is sent again
    assert early.read(early.initial(), begun) == [(0, 2, 5)]


def test_a_partition_that_was_added_is_read_from_its_first_message_and_again_from_there() -> None:
    feed = TopicFeed({ZERO: Bounds(0, 5), ONE: Bounds(3, 7)})
    start = StreamOffset(ends={ZERO: 5}).as_json()
    end = feed.latest(start, None)
    feed.bounds = {ZERO: Bounds(0, 99), ONE: Bounds(6, 99)}
    assert feed.read(start, end) == [(1, 3, 7)]


def test_where_nothing_is_new_the_offset_stays() -> None:
    feed = TopicFeed({ZERO: Bounds(0, 5)})
    start = StreamOffset(ends={ZERO: 5}, begins={ZERO: 2}, skipped=3).as_json()
    assert feed.latest(start, None) == start
    assert feed.newest() == StreamOffset(ends={ZERO: 5}).as_json()


def test_a_query_that_ends_with_what_is_there_reads_no_further() -> None:
    feed = TopicFeed({ZERO: Bounds(0, 5)}, startingOffsets="earliest", maxOffsetsPerTrigger="3")
    feed.stop_at_now()
    feed.bounds = {ZERO: Bounds(0, 50), ONE: Bounds(0, 50)}
    at, read = feed.initial(), []
    while (end := feed.latest(at, 3)) != at:
        read += feed.read(at, end)
        at = end
    assert read == [(0, 0, 3), (0, 3, 5)]


def test_what_is_gone_is_passed_over_by_the_batch_that_meets_it_and_counted() -> None:
    feed = TopicFeed({ZERO: Bounds(30, 40)}, failOnDataLoss="false")
    start = StreamOffset(ends={ZERO: 5}, skipped=1).as_json()
    end = feed.latest(start, None)
    assert (feed.read(start, end), end["skipped"]) == ([(0, 30, 40)], 26)
    strict = TopicFeed({ZERO: Bounds(30, 40)})
    with pytest.raises(InvalidInput, match="25 offsets are gone"):
        strict.latest(start, None)


def test_a_release_that_does_not_say_where_a_batch_begins_is_refused() -> None:
    with pytest.raises(Unsupported, match=r"use Spark 4\.2 or newer"):
        TopicFeed({ZERO: Bounds(0, 1)}).latest(None, None)
    assert not UNBEGUN.is_begun
