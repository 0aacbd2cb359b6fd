"""Ranges read from a broker: the same every time, whole, and with an end to every wait."""

from __future__ import annotations

import time
from threading import Event
from typing import Any

import pytest
from kafka_broker import Broker

from esker.errors import EskerError, InvalidInput
from esker.kafka.client import Client
from esker.kafka.read_range import RangeReader, batches_of
from esker.kafka.subscription import (
    SERVERS,
    Assigned,
    Bounds,
    OffsetRange,
    Partition,
    Pattern,
    Source,
    Subscription,
    Topics,
)


def source(address: str, subscription: Subscription | None = None, **more: Any) -> Source:
    return Source(config={SERVERS: address}, subscription=subscription or Topics(("t",)), timeout_s=3, **more)


def read(client: Client, start: int, end: int, *, topic: str = "t") -> list[bytes | None]:
    wanted = OffsetRange(topic=topic, partition=0, start=start, end=end)
    return [message.value() for group in RangeReader(client, wanted) for message in group]  # type: ignore[misc]


def test_a_range_is_read_again_and_is_the_same_whatever_came_meanwhile(kafka: Broker) -> None:
    kafka.send("t", *(b"%d" % number for number in range(10)))
    with Client(source(kafka.address)) as client:
        assert read(client, 2, 7) == [b"2", b"3", b"4", b"5", b"6"]
        kafka.send("t", b"more")
        assert read(client, 2, 7) == [b"2", b"3", b"4", b"5", b"6"]
        assert read(client, 10, 11) == [b"more"]
        assert client.bounds()[Partition("t", 0)] == Bounds(0, 11)


def test_topics_are_found_by_name_by_pattern_and_by_partition(kafka: Broker) -> None:
    for topic in ("one", "two", "other"):
        kafka.send(topic, b"1")
    with Client(source(kafka.address, Pattern("o.*"))) as client:
        assert {place.topic for place in client.partitions()} == {"one", "other"}
    with Client(source(kafka.address, Assigned((Partition("two", 1),)))) as client:
        assert client.partitions() == [Partition("two", 1)]
    with (
        Client(source(kafka.address, Topics(("two", "three")))) as client,
        pytest.raises(InvalidInput, match=r"cannot read topic three: 127\.0\.0\.1:\d+ has no such topic"),
    ):
        client.bounds()


def test_messages_are_rows_with_the_columns_of_sparks_own_source(kafka: Broker) -> None:
    kafka.send("t", b"v", key=b"k", headers=[("h", b"x"), ("h", None)], timestamp=1_700_000_000_123)
    kafka.send("t", None, timestamp=1_700_000_000_124)
    with Client(source(kafka.address)) as client:
        wanted = OffsetRange(topic="t", partition=0, start=0, end=2)
        (batch,) = batches_of(RangeReader(client, wanted), headers=True)
        (plain,) = batches_of(RangeReader(client, wanted), headers=False)
    assert plain.to_pylist() == [
        {name: value for name, value in row.items() if name != "headers"} for row in batch.to_pylist()
    ]
    first, second = batch.to_pylist()
    at = first.pop("timestamp")
    assert at.timestamp() * 1000 == pytest.approx(1_700_000_000_123)
    headers = [{"key": "h", "value": b"x"}, {"key": "h", "value": None}]
    place = {"topic": "t", "partition": 0, "offset": 0}
    assert first == {"key": b"k", "value": b"v", **place, "timestampType": 0, "headers": headers}
    assert (second["value"], second["headers"], second["offset"]) == (None, None, 1)


def test_messages_that_retention_took_are_an_error_or_counted(kafka: Broker) -> None:
    sent = kafka.overflow("t", bytes(100_000))
    with Client(source(kafka.address)) as client:
        low, high = client.bounds()[Partition("t", 0)]
        assert (low > 10, high) == (True, sent)
        with pytest.raises(InvalidInput, match=r"from offset 10: .* set failOnDataLoss = false") as caught:
            read(client, 10, high)
        assert (caught.value.topic, caught.value.offset, caught.value.lost) == ("t", 10, low - 10)
    with Client(source(kafka.address, fail_on_loss=False)) as client:
        reader = RangeReader(client, OffsetRange(topic="t", partition=0, start=10, end=high))
        assert (sum(len(group) for group in reader), reader.skipped) == (high - low, low - 10)
        gone = RangeReader(client, OffsetRange(topic="t", partition=0, start=10, end=low))
        assert (list(gone), gone.skipped) == ([], low - 10)


def test_a_range_beyond_what_there_is_is_an_error_or_counted(kafka: Broker) -> None:
    kafka.send("t", b"0", b"1")
    with Client(source(kafka.address)) as client:
        for start in (1, 20):
            with pytest.raises(InvalidInput, match="the broker has only offsets 0 to 2"):
                read(client, start, 30)
    with Client(source(kafka.address, fail_on_loss=False)) as client:
        reader = RangeReader(client, OffsetRange(topic="t", partition=0, start=1, end=30))
        assert [message.value() for group in reader for message in group] == [b"1"]
        assert reader.skipped == 28


def test_a_broker_that_is_not_there_is_said_so_in_time() -> None:
    began = time.monotonic()
    quick = Source(config={SERVERS: "127.0.0.1:1"}, subscription=Topics(("t",)), timeout_s=0.5)
    with (
        Client(quick) as client,
        pytest.raises(EskerError, match=r"cannot read the topics from Kafka at 127\.0\.0\.1:1: .*Connection refused"),
    ):
        client.bounds()
    assert time.monotonic() - began < 10


def test_a_reader_that_is_told_to_stop_waits_for_no_broker() -> None:
    stop = Event()
    stop.set()
    source = Source(config={SERVERS: "127.0.0.1:1"}, subscription=Topics(("t",)), timeout_s=600)
    with Client(source, stop=stop) as client, pytest.raises(EskerError, match="whether the broker runs"):
        client.partitions()  # else for ten minutes


def test_a_broker_that_goes_away_in_the_middle_is_said_so_in_time(kafka: Broker) -> None:
    kafka.send("t", b"0", b"1")
    quick = Source(config={SERVERS: kafka.address}, subscription=Topics(("t",)), timeout_s=1)
    with Client(quick) as client:
        client.bounds()
        kafka.close()
        with pytest.raises(EskerError, match=r"cannot read partition 0 of t from Kafka at .* is not reached"):
            read(client, 0, 2)


def test_settings_that_reading_depends_on_cannot_be_changed() -> None:
    with pytest.raises(InvalidInput, match=r"cannot set kafka\.auto\.offset\.reset: Esker sets it"):
        Client(Source(config={SERVERS: "a:1", "auto.offset.reset": "latest"}, subscription=Topics(("t",))))
    with pytest.raises(InvalidInput, match=r'No such configuration property: "acks\.of"'):
        Client(Source(config={SERVERS: "a:1", "acks.of": "1"}, subscription=Topics(("t",))))
    with pytest.raises(InvalidInput, match="cannot read from Kafka: no broker is named"):
        Client(Source(config={}, subscription=Topics(("t",))))
