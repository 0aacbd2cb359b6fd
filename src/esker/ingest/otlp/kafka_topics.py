"""Ingests telemetry from Kafka: what is there now, or continuously. Positions are in the ingest's checkpoint.

Each message is one Export request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event

from esker.ingest.account import Account
from esker.ingest.checkpoint import Plan
from esker.ingest.files.source_files import SourceFile
from esker.ingest.follow import Pace, keep_on
from esker.ingest.job import Staged
from esker.ingest.otlp.ingest_otlp import Asked, begun
from esker.ingest.otlp.kafka_feed import KafkaFeed, TopicPlanner
from esker.ingest.otlp.otlp_job import resent_in, staged
from esker.ingest.otlp.telemetry_tables import TelemetryTables
from esker.ingest.run_batches import BATCH_BYTES, Run
from esker.kafka.client import Client, check_installed
from esker.kafka.subscription import Source
from esker.lake import Lake
from esker.otlp.decoding.decode import Options, decode
from esker.otlp.source.topic_requests import TopicRequests, check_cluster

# ---------------------------------------------------------------- kafka job
#
# Each message is one Export request, decoded in this process without a JVM.


class KafkaJob:
    """Reads and decodes the ranges of a plan. A message without a value contains no request, and is only counted."""

    def __init__(
        self, client: Client, tables: TelemetryTables, *, options: Options | None = None, dedup: str | None = None
    ) -> None:
        self._client = client
        self._tables = tables
        self._options = options or Options()
        self._dedup = dedup

    def stage(self, plan: Plan, batch_id: str) -> Staged:
        """Decode the messages of the plan, partition after partition."""
        check_cluster(self._client, plan.cluster, f"batch {plan.number}")
        found = TopicRequests(self._client, passed=plan.passed)
        parts = decode(
            found.of(plan.ranges), batch_id=batch_id, ingested_at_us=plan.planned_at_us, options=self._options
        )
        resent = resent_in(self._tables, self._options, self._dedup, batch_id)
        return staged(self._tables, parts, resent, found.counts)

    def release(self, plan: Plan) -> tuple[SourceFile, ...]:
        """Release nothing: the broker decides how long it keeps messages."""
        return ()


# ---------------------------------------------------------------- kafka
#
# What is there now, or continuously. Positions are in the ingest's checkpoint.


KIND = "otlp of kafka"


def place_of(source: Source) -> str:
    """The default name of the checkpoint's folder. Each set of topics has its own."""
    return "kafka-" + "-".join(sorted(getattr(source.subscription, "names", ("topics",))))


class KafkaTopics:
    """Topics to ingest. Their positions are in the checkpoint, so a run continues where the last one ended."""

    kind = KIND  # of the checkpoint

    def __init__(self, source: Source) -> None:
        check_installed()
        self._source = source

    @property
    def place(self) -> str:
        """The name of the checkpoint's folder."""
        return place_of(self._source)

    def ingest(self, lake: Lake, asked: Asked, *, told: Callable[[Account], None] = lambda account: None) -> Account:
        """Ingest the messages that the topics have now, from the positions in the checkpoint."""
        if asked.engine == "spark":
            from esker.ingest.pipeline.blocking_run import drain_on_spark

            return drain_on_spark(lake, self._source, asked, told=told)
        with Client(self._source) as client, self._begun(client, lake, asked, told) as (run, feed, planner):
            run.settle()
            feed.stop_at_now()
            while (plan := planner.plan()) is not None:
                run.finish(plan)
        return run.account

    def follow(
        self,
        lake: Lake,
        asked: Asked,
        *,
        pace: Pace | None = None,
        stop: Event | None = None,
        told: Callable[[Account], None] = lambda account: None,
        told_trouble: Callable[[str], None] = lambda text: None,
    ) -> Account:
        """Ingest new messages until ``stop`` is set. If the broker is not reachable, the run waits for it."""
        if asked.engine == "spark":
            from esker.ingest.pipeline.blocking_run import follow_on_spark

            return follow_on_spark(
                lake, asked, self._source, pace=pace, stop=stop, told=told, told_trouble=told_trouble
            )
        stop = stop or Event()
        with Client(self._source, stop=stop) as client, self._begun(client, lake, asked, told) as (run, _, planner):

            def look() -> None:
                while (plan := planner.plan()) is not None:
                    run.finish(plan)
                    if not planner.is_full or stop.is_set():
                        return

            keep_on(run, look, pace=pace or Pace(), stop=stop, told=told_trouble)
        return run.account

    @contextmanager
    def _begun(
        self, client: Client, lake: Lake, asked: Asked, told: Callable[[Account], None]
    ) -> Iterator[tuple[Run, KafkaFeed, TopicPlanner]]:
        """A run over the given checkpoint, and the planner of its batches."""
        with begun(
            lake,
            asked,
            told,
            kind=KIND,
            make_job=lambda tables, options: KafkaJob(client, tables, options=options, dedup=asked.dedup),
        ) as (run, _):
            feed = KafkaFeed(client, run.checkpoint)
            planner = TopicPlanner(
                feed, run.checkpoint, most_bytes=asked.batch_bytes or BATCH_BYTES, most_rows=asked.batch_rows
            )
            yield run, feed, planner
