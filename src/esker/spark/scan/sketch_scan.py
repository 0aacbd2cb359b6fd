"""Sketches of the columns of many files, computed by Arrow in Spark's workers and merged in this process."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from esker.arrow.arrow_engine import ArrowEngine
from esker.iceberg.theta_sketch import ThetaSketch, decode_theta_sketch, merged
from esker.ports.engine import ReadRequest
from esker.spark.session.jobs import named_jobs
from esker.spark.workers.ship import map_arrow, shipped
from esker.spark.workers.sketch_worker import Order
from esker.spark.workers.worker_failures import naming_worker_failures
from esker.tree.table_metadata import without_history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WORKER = "esker.spark.workers.sketch_worker"
_BYTES_PER_TASK = 128 << 20
_MOST_TASKS = 1000


def sketch_on_spark(
    session: SparkSession, engine: ArrowEngine, request: ReadRequest, field_ids: Sequence[int]
) -> dict[int, ThetaSketch]:
    """Return a sketch of each of these columns. Each worker reads a group of files and returns a sketch per column."""
    tasks = list(request.tasks)
    told = replace(request, metadata=without_history(request.metadata), tasks=())
    order = Order(engine=engine, request=told, field_ids=tuple(field_ids))
    size = sum(task.data_file.file_size for task in tasks)
    groups = max(1, min(len(tasks), 1 + size // _BYTES_PER_TASK, _MOST_TASKS))
    with naming_worker_failures(), named_jobs(session, "compute statistics"):
        work = session.createDataFrame([(pickle.dumps(task),) for task in tasks], "task binary")
        parts = map_arrow(
            work.repartition(groups), shipped(_WORKER, pickle.dumps(order)), "field_id int, sketch binary"
        ).collect()
    found: defaultdict[int, list[ThetaSketch]] = defaultdict(list)
    for part in parts:
        found[part.field_id].append(decode_theta_sketch("a sketch of a Spark task", bytes(part.sketch)))
    return {field_id: merged(found[field_id]) for field_id in field_ids}
