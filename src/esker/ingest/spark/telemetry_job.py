"""Telemetry on Spark: each task decodes slices of files and writes data files; the driver commits them."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import pyarrow as pa

from esker.arrow.write.file_layout import file_layout
from esker.arrow.write.file_locations import data_locations
from esker.errors import EskerError, Unsupported
from esker.ingest.checkpoint import Plan
from esker.ingest.files.source_files import SourceFile, is_compressed
from esker.ingest.job import DataFiles, Staged, check_sources
from esker.ingest.otlp.otlp_job import OtlpJob, batch_counts, resent_in, without_tables
from esker.ingest.otlp.resent_records import Resent
from esker.ingest.otlp.telemetry_tables import TelemetryTables
from esker.ingest.pipeline.transform_hook import Changed, Transform
from esker.ingest.spark.otlp_files_worker import DDL, DecodeOrder, Slice, TableOrder
from esker.otlp.decoding.decode import Options
from esker.otlp.protocol.ship_extension import packed
from esker.otlp.record_counts import Counts
from esker.otlp.schemas import TABLES
from esker.otlp.source.framing import begin_of
from esker.ports.storage import Storage
from esker.spark.session.jobs import named_jobs
from esker.spark.workers.ship import map_arrow, shipped
from esker.spark.workers.worker_failures import naming_worker_failures
from esker.spark.write.written_files import files_of, partition_types, sweep
from esker.storage.failures import naming_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")

_WORKER = "esker.ingest.spark.otlp_files_worker"
_SLICE = 64 << 20


class SparkOtlpJob:
    """Decodes OTLP files by Spark's workers. Executors need pyarrow, but not Esker, and read the files by path.

    ``tasks`` returns the frame whose rows are the tasks, with columns ``task`` and ``tasks``. By default it is a frame
    with as many tasks as there are shares. ``transform`` changes the decoded rows before a receipt names their files.
    """

    def __init__(
        self,
        tables: TelemetryTables,
        storage: Storage,
        get_spark: Callable[[], SparkSession],
        *,
        options: Options | None = None,
        dedup: str | None = None,
        release: bool = False,
        tasks: Callable[[int], DataFrame] | None = None,
        transform: Transform | None = None,
    ) -> None:
        if not storage.is_shared:
            raise Unsupported(
                "cannot decode on Spark: workers can read only local files; use --engine arrow", feature="storage"
            )
        self._tables = tables
        self._storage = storage
        self._get_spark = get_spark
        self._options = options or Options()
        self._dedup = dedup
        self._tasks = tasks or (lambda count: tasks_of(get_spark(), count))
        self._transform = transform
        self._here = OtlpJob(tables, options=options, dedup=dedup, release=release)

    def stage(self, plan: Plan, batch_id: str) -> Staged:
        """Run one job that decodes the files of the plan and writes their rows."""
        if not plan.files:
            return self._here.stage(plan, batch_id)
        check_sources(plan, may_grow=True)
        slices = tuple(balanced(list(slices_of(plan.files)), self._get_spark()))
        return self.stage_by(
            lambda order: _run(self._tasks(len(slices)), order), batch_id, at_us=plan.planned_at_us, slices=slices
        )

    def stage_by(
        self,
        run: Callable[[DecodeOrder], list[dict[str, Any]]],
        batch_id: str,
        *,
        at_us: int,
        slices: tuple[tuple[Slice, ...], ...] = (),
        applied: Container[str] = (),
        counted: Counts | None = None,
        close: Callable[[dict[str, DataFiles], Counts, Resent | None], Staged] | None = None,
    ) -> Staged:
        """Let ``run`` decode by an order and report. Rows for tables that have the batch already are left out.
        ``counted`` is added to the counts of the tasks. ``close`` makes deliveries of what was written; by default each
        table with rows gets one."""
        writing = {name: DataFiles(self._tables.get(name)) for name in TABLES if name not in applied}
        order = self._order(slices, batch_id, writing, at_us)
        try:
            reports = run(order)
        except BaseException:
            for table in order.tables.values():
                sweep(self._storage, table.locations.base, order.operation_id)
            raise
        counts = counted or Counts()
        try:
            for report in reports:
                if report["counts"] is not None:
                    counts.add(without_tables(_counts(report["counts"]), applied))
                    continue
                rows = pa.ipc.open_stream(report["files"]).read_all()
                writing[report["table"]].take(files_of(rows, order.tables[report["table"]].partition_types)[0])
            resent = self._sifted(writing, batch_id)
            return self._closed(writing, counts, resent, batch_id) if close is None else close(writing, counts, resent)
        except BaseException:
            for files in writing.values():
                files.discard()
            raise

    def _sifted(self, writing: dict[str, DataFiles], batch_id: str) -> Resent | None:
        """Remove records that were sent twice, if that was asked for. Tasks do not know the records of other tasks."""
        resent = resent_in(self._tables, self._options, self._dedup, batch_id)
        if resent is not None:
            for name, files in writing.items():
                resent.sift(name, files, self._storage)
        return resent

    def _closed(self, writing: dict[str, DataFiles], counts: Counts, resent: Resent | None, batch_id: str) -> Staged:
        """What was written, by table, after the user's transform."""
        changed = Changed() if self._transform is None else self._transform.apply(writing, batch_id)
        filled = {name: files for name, files in writing.items() if files.rows}
        return Staged(
            deliveries=tuple(files.delivery() for files in (*filled.values(), *changed.others.values())),
            counts=changed.in_counts(batch_counts(counts, filled, resent)),
        )

    def release(self, plan: Plan) -> tuple[SourceFile, ...]:
        """Remove segments of a spool whose rows are in the tables."""
        return self._here.release(plan)

    def _order(
        self, slices: tuple[tuple[Slice, ...], ...], batch_id: str, writing: dict[str, DataFiles], at_us: int
    ) -> DecodeOrder:
        return DecodeOrder(
            slices=slices,
            tables={name: table_order(files, self._storage) for name, files in writing.items()},
            storage=self._storage,
            options=self._options,
            batch_id=batch_id,
            ingested_at_us=at_us,
            operation_id=str(uuid4()),
            extension=packed(),
        )


