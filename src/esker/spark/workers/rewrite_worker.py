"""Rewrites data files with Arrow inside a Spark task, for a compaction. ``ship`` sends it to the executors."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

import esker.iceberg.metadata.schema  # noqa: F401  # what an order may hold must travel with it
from esker.arrow.arrow_engine import ArrowEngine
from esker.arrow.rewrite_files import rows_of_group
from esker.ports.engine import ScanTask
from esker.ports.file_rewriting import FileGroup
from esker.spark.workers.arrow_write_worker import Order as WriteOrder
from esker.spark.workers.arrow_write_worker import carry_out


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Everything that a task needs. The task with number n rewrites the files of portion n."""

    engine: ArrowEngine
    group: FileGroup  # without its files
    portions: Sequence[Sequence[ScanTask]]
    write: WriteOrder


def run(order: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rewrite the portions whose numbers come in. Report the new files only when all rows are written."""
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None  # a task always has a context
    plan: Order = pickle.loads(order)
    for number in (number for batch in batches for number in batch.column(0).to_pylist()):
        rows = rows_of_group(plan.engine, replace(plan.group, tasks=plan.portions[number]))
        yield carry_out(plan.write, rows, task=number, attempt=task.taskAttemptId())
