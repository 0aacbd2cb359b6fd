"""Decodes slices of OTLP files into data files of every table, inside a Spark task. Sent to executors by ``ship``."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import pyarrow as pa

from esker.arrow.input.fit_data import fit_batches
from esker.arrow.write.arrow_writer import Limits
from esker.arrow.write.data_writer import DataWriter
from esker.arrow.write.file_locations import DataLocations
from esker.arrow.write.new_data_file import FileLayout
from esker.arrow.write.partition_and_sort_rows import partitioner
from esker.model.partition_and_sort import PartitionSpec
from esker.model.types import Type
from esker.otlp.decoding.decode import Options, decode
from esker.otlp.protocol.ship_extension import Extension, install
from esker.otlp.record_counts import Counts
from esker.otlp.schemas import DEAD_LETTER
from esker.otlp.source.framing import Begin
from esker.otlp.source.read_requests import read_file
from esker.otlp.source.requests import Request
from esker.ports.storage import Storage
from esker.spark.write.written_files import SCHEMA, rows_of
from esker.tree.data_file import DataFile

DDL = "table string, files binary, counts string"
REPORT = pa.schema([("table", pa.string()), ("files", pa.binary()), ("counts", pa.string())])


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """The requests of a file that begin at or after one byte, and before another."""

    path: str
    start: int = 0
    stop: int | None = None
    begin: Begin | None = None  # reading begins here; None: at the start of the file
    end: int | None = None  # the end of the planned part; the file may have grown since
    has_grown: bool = False  # since it ended at ``start``: a record that was cut there is complete now


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOrder:
    """How a table's files are written."""

    layout: FileLayout
    spec: PartitionSpec
    partition_types: tuple[Type, ...]
    locations: DataLocations


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeOrder:
    """The order for all tasks. Slices are in shares. With n tasks, a task takes its own share and every n-th share
    after it."""

    slices: tuple[tuple[Slice, ...], ...]
    tables: dict[str, TableOrder]
    storage: Storage
    options: Options
    batch_id: str
    ingested_at_us: int
    operation_id: str
    extension: Extension | None  # the compiled walk, for executors without Esker


def run(order: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decode the shares of the given tasks, and report the files of a share only when all are written."""
    told: DecodeOrder = pickle.loads(order)
    install(told.extension)
    for batch in batches:
        for first, tasks in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            for number in range(first, len(told.slices), tasks):
                yield carry_out(told, number, attempt=task_attempt())


def task_attempt() -> int:
    """The number of the attempt that runs here. It is unique."""
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None  # as in every task
    return int(task.taskAttemptId())


def carry_out(order: DecodeOrder, number: int, *, attempt: int) -> pa.RecordBatch:
    """Decode and write one set of slices."""
    return write_requests(order, _requests(order.slices[number]), number, attempt=attempt)


def write_requests(
    order: DecodeOrder, requests: Iterable[Request], number: int, *, attempt: int, read: Counts | None = None
) -> pa.RecordBatch:
    """Decode requests and write their rows. Rows of tables that the order leaves out are only counted. Each attempt has
    its own file names. ``read`` has the counts of the source, and is complete after the last request."""
    files: dict[str, list[DataFile]] = {}
    counts = Counts()
    parts = decode(
        requests,
        batch_id=order.batch_id,
        ingested_at_us=order.ingested_at_us,
        options=order.options,
    )
    for at, part in enumerate(parts):
        held = part.tables | ({DEAD_LETTER.name: part.dead_letters} if part.dead_letters.num_rows else {})
        for name, rows in held.items():
            if name not in order.tables:
                continue
            writer = _writer(order, name, number, attempt, at)
            fitted = fit_batches(order.tables[name].layout.schema, rows.to_batches())
            files.setdefault(name, []).extend(writer.write(fitted))
        counts.add(part.counts)
    if read is not None:
        counts.add(read)
    return _report(order, files, counts)


def _writer(order: DecodeOrder, name: str, number: int, attempt: int, part: int) -> DataWriter:
    table = order.tables[name]
    return DataWriter(
        order.storage,
        table.layout,
        partitioner(table.layout.schema, table.spec),
        table.locations,
        name=(attempt, f"{order.operation_id}-p{part}"),
        limits=Limits(),
        task=number,
    )


def _requests(slices: Iterable[Slice]) -> Iterator[Request]:
    for one in slices:
        for request in read_file(Path(one.path), begin=one.begin, end=one.end):
            offset = request.offset or 0
            if one.stop is not None and offset >= one.stop:
                break
            if offset >= one.start or (one.has_grown and request.is_behind(one.start)):
                yield request


def _report(order: DecodeOrder, files: dict[str, list[DataFile]], counts: Counts) -> pa.RecordBatch:
    rows = []
    for name, written in files.items():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, SCHEMA) as stream:
            stream.write_batch(rows_of(written, order.tables[name].partition_types))
        rows.append({"table": name, "files": sink.getvalue().to_pybytes()})
    rows.append({"counts": json.dumps({field.name: getattr(counts, field.name) for field in fields(counts)})})
    return pa.RecordBatch.from_pylist(rows, schema=REPORT)
