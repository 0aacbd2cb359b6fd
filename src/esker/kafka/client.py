"""Asks a broker which partitions exist and which offsets they have. Every wait has a time limit."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Event
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from esker.errors import InvalidInput, StorageFailed, Unsupported
from esker.kafka.subscription import SERVERS, Assigned, Bounds, Partition, Pattern, Positions, Source, Topics

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError

# Reading by ranges depends on these: librdkafka must report an offset that is gone, and the end of a partition.
_OURS: dict[str, Any] = {
    "auto.offset.reset": "error",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
}
_DEFAULTS: dict[str, Any] = {
    "group.id": "esker",  # librdkafka requires one; no group is joined
    "client.id": "esker",
    "allow.auto.create.topics": False,
    "fetch.wait.max.ms": 20,  # the requested offsets exist already, so waiting for more would only delay the next range
    "queued.max.messages.kbytes": 16 << 10,  # limit of memory for messages that are fetched ahead
    "log_level": 0,  # everything important arrives as an error
}


_SLICE_S = 0.5  # librdkafka ignores signals while it waits: after this time Python checks whether to stop
_FIRST_CALL_S = 2.0  # a question is sent again after this time, then after twice this time, and so on
_NOTHING: Positions = MappingProxyType({})


class Client:
    """A connection to the brokers of a source. Once ``stop`` is set, it no longer waits for a broker."""

    def __init__(self, source: Source, *, stop: Event | None = None) -> None:
        self.source = source
        self._stop = stop or Event()
        self._last_error = ""
        self._lacking: set[Partition] = set()  # what was waited for in vain is not waited for again
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
        """Close the connection."""
        self.consumer.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def heard(self, error: KafkaError) -> None:
        """Keep an error that librdkafka reports, for the message of a later failure."""
        self._last_error = error.str()

    def cluster_id(self) -> str:
        """Return the id of the cluster.

        Offsets of one cluster mean nothing in another. Raises ``StorageFailed`` if no broker answers.
        """
        with self._asking("the cluster"):
            found = self._metadata()
        return str(found.cluster_id or self.source.servers)

    def partitions(self, read: Positions = _NOTHING) -> list[Partition]:
        """Return the subscribed partitions that exist now.

        If a partition in ``read`` is missing, the broker is asked again until the time to wait is over: a broker that
        starts may not know all of its topics yet. Raises ``InvalidInput`` if a topic does not exist, and
        ``StorageFailed`` if no broker answers.
        """
        from confluent_kafka import KafkaError

        with self._asking("the topics"):
            topics = self._settled_topics(read)
        for name in self._named():
            known = topics.get(name)
            if known is None or (known.error and known.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART):
                raise InvalidInput(
                    f"cannot read topic {name}: {self.source.servers} has no such topic; check the name, or create "
                    "the topic",
                    topic=name,
                )
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
        """Return what the brokers report about themselves.

        The wait is cut into slices, so that Ctrl-C works during it.
        """
        from confluent_kafka import KafkaException

        end = time.monotonic() + self.source.timeout_s
        while True:
            left = end - time.monotonic()
            try:
                return self.consumer.list_topics(timeout=max(0.01, min(_SLICE_S, left)))
            except KafkaException:
                if left <= _SLICE_S or self._stop.is_set():
                    raise

    def _settled_topics(self, read: Positions) -> Any:
        """Return the topics, once each that is subscribed has its leader and its partitions, or the time is over."""
        known = {place for place in read if self._is_subscribed(place.topic)}
        for _ in self._tries():
            topics = self._metadata().topics
            missing = {place for place in known if not _has(topics, place)}
            self._lacking -= known - missing
            if missing <= self._lacking and not any(_waits(topics, name) for name in self._named()):
                return topics
        if self._stop.is_set() and missing:
            raise self.gone("the topics", "the reader was stopped before the broker reported all partitions")
        self._lacking |= missing
        return topics

    def _is_subscribed(self, topic: str) -> bool:
        match self.source.subscription:
            case Pattern(text):
                return re.fullmatch(text, topic) is not None
            case _:
                return topic in self._named()

    def _tries(self) -> Iterator[float]:
        """Try, and again after a short time, until the time to wait is over. Yields how long a try may take."""
        end = time.monotonic() + self.source.timeout_s
        longest = _FIRST_CALL_S
        yield min(longest, self.source.timeout_s)
        while (left := end - time.monotonic()) > 0 and not self._stop.is_set():
            time.sleep(min(_SLICE_S, left))
            longest *= 2
            yield max(_SLICE_S, min(longest, left))

    def _named(self) -> list[str]:
        match self.source.subscription:
            case Topics(names):
                return list(names)
            case Pattern():
                return []
            case Assigned(places):
                return sorted({place.topic for place in places})

    def bounds(self, read: Positions = _NOTHING) -> dict[Partition, Bounds]:
        """Return the offsets that the broker has, for each subscribed partition.

        ``read`` has the positions that the caller has reached. If a partition is missing or has fewer offsets, the
        broker is asked again until the time to wait is over. Only then it is what the broker has.
        """
        return {place: self.bounds_of(place, at_least=read.get(place, 0)) for place in self.partitions(read)}

    def bounds_of(self, place: Partition, *, at_least: int = 0) -> Bounds:
        """Return the offsets that the broker has for a partition. Messages of open transactions are not included.

        A broker that starts again, that chooses a leader, or that has fewer offsets than ``at_least``, is asked again.
        Raises ``StorageFailed`` if it does not answer in time.
        """
        from confluent_kafka import KafkaException, TopicPartition

        asked = TopicPartition(place.topic, place.number)
        found: tuple[int, int] | None = None
        failed: KafkaException | None = None
        for limit_s in self._tries():
            try:
                found, failed = self.consumer.get_watermark_offsets(asked, timeout=limit_s), None
            except KafkaException as error:
                failed = error
                if not passes(error.args[0]):
                    break
                continue
            if found is not None and found[1] >= at_least:
                self._lacking.discard(place)
                return Bounds(*found)
            if found is not None and place in self._lacking:
                return Bounds(*found)
        if failed is not None:
            with self._asking(str(place)):
                raise failed
        if found is None or self._stop.is_set():
            raise self.gone(str(place), "the broker did not report its offsets in time")
        self._lacking.add(place)
        return Bounds(*found)

    @contextmanager
    def _asking(self, what: str) -> Iterator[None]:
        from confluent_kafka import KafkaException

        try:
            yield
        except KafkaException as error:
            self.consumer.poll(0)  # delivers errors that happened meanwhile to error_cb
            raise self.gone(what, _text(error)) from error

    def gone(self, what: str, reason: str) -> StorageFailed:
        """Return the error for a broker that does not answer or denies access. A later attempt may succeed."""
        heard = f" ({self._last_error})" if self._last_error and self._last_error not in reason else ""
        return StorageFailed(
            f"cannot read {what} from Kafka at {self.source.servers}: {reason}{heard}; check the address, whether "
            "the broker runs, and whether this client may read",
            retryable=True,
            operation="read",
            reason=reason,
            servers=self.source.servers,
        )


def passes(error: KafkaError) -> bool:
    """Return whether an error ends by itself: a broker starts, or a partition gets its leader.

    ``KafkaError.retriable`` is set for errors of transactions only.
    """
    from confluent_kafka import KafkaError as Codes

    return error.code() in (
        Codes._TRANSPORT,
        Codes._ALL_BROKERS_DOWN,
        Codes._RESOLVE,  # the name of a broker that is started again may be unknown for a moment
        Codes._TIMED_OUT,
        Codes._UNKNOWN_PARTITION,  # also: no broker is known that leads it
        Codes._UNKNOWN_TOPIC,
        Codes._DESTROY_BROKER,  # the broker that was asked is no longer in the metadata
        Codes._NODE_UPDATE,
        Codes.UNKNOWN_TOPIC_OR_PART,  # a broker that starts does not know all of its topics yet
        Codes.UNKNOWN_TOPIC_ID,
        Codes.LEADER_NOT_AVAILABLE,
        Codes.NOT_LEADER_FOR_PARTITION,
        Codes.REPLICA_NOT_AVAILABLE,
        Codes.BROKER_NOT_AVAILABLE,
        Codes.OFFSET_NOT_AVAILABLE,  # a new leader does not know yet how far the others are
        Codes.UNKNOWN_LEADER_EPOCH,
        Codes.FENCED_LEADER_EPOCH,
        Codes.REQUEST_TIMED_OUT,
        Codes.NETWORK_EXCEPTION,
        Codes.KAFKA_STORAGE_ERROR,
        Codes.REBOOTSTRAP_REQUIRED,
    )


def _has(topics: Mapping[str, Any], place: Partition) -> bool:
    return place.topic in topics and place.number in topics[place.topic].partitions


def _waits(topics: Mapping[str, Any], name: str) -> bool:
    """Whether a topic has an error that passes. A topic that does not exist is not one."""
    from confluent_kafka import KafkaError as Codes

    error = topics[name].error if name in topics else None
    return error is not None and error.code() != Codes.UNKNOWN_TOPIC_OR_PART and passes(error)


def check_installed() -> None:
    """Raise ``Unsupported`` if the client library is not installed."""
    try:
        import confluent_kafka  # noqa: F401  # whether it can be had
    except ImportError as error:
        raise Unsupported(
            "cannot read from Kafka: confluent-kafka is not installed; pip install 'esker[kafka]'", feature="kafka"
        ) from error


def checked_config(given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of librdkafka, checked.

    Raises ``InvalidInput`` if the broker is missing, or if a setting would break reading by ranges.
    """
    if not given.get(SERVERS):
        raise InvalidInput(
            f"cannot read from Kafka: no broker is named; set {SERVERS}, as in {SERVERS} = host:9092", option=SERVERS
        )
    for name in given:
        if name in _OURS:
            raise InvalidInput(
                (
                    f"cannot set kafka.{name}: Esker sets it, because the reader's own checkpoint keeps the offsets; "
                    "remove it"
                ),
                option=name,
            )
    return dict(given)


def _text(error: Exception) -> str:
    inner = error.args[0] if error.args else error
    return inner.str() if hasattr(inner, "str") else str(inner)