def slices_of(files: Iterable[SourceFile], *, size: int = _SLICE) -> Iterator[tuple[int, Slice]]:
    """Files in slices that tasks can share, each with its weight. A compressed file is one slice."""
    for file in files:
        path, new = Path(file.path), file.new_bytes
        if new <= size or is_compressed(path):
            has_grown = file.start > 0
            yield new, Slice(path=file.path, start=file.start, begin=file.begin, end=file.size, has_grown=has_grown)
            continue
        starts = range(file.start, file.size, size)
        begin = file.begin
        for start in starts:
            with naming_failures("read", path), path.open("rb") as content:
                begin = begin_of(content, start, size=file.size, known=begin)
            one = Slice(
                path=file.path,
                start=start,
                stop=None if start == starts[-1] else start + size,
                begin=begin,
                end=file.size,
                has_grown=start == file.start > 0,
            )
            yield min(size, file.size - start), one


def balanced(weighed: list[tuple[int, T]], session: Any) -> list[tuple[T, ...]]:
    """The slices in shares for as many tasks as keep all cores busy, the heaviest first."""
    cores = int(session.conf.get("spark.default.parallelism", None) or 0) or _cores(session)
    tasks: list[list[T]] = [[] for _ in range(min(len(weighed), 4 * cores))]
    weights = [0] * len(tasks)
    for weight, one in sorted(weighed, key=lambda pair: -pair[0]):
        lightest = weights.index(min(weights))
        tasks[lightest].append(one)
        weights[lightest] += weight
    return [tuple(task) for task in tasks]


def _cores(session: Any) -> int:
    from esker.spark.session.spark_session import is_connect

    return 8 if is_connect(session) else int(session.sparkContext.defaultParallelism)


def tasks_of(session: Any, count: int) -> DataFrame:
    """A frame with ``count`` tasks, each a partition."""
    return session.range(0, count, 1, count).selectExpr("id task", f"{count} tasks")


def _run(tasks: DataFrame, order: DecodeOrder) -> list[dict[str, Any]]:
    return run_shares(tasks, _WORKER, pickle.dumps(order), shares=len(order.slices), batch_id=order.batch_id)


def run_shares(tasks: DataFrame, worker: str, order: bytes, *, shares: int, batch_id: str) -> list[dict[str, Any]]:
    """What the tasks of one job report. Raises ``EskerError`` if the report of a share is missing."""
    with named_jobs(tasks.sparkSession, f"decode batch {batch_id.rpartition('/')[2]}"), naming_worker_failures():
        reports = map_arrow(tasks, shipped(worker, order), DDL).toArrow().to_pylist()
    done = sum(report["counts"] is not None for report in reports)
    if done != shares:  # committing without it would lose its rows
        raise EskerError(
            f"cannot load batch {batch_id}: Spark's tasks reported {done} of {shares} shares of it; start it again"
        )
    return reports


def table_order(files: DataFiles, storage: Storage) -> TableOrder:
    """How workers write the files of a table. Raises ``InvalidInput`` for a place that the lake may not use."""
    metadata = files.metadata
    locations = data_locations(metadata)
    storage.local_folder(locations.base)  # checked here, not in a task
    return TableOrder(
        layout=file_layout(metadata, metadata.schema),
        spec=metadata.spec,
        partition_types=partition_types(metadata),
        locations=locations,
    )


def _counts(text: str) -> Counts:
    told = json.loads(text)
    return Counts(**told | {name: Counter(told[name]) for name in ("records", "not_castable", "offsets")})
