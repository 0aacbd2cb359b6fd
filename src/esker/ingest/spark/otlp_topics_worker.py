"""Decodes ranges of offsets of topics into data files of every table, inside a Spark task. Sent to executors by
``ship``."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from esker.ingest.spark.otlp_files_worker import DecodeOrder, write_requests
from esker.kafka.client import Client
from esker.kafka.subscription import OffsetRange, Source
from esker.otlp.protocol.ship_extension import install
from esker.otlp.source.topic_requests import TopicRequests, check_cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsOrder:
    """The order for all tasks. With n tasks, a task takes its own share and every n-th share after it."""

    decode: DecodeOrder
    source: Source
    cluster: str | None
    shares: tuple[tuple[OffsetRange, ...], ...]


def run(order: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read and decode the shares of the given tasks, and report the files of a share only when all are written."""
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None  # as in every task
    told: TopicsOrder = pickle.loads(order)
    install(told.decode.extension)
    numbers = [
        number
        for batch in batches
        for first, tasks in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)
        for number in range(first, len(told.shares), tasks)
    ]
    if not numbers:
        return
    with Client(told.source) as client:
        check_cluster(client, told.cluster, f"batch {told.decode.batch_id.rpartition('/')[2]}")
        for number in numbers:
            found = TopicRequests(client)
            requests = found.of(told.shares[number])
            yield write_requests(told.decode, requests, number, attempt=task.taskAttemptId(), read=found.counts)
