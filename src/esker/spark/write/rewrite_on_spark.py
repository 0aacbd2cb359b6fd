"""Compaction on Spark: Spark's readers read a group of files, and its workers write the new ones.

Rows that are only copied need no shuffle, unless the files are of another partition spec. Rows that are sorted, or
brought into z-order, are divided into ranges, one for each new file.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812  # as everyone knows it
from pyspark.sql.pandas.functions import arrow_udf

from esker.arrow.rewrite_files import ArrowFileRewriter, deleted_request, needs_reading, rewriting_metadata
from esker.arrow.z_order import comparable, cuts_of
from esker.model.partition_and_sort import UNSORTED
from esker.model.predicates.predicate import TRUE
from esker.model.schema import Schema
from esker.ports.engine import ReadRequest, SparkFrames, Writer, WriteRequest
from esker.ports.file_rewriting import FileGroup
from esker.spark.session.jobs import named_jobs
from esker.spark.session.spark_session import is_connect
from esker.spark.workers.ship import shipped
from esker.spark.workers.worker_failures import naming_worker_failures
from esker.spark.workers.z_order_worker import ZOrder
from esker.spark.write.distribution import Key, laid_out
from esker.tree.data_file import DataFile
from esker.tree.table_metadata import TableMetadata
from esker.write.rows.rewrite_file import with_lineage

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_WORKER = "esker.spark.workers.z_order_worker"
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
        session, alone = self._session()
        schema = with_lineage(group.metadata)
        written = rewriting_metadata(group, group.max_file_size)
        metadata = replace(
            written,
            sort_orders=(group.layout.sort,),
            default_sort_order_id=group.layout.sort.order_id,
        )
        with alone, named_jobs(session, f"compact files of {metadata.location}"), naming_worker_failures():
            frame = self._arranged(self._frame(session, group, schema), group, metadata, schema)
            request = WriteRequest(
                metadata=written,
                schema=schema,
                data=self._writer.fit(group.metadata, schema, frame),
                operation_id=group.operation_id,
                order=group.layout.sort if group.layout.sort.order_id else UNSORTED,
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

    def _frame(self, session: SparkSession, group: FileGroup, schema: Schema) -> DataFrame:
        request = ReadRequest(
            metadata=group.metadata, tasks=group.tasks, row_schema=group.metadata.schema, projection=schema
        )
        return self._frames.frame(request, TRUE, session)

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
