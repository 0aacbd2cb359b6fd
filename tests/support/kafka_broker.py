"""A broker without a network: librdkafka's own mock, in this process, reachable from others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Producer

PARTITIONS = 4  # the mock's own number for every topic
LIMIT = 5 << 20  # bytes that the mock keeps of a partition: what is older goes, as with retention


class Broker:
    """Takes messages; what it has is gone when it is."""

    def __init__(self) -> None:
        self._producer = Producer({"test.mock.num.brokers": 1, "log_level": 0, "batch.size": 1_000_000})
        found = self._producer.list_topics(timeout=10)
        self.address = ",".join(f"{broker.host}:{broker.port}" for broker in found.brokers.values())

    def send(self, topic: str, *values: bytes | None, partition: int = 0, **more: object) -> None:
        """Messages to one partition, in order; on the broker when this returns."""
        for value in values:
            self._producer.produce(topic, value, partition=partition, **more)  # type: ignore[arg-type]
        assert self._producer.flush(30) == 0

    def make(self, topic: str) -> None:
        """A topic with nothing in it yet."""
        self._producer.list_topics(topic, timeout=10)

    def overflow(self, topic: str, value: bytes, *, partition: int = 0) -> int:
        """Send so much that the oldest is dropped; how many were sent."""
        count = 2 * LIMIT // len(value)
        for _ in range(count):
            self.send(topic, value, partition=partition)  # a batch each: the mock drops whole ones
        return count

    def close(self) -> None:
        """Stop it."""
        self._producer = None  # type: ignore[assignment]


@contextmanager
def broker() -> Iterator[Broker]:
    """A broker for a test."""
    made = Broker()
    try:
        yield made
    finally:
        made.close()
