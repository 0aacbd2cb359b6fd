"""Files that Spark's own readers cannot read exactly, read by Arrow in Spark's workers."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from esker.model.types import UnknownType
from esker.ports.engine import Engine, ReadRequest, ScanTask
from esker.spark.arrow_worker import TASK, Order
from esker.spark.ship import shipped
from esker.spark.types import shown_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_WORKER = "esker.spark.arrow_worker"
_ROWS_PER_TASK = 4_000_000


def frame_through_arrow(
    session: SparkSession, engine: Engine, request: ReadRequest, tasks: Sequence[ScanTask]
) -> DataFrame:
    """The rows of these files, with filter and deletes applied where they are read."""
    from pyspark.sql import functions as F  # noqa: N812

    fields = tuple(f for f in request.projection if not isinstance(f.type, UnknownType))
    # History stays behind: a worker needs the schemas and specs, not thousands of snapshots.
    metadata = replace(request.metadata, snapshots=(), snapshot_log=(), metadata_log=(), refs={})
    told = replace(request, metadata=metadata, tasks=(), limit=None)
    order = Order(engine=engine, request=told, fields=fields)
    pieces = _pieces(tasks)
    work = session.createDataFrame([(pickle.dumps(task),) for task in tasks], f"{TASK} binary")
    schema = shown_schema(fields) if fields else f"{TASK} int"
    rows = work.repartition(pieces).mapInArrow(shipped(_WORKER, pickle.dumps(order)), schema)

    def shown(at: int) -> Column:
        field = request.projection.fields[at]
        return F.lit(None).alias(field.name) if isinstance(field.type, UnknownType) else _named(rows, field.name)

    return rows.select(*(shown(at) for at in range(len(request.projection.fields))))


def _named(rows: DataFrame, name: str) -> Column:
    from esker.spark.stored_columns import quoted

    return rows[quoted(name)]


def _pieces(tasks: Sequence[ScanTask]) -> int:
    rows = sum(task.data_file.record_count for task in tasks)
    return max(1, min(len(tasks), 1 + rows // _ROWS_PER_TASK, 1000) if rows else 1)
