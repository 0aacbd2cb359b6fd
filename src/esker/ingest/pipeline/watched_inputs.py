"""The inputs of a pipeline: directories with new or longer files, and topics with new offsets."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from esker.ingest.account import Account
from esker.ingest.checkpoint import Checkpoint, Plan
from esker.ingest.files.planner import Planner, room
from esker.ingest.files.source_files import Found, Lookout, oldest_first
from esker.ingest.files.spool_segments import sweep_segments
from esker.ingest.follow import Pace, complete
from esker.ingest.otlp.kafka_feed import KafkaFeed, TopicPlanner
from esker.kafka.client import Client

# ---------------------------------------------------------------- watch
#
# The settings of a pipeline's source.


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """The inputs of a source, and the driver that it plans for. It is an option of the source, as JSON."""

    checkpoint: str
    kind: str
    term: str  # of the driver
    since: int  # the first batch that the driver may finish
    paths: tuple[str, ...] = ()
    topics: bytes | None = None  # instead of paths: a pickled Source
    pattern: str = "*"
    most_files: int  # of a batch
    most_bytes: int
    most_rows: int | None  # about so many, if that is less
    most_offsets: int | None = None
    tasks: int  # of a batch, at most
    settle_s: float
    half_line_s: float
    keep_segments: bool


class Look(Protocol):
    """Directories or topics as a source of batches."""

    def plan(self) -> Plan | None:
        """Record the next batch and return it; None if nothing is new. Raises ``StorageFailed`` if the look fails."""
        ...

    def stop_at_now(self) -> None:
        """Leave out input that arrives later."""
        ...

    def waiting(self) -> dict[str, Any]:
        """The input that the last look left for later batches."""
        ...

    def shares(self, plan: Plan) -> int:
        """The number of tasks for a batch."""
        ...

    def close(self) -> None:
        """Close the input."""
        ...


# ---------------------------------------------------------------- files
#
# Directories: files with new content.


_NAMED = 20  # files that cannot be read, in the progress of a batch
_FILES_SHARE = 64 << 20  # of bytes, for one task


class Files:
    """Looks for new files in directories."""

    def __init__(self, watch: Watch, checkpoint: Checkpoint) -> None:
        self._watch = watch
        self._checkpoint = checkpoint
        self._account = Account()
        self._planner = Planner(
            checkpoint, self._account, most_bytes=self._room, most_files=watch.most_files, since=watch.since
        )
        self._lookout = Lookout(map(Path, watch.paths), pattern=watch.pattern)
        self._pace = Pace(settle_s=watch.settle_s, half_line_s=watch.half_line_s)
        self._only: list[Found] | None = None  # the files of a query that ends with the input that exists now
        self._waiting = (0, 0)
        self._known_told = 0

    def plan(self) -> Plan | None:
        """A batch of new files."""
        known, others = self._planner.sorted_out(self._find() if self._only is None else self._only)
        found = others if self._only is not None else complete(others, self._pace, self._planner.is_cut)
        plan = next(self._planner.plans(found, known=known), None)
        self._tell_known()
        if not self._watch.keep_segments:
            sweep_segments(self._checkpoint, found)
        self._waiting = self._planner.waiting(found)
        return plan

    def stop_at_now(self) -> None:
        """Leave out files that arrive later."""
        self._only = oldest_first(self._find())

    def waiting(self) -> dict[str, Any]:
        """Files that are in no batch, and files that cannot be read."""
        files, size = self._waiting
        told: dict[str, Any] = {"waiting_files": files, "waiting_bytes": size}
        return told | {"refused": dict(self._account.refused[-_NAMED:])} if self._account.refused else told

    def shares(self, plan: Plan) -> int:
        """About one task for each file, and more for a large file."""
        return sum(1 + file.new_bytes // _FILES_SHARE for file in plan.files)

    def close(self) -> None:
        """Nothing is open."""

    def _room(self) -> int:
        """How many bytes of files the next batch may have, by the sizes of earlier batches."""
        return room(self._watch.most_bytes, self._watch.most_rows, lambda: self._checkpoint.read_lately())

    def _tell_known(self) -> None:
        """Record the number of known files for the driver, which has the account."""
        if self._account.known_files > self._known_told:
            self._checkpoint.note_known(self._account.known_files)
            self._known_told = self._account.known_files

    def _find(self) -> list[Found]:
        return self._lookout.find(self._planner.pass_over)


# ---------------------------------------------------------------- topics
#
# Topics: ranges of offsets that are in no batch.


_TOPICS_SHARE = 16 << 20  # of bytes, about, for one task


class Topics:
    """Asks the broker for new offsets."""

    def __init__(self, watch: Watch, checkpoint: Checkpoint) -> None:
        assert watch.topics is not None  # this class is for topics
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
        """A batch of the messages since the batch before it."""
        return self._planner.plan()

    def stop_at_now(self) -> None:
        """Leave out messages that arrive later."""
        self._feed.stop_at_now()

    def waiting(self) -> dict[str, Any]:
        """Offsets that are in no batch."""
        return {"waiting_offsets": self._feed.waiting}

    def shares(self, plan: Plan) -> int:
        """By the approximate number of bytes."""
        return shares_of(plan)

    def close(self) -> None:
        """Close the connection to the broker."""
        self._client.close()


def shares_of(plan: Plan) -> int:
    """The number of tasks for a batch; at least one."""
    return 1 + plan.about_bytes // _TOPICS_SHARE
