"""Decodes requests of OTLP to rows of a frame, inside a Spark task. Sent to executors by ``ship``."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from esker.ingest.spark.otlp_rows_worker import requests_in
from esker.model.types import Field
from esker.otlp.decoding.decode import Options, decode
from esker.otlp.protocol.ship_extension import Extension, install
from esker.otlp.schemas import DEAD_LETTER
from esker.spark.workers.arrow_read_worker import shown_array

QUERY, EPOCH = "sql.streaming.queryId", "streaming.sql.batchId"  # the local property with the id of the batch
_ROWS = 1 << 14  # in one Arrow batch


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameOrder:
    """The order for all tasks."""

    table: str  # whose rows are wanted
    fields: tuple[Field, ...]
    framed: bool
    options: Options
    name: str  # of the batch, if there is no stream
    extension: Extension | None


def run(order: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of one table. Records of other tables are decoded and left out."""
    from pyspark import TaskContext

    told: FrameOrder = pickle.loads(order)
    install(told.extension)
    parts = decode(
        requests_in(batches, framed=told.framed),
        batch_id=_batch_of(TaskContext.get(), told.name),
        ingested_at_us=time.time_ns() // 1000,
        options=told.options,
    )
    for part in parts:
        rows = part.dead_letters if told.table == DEAD_LETTER.name else part.tables.get(told.table)
        if rows is not None:
            yield from (shown(batch, told.fields) for batch in rows.to_batches(max_chunksize=_ROWS))


def shown(batch: pa.RecordBatch, fields: tuple[Field, ...]) -> pa.RecordBatch:
    """The columns in the form that was announced to Spark."""
    columns = [shown_array(batch.column(field.name), field.type) for field in fields]
    return pa.RecordBatch.from_arrays(columns, names=[field.name for field in fields])


def _batch_of(task: Any, otherwise: str) -> str:
    query, epoch = task.getLocalProperty(QUERY), task.getLocalProperty(EPOCH)
    return f"{query}/{epoch}" if query else otherwise
