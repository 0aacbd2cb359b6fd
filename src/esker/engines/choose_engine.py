"""Chooses between the Arrow engine and Spark, for writing data and for changing rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from esker.arrow.write.arrow_writer import ArrowWriter
from esker.errors import InvalidInput, Unsupported
from esker.model.predicates.predicate_sql import quote_name
from esker.model.schema import Schema
from esker.model.types import Field
from esker.ports.engine import SparkFrames, Writer, WriteRequest
from esker.ports.merging import Clause, MergePlan, Merger, PreparedMerge, Side, SqlText, UpdateRow
from esker.ports.row_changes import KeyedRows, RowDelta, RowEngine, RowView
from esker.ports.storage import Storage
from esker.spark.rows.row_keeper import RowKeeper
from esker.spark.session.jobs import named_jobs
from esker.spark.workers.worker_failures import naming_worker_failures
from esker.tree.data_file import DataFile
from esker.tree.table_metadata import TableMetadata

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


# ---------------------------------------------------------------- writing: a Spark DataFrame by Spark's workers, all
# other data in this process


class AnyWriter:
    """Implements ``ports.engine.Writer``. Imports nothing of Spark before it gets a Spark DataFrame."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._arrow = ArrowWriter(storage)

    def fit(self, metadata: TableMetadata, schema: Schema, data: object) -> Any:
        """The data, fitted to the schema by the engine that will write it."""
        return self._writer_of(data).fit(metadata, schema, data)

    def write(self, request: WriteRequest) -> Iterator[DataFile]:
        """Write new data files."""
        return self._writer_of(request.data).write(request)

    def describe(
        self,
        metadata: TableMetadata,
        location: str,
        *,
        folders: Mapping[str, str | None] | None = None,
        ignore_extra_columns: bool = False,
    ) -> DataFile:
        """Describe an existing file. Raises ``InvalidInput`` if it does not fit the table."""
        return self._arrow.describe(metadata, location, folders=folders, ignore_extra_columns=ignore_extra_columns)

    def _writer_of(self, data: object) -> Writer:
        from esker.spark.write.frame_schema import is_spark_frame

        return self._spark if is_spark_frame(data) else self._arrow

    @cached_property
    def _spark(self) -> Writer:
        from esker.spark.write.spark_writer import SparkWriter

        return SparkWriter(self._storage)


# ---------------------------------------------------------------- small DataFrames: rows that this process can hold are
# upserted without a join on the cluster


_ROWS, _BYTES = 2_000_000, 256 << 20  # of a source, as Arrow data
_FILES = 512 << 20  # of the files that it may change, as stored
_FIXED = 16  # bytes of a value of fixed length, at most


@dataclass(frozen=True, slots=True)
class SmallSource:
    """Rows to upsert in this process; and how Spark would do it, if the files to change are large."""

    here: KeyedRows
    plan: MergePlan


def hold(
    metadata: TableMetadata, plan: MergePlan, engine: RowEngine, keeper: RowKeeper
) -> tuple[MergePlan, SmallSource | None]:
    """Return the plan with a fixed source, and the rows of the source if they are few. None instead of rows, also if
    the Arrow engine does not accept them unchanged: then Spark's rules decide."""
    held = keeper.keep(plan.source, metadata, "the rows to upsert")
    kept = replace(plan, source=held)
    rows = _few(held)
    if rows is None:
        return kept, None
    try:
        return kept, SmallSource(engine.keyed(metadata, rows, plan.key), kept)
    except (InvalidInput, Unsupported):
        return kept, None


def suits(view: RowView) -> bool:
    """Whether the files to change are small enough to be changed in this process."""
    return sum(task.data_file.file_size for task in view.tasks) <= _FILES


def _few(frame: DataFrame) -> pa.Table | None:
    lengths = []
    for field in frame.schema.fields:
        match field.dataType.typeName():
            case "string" | "binary":
                lengths.append(f"coalesce(sum(octet_length({quote_name(field.name)})), 0)")
            case "array" | "map" | "struct" | "variant":
                return None  # their length is unknown without reading each value
    with named_jobs(frame.sparkSession, "measure the rows to upsert"):
        told: Any = frame.selectExpr("count(*)", *lengths).collect()[0]
        count = int(told[0])
        size = sum(map(int, told[1:])) + count * _FIXED * len(frame.columns)
        return frame.toArrow() if count <= _ROWS and size <= _BYTES else None


