"""What a task does when it writes for the data source: rows into data files. Runs in executors, sent by ``ship``."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from esker.spark.workers.arrow_write_worker import Order, carry_out

QUERY = "sql.streaming.queryId"  # where Spark tells a task which query it works for


def run(order: bytes | None, batches: Iterable[pa.RecordBatch]) -> tuple[str, str | None, bytes] | None:
    """The operation, the query that it is for, if it is a stream's, and the files; without an order nothing."""
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None  # as in every task
    if order is None:
        for _ in batches:
            pass
        return None
    told: Order = pickle.loads(order)
    report = carry_out(told, batches, task=task.partitionId(), attempt=task.taskAttemptId())
    return told.operation_id, task.getLocalProperty(QUERY), as_bytes(report)


def as_bytes(report: pa.RecordBatch) -> bytes:
    """A report in a form that any process can hold without Esker."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, report.schema) as writer:
        writer.write_batch(report)
    return sink.getvalue().to_pybytes()


def from_bytes(data: bytes) -> Any:
    """The report again, as a table."""
    return pa.ipc.open_stream(data).read_all()
