"""Writes the rows of one Spark partition into data files, inside a Spark task. ``ship`` sends it to the executors."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

import esker.storage.local  # noqa: F401  # what an order may hold must travel with it
from esker.arrow.input.fit_data import fit_batches
from esker.arrow.write.arrow_writer import Limits
from esker.arrow.write.data_writer import DataWriter
from esker.arrow.write.file_locations import DataLocations
from esker.arrow.write.new_data_file import FileLayout
from esker.arrow.write.partition_and_sort_rows import partitioner
from esker.errors import InvalidInput
from esker.model.partition_and_sort import PartitionSpec
from esker.model.types import Type
from esker.ports.storage import Storage
from esker.spark.write.written_files import refusal_of, rows_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """All that a task is told."""

    names: tuple[str, ...]  # of the columns as they come
    storage: Storage
    layout: FileLayout
    spec: PartitionSpec
    partition_types: tuple[Type, ...]
    locations: DataLocations
    operation_id: str
    limits: Limits
    rows_are_sorted: bool = True  # by Spark, which has disks for it


def run(order: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the rows, and only when all of them are written say under which names."""
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None  # as in every task
    yield carry_out(pickle.loads(order), batches, task=task.partitionId(), attempt=task.taskAttemptId())


def carry_out(order: Order, batches: Iterable[pa.RecordBatch], *, task: int, attempt: int) -> pa.RecordBatch:
    """Write one task's rows. An attempt's files have names of their own, and are deleted again where it fails."""
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
        files = list(writer.write(fit_batches(schema, (batch.rename_columns(order.names) for batch in batches))))
    except InvalidInput as error:
        if error.facts.get("column") is None:
            raise
        return refusal_of(error)
    return rows_of(files, order.partition_types)
