"""Lists folders inside a Spark task. ``ship`` sends it to the executors."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import pyarrow as pa

from esker.model.arrow_arrays import typed_array
from esker.ports.storage import Storage, StoredFile

LISTED = ("location", "size", "modified_ms")
_AT_ONCE = 10_000


def run(order: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the files below the folders that the incoming batches name."""
    storage: Storage = pickle.loads(order)
    for batch in batches:
        for folder in batch.column(0).to_pylist():
            files = iter(storage.list(folder))
            while some := list(islice(files, _AT_ONCE)):
                yield _batch(some)


def _batch(files: Sequence[StoredFile]) -> pa.RecordBatch:
    columns = [
        typed_array([file.location for file in files], pa.string()),
        typed_array([file.size for file in files], pa.int64()),
        typed_array([file.modified_ms for file in files], pa.int64()),
    ]
    return pa.RecordBatch.from_arrays(columns, names=list(LISTED))
