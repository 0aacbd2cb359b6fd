"""Files of rows on Spark: each task reads files, or row groups of large ones, and writes data files itself."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa

from esker.errors import EskerError, Unsupported
from esker.ingest.files.source_files import SourceFile
from esker.ingest.job import DataFiles
from esker.ingest.read_row_files import Reading, groups_of
from esker.ingest.row_files_job import Unfit
from esker.ingest.spark.rows_worker import DDL, Piece, RowsOrder
from esker.ingest.spark.telemetry_job import balanced, table_order, tasks_of
from esker.ports.storage import Storage
from esker.spark.session.jobs import named_jobs
from esker.spark.workers.ship import map_arrow, shipped
from esker.spark.workers.worker_failures import naming_worker_failures
from esker.spark.write.written_files import files_of, sweep

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WORKER = "esker.ingest.spark.rows_worker"
_PIECE = 64 << 20  # bytes of a Parquet file for one task, about


class SparkRows:
    """Writes the rows of files by Spark's workers, which need pyarrow and no Esker, and reach the files by path.

    One job finds all files of a batch that do not fit; they are then refused one by one without another job.
    """

    def __init__(self, storage: Storage, get_spark: Callable[[], SparkSession]) -> None:
        if not storage.is_shared:
            raise Unsupported("cannot ingest on Spark: workers reach local files alone", feature="storage")
        self._storage = storage
        self._get_spark = get_spark
        self._unfit: dict[SourceFile, str] = {}  # of the last job

    def __call__(self, writing: DataFiles, files: Sequence[SourceFile], reading: Reading) -> int:
        """Write all rows. Returns how many were read. ``Unfit`` names a file that does not fit; nothing is left of the
        others then."""
        self._refuse(files)
        session = self._get_spark()
        order = RowsOrder(
            shares=tuple(balanced(list(_pieces(files, reading)), session)),
            table=table_order(writing, self._storage),
            storage=self._storage,
            reading=reading,
            operation_id=str(uuid4()),
        )
        try:
            reports = _run(session, order)
            self._unfit = {files[one["source"]]: one["refusal"] for one in reports if one["refusal"] is not None}
            self._refuse(files)
            for report in reports:
                described = pa.ipc.open_stream(report["files"]).read_all()
                writing.take(files_of(described, order.table.partition_types)[0])
        except BaseException:
            sweep(self._storage, order.table.locations.base, order.operation_id)
            raise
        return sum(report["read"] for report in reports)

    def _refuse(self, files: Sequence[SourceFile]) -> None:
        for file in files:
            if file in self._unfit:
                raise Unfit(file, self._unfit[file])


def _pieces(files: Sequence[SourceFile], reading: Reading) -> Iterator[tuple[int, Piece]]:
    """Files in pieces that tasks can share, each with its weight."""
    for at, file in enumerate(files):
        groups = groups_of(Path(file.path), reading, size=_PIECE) if file.size > _PIECE else []
        if not groups:
            yield file.size, Piece(source=at, path=file.path)
        for one in groups:
            yield file.size // len(groups), Piece(source=at, path=file.path, groups=one)


def _run(session: SparkSession, order: RowsOrder) -> list[dict[str, Any]]:
    tasks = tasks_of(session, len(order.shares))
    with named_jobs(session, "ingest files"), naming_worker_failures():
        reports: list[dict[str, Any]] = (
            map_arrow(tasks, shipped(_WORKER, pickle.dumps(order)), DDL).toArrow().to_pylist()
        )
    expected = sum(map(len, order.shares))
    if len(reports) != expected:  # to commit what there is would lose the rest
        raise EskerError(f"cannot ingest: Spark's tasks reported {len(reports)} of {expected} pieces; start it again")
    return reports
