"""Telemetry out of Kafka, as a user asks for it: up to now, or on and on; positions are in the ingest's checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event

from esker.errors import InvalidInput
from esker.ingest.account import Account
from esker.ingest.follow import Pace, keep_on
from esker.ingest.job import Job
from esker.ingest.kafka_feed import KafkaFeed
from esker.ingest.kafka_job import KafkaJob
from esker.ingest.run import BATCH_BYTES, Run
from esker.ingest.telemetry import Asked, begun
from esker.ingest.telemetry_tables import TelemetryTables
from esker.kafka.client import Client
from esker.kafka.source import Source
from esker.lake import Lake
from esker.otlp.decode import Options

KIND = "otlp of kafka"


class KafkaTopics:
    """Topics that are ingested. Their positions are in the checkpoint, so that a run goes on where the last one was."""

    def __init__(self, source: Source) -> None:
        self._source = source

    @property
    def place(self) -> str:
        """The folder that the checkpoint has unless another is named: one for each set of topics."""
        return "kafka-" + "-".join(sorted(getattr(self._source.subscription, "names", ("topics",))))

    def ingest(self, lake: Lake, asked: Asked, *, told: Callable[[Account], None] = lambda account: None) -> Account:
        """Ingest what the topics hold now, from where the checkpoint stands."""
        with Client(self._source) as client:
            pump = _Pump(client, asked)
            with begun(lake, asked, told, kind=KIND, make_job=pump.job_of) as (run, _):
                run.settle()
                feed = KafkaFeed(client, run.checkpoint)
                feed.stop_at_now()
                while pump.pump(run, feed):
                    pass
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
        """Ingest what comes into the topics until ``stop`` is set. A broker that goes away is waited for."""
        stop = stop or Event()
        with Client(self._source, stop=stop) as client:
            pump = _Pump(client, asked)
            with begun(lake, asked, told, kind=KIND, make_job=pump.job_of) as (run, _):
                feed = KafkaFeed(client, run.checkpoint)

                def look() -> None:
                    while pump.pump(run, feed) and pump.is_full and not stop.is_set():
                        pass

                keep_on(run, look, pace=pace or Pace(), stop=stop, told=told_trouble)
            return run.account


class _Pump:
    """From feed to run, one batch at a time, each about as large as was asked for."""

    def __init__(self, client: Client, asked: Asked) -> None:
        if asked.engine == "spark":
            raise InvalidInput(
                "cannot decode messages of Kafka on Spark from here: that is done in a stream of Spark's, by "
                "esker_kafka and esker.otlp.telemetry_sink; leave the engine out"
            )
        self._client = client
        self._dedup = asked.dedup
        self._batch_bytes = asked.batch_bytes or BATCH_BYTES
        self._batch_rows = asked.batch_rows
        self._job: KafkaJob | None = None
        self.is_full = False  # whether the last batch left something for the next

    def job_of(self, tables: TelemetryTables, options: Options) -> Job:
        """The job that reads by this client."""
        self._job = KafkaJob(self._client, tables, options=options, dedup=self._dedup)
        return self._job

    def pump(self, run: Run, feed: KafkaFeed) -> bool:
        """Ingest one batch; False where nothing waits."""
        assert self._job is not None  # a run has one
        most = self._job.most_offsets(self._batch_bytes)
        if self._batch_rows is not None:
            most = min(most, max(1, int(self._batch_rows / _rows_of_a_message(run.account))))
        taken = feed.next(most)
        if taken is None:
            return False
        self.is_full = taken.offsets >= most
        run.take(feed.cluster, taken)
        return True


def _rows_of_a_message(account: Account) -> float:
    """By what was read so far; before that, as a collector's own batches are."""
    return max(account.received, 1) / account.requests if account.requests else 100.0