# ---------------------------------------------------------------- changing rows: Arrow if it can, without a JVM; Spark
# for DataFrames and for expressions of Spark SQL


class LateMerger:
    """Implements ``ports.merging.Merger``. Imports nothing of Spark before the first merge."""

    def __init__(
        self,
        get_frames: Callable[[], SparkFrames | None],
        writer: Writer,
        get_session: Callable[[], SparkSession],
        keeper: RowKeeper,
    ) -> None:
        self._get_frames = get_frames
        self._writer = writer
        self._get_session = get_session
        self._keeper = keeper

    def takes(self, text: str) -> bool:
        """Whether Spark is installed and the text may be an expression of Spark SQL. Does not start Spark."""
        if find_spec("pyspark") is None:
            return False
        from esker.errors import InvalidInput
        from esker.spark.sql.grammar.table_references import parse_query

        try:
            return len(parse_query(f"SELECT {text}").expressions) == 1
        except InvalidInput:
            return False

    def source_columns(self, metadata: TableMetadata, plan: MergePlan) -> tuple[MergePlan, tuple[Field, ...]]:
        """The columns of the source, as Spark sees them."""
        merger = self._merger
        with naming_worker_failures():
            return merger.source_columns(metadata, plan)

    def prepare(self, metadata: TableMetadata, plan: MergePlan) -> PreparedMerge:
        """Let Spark parse every expression, then check the source's keys."""
        merger = self._merger
        with naming_worker_failures():
            return merger.prepare(metadata, plan)

    def merge(self, view: RowView, prepared: PreparedMerge) -> RowDelta:
        """Join, find the rows that are removed, and write the new rows."""
        merger = self._merger
        with naming_worker_failures():
            return merger.merge(view, prepared)

    @cached_property
    def _merger(self) -> Merger:
        if find_spec("pyspark") is None:
            raise Unsupported("cannot merge: PySpark is not installed; pip install 'esker[spark]'", feature="pyspark")
        from esker.spark.rows.merger import SparkMerger

        frames = self._get_frames()
        assert frames is not None  # a lake has them
        return SparkMerger(frames, self._writer, self._get_session, self._keeper)


class AnyRowEngine:
    """Implements ``ports.row_changes.RowEngine``."""

    def __init__(self, arrow: RowEngine, merger: Merger, keeper: RowKeeper) -> None:
        self._arrow = arrow
        self._merger = merger
        self._keeper = keeper

    def keyed(self, metadata: TableMetadata, data: object, on: Sequence[str]) -> KeyedRows:
        """The rows to upsert, for the engine that will do it. Few rows of a DataFrame are collected here."""
        from esker.spark.write.frame_schema import is_spark_frame

        if not is_spark_frame(data):
            return self._arrow.keyed(metadata, data, on)
        from esker.spark.rows.resolve_source import upsert_plan

        plan = upsert_plan(metadata, data, on)
        with naming_worker_failures():
            plan, small = hold(metadata, plan, self._arrow, self._keeper)
        if small is not None:
            return replace(small.here, rows=small)
        prepared = self._merger.prepare(metadata, plan)
        return KeyedRows(on=plan.key, predicate=prepared.predicate, rows=prepared)

    def upsert(self, view: RowView, keyed: KeyedRows) -> RowDelta:
        """Replace rows whose key is in the source by the source's rows, and insert the other rows of the source."""
        match keyed.rows:
            case PreparedMerge():
                return self._merger.merge(view, keyed.rows)
            case SmallSource(here, plan):
                if suits(view):
                    return self._arrow.upsert(view, here)
                return self._merger.merge(view, self._merger.prepare(view.metadata, plan))
            case _:
                return self._arrow.upsert(view, keyed)

    def update(self, view: RowView, values: Mapping[str, str]) -> RowDelta:
        """Update by Arrow if it knows the expressions, else by Spark."""
        try:
            return self._arrow.update(view, values)
        except Unsupported:
            if not view.tasks or find_spec("pyspark") is None:
                raise
        said = {name: SqlText.plain(text) for name, text in values.items()}
        clause = Clause(side=Side.MATCHED, action=UpdateRow(said))
        # The view has only rows that match its predicate, so all of them are updated.
        plan = MergePlan(on=SqlText("TRUE"), clauses=(clause,), verb="update")
        return self._merger.merge(view, self._merger.prepare(view.metadata, plan))
