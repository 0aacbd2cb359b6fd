"""Telemetry out of Kafka: each message is one Export request, decoded here with no JVM."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from esker.errors import InvalidInput
from esker.ingest.checkpoint import Plan
from esker.ingest.job import Staged
from esker.ingest.otlp_job import resent_in, staged
from esker.ingest.sources import SourceFile
from esker.ingest.telemetry_tables import TelemetryTables
from esker.kafka.client import Client
from esker.kafka.ranges import OffsetRange
from esker.kafka.read_range import RangeReader
from esker.otlp.decode import Options, decode
from esker.otlp.requests import Request
from esker.otlp.whole import place_of, whole_request

SKIPPED = "skipped_offsets"
_FIRST_GUESS = 16 << 10  # bytes of a message, before any was seen


class KafkaJob:
    """Reads and decodes the ranges of a plan. A message without a value is nothing; it has no request to lose."""

    def __init__(
        self, client: Client, tables: TelemetryTables, *, options: Options | None = None, dedup: str | None = None
    ) -> None:
        self._client = client
        self._tables = tables
        self._options = options or Options()
        self._dedup = dedup
        self._messages, self._bytes = 1, _FIRST_GUESS
        self._skipped = 0

    def most_offsets(self, batch_bytes: int) -> int:
        """How many offsets make a batch of so many bytes, by what messages were like so far."""
        return max(1, batch_bytes * self._messages // self._bytes)

    def stage(self, plan: Plan, batch_id: str) -> Staged:
        """Decode the messages of the plan, partition after partition."""
        self._check_cluster(plan)
        self._skipped = sum(one.end - one.start for one in plan.passed)
        requests = self._requests(plan)
        parts = decode(requests, batch_id=batch_id, ingested_at_us=plan.planned_at_us, options=self._options)
        made = staged(self._tables, parts, resent_in(self._tables, self._options, self._dedup, batch_id))
        if not self._skipped:
            return made
        oddities = {**made.counts.oddities, SKIPPED: self._skipped}
        return replace(made, counts=replace(made.counts, oddities=oddities))

    def release(self, plan: Plan) -> tuple[SourceFile, ...]:
        """A topic keeps its messages for as long as its owner likes."""
        return ()

    def _requests(self, plan: Plan) -> Iterator[Request]:
        for one in plan.ranges:
            yield from self._of_range(one)

    def _of_range(self, wanted: OffsetRange) -> Iterator[Request]:
        reader = RangeReader(self._client, wanted)
        source = place_of(wanted.topic, wanted.partition)
        for group in reader:
            for message in group:
                value = message.value()
                data = value.encode() if isinstance(value, str) else value
                self._messages += 1
                self._bytes += len(data or b"")
                if data:
                    yield whole_request(data, source=source, offset=message.offset())
        self._skipped += reader.skipped

    def _check_cluster(self, plan: Plan) -> None:
        """A batch that an earlier run planned must be read from where it was planned."""
        found = self._client.cluster_id()
        if plan.cluster != found:
            raise InvalidInput(
                f"cannot finish batch {plan.number}: it is of the Kafka cluster {plan.cluster}, and "
                f"{self._client.source.servers} is {found}",
                cluster=found,
            )
