"""Plans some of a table's manifests inside a Spark task. ``ship`` sends it to the executors."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

import esker.iceberg.format
import esker.iceberg.metadata.schema
import esker.read.prune_manifest
import esker.storage.choose
import esker.storage.relocated  # noqa: F401  # with those above: what an order may hold must travel with it


def run(order: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the number of each incoming part, and the pickle of what the ordered work returns for it."""
    work: Callable[[Any], Any] = pickle.loads(order)
    for batch in batches:
        for at, data in zip(batch.column(0), batch.column(1), strict=True):
            done = pickle.dumps(work(pickle.loads(data.as_py())))
            yield pa.RecordBatch.from_arrays(
                [pa.array([at.as_py()], pa.int32()), pa.array([done], pa.binary())], names=NAMES
            )


NAMES = ["at", "data"]
