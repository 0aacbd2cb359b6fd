"""A broker that starts again or chooses a leader is asked again; only what it still lacks at the end is lost."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from kafka_broker import Broker

from esker.errors import InvalidInput, StorageFailed
from esker.kafka import client as module
from esker.kafka.client import Client
from esker.kafka.read_range import RangeReader
from esker.kafka.subscription import SERVERS, Bounds, OffsetRange, Partition, Pattern, Source, Subscription, Topics

PLACE = Partition("t", 0)
PASSING = [
    "_TRANSPORT",
    "_ALL_BROKERS_DOWN",
    "_TIMED_OUT",
    "_UNKNOWN_PARTITION",
    "_DESTROY_BROKER",
    "UNKNOWN_TOPIC_OR_PART",
    "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_FOR_PARTITION",
    "OFFSET_NOT_AVAILABLE",
    "NETWORK_EXCEPTION",
    "KAFKA_STORAGE_ERROR",
]


class Faulty:
    """A consumer whose next answers are given: an error, or something in place of what the broker has."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.offsets: deque[Any] = deque()
        self.topics: deque[Any] = deque()
        self.messages: deque[Any] = deque()
        self.always: Any = None  # offsets, when no others are given

    def get_watermark_offsets(self, *given: Any, **more: Any) -> Any:
        if self.offsets or self.always is not None:
            return _answer(self.offsets.popleft() if self.offsets else self.always)
        return self._real.get_watermark_offsets(*given, **more)

    def list_topics(self, **more: Any) -> Any:
        if self.topics:
            return SimpleNamespace(topics=_answer(self.topics.popleft()), cluster_id="c")
        return self._real.list_topics(**more)

    def consume(self, *given: Any) -> Any:
        if self.messages:
            return [self.messages.popleft()]
        return self._real.consume(*given)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def _answer(given: Any) -> Any:
    if isinstance(given, KafkaError):
        raise KafkaException(given)
    return given


def event(code: int, offset: int) -> Any:
    """Something other than a message that a consumer gives."""
    return SimpleNamespace(error=lambda: KafkaError(code), offset=lambda: offset)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SLICE_S", 0.02)


@contextmanager
def opened(
    kafka: Broker, *, timeout_s: float = 30, stop: Event | None = None, of: Subscription | None = None, **more: Any
) -> Iterator[tuple[Client, Faulty]]:
    source = Source(config={SERVERS: kafka.address}, subscription=of or Topics(("t",)), timeout_s=timeout_s, **more)
    with Client(source, stop=stop) as client:
        faulty = Faulty(client.consumer)
        client.consumer = faulty  # type: ignore[assignment]
        yield client, faulty


@pytest.mark.parametrize("name", PASSING)
def test_an_error_of_a_broker_that_starts_is_not_the_answer(kafka: Broker, name: str) -> None:
    kafka.send("t", b"0", b"1")
    with opened(kafka) as (client, faulty):
        faulty.offsets.extend([KafkaError(getattr(KafkaError, name)), None, KafkaError(getattr(KafkaError, name))])
        assert client.bounds_of(PLACE) == Bounds(0, 2)
        assert not faulty.offsets


def test_an_error_that_does_not_pass_is_raised_at_once(kafka: Broker) -> None:
    kafka.send("t", b"0")
    with opened(kafka, timeout_s=600) as (client, faulty):
        faulty.always = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
        with pytest.raises(StorageFailed, match=r"cannot read partition 0 of t .*authorization failed"):
            client.bounds_of(PLACE)  # else after ten minutes


def test_an_error_that_stays_is_raised_when_the_time_is_over(kafka: Broker) -> None:
    kafka.send("t", b"0")
    with opened(kafka, timeout_s=0.3) as (client, faulty):
        faulty.always = KafkaError(KafkaError.OFFSET_NOT_AVAILABLE)
        with pytest.raises(StorageFailed, match="cannot read partition 0 of t") as caught:
            client.bounds_of(PLACE)
        assert caught.value.retryable


