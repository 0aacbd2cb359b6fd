"""Reads files of rows and writes data files of the table, inside a Spark task. Sent to executors by ``ship``."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from esker.arrow.arrow_types import to_arrow_schema
from esker.arrow.input.fit_data import fit
from esker.arrow.write.arrow_writer import Limits
from esker.arrow.write.data_writer import DataWriter
from esker.arrow.write.partition_and_sort_rows import partitioner
from esker.ingest.read_row_files import Groups, Reading, Rows, Unreadable, judging_rows
from esker.ingest.spark.otlp_files_worker import TableOrder, task_attempt
from esker.ports.storage import Storage
from esker.spark.write.written_files import SCHEMA, rows_of
from esker.tree.data_file import DataFile

DDL = "source int, read bigint, files binary, refusal string"
REPORT = pa.schema([("source", pa.int32()), ("read", pa.int64()), ("files", pa.binary()), ("refusal", pa.string())])


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A file of the batch, or some row groups of one."""

    source: int  # its place among the files of the batch
    path: str
    groups: Groups | None = None  # None: all of it


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsOrder:
    """The order for all tasks. With n tasks, a task takes its own share and every n-th share after it."""

    shares: tuple[tuple[Piece, ...], ...]
    table: TableOrder
    storage: Storage
    reading: Reading
    operation_id: str


def run(order: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the shares of the given tasks. Returns one row for each piece, when it is written or refused."""
    told: RowsOrder = pickle.loads(order)
    for batch in batches:
        for first, tasks in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            for number in range(first, len(told.shares), tasks):
                for at, piece in enumerate(told.shares[number]):
                    yield carry_out(told, piece, task=(number, at), attempt=task_attempt())


def carry_out(order: RowsOrder, piece: Piece, *, task: tuple[int, int], attempt: int) -> pa.RecordBatch:
    """Write one piece. An error about its file is reported, not raised, because Spark would run the task again."""
    table = order.table
    number, at = task
    writer = DataWriter(
        order.storage,
        table.layout,
        partitioner(table.layout.schema, table.spec),
        table.locations,
        name=(attempt, f"{order.operation_id}-f{at}"),
        limits=Limits(),
        task=number,
    )
    try:
        with judging_rows():
            known = to_arrow_schema(table.layout.schema.fields)
            rows = Rows(Path(piece.path), order.reading, known, piece.groups)
            files = list(writer.write(fit(table.layout.schema, rows.reader())))
    except Unreadable as refusal:
        return _report(source=piece.source, refusal=str(refusal))
    return _report(source=piece.source, read=rows.count, files=_described(order, files))


def _described(order: RowsOrder, files: list[DataFile]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as stream:
        stream.write_batch(rows_of(files, order.table.partition_types))
    described: bytes = sink.getvalue().to_pybytes()
    return described


def _report(**row: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([row], schema=REPORT)
