"""Files that Spark's own readers cannot read exactly, read by Arrow in Spark's workers."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from esker.arrow.arrow_engine import ArrowEngine
from esker.model.schema import Schema
from esker.model.types import UnknownType
from esker.ports.engine import ReadRequest, ScanTask
from esker.spark.expressions.types import comment_of, shown_schema
from esker.spark.workers.arrow_read_worker import TASK, Order, output_name
from esker.spark.workers.ship import map_arrow, shipped
from esker.tree.table_metadata import without_history

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WORKER = "esker.spark.workers.arrow_read_worker"
_ROWS_PER_TASK = 4_000_000


def frame_through_arrow(
    session: SparkSession, engine: ArrowEngine, request: ReadRequest, tasks: Sequence[ScanTask]
) -> DataFrame:
    """Return the rows of these files. Workers apply the filter and the deletes while they read."""
    from pyspark.sql import functions as F  # noqa: N812

    kept = tuple(f for f in request.projection if not isinstance(f.type, UnknownType))
    metadata = without_history(request.metadata)
    told = replace(request, metadata=metadata, tasks=(), projection=Schema(fields=kept), limit=None)
    order = Order(engine=engine, request=told, fields=kept)
    work = session.createDataFrame([(pickle.dumps(task),) for task in tasks], f"{TASK} binary")
    named = [replace(f, name=output_name(at)) for at, f in enumerate(kept)]
    schema = shown_schema(named) if kept else f"{TASK} int"
    rows = map_arrow(work.repartition(_pieces(tasks)), shipped(_WORKER, pickle.dumps(order)), schema)
    places = {f.id: at for at, f in enumerate(kept)}
    return rows.select(
        *(
            F.col(output_name(places[f.id])).alias(f.name, metadata=comment_of(f))
            if f.id in places
            else F.lit(None).alias(f.name)
            for f in request.projection
        )
    )


def _pieces(tasks: Sequence[ScanTask]) -> int:
    rows = sum(task.data_file.record_count for task in tasks)
    return max(1, min(len(tasks), 1 + rows // _ROWS_PER_TASK, 1000) if rows else 1)
