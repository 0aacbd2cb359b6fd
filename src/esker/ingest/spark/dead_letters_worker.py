"""Decodes dead letters again into data files of every table, inside a Spark task. Sent to executors by ``ship``."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator

import pyarrow as pa

from esker.ingest.spark.otlp_files_worker import DecodeOrder, write_requests
from esker.otlp.decoding.dead_letters import request_of
from esker.otlp.protocol.ship_extension import install


def run(order: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decode the letters of a task, and report the files only when all are written."""
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None  # as in every task
    told: DecodeOrder = pickle.loads(order)
    install(told.extension)
    requests = (request_of(row) for batch in batches for row in batch.to_pylist())
    yield write_requests(told, requests, task.partitionId(), attempt=task.taskAttemptId())
