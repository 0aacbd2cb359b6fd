"""Asking a broker, with an end to every wait: which partitions there are, and which offsets they have."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING, Any

from esker.errors import InvalidInput, StorageFailed, Unsupported
from esker.kafka.subscription import SERVERS, Assigned, Bounds, Partition, Pattern, Source, Topics

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError

# What reading ranges depends on: an offset that is gone must be told, and the end of a partition too.
_OURS: dict[str, Any] = {
    "auto.offset.reset": "error",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
}
_DEFAULTS: dict[str, Any] = {
    "group.id": "esker",  # librdkafka insists on one; no group is joined
    "client.id": "esker",
    "allow.auto.create.topics": False,
    "fetch.wait.max.ms": 20,  # what is asked for is there: waiting for more only holds up the next range
    "queued.max.messages.kbytes": 16 << 10,  # what is fetched ahead, in memory
    "log_level": 0,  # what matters comes as an error
}


_SLICE_S = 0.5  # librdkafka hears no signal while it waits: after so long Python looks whether it is to stop


class Client:
    """A connection to the brokers of a source. Once ``stop`` is set, no broker is waited for any longer."""

    def __init__(self, source: Source, *, stop: Event | None = None) -> None:
        self.source = source
        self._stop = stop or Event()
        self._last_error = ""
        self.consumer = self._made()

    def _made(self) -> Consumer:
        check_installed()
        from confluent_kafka import Consumer, KafkaException

        config = {**_DEFAULTS, **checked_config(self.source.config), **_OURS, "error_cb": self.heard}
        try:
            return Consumer(config)
        except (KafkaException, TypeError, ValueError) as error:
            raise InvalidInput(f"cannot read from Kafka at {self.source.servers}: {_text(error)}") from error

    def close(self) -> None:
        """Let go of the connection."""
        self.consumer.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def heard(self, error: KafkaError) -> None:
        """What librdkafka says went wrong, kept for the message if nothing comes of it."""
        self._last_error = error.str()

    def cluster_id(self) -> str:
        """Which cluster answers: offsets of one mean nothing to another."""
        with self._asking("the cluster"):
            found = self._metadata()
        return str(found.cluster_id or self.source.servers)

    def partitions(self) -> list[Partition]:
        """The partitions that are subscribed to, as there are now; ``InvalidInput`` for a topic that is none."""
        from confluent_kafka import KafkaError

        with self._asking("the topics"):
            topics = self._metadata().topics
        for name in self._named():
            known = topics.get(name)
            if known is None or (known.error and known.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART):
                raise InvalidInput(f"cannot read topic {name}: {self.source.servers} has no such topic", topic=name)
            if known.error:
                raise self.gone(f"topic {name}", known.error.str())
        match self.source.subscription:
            case Topics(names):
                wanted = list(names)
            case Pattern(text):
                wanted = [name for name in topics if re.fullmatch(text, name)]
            case Assigned(places):
                return sorted(place for place in places if place.number in topics[place.topic].partitions)
        return sorted(Partition(name, number) for name in wanted for number in topics[name].partitions)

    def _metadata(self) -> Any:
        """What the brokers say of themselves. The wait is cut in slices, so that Ctrl-C need not wait it out."""
        from confluent_kafka import KafkaException

        end = time.monotonic() + self.source.timeout_s
        while True:
            left = end - time.monotonic()
            try:
                return self.consumer.list_topics(timeout=max(0.01, min(_SLICE_S, left)))
            except KafkaException:
                if left <= _SLICE_S or self._stop.is_set():
                    raise

    def _named(self) -> list[str]:
        match self.source.subscription:
            case Topics(names):
                return list(names)
            case Pattern():
                return []
            case Assigned(places):
                return sorted({place.topic for place in places})

    def bounds(self) -> dict[Partition, Bounds]:
        """What the broker has of each partition that is subscribed to."""
        return {place: self.bounds_of(place) for place in self.partitions()}

    def bounds_of(self, place: Partition) -> Bounds:
        """What the broker has of a partition; of transactions, those that are settled."""
        from confluent_kafka import TopicPartition

        with self._asking(str(place)):
            asked = TopicPartition(place.topic, place.number)
            found = self.consumer.get_watermark_offsets(asked, timeout=self.source.timeout_s)
        if found is None:
            raise self.gone(str(place), "it did not say which offsets it has in time")
        return Bounds(*found)

    @contextmanager
    def _asking(self, what: str) -> Iterator[None]:
        from confluent_kafka import KafkaException

        try:
            yield
        except KafkaException as error:
            self.consumer.poll(0)  # lets what went wrong meanwhile be heard
            raise self.gone(what, _text(error)) from error

    def gone(self, what: str, reason: str) -> StorageFailed:
        """The broker does not answer, or does not let us. A later attempt may succeed."""
        heard = f" ({self._last_error})" if self._last_error and self._last_error not in reason else ""
        return StorageFailed(
            f"cannot read {what} from Kafka at {self.source.servers}: {reason}{heard}; is the address right, is the "
            "broker there, may this client read?",
            retryable=True,
            operation="read",
            reason=reason,
            servers=self.source.servers,
        )


def check_installed() -> None:
    """``Unsupported`` where the client library is missing."""
    try:
        import confluent_kafka  # noqa: F401  # whether it can be had
    except ImportError as error:
        raise Unsupported(
            "cannot read from Kafka: confluent-kafka is not installed; pip install 'esker[kafka]'", feature="kafka"
        ) from error


def checked_config(given: Mapping[str, str]) -> dict[str, str]:
    """Settings of librdkafka that do not take away what reading depends on."""
    if not given.get(SERVERS):
        raise InvalidInput(f"cannot read from Kafka: name the broker, as in {SERVERS} = host:9092", option=SERVERS)
    for name in given:
        if name in _OURS:
            raise InvalidInput(
                f"cannot take kafka.{name}: offsets are kept by the reader's own checkpoint", option=name
            )
    return dict(given)


def _text(error: Exception) -> str:
    inner = error.args[0] if error.args else error
    return inner.str() if hasattr(inner, "str") else str(inner)
