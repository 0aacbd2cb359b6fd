"""Reads a range of a topic's offsets: first as messages, then as Arrow rows with the columns of Spark's Kafka
source."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from esker.kafka.client import Client, passes
from esker.kafka.progress import Loss
from esker.kafka.subscription import OffsetRange

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message


_BYTES = 16 << 20  # limit for the keys and values in one batch
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
    ]
)
WITH_HEADERS = SCHEMA.append(pa.field("headers", _HEADERS))


def batches_of(groups: Iterable[list[Message]], *, headers: bool) -> Iterator[pa.RecordBatch]:
    """Yield the messages as Arrow batches. A batch exceeds its limit of 16 MiB by at most one message."""
    waiting: list[Message] = []
    size = 0
    for group in groups:
        for message in group:
            waiting.append(message)
            size += len(message.value() or b"") + len(message.key() or b"") + 64
            if size >= _BYTES:
                yield _batch(waiting, headers=headers)
                waiting, size = [], 0
    if waiting:
        yield _batch(waiting, headers=headers)


def _batch(messages: list[Message], *, headers: bool) -> pa.RecordBatch:
    times = [message.timestamp() for message in messages]
    columns = [
        pa.array([_bytes(message.key()) for message in messages], pa.binary()),
        pa.array([_bytes(message.value()) for message in messages], pa.binary()),
        pa.array([message.topic() for message in messages], pa.string()),
        pa.array([message.partition() for message in messages], pa.int32()),
        pa.array([message.offset() for message in messages], pa.int64()),
        pa.array([ms * 1000 if kind else None for kind, ms in times], pa.timestamp("us", "UTC")),
        pa.array(
            [kind - 1 for kind, _ in times], pa.int32()
        ),  # librdkafka counts from 0 for no timestamp, Kafka from -1
    ]
    if not headers:
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    listed = [_headers(message) for message in messages]
    return pa.RecordBatch.from_arrays([*columns, pa.array(listed, _HEADERS)], schema=WITH_HEADERS)


def _headers(message: Message) -> list[dict[str, str | bytes | None]] | None:
    found: Any = message.headers()
    return [{"key": key, "value": _bytes(value)} for key, value in found] if found else None


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


_AT_ONCE = 1000
_POLL_S = 0.5


class RangeReader:
    """Reads the messages of one range, in order. Iterate over it once.

    ``skipped`` counts the offsets that were lost, if the source allows that. ``unused`` counts the offsets that have no
    message. Both are complete when all messages are read.
    """

    def __init__(self, client: Client, wanted: OffsetRange) -> None:
        self._client = client
        self._wanted = wanted
        self._at = wanted.start
        self._messages = 0
        self.skipped = 0

    @property
    def unused(self) -> int:
        """The number of offsets without a message: marks of transactions, aborted messages, compacted messages."""
        return min(self._at, self._wanted.end) - self._wanted.start - self._messages - self.skipped

    def __iter__(self) -> Iterator[list[Message]]:
        """Yield the messages, some at a time.

        Raises ``InvalidInput`` if messages are lost, ``StorageFailed`` if none arrive.
        """
        self._seek()
        timeout_s = self._client.source.timeout_s
        patience = time.monotonic() + timeout_s
        while self._at < self._wanted.end:
            before = self._at
            found = self._taken(self._client.consumer.consume(min(_AT_ONCE, self._wanted.end - before), _POLL_S))
            if found:
                yield found
            if self._at > before:
                patience = time.monotonic() + timeout_s
            elif time.monotonic() > patience:
                reason = (
                    f"nothing arrived after offset {self._at} for {timeout_s:.0f} s, and offset {self._wanted.end} is "
                    "not reached"
                )
                raise self._client.gone(str(self._wanted.place), reason)
        self._client.consumer.unassign()

    def _seek(self) -> None:
        from confluent_kafka import TopicPartition

        self._client.consumer.assign([TopicPartition(self._wanted.topic, self._wanted.partition, self._at)])

    def _taken(self, messages: list[Message]) -> list[Message]:
        """Return the messages that are in the range.

        An event that is not a message moves the position or ends the range.
        """
        kept: list[Message] = []
        for message in messages:
            offset = message.offset() or 0
            error = message.error()
            if error is not None:
                self._heed(error, offset)
            elif offset >= self._wanted.end:
                self._at = self._wanted.end
            elif offset >= self._at:
                kept.append(message)
                self._messages += 1
                self._at = offset + 1
            if self._at >= self._wanted.end:
                break
        return kept

    def _heed(self, error: KafkaError, offset: int) -> None:
        from confluent_kafka import KafkaError

        match error.code():
            case KafkaError._PARTITION_EOF:  # the last offsets may be marks of transactions, or compacted
                self._at = max(self._at, offset)
                if self._at < self._wanted.end:
                    self._look_for_loss()
            case KafkaError._AUTO_OFFSET_RESET | KafkaError.OFFSET_OUT_OF_RANGE:
                self._look_for_loss()
            case _ if passes(error) or error.retriable():
                self._client.heard(error)  # librdkafka tries again by itself, and __iter__ limits the wait
            case _:
                raise self._client.gone(str(self._wanted.place), error.str())

    def _look_for_loss(self) -> None:
        """Check whether the next offsets are gone. If so, skip them or raise, as the source says."""
        end = self._wanted.end
        low, high = self._client.bounds_of(self._wanted.place, at_least=end)
        if low <= self._at and end <= high:
            self._seek()  # the offsets exist after all
            return
        to = min(low, end) if self._at < low else end
        gone = f"the broker has only offsets {low} to {high}, so {to - self._at} of a planned batch are gone"
        loss = Loss(place=self._wanted.place, offset=self._at, count=to - self._at, reason=gone)
        if self._client.source.fail_on_loss:
            raise loss.error()
        self.skipped += to - self._at
        self._at = to
        if self._at < end:
            self._seek()
