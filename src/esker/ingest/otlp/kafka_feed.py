"""Topics as a source of batches. Positions are in the checkpoint, and move in the same step that records a plan.

A process without Spark plans and finishes batches; a pipeline plans where Spark asks for offsets, and finishes in the
driver. Both plan here.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from esker.errors import InvalidInput
from esker.ingest.checkpoint import Checkpoint, Plan
from esker.ingest.files.planner import now_us
from esker.kafka.client import Client
from esker.kafka.progress import first_positions, next_step
from esker.kafka.subscription import Bounds, OffsetRange, Partition, Positions, Starting

log = logging.getLogger("esker.ingest")

_BYTES_OF_A_MESSAGE = 16 << 10  # an estimate, until a message was read
_ROWS_OF_A_MESSAGE = 100  # the same: a collector's own batches


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """The offsets that a batch reads, and those that it skips because the broker no longer has them."""

    ranges: tuple[OffsetRange, ...]
    passed: tuple[OffsetRange, ...] = ()

    @property
    def offsets(self) -> int:
        """The number of offsets. There are at most as many messages."""
        return sum(one.end - one.start for one in self.ranges)


class KafkaFeed:
    """Finds the offsets of the next batch. It asks the broker each time, so new partitions are found."""

    def __init__(self, client: Client, checkpoint: Checkpoint) -> None:
        self._client = client
        self._checkpoint = checkpoint
        self._last: Mapping[Partition, int] | None = None
        self._cluster: str | None = None
        self.waiting = 0  # offsets that the last batch left, or that are there and cannot be planned

    @property
    def cluster(self) -> str:
        """The id of the cluster. A checkpoint has offsets of one cluster."""
        if self._cluster is None:
            found = self._client.cluster_id()
            known = self._checkpoint.clusters()
            if known and found not in known:
                raise InvalidInput(
                    f"cannot go on with the checkpoint {self._checkpoint.directory}: its offsets are of the Kafka "
                    f"cluster {known[0]}, and {self._client.source.servers} is {found}; give another checkpoint",
                    cluster=found,
                )
            self._cluster = found
        return self._cluster

    def stop_at_now(self) -> None:
        """Leave messages that are sent from now on to another run."""
        bounds = self._client.bounds(self._checkpoint.positions(self.cluster))
        self._last = {place: found.high for place, found in bounds.items()}

    def next(self, most: int) -> Taken | None:
        """The next offsets, at most ``most``; None if there is nothing new."""
        reached = self._checkpoint.positions(self.cluster)
        bounds = self._bounds(reached)
        positions = self._begun(reached, bounds)
        step = next_step(positions, bounds, most=most, fail_on_loss=self._client.source.fail_on_loss)
        self.waiting = sum(bounds[place].high - end for place, end in step.ends.items())
        if not step.ranges:
            return None
        for loss in step.losses:
            log.warning("%s from offset %d: %s; going on without them", loss.place, loss.offset, loss.reason)
        passed = tuple(
            OffsetRange(
                topic=loss.place.topic, partition=loss.place.number, start=loss.offset, end=step.starts[loss.place]
            )
            for loss in step.losses
            if loss.count is not None
        )
        return Taken(ranges=tuple(step.ranges), passed=passed)

    def _bounds(self, reached: Positions) -> dict[Partition, Bounds]:
        bounds = self._client.bounds(reached)
        if self._last is None:
            return bounds
        return {
            place: Bounds(found.low, max(found.low, min(found.high, self._last[place])))
            for place, found in bounds.items()
            if place in self._last
        }

    def _begun(self, reached: Positions, bounds: Mapping[Partition, Bounds]) -> dict[Partition, int]:
        """Where each partition stands. Where a topic begins is written down before anything of it is read: what is
        the latest now is not the latest later."""
        topics = {place.topic for place in bounds}
        known = {place: at for place, at in reached.items() if place.topic in topics}
        new = {place: found for place, found in bounds.items() if place.topic not in {one.topic for one in known}}
        if new:
            begins = first_positions(_within(self._client.source.starting, new), new)
            self._checkpoint.begin_topics(self.cluster, begins)
            known |= begins
        return known


class TopicPlanner:
    """Plans batches of topics, each of about the requested size."""

    def __init__(
        self,
        feed: KafkaFeed,
        checkpoint: Checkpoint,
        *,
        most_bytes: int,
        most_rows: int | None = None,
        most_offsets: int | None = None,
    ) -> None:
        self._feed = feed
        self._checkpoint = checkpoint
        self._most_bytes = most_bytes
        self._most_rows = most_rows
        self._most_offsets = most_offsets
        self.is_full = False  # whether the last batch left something for the next

    def plan(self) -> Plan | None:
        """Record the next batch on disk and return it; None if there is nothing new."""
        offsets, size, records = self._checkpoint.read_of_topics()
        bytes_each = size / offsets if offsets else float(_BYTES_OF_A_MESSAGE)
        rows_each = max(records, 1) / offsets if offsets else float(_ROWS_OF_A_MESSAGE)
        most = max(1, int(self._most_bytes / bytes_each))
        if self._most_rows is not None:
            most = min(most, max(1, int(self._most_rows / rows_each)))
        if self._most_offsets is not None:
            most = min(most, self._most_offsets)
        taken = self._feed.next(most)
        if taken is None:
            return None
        self.is_full = taken.offsets >= most
        return self._checkpoint.plan_ranges(
            self._feed.cluster,
            taken.ranges,
            at_us=now_us(),
            passed=taken.passed,
            about_bytes=int(taken.offsets * bytes_each),
        )


def _within(starting: Starting, bounds: Mapping[Partition, Bounds]) -> Starting:
    """The positions that belong to the topics of this run."""
    if isinstance(starting, str):
        return starting
    topics = {place.topic for place in bounds}
    return {place: at for place, at in starting.items() if place.topic in topics}
