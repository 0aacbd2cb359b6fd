"""Jobs that spread work over Spark's workers: the listing of a large folder, and parts of a plan."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from esker.ports.engine import Part, Result
from esker.ports.storage import FolderStorage, Storage, StoredFile
from esker.spark.session.jobs import named_jobs
from esker.spark.workers.ship import map_arrow, shipped
from esker.spark.workers.worker_failures import naming_refusals, naming_worker_failures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LIST_WORKER = "esker.spark.workers.list_worker"
_LISTED = "location string, size bigint, modified_ms bigint"
_SPREAD_WORKER = "esker.spark.workers.spread_worker"
_FOLDERS = 64  # to divide among the workers, at least
_MOST_TASKS = 1000
_MOST_LEVELS = 4  # below the first


def list_on_spark(session: SparkSession, storage: Storage, prefix: str) -> Iterator[StoredFile]:
    """Every file below a folder, in any order. A storage whose folders cannot be listed one by one, or that workers
    cannot reach, is listed in this process."""
    if not isinstance(storage, FolderStorage) or not storage.is_shared:
        yield from storage.list(prefix)
        return
    folders = [prefix.rstrip("/")]
    for _ in range(1 + _MOST_LEVELS):
        if not folders or len(folders) >= _FOLDERS:
            break
        below: list[str] = []
        for folder in folders:
            names, files = storage.folders(folder)
            yield from files
            below += [f"{folder}/{name}" for name in names]
        folders = below
    if not folders:
        return
    with naming_worker_failures(), named_jobs(session, f"list {prefix}"):
        work = session.createDataFrame([(folder,) for folder in folders], "folder string")
        spread = work.repartition(min(len(folders), _MOST_TASKS))
        for row in map_arrow(spread, shipped(_LIST_WORKER, pickle.dumps(storage)), _LISTED).toLocalIterator():
            yield StoredFile(location=row.location, size=row.size, modified_ms=row.modified_ms)


def spread(session: SparkSession, work: Callable[[Part], Result], parts: Sequence[Part]) -> Iterator[Result]:
    """Yield what ``work`` returns for each part, in their order."""
    with naming_refusals(), naming_worker_failures(), named_jobs(session, "plan"):
        rows = [(at, pickle.dumps(part)) for at, part in enumerate(parts)]
        frame = session.createDataFrame(rows, "at int, data binary").repartition(min(len(parts), _MOST_TASKS))
        done = map_arrow(frame, shipped(_SPREAD_WORKER, pickle.dumps(work)), "at int, data binary").collect()
    for row in sorted(done, key=lambda row: int(row.at)):
        yield pickle.loads(row.data)
