"""The requests of Kafka topics: each message is one Export request. Used in this process and in Spark's workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from esker.errors import InvalidInput
from esker.kafka.client import Client
from esker.kafka.read_range import RangeReader
from esker.kafka.subscription import OffsetRange
from esker.otlp.record_counts import Counts
from esker.otlp.source.read_requests import place_of, whole_request
from esker.otlp.source.requests import Request

SKIPPED = "skipped_offsets"  # gone when they were to be read
UNUSED = "unused_offsets"  # without a message: marks of transactions, aborted or compacted messages
EMPTY = "empty_messages"  # without a value: nothing to decode


class TopicRequests:
    """Reads ranges of offsets. ``counts`` has the reason for every offset without a request. It is complete when all
    requests are read: then its numbers and the requests together are all offsets of the ranges."""

    def __init__(self, client: Client, *, passed: Iterable[OffsetRange] = ()) -> None:
        self._client = client
        self.counts = Counts(offsets=offsets_passed(passed))

    def of(self, ranges: Iterable[OffsetRange]) -> Iterator[Request]:
        """The requests of the ranges, one range after the other."""
        for one in ranges:
            yield from self._of_range(one)

    def _of_range(self, wanted: OffsetRange) -> Iterator[Request]:
        reader = RangeReader(self._client, wanted)
        source = place_of(wanted.topic, wanted.partition)
        for group in reader:
            for message in group:
                value = message.value()
                data = value.encode() if isinstance(value, str) else value
                self.counts.bytes += len(data or b"")
                if data:
                    yield whole_request(data, source=source, offset=message.offset())
                else:
                    self.counts.offsets[EMPTY] += 1
        self.counts.offsets.update({SKIPPED: reader.skipped, UNUSED: reader.unused})


def offsets_passed(ranges: Iterable[OffsetRange]) -> Counter[str]:
    """Offsets that a plan skips because they are gone."""
    return Counter({SKIPPED: sum(one.end - one.start for one in ranges)})


def check_cluster(client: Client, planned: str | None, what: str) -> None:
    """Raise ``InvalidInput`` if a plan for one cluster would be read from another."""
    found = client.cluster_id()
    if planned != found:
        raise InvalidInput(
            f"cannot finish {what}: it is for the Kafka cluster {planned}, but {client.source.servers} is {found}",
            cluster=found,
        )
