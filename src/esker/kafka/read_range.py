"""The messages of a range: all of them, in order, and the end of it told even where the last offsets have none."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from esker.kafka.client import Client
from esker.kafka.progress import Loss
from esker.kafka.ranges import OffsetRange

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

_AT_ONCE = 1000
_POLL_S = 0.5


class RangeReader:
    """Reads one range. ``skipped`` counts offsets that were gone, where the source may pass them over; ``unused``
    those that never had a message for a reader. Both are complete when all messages are read."""

    def __init__(self, client: Client, wanted: OffsetRange) -> None:
        self._client = client
        self._wanted = wanted
        self._at = wanted.start
        self._messages = 0
        self.skipped = 0

    @property
    def unused(self) -> int:
        """Offsets without a message: marks of transactions, messages of aborted ones, those that were compacted."""
        return min(self._at, self._wanted.end) - self._wanted.start - self._messages - self.skipped

    def __iter__(self) -> Iterator[list[Message]]:
        """Messages, some at a time."""
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
                reason = f"nothing came after offset {self._at} for {timeout_s:.0f} s, and {self._wanted.end} is due"
                raise self._client.gone(str(self._wanted.place), reason)
        self._client.consumer.unassign()

    def _seek(self) -> None:
        from confluent_kafka import TopicPartition

        self._client.consumer.assign([TopicPartition(self._wanted.topic, self._wanted.partition, self._at)])

    def _taken(self, messages: list[Message]) -> list[Message]:
        """Those of the range; what is no message moves the position, or ends the reading."""
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
            case (
                KafkaError._PARTITION_EOF
            ):  # the last offsets of a range may be marks of transactions, or compacted away
                self._at = max(self._at, offset)
                if self._at < self._wanted.end:
                    self._look_for_loss()
            case KafkaError._AUTO_OFFSET_RESET | KafkaError.OFFSET_OUT_OF_RANGE:
                self._look_for_loss()
            case KafkaError._TRANSPORT | KafkaError._ALL_BROKERS_DOWN | KafkaError._TIMED_OUT:
                self._client.heard(error)  # librdkafka tries again by itself, and patience has an end
            case _ if error.retriable():
                self._client.heard(error)
            case _:
                raise self._client.gone(str(self._wanted.place), error.str())

    def _look_for_loss(self) -> None:
        """Whether what is to be read next is gone: pass it over, or say so."""
        low, high = self._client.bounds_of(self._wanted.place)
        end = self._wanted.end
        if low <= self._at and end <= high:
            self._seek()  # it is there after all
            return
        to = min(low, end) if self._at < low else end
        gone = f"the broker has offsets {low} to {high} alone, so {to - self._at} of a planned batch are gone"
        loss = Loss(place=self._wanted.place, offset=self._at, count=to - self._at, reason=gone)
        if self._client.source.fail_on_loss:
            raise loss.error()
        self.skipped += to - self._at
        self._at = to
        if self._at < end:
            self._seek()
