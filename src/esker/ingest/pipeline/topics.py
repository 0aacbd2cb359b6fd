"""Topics as a pipeline's source: ranges of offsets that no batch has."""

from __future__ import annotations

import pickle
from typing import Any

from esker.ingest.checkpoint import Checkpoint, Plan
from esker.ingest.kafka_feed import KafkaFeed, TopicPlanner
from esker.ingest.pipeline.watch import Watch
from esker.kafka.client import Client

_SHARE = 16 << 20  # of bytes, about, for one task


class Topics:
    """Asks the broker what is new."""

    def __init__(self, watch: Watch, checkpoint: Checkpoint) -> None:
        assert watch.topics is not None  # what it is made for
        self._client = Client(pickle.loads(watch.topics))
        self._feed = KafkaFeed(self._client, checkpoint)
        self._planner = TopicPlanner(
            self._feed,
            checkpoint,
            most_bytes=watch.most_bytes,
            most_rows=watch.most_rows,
            most_offsets=watch.most_offsets,
        )

    def plan(self) -> Plan | None:
        """A batch of what came since the one before it."""
        return self._planner.plan()

    def stop_at_now(self) -> None:
        """Leave out messages that come later."""
        self._feed.stop_at_now()

    def waiting(self) -> dict[str, Any]:
        """Offsets that no batch has."""
        return {"waiting_offsets": self._feed.waiting}

    def shares(self, plan: Plan) -> int:
        """By about how many bytes there are."""
        return shares_of(plan)

    def close(self) -> None:
        """Let go of the broker."""
        self._client.close()


def shares_of(plan: Plan) -> int:
    """How many tasks a batch is worth; at least one."""
    return 1 + plan.about_bytes // _SHARE
