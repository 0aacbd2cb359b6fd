"""Positions in a checkpoint: every offset is read once or counted as gone, over failures, restarts and retention."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esker.errors import InvalidInput
from esker.ingest.checkpoint import Checkpoint
from esker.ingest.otlp.kafka_feed import KafkaFeed, Taken
from esker.ingest.receipts import BatchCounts
from esker.kafka.client import Client
from esker.kafka.subscription import Bounds, Partition, Source, Topics


class FakeClient:
    """A broker's bounds, as a test sets them."""

    def __init__(self, **source: Any) -> None:
        self.source = Source(config={}, subscription=Topics(("t",)), **source)
        self.held: dict[Partition, Bounds] = {}
        self.read: Mapping[Partition, int] = {}  # what the last caller had reached

    def cluster_id(self) -> str:
        return "here"

    def bounds(self, read: Mapping[Partition, int]) -> dict[Partition, Bounds]:
        self.read = dict(read)
        return dict(self.held)


@contextmanager
def opened(folder: Path, client: FakeClient) -> Iterator[tuple[Checkpoint, KafkaFeed]]:
    checkpoint = Checkpoint(folder, kind="otlp of kafka")
    try:
        yield checkpoint, KafkaFeed(cast(Client, client), checkpoint)
    finally:
        checkpoint.close()


def planned(checkpoint: Checkpoint, taken: Taken) -> int:
    return checkpoint.plan_ranges("here", taken.ranges, at_us=0, passed=taken.passed).number


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, 2), st.integers(1, 20)),
        st.tuples(st.just("retain"), st.integers(0, 2), st.integers(1, 20)),
        st.tuples(st.sampled_from(["finish", "withdraw", "die"]), st.integers(1, 15), st.just(0)),
    ),
    max_size=40,
)


@pytest.mark.slow
@given(EVENTS)
def test_every_offset_is_read_once_or_counted_as_gone(events: list[tuple[str, int, int]]) -> None:
    client = FakeClient(fail_on_loss=False)
    read: list[tuple[Partition, int]] = []
    gone: list[tuple[Partition, int]] = []

    def take(checkpoint: Checkpoint) -> None:
        """Finish what is planned, as a run does."""
        for plan in checkpoint.unfinished():
            read.extend((one.place, at) for one in plan.ranges for at in range(one.start, one.end))
            gone.extend((one.place, at) for one in plan.passed for at in range(one.start, one.end))
            checkpoint.tick_off(plan.number, BatchCounts())

    with tempfile.TemporaryDirectory() as folder:
        for what, where, size in [*events, ("finish", 1 << 20, 0)]:
            place = Partition("t", where)
            low, high = client.held.get(place, Bounds(0, 0))
            if what == "send":
                client.held[place] = Bounds(low, high + size)
            elif what == "retain" and place in client.held:
                client.held[place] = Bounds(min(high, low + size), high)
            elif what in ("finish", "withdraw", "die") and client.held:
                with opened(Path(folder), client) as (checkpoint, feed):
                    take(checkpoint)  # what an earlier run planned and did not live to finish
                    taken = feed.next(where)
                    if taken is not None:
                        number = planned(checkpoint, taken)
                        if what == "withdraw":
                            checkpoint.withdraw(number)
                        elif what == "finish":
                            take(checkpoint)
    assert len(read) == len(set(read))
    assert len(gone) == len(set(gone))
    assert not set(read) & set(gone)
    for place, (_, high) in client.held.items():
        mine = {at for where, at in (*read, *gone) if where == place}
        rest = set(range(high)) - mine
        # What retention took before the partition was first seen was never to be read, and what it took at the end,
        # with nothing behind it to read, is counted by the batch that comes next.
        first = min((at for at in mine), default=high)
        assert all(at < first or at > max(mine, default=-1) for at in rest)
        assert all(at < client.held[place].low for at in rest)


def test_what_is_the_latest_is_written_down_at_the_first_look(tmp_path: Path) -> None:
    client = FakeClient(starting="latest")
    client.held = {Partition("t", 0): Bounds(0, 5)}
    with opened(tmp_path, client) as (_, feed):
        assert feed.next(10) is None
    client.held = {Partition("t", 0): Bounds(0, 7), Partition("t", 1): Bounds(2, 4)}  # one was added
    with opened(tmp_path, client) as (_, feed):
        taken = feed.next(10)
        assert taken is not None
        assert [(one.partition, one.start, one.end) for one in taken.ranges] == [(0, 5, 7), (1, 2, 4)]


def test_a_gap_stops_the_feed_and_moves_nothing(tmp_path: Path) -> None:
    client = FakeClient()
    client.held = {Partition("t", 0): Bounds(0, 5)}
    with opened(tmp_path, client) as (checkpoint, feed):
        taken = feed.next(3)
        assert taken is not None
        planned(checkpoint, taken)
        client.held = {Partition("t", 0): Bounds(4, 9)}
        with pytest.raises(InvalidInput, match="from offset 3: the broker no longer has offsets before 4"):
            feed.next(3)
        assert checkpoint.positions("here") == {Partition("t", 0): 3}


def test_the_feed_says_how_far_it_is_so_that_a_broker_that_starts_is_asked_again(tmp_path: Path) -> None:
    client = FakeClient()
    client.held = {Partition("t", 0): Bounds(0, 5)}
    with opened(tmp_path, client) as (checkpoint, feed):
        taken = feed.next(3)
        assert taken is not None
        planned(checkpoint, taken)
        for ask in (lambda: feed.next(3), feed.stop_at_now):
            client.read = {}
            ask()
            assert client.read == {Partition("t", 0): 3}
