"""Plans some of a table's manifests inside a Spark task. ``ship`` sends it to the executors."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

import esker.iceberg.format
import esker.iceberg.metadata.schema
import esker.read.prune_manifest  # noqa: F401  # with those above: what a part may hold must travel with it
from esker.model.arrow_arrays import typed_array


def run(order: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the number of each incoming part, and the pickle of what the ordered work returns for it."""
    work: Callable[[Any], Any] = pickle.loads(order)
    for batch in batches:
        for at, data in zip(batch.column(0), batch.column(1), strict=True):
            done = pickle.dumps(work(pickle.loads(data.as_py())))
            yield pa.RecordBatch.from_arrays(
                [typed_array([at.as_py()], pa.int32()), typed_array([done], pa.binary())], names=NAMES
            )


NAMES = ["at", "data"]
