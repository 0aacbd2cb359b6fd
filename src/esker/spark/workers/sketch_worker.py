"""Computes sketches of the columns of data files inside a Spark task. ``ship`` sends it to the executors."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

import esker.iceberg.metadata.schema  # noqa: F401  # what a part may hold must travel with it
from esker.arrow.arrow_engine import ArrowEngine
from esker.arrow.statistics.sketch_columns import sketch_columns
from esker.model.arrow_arrays import typed_array
from esker.ports.engine import ReadRequest, ScanTask


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Everything that a task needs, except the files to read."""

    engine: ArrowEngine
    request: ReadRequest
    field_ids: tuple[int, ...]


def run(order: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield one sketch per column over all files that the incoming batches list. Each item is a pickled task."""
    told: Order = pickle.loads(order)
    tasks: Iterator[ScanTask] = (pickle.loads(data) for batch in batches for data in batch.column(0).to_pylist())
    rows = told.engine.read(replace(told.request, tasks=tasks))
    found = sketch_columns(rows, told.request.projection, told.field_ids)
    sketches = [sketch.encode() for sketch in found.values()]
    yield pa.RecordBatch.from_arrays(
        [typed_array(list(found), pa.int32()), typed_array(sketches, pa.binary())], names=SKETCH
    )


SKETCH = ["field_id", "sketch"]
