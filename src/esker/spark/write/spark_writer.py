"""Writes a Spark DataFrame: the workers write the data files, and the driver receives their names and commits them."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from esker.arrow.input.fit_columns import Leniency, members
from esker.arrow.write.arrow_writer import ArrowWriter, Limits
from esker.arrow.write.file_layout import file_layout
from esker.arrow.write.file_locations import data_locations, file_name
from esker.model.schema import Schema
from esker.ports.engine import WriteRequest
from esker.ports.storage import Storage
from esker.spark.expressions.arrow_frames import gathered
from esker.spark.session.jobs import named_jobs, settings
from esker.spark.workers.arrow_write_worker import Order, carry_out
from esker.spark.workers.ship import map_arrow, shipped
from esker.spark.workers.worker_failures import naming_worker_failures
from esker.spark.write.distribution import batch_settings, laid_out, spread_settings
from esker.spark.write.frame_schema import arrow_schema_of
from esker.spark.write.local_rows import few_rows, local_rows
from esker.spark.write.written_files import DDL, delete, files_of, partition_types, sweep
from esker.tree.data_file import DataFile
from esker.tree.table_metadata import TableMetadata

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WORKER = "esker.spark.workers.arrow_write_worker"


def files_written_by(frame: DataFrame, task: Callable[[Any], Any], order: Order) -> list[DataFile]:
    """Run one job whose tasks write files, and return the files.

    If the job fails, its files are deleted. Raises ``InvalidInput`` if a task refused its rows, and what
    ``naming_worker_failures`` raises.
    """
    try:
        with naming_worker_failures():
            reports = map_arrow(frame, task, DDL).toArrow()
    except BaseException:
        sweep(order.storage, order.locations.base, order.operation_id)
        raise
    files, refusal = files_of(reports, order.partition_types)
    if refusal is not None:
        delete(order.storage, (file.path for file in files))
        raise refusal
    return files


class SparkWriter:
    """Implements ``ports.engine.Writer`` for Spark DataFrames, of a classic session or of Connect."""

    def __init__(self, storage: Storage, *, limits: Limits | None = None) -> None:
        self._storage = storage
        self._limits = limits or Limits()
        self._calls = count()  # one operation may write several times; the names of its files must differ

    def fit(self, metadata: TableMetadata, schema: Schema, data: Any) -> DataFrame:
        """Return the frame if its columns fit the table's. Raises ``InvalidInput`` otherwise. No job runs for this."""
        file_layout(metadata, schema)
        members(schema.fields, list(arrow_schema_of(data.schema)), (), Leniency(whole_structs=True))
        return data

    def write(self, request: WriteRequest) -> Iterator[DataFile]:
        """Run one job that writes the frame's rows, and yield the files that its tasks report. A few rows that are in
        the driver already are written in this process, without a job. So are rows that are known to be few, after a
        job that brings them.

        If the job fails, its files are deleted. Raises ``InvalidInput`` if rows do not fit, ``SparkFailed`` or
        ``StorageFailed`` if the job fails.
        """
        frame: DataFrame = request.data
        if not self._storage.is_shared:  # workers cannot reach this storage, so the rows are written in this process
            yield from self._write_here(request)
            return
        order = self._order(request, self._storage)
        if (few := _rows_here(request)) is not None:
            yield from self._write_few(request, order, few)
            return
        task = shipped(_WORKER, pickle.dumps(order))
        session = frame.sparkSession
        with settings(session, {**batch_settings(session, frame.schema), **spread_settings(request.metadata)}):
            rows = frame if request.order is not None else laid_out(frame, request.metadata, request.schema)
            # mapInArrow finds columns by name, and fails if a name has a dot or a quote.
            numbered = rows.toDF(*(f"c{at}" for at in range(len(order.names))))
            with named_jobs(session, f"write files of {request.metadata.location}"):
                files = files_written_by(numbered, task, order)
        yield from files

    def describe(
        self,
        metadata: TableMetadata,
        location: str,
        *,
        folders: Mapping[str, str | None] | None = None,
        ignore_extra_columns: bool = False,
    ) -> DataFile:
        """Return the description of an existing Parquet file."""
        return ArrowWriter(self._storage).describe(
            metadata, location, folders=folders, ignore_extra_columns=ignore_extra_columns
        )

    def _order(self, request: WriteRequest, storage: Storage) -> Order:
        frame: DataFrame = request.data
        operation_id = f"{request.operation_id}-s{next(self._calls)}"
        file_name(0, operation_id, 0)
        locations = data_locations(request.metadata)
        storage.local_folder(locations.base)  # a place that the lake may not use is refused here, not in a task
        return Order(
            names=tuple(frame.columns),
            storage=storage,
            layout=file_layout(request.metadata, request.schema, request.order),
            spec=request.metadata.spec,
            partition_types=partition_types(request.metadata),
            locations=locations,
            operation_id=operation_id,
            limits=self._limits,
        )

    def _write_few(self, request: WriteRequest, order: Order, batches: list[pa.RecordBatch]) -> Iterator[DataFile]:
        """Write rows that are in this process, as one task would."""
        here = replace(order, rows_are_sorted=request.order is not None)
        reports = pa.Table.from_batches([carry_out(here, batches, task=0, attempt=0)])
        files, refusal = files_of(reports, order.partition_types)
        if refusal is not None:
            raise refusal
        yield from files

    def _write_here(self, request: WriteRequest) -> Iterator[DataFile]:
        embedded = ArrowWriter(self._storage)
        rows = embedded.fit(request.metadata, request.schema, gathered(request.data))
        yield from embedded.write(replace(request, data=rows))


def _rows_here(request: WriteRequest) -> list[pa.RecordBatch] | None:
    """Return the rows if they are in this process, or few enough to be brought to it."""
    few = local_rows(request.data)
    return few if few is not None else few_rows(request.data, request.most_rows)
