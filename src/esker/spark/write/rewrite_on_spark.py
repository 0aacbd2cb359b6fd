"""Compaction on Spark, by one of two ways.

Files that need no shuffle are divided among tasks, and each task reads and writes its own files with Arrow: no row
goes through the JVM. These are rows that are only copied, and groups that one task can sort in memory. For all others
Spark's readers read the files, and its workers write the new ones: sorted rows are divided into ranges, one for each
new file, and rows of another partition spec into the partitions of the current one.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812  # as everyone knows it
from pyspark.sql.pandas.functions import arrow_udf

from esker.arrow.arrow_engine import ArrowEngine
from esker.arrow.rewrite_files import (
    ArrowFileRewriter,
    deleted_request,
    group_request,
    needs_reading,
    recorded_order,
    rewriting_metadata,
)
from esker.arrow.write.arrow_writer import Limits
from esker.arrow.write.file_layout import file_layout
from esker.arrow.write.file_locations import data_locations
from esker.arrow.z_order import comparable, cuts_of
from esker.errors import SparkFailed
from esker.model.predicates.predicate import TRUE
from esker.model.schema import Schema
from esker.ports.engine import ScanTask, SparkFrames, Writer, WriteRequest
from esker.ports.file_rewriting import FileGroup
from esker.spark.session.jobs import named_jobs
from esker.spark.session.spark_session import is_connect
from esker.spark.workers.arrow_write_worker import Order as WriteOrder
from esker.spark.workers.rewrite_worker import Order
from esker.spark.workers.ship import shipped
from esker.spark.workers.worker_failures import naming_worker_failures
from esker.spark.workers.z_order_worker import ZOrder
from esker.spark.write.distribution import Key, laid_out
from esker.spark.write.spark_writer import files_written_by
from esker.spark.write.written_files import partition_types
from esker.tree.data_file import DataFile
from esker.tree.table_metadata import TableMetadata, without_history
from esker.write.rows.rewrite_file import with_lineage

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_WORKER = "esker.spark.workers.z_order_worker"
_REWRITER = "esker.spark.workers.rewrite_worker"
_MOST_SORTED = 128 << 20  # bytes of files that one task sorts in memory
_LONGEST = 500  # characters of Spark's message
_UNEVEN = 0.25  # the largest file of a portion, as a part of the size of a new file
_SAMPLE = 100_000  # rows from which the cuts of a z-order are taken


class SparkFileRewriter:
    """Rewrites groups of files on Spark, several at the same time, each on a session of its own."""

    def __init__(
        self,
        frames: SparkFrames,
        writer: Writer,
        get_session: Callable[[], SparkSession],
        arrow: ArrowFileRewriter,
    ) -> None:
        self._frames = frames
        self._writer = writer
        self._get_session = get_session
        self._arrow = arrow
        self._alone = Lock()

    def rewrite(self, group: FileGroup) -> Iterator[DataFile]:
        """Write the rows of the group that are not deleted to new files. Raises ``SparkFailed``."""
        engine = self._arrow.engine
        if isinstance(engine, ArrowEngine) and engine.storage.is_shared and (portions := divided(group)):
            yield from self._by_tasks(engine, group, portions)
        else:
            yield from self._by_rows(group)

    def _by_tasks(self, engine: ArrowEngine, group: FileGroup, portions: list[list[ScanTask]]) -> Iterator[DataFile]:
        """Let each task of one job rewrite some of the files. If the job fails, the new files are deleted."""
        session = self._get_session()
        order = _write_order(engine, group)
        metadata = without_history(group.metadata)
        sent = Order(engine=engine, group=replace(group, metadata=metadata, tasks=()), portions=portions, write=order)
        task = shipped(_REWRITER, pickle.dumps(sent))
        doing = f"compact files of {metadata.location}"
        with named_jobs(session, doing), _named_errors(doing):
            yield from files_written_by(session.range(0, len(portions), 1, len(portions)), task, order)

    def _by_rows(self, group: FileGroup) -> Iterator[DataFile]:
        """Read the group as a frame, arrange its rows, and write it."""
        session, alone = self._session()
        schema = with_lineage(group.metadata)
        written = rewriting_metadata(group, group.max_file_size)
        metadata = replace(
            written,
            sort_orders=(group.layout.sort,),
            default_sort_order_id=group.layout.sort.order_id,
        )
        doing = f"compact files of {metadata.location}"
        with alone, named_jobs(session, doing), _named_errors(doing), naming_worker_failures():
            frame = self._frames.frame(group_request(group), TRUE, session)
            frame = self._arranged(frame, group, metadata, schema)
            request = WriteRequest(
                metadata=written,
                schema=schema,
                data=self._writer.fit(group.metadata, schema, frame),
                operation_id=group.operation_id,
                order=recorded_order(group),
            )
            yield from self._writer.write(request)

    def deleted_rows(self, group: FileGroup) -> int:
        """How many rows of the files their deletes remove. Spark reads files that have equality deletes."""
        compared = [task for task in group.tasks if needs_reading(task)]
        found = sum(self._arrow.deleted_positions(task) for task in group.tasks if not needs_reading(task))
        if compared:
            session, alone = self._session()
            with alone, named_jobs(session, f"count deleted rows of {group.metadata.location}"):
                found += self._frames.frame(deleted_request(group, compared), TRUE, session).count()
        return found

    def _session(self) -> tuple[SparkSession, AbstractContextManager[Any]]:
        """A session with its own settings, because a write changes them; for Connect, the only one, and a lock."""
        session = self._get_session()
        if is_connect(session):
            return session, self._alone
        own = session.newSession()
        for key, value in session.conf.getAll.items():
            if own.conf.get(key, None) != value and own.conf.isModifiable(key):
                own.conf.set(key, value)
        return own, nullcontext()

    def _arranged(self, frame: DataFrame, group: FileGroup, metadata: TableMetadata, schema: Schema) -> DataFrame:
        size = sum(task.data_file.file_size for task in group.tasks)
        tasks = max(1, -(-size // group.target_file_size))
        if group.layout.is_unordered:
            frame = frame.coalesce(tasks)
            if all(task.data_file.spec_id == metadata.default_spec_id for task in group.tasks):
                return frame
            return laid_out(frame, _distributed(metadata, "hash"), schema)
        rows = sum(task.data_file.record_count for task in group.tasks)
        ids = group.layout.z_order
        more = [Key(_z_order(frame, schema, ids, rows))] if ids else []
        return laid_out(frame, _distributed(metadata, "range"), schema, more=more, tasks=tasks)


@contextmanager
def _named_errors(doing: str) -> Iterator[None]:
    """Raise an error of PySpark as ``SparkFailed``, so that one group that fails does not end all of a compaction."""
    try:
        yield
    except PySparkException as error:
        raise SparkFailed(f"cannot {doing}: {str(error).strip()[:_LONGEST]}", doing=doing) from error


def divided(group: FileGroup) -> list[list[ScanTask]]:
    """The files of a group by the tasks that rewrite them, one for each new file; none if tasks cannot do it alone.

    Files stay in their order. They must be small beside a new file, else portions would be of unequal size.
    """
    tasks = group.tasks
    sizes = [task.data_file.file_size for task in tasks]
    if any(task.data_file.file_format != "parquet" for task in tasks):
        return []
    if not group.layout.is_unordered:
        return [_slim(tasks)] if sum(sizes) <= _MOST_SORTED else []
    if any(task.data_file.spec_id != group.metadata.default_spec_id for task in tasks):
        return []
    count = max(1, -(-sum(sizes) // group.target_file_size))
    if count > 1 and max(sizes) > group.target_file_size * _UNEVEN:
        return []
    portions: list[list[ScanTask]] = [[] for _ in range(count)]
    before = 0
    for task, size in zip(_slim(tasks), sizes, strict=True):
        portions[min(count - 1, (before + size // 2) * count // max(1, sum(sizes)))].append(task)
        before += size
    return [portion for portion in portions if portion]


def _slim(tasks: Iterable[ScanTask]) -> list[ScanTask]:
    """The tasks without the metrics of their files, which a worker does not need."""
    return [replace(task, data_file=replace(task.data_file, metrics=None)) for task in tasks]


def _write_order(engine: ArrowEngine, group: FileGroup) -> WriteOrder:
    size = group.max_file_size if group.layout.is_unordered else group.target_file_size
    metadata, schema = rewriting_metadata(group, size), with_lineage(group.metadata)
    locations = data_locations(metadata)
    engine.storage.local_folder(locations.base)  # a place that the lake may not use is refused here, not in a task
    return WriteOrder(
        names=tuple(field.name for field in schema),
        storage=engine.storage,
        layout=file_layout(metadata, schema, recorded_order(group)),
        spec=metadata.spec,
        partition_types=partition_types(metadata),
        locations=locations,
        operation_id=group.operation_id,
        limits=Limits(),
    )


def _distributed(metadata: TableMetadata, mode: str) -> TableMetadata:
    more = {"write.distribution-mode": mode, "write.spark.fanout.enabled": "false"}
    return replace(metadata, properties={**metadata.properties, **more})


def _z_order(frame: DataFrame, schema: Schema, ids: Sequence[int], rows: int) -> Column:
    """The z-order as a column. A sample of the rows is read to find how values are spread."""
    columns = [_column(frame, schema, id_) for id_ in ids]
    types = tuple(schema.by_id[id_].type for id_ in ids)
    named = [column.alias(f"c{at}") for at, column in enumerate(columns)]
    part = frame.select(*named)
    sample = (part.sample(min(1.0, _SAMPLE / rows), seed=1) if rows > _SAMPLE else part).toArrow()
    values = [comparable(sample.column(at).combine_chunks(), type_) for at, type_ in enumerate(types)]
    order = ZOrder.of(types, [cuts_of(found, len(types)) for found in values])
    compute = shipped(_WORKER, pickle.dumps(order))
    compute.__annotations__ = {"rows": pa.Array, "return": pa.Array}  # PySpark reads its kind from these
    made: Any = arrow_udf(compute, "bigint")
    return made(F.struct(*named))


def _column(frame: DataFrame, schema: Schema, id_: int) -> Column:
    names = [field.name for field in schema.path_by_id[id_]]
    return F.col(".".join(f"`{name.replace('`', '``')}`" for name in names))
