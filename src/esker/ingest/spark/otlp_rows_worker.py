"""Decodes rows with OTLP requests into data files of every table, inside a Spark task. Sent to executors by
``ship``."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from io import BytesIO

import pyarrow as pa

from esker.ingest.spark.otlp_files_worker import DecodeOrder, write_requests
from esker.otlp.protocol.ship_extension import install
from esker.otlp.source.read_requests import read_requests, whole_request
from esker.otlp.source.requests import Request


def run(order: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decode the rows of a task, and report the files only when all are written."""
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None  # as in every task
    told: DecodeOrder
    framed: bool
    told, framed = pickle.loads(order)
    install(told.extension)
    requests = requests_in(batches, framed=framed)
    yield write_requests(told, requests, task.partitionId(), attempt=task.taskAttemptId())


def requests_in(batches: Iterable[pa.RecordBatch], *, framed: bool) -> Iterator[Request]:
    """The requests of rows, with the places that the rows name."""
    rows = ((value.as_py(), *place) for batch in batches for value, *place in _columns(batch))
    return requests_of(rows, framed=framed)


def _columns(batch: pa.RecordBatch) -> Iterator[tuple[pa.Scalar, str | None, int | None]]:
    """The columns. A value becomes a Python object only when it is needed, because it may be large."""
    return zip(batch.column(0), batch.column(1).to_pylist(), batch.column(2).to_pylist(), strict=True)


def requests_of(rows: Iterable[tuple[bytes | None, str | None, int | None]], *, framed: bool) -> Iterator[Request]:
    """The requests. Each value is one, or with ``framed`` a whole file of them. A null or empty value has none."""
    for value, source, offset in rows:
        if not value:
            continue
        if framed:
            yield from read_requests(BytesIO(value), source=source or "")
        else:
            yield whole_request(bytes(value), source=source, offset=offset)
