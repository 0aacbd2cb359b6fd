"""Writes rows into data files for the data source, inside a Spark task. ``ship`` sends it to the executors."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from esker.spark.workers.arrow_write_worker import Order, carry_out

QUERY = "sql.streaming.queryId"  # the property in which Spark gives a task the id of its query


def run(order: bytes | None, batches: Iterable[pa.RecordBatch]) -> tuple[str, str | None, bytes] | None:
    """Return the operation, the id of the streaming query or None, and the files. Returns None if there is no order."""
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None  # a task always has a context
    if order is None:
        for _ in batches:
            pass
        return None
    told: Order = pickle.loads(order)
    report = carry_out(told, batches, task=task.partitionId(), attempt=task.taskAttemptId())
    return told.operation_id, task.getLocalProperty(QUERY), as_bytes(report)


def as_bytes(report: pa.RecordBatch) -> bytes:
    """Return a report as bytes, which a process without Esker can pass on."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, report.schema) as writer:
        writer.write_batch(report)
    return sink.getvalue().to_pybytes()


def from_bytes(data: bytes) -> Any:
    """Return the report in the bytes, as an Arrow table."""
    return pa.ipc.open_stream(data).read_all()