def test_fewer_offsets_than_were_read_are_asked_for_again(kafka: Broker) -> None:
    kafka.send("t", b"0", b"1", b"2")
    with opened(kafka) as (client, faulty):
        faulty.offsets.extend([(0, 0), (0, 2)])
        assert client.bounds_of(PLACE, at_least=3) == Bounds(0, 3)
        faulty.offsets.extend([(0, 1)] * 2)
        assert client.bounds({PLACE: 3})[PLACE] == Bounds(0, 3)
        assert not faulty.offsets


def test_fewer_offsets_that_stay_are_believed_and_waited_for_once(kafka: Broker) -> None:
    kafka.send("t", b"0")
    with opened(kafka, timeout_s=0.3) as (client, faulty):
        assert client.bounds_of(PLACE, at_least=5) == Bounds(0, 1)
        faulty.offsets.extend([(0, 1), (0, 7)])
        assert client.bounds_of(PLACE, at_least=5) == Bounds(0, 1)
        assert list(faulty.offsets) == [(0, 7)]


def test_a_range_is_not_lost_while_the_broker_that_starts_reports_fewer_offsets(kafka: Broker) -> None:
    kafka.send("t", b"0", b"1")
    with opened(kafka) as (client, faulty):
        faulty.messages.append(event(KafkaError._PARTITION_EOF, 0))
        faulty.offsets.extend([(0, 0), KafkaError(KafkaError.OFFSET_NOT_AVAILABLE), (0, 1)])
        reader = RangeReader(client, OffsetRange(topic="t", partition=0, start=0, end=2))
        assert [message.value() for group in reader for message in group] == [b"0", b"1"]
        assert not faulty.offsets


@pytest.mark.parametrize("name", PASSING)
def test_a_range_is_read_on_after_an_error_that_passes(kafka: Broker, name: str) -> None:
    kafka.send("t", b"0")
    with opened(kafka) as (client, faulty):
        faulty.messages.append(event(getattr(KafkaError, name), 0))
        reader = RangeReader(client, OffsetRange(topic="t", partition=0, start=0, end=1))
        assert [message.value() for group in reader for message in group] == [b"0"]


@pytest.mark.parametrize("subscription", [Topics(("t",)), Pattern("t")])
def test_a_topic_that_was_read_may_be_missing_for_a_moment(kafka: Broker, subscription: Subscription) -> None:
    kafka.send("t", b"0")
    with opened(kafka, of=subscription) as (client, faulty):
        faulty.topics.extend([{}, {"t": SimpleNamespace(error=None, partitions={1: None})}])
        assert PLACE in client.partitions({PLACE: 1})
        assert not faulty.topics


def test_a_topic_that_was_never_read_is_missed_at_once(kafka: Broker) -> None:
    with (
        opened(kafka, timeout_s=600) as (client, _),
        pytest.raises(InvalidInput, match=r"cannot read topic t: .* has no such topic"),
    ):
        client.partitions({Partition("another", 0): 5})


def test_a_partition_that_stays_away_is_waited_for_once(kafka: Broker) -> None:
    kafka.send("t", b"0")
    gone = Partition("t", 99)
    with opened(kafka, timeout_s=0.5) as (client, faulty):
        assert gone not in client.partitions({gone: 1})
        real, asked = faulty.list_topics, []
        faulty.list_topics = lambda **more: asked.append(1) or real(**more)  # type: ignore[method-assign]
        assert gone not in client.partitions({gone: 1})
        assert len(asked) == 1


def test_a_reader_that_is_stopped_does_not_call_what_is_missing_lost(kafka: Broker) -> None:
    kafka.send("t", b"0")
    stop = Event()
    stop.set()
    with opened(kafka, timeout_s=600, stop=stop) as (client, _):
        began = time.monotonic()
        with pytest.raises(StorageFailed, match="partition 0 of t"):
            client.bounds_of(PLACE, at_least=5)
        with pytest.raises(StorageFailed, match="the reader was stopped"):
            client.partitions({Partition("t", 99): 1})
        assert time.monotonic() - began < 300
