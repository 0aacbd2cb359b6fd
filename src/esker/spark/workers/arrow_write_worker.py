"""Writes the rows of one Spark partition into data files, inside a Spark task. ``ship`` sends it to the executors."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from esker.arrow.input.fit_data import fit_batches
from esker.arrow.write.arrow_writer import Limits
from esker.arrow.write.data_writer import DataWriter
from esker.arrow.write.file_locations import DataLocations
from esker.arrow.write.new_data_file import FileLayout
from esker.arrow.write.partition_and_sort_rows import partitioner
from esker.errors import InvalidInput
from esker.model.partition_and_sort import PartitionSpec
from esker.model.types import Type
from esker.ports.storage import Storage, names_together
from esker.spark.write.written_files import refusal_of, rows_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Everything that a task needs."""

    names: tuple[str, ...]  # names of the incoming columns
    storage: Storage
    layout: FileLayout
    spec: PartitionSpec
    partition_types: tuple[Type, ...]
    locations: DataLocations
    operation_id: str
    limits: Limits
    rows_are_sorted: bool = True  # Spark sorts them, and can use disks for it


def run(order: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the rows. Report the names of the files only when all rows are written."""
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None  # a task always has a context
    yield carry_out(pickle.loads(order), batches, task=task.partitionId(), attempt=task.taskAttemptId())


def carry_out(order: Order, batches: Iterable[pa.RecordBatch], *, task: int, attempt: int) -> pa.RecordBatch:
    """Write one task's rows and return the files as rows. If the rows do not fit, return the reason as a row.

    The files of an attempt have their own names. They are deleted if the attempt fails.
    """
    schema = order.layout.schema
    writer = DataWriter(
        order.storage,
        order.layout,
        partitioner(schema, order.spec),
        order.locations,
        name=(attempt, order.operation_id),
        limits=order.limits,
        task=task,
        rows_are_sorted=order.rows_are_sorted,
    )
    try:
        with names_together():
            files = list(writer.write(fit_batches(schema, (batch.rename_columns(order.names) for batch in batches))))
    except InvalidInput as error:
        if error.facts.get("column") is None:
            raise
        return refusal_of(error)
    return rows_of(files, order.partition_types)
