"""Telemetry of topics on Spark: each task reads its ranges of offsets from the broker, and decodes them."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from esker.ingest.checkpoint import Plan
from esker.ingest.files.source_files import SourceFile
from esker.ingest.job import Staged
from esker.ingest.pipeline.watched_inputs import shares_of
from esker.ingest.receipts import BatchCounts
from esker.ingest.spark.otlp_topics_worker import TopicsOrder
from esker.ingest.spark.telemetry_job import SparkOtlpJob, run_shares
from esker.kafka.subscription import OffsetRange, Source
from esker.otlp.record_counts import Counts
from esker.otlp.source.topic_requests import offsets_passed
from esker.spark.workers.worker_failures import naming_refusals

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WORKER = "esker.ingest.spark.otlp_topics_worker"


class SparkTopicsJob:
    """Decodes the ranges of a plan by Spark's workers. Executors need pyarrow and confluent-kafka, and no Esker, and
    reach the broker; the driver does not ask it."""

    def __init__(
        self, source: Source, job: SparkOtlpJob, tasks: Callable[[int], DataFrame], *, most_shares: int
    ) -> None:
        self._source = source
        self._job = job
        self._tasks = tasks
        self._most_shares = most_shares

    def stage(self, plan: Plan, batch_id: str) -> Staged:
        """Run one job that reads and decodes the ranges and writes their rows."""
        if not plan.ranges:
            return Staged(deliveries=(), counts=BatchCounts())
        shares = tuple(even_shares(plan.ranges, min(shares_of(plan), self._most_shares)))

        def run(order: Any) -> list[dict[str, Any]]:
            whole = TopicsOrder(decode=order, source=self._source, cluster=plan.cluster, shares=shares)
            with naming_refusals():
                return run_shares(
                    self._tasks(len(shares)), _WORKER, pickle.dumps(whole), shares=len(shares), batch_id=batch_id
                )

        counted = Counts(offsets=offsets_passed(plan.passed))
        return self._job.stage_by(run, batch_id, at_us=plan.planned_at_us, counted=counted)

    def release(self, plan: Plan) -> tuple[SourceFile, ...]:
        """A topic keeps its messages for as long as its owner likes."""
        return ()


def even_shares(ranges: Sequence[OffsetRange], most: int) -> Iterator[tuple[OffsetRange, ...]]:
    """Ranges in at most so many shares, each of about as many offsets; a range may be cut between two shares."""
    total = sum(one.end - one.start for one in ranges)
    size = max(1, -(-total // most))
    share: list[OffsetRange] = []
    left = size
    for one in ranges:
        at = one.start
        while at < one.end:
            end = min(one.end, at + left)
            share.append(replace(one, start=at, end=end))
            left -= end - at
            at = end
            if not left:
                yield tuple(share)
                share, left = [], size
    if share:
        yield tuple(share)
