"""Telemetry out of Kafka: each message is one Export request, decoded here with no JVM."""

from __future__ import annotations

from esker.ingest.checkpoint import Plan
from esker.ingest.job import Staged
from esker.ingest.otlp_job import resent_in, staged
from esker.ingest.sources import SourceFile
from esker.ingest.telemetry_tables import TelemetryTables
from esker.kafka.client import Client
from esker.otlp.decode import Options, decode
from esker.otlp.topics import TopicRequests, check_cluster


class KafkaJob:
    """Reads and decodes the ranges of a plan. A message without a value is nothing; it has no request to lose."""

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
        """A topic keeps its messages for as long as its owner likes."""
        return ()
