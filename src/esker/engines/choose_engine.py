"""Chooses between the Arrow engine and Spark, for writing data and for changing rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

from esker.arrow.rewrite_files import ArrowFileRewriter
from esker.arrow.row_engine import ArrowRowEngine
from esker.arrow.write.arrow_writer import ArrowWriter
from esker.errors import InvalidInput, Unsupported
from esker.model.predicates.predicate_sql import quote_name
from esker.model.schema import Schema
from esker.ports.engine import SparkFrames, Writer, WriteRequest
from esker.ports.file_rewriting import EngineName, FileGroup
from esker.ports.row_changes import ResolvedChange, RowChange, RowDecisions, RowDelta, RowEngine, RowView
from esker.ports.storage import Storage, StoredFile
from esker.spark.rows.row_keeper import RowKeeper
from esker.spark.session.jobs import named_jobs
from esker.spark.workers.worker_failures import naming_worker_failures
from esker.tree.data_file import DataFile
from esker.tree.table_metadata import TableMetadata

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from esker.spark.rows.decide import DecidedOnSpark
    from esker.spark.rows.resolve import ResolvedOnSpark
    from esker.spark.write.rewrite_on_spark import SparkFileRewriter


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


# ---------------------------------------------------------------- compaction: by the size of the files


_MOST_HERE = 1 << 30


class AnyFileRewriter:
    """Implements ``ports.file_rewriting.FileRewriter``: Arrow for few bytes, Spark for many."""

    def __init__(
        self,
        arrow: ArrowFileRewriter,
        get_frames: Callable[[], SparkFrames | None],
        writer: Writer,
        get_session: Callable[[], SparkSession],
    ) -> None:
        self._arrow = arrow
        self._get_frames = get_frames
        self._writer = writer
        self._get_session = get_session

    def engine_for(self, asked: EngineName, size: int) -> EngineName:
        """The engine asked for; else Spark above 1 GiB, if it is installed."""
        there = find_spec("pyspark") is not None
        if asked == "spark" and not there:
            raise Unsupported(
                "cannot compact on Spark: PySpark is not installed; pip install 'esker[spark]', or use engine='arrow'",
                feature="pyspark",
            )
        if asked != "auto":
            return asked
        return "spark" if there and size > _MOST_HERE else "arrow"

    def rewrite(self, group: FileGroup) -> Iterator[DataFile]:
        """Write the new files of a group, by the engine that it names."""
        return self._spark.rewrite(group) if group.engine == "spark" else self._arrow.rewrite(group)

    def deleted_rows(self, group: FileGroup) -> int:
        """How many rows of the files their deletes remove."""
        return self._spark.deleted_rows(group) if group.engine == "spark" else self._arrow.deleted_rows(group)

    @cached_property
    def _spark(self) -> SparkFileRewriter:
        from esker.spark.write.rewrite_on_spark import SparkFileRewriter

        frames = self._get_frames()
        assert frames is not None  # a lake has them
        return SparkFileRewriter(frames, self._writer, self._get_session, self._arrow)


# ---------------------------------------------------------------- listing large folders


class SparkLister:
    """Implements ``ports.storage.FileLister``. Imports nothing of Spark before the first listing."""

    def __init__(self, storage: Storage, get_session: Callable[[], SparkSession]) -> None:
        self._storage = storage
        self._get_session = get_session

    def spread(self, prefix: str) -> Iterator[StoredFile]:
        """Every object below the prefix, listed by Spark's workers. Raises ``Unsupported`` without Spark."""
        if find_spec("pyspark") is None:
            raise Unsupported(
                "cannot list files on Spark: PySpark is not installed; pip install 'esker[spark]', or use "
                "engine='arrow'",
                feature="pyspark",
            )
        from esker.spark.scan.spread_jobs import list_on_spark

        return list_on_spark(self._get_session(), self._storage, prefix)


# ---------------------------------------------------------------- choose row engine
#
# Who computes a row change: Arrow what it can, without a JVM; Spark the rest. Only ``AnyRowEngine.resolve`` chooses.


class SparkRowEngine:
    """Implements ``ports.row_changes.RowEngine``. Nothing of Spark is loaded before the first step."""

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

    @property
    def is_there(self) -> bool:
        """Whether PySpark is installed."""
        return find_spec("pyspark") is not None

    def takes(self, text: str) -> bool:
        """Whether Spark is installed and the text may be an expression of Spark SQL. Does not start Spark."""
        if not self.is_there:
            return False
        from esker.spark.sql.grammar.table_references import parse_query

        try:
            return len(parse_query(f"SELECT {text}").expressions) == 1
        except InvalidInput:
            return False

    def resolve(self, metadata: TableMetadata, change: RowChange) -> ResolvedOnSpark:
        """Let Spark analyse every expression, then look at the source's keys."""
        if not self.is_there:
            raise Unsupported("cannot merge: PySpark is not installed; pip install 'esker[spark]'", feature="pyspark")
        from esker.spark.rows.resolve import resolve
        from esker.spark.session.jobs import without_call_sites

        with naming_worker_failures(), without_call_sites():
            return resolve(metadata, change, self._session_of(change), self._keeper)

    def decide(self, view: RowView, resolved: ResolvedOnSpark) -> DecidedOnSpark:
        """Run the query that decides, and find the places of the rows that go."""
        from esker.spark.rows.decide import decide
        from esker.spark.session.jobs import without_call_sites

        frames = self._get_frames()
        assert frames is not None  # a lake has them
        with naming_worker_failures(), without_call_sites():
            return decide(view, resolved, frames, self._keeper)

    def write(self, decisions: DecidedOnSpark) -> RowDelta:
        """Write the rows that come."""
        from esker.spark.rows.write_rows import write
        from esker.spark.session.jobs import without_call_sites

        with naming_worker_failures(), without_call_sites():
            return write(decisions, self._writer)

    def _session_of(self, change: RowChange) -> SparkSession:
        from esker.spark.write.frame_schema import is_spark_frame

        if change.session is not None:
            return cast("SparkSession", change.session)
        if is_spark_frame(change.source):
            return cast("SparkSession", change.source.sparkSession)
        return self._get_session()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenChange(ResolvedChange):
    """A resolved change, and the engine that resolved it."""

    engine: RowEngine[Any, Any]
    resolved: ResolvedChange
    if_files_are_large: RowChange | None = None  # the same change for Spark, where the rows of a DataFrame were fetched

    @classmethod
    def by(cls, engine: RowEngine[Any, Any], metadata: TableMetadata, change: RowChange) -> ChosenChange:
        """The change, resolved by this engine."""
        found: ResolvedChange = engine.resolve(metadata, change)
        return cls(predicate=found.predicate, new_columns=found.new_columns, engine=engine, resolved=found)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenDecisions(RowDecisions):
    """Decisions, and the engine that made them."""

    engine: RowEngine[Any, Any]
    decisions: RowDecisions


class AnyRowEngine:
    """Implements ``ports.row_changes.RowEngine`` by the engine that suits a change."""

    def __init__(self, arrow: ArrowRowEngine, spark: SparkRowEngine, keeper: RowKeeper) -> None:
        self._arrow = arrow
        self._spark = spark
        self._keeper = keeper

    def takes(self, text: str) -> bool:
        """Whether Spark is there, and the text may be an expression of its."""
        return self._spark.takes(text)

    def resolve(self, metadata: TableMetadata, change: RowChange) -> ChosenChange:
        """Choose the engine: (1) Arrow for an upsert of data that is no DataFrame; (2) Arrow for an upsert of a small
        DataFrame, whose rows are fetched; (3) Arrow for an update of a table's API by expressions that it knows;
        (4) Spark for the rest. An UPDATE of SQL is Spark's, for its casts are."""
        if change.key:
            return self._upsert(metadata, change)
        if change.verb == "update" and change.session is None and change.on.text == "TRUE":
            try:
                return ChosenChange.by(self._arrow, metadata, change)
            except Unsupported:
                if not self._spark.is_there:
                    raise
        return ChosenChange.by(self._spark, metadata, change)

    def decide(self, view: RowView, resolved: ChosenChange) -> ChosenDecisions:
        """By the engine that resolved it; by Spark where rows were fetched and the files to change are large."""
        engine, found = resolved.engine, resolved.resolved
        if resolved.if_files_are_large is not None and not suits(view):
            engine = self._spark
            found = self._spark.resolve(view.metadata, resolved.if_files_are_large)
        return ChosenDecisions(view=view, engine=engine, decisions=engine.decide(view, found))

    def write(self, decisions: ChosenDecisions) -> RowDelta:
        """By the engine that decided."""
        return decisions.engine.write(decisions.decisions)

    def _upsert(self, metadata: TableMetadata, change: RowChange) -> ChosenChange:
        from esker.spark.write.frame_schema import is_spark_frame

        if not is_spark_frame(change.source):
            return ChosenChange.by(self._arrow, metadata, change)
        from esker.spark.rows.resolve_source import merge_of_upsert

        merge = merge_of_upsert(metadata, change)
        with naming_worker_failures():
            held = self._keeper.keep(merge.source, metadata, "the rows to upsert")
            rows = _few(held)
        merge = replace(merge, source=held)
        if rows is not None:
            try:
                here = ChosenChange.by(self._arrow, metadata, replace(merge, source=rows))
                return replace(here, if_files_are_large=merge)
            except (InvalidInput, Unsupported):
                pass  # Arrow does not take the rows as they are: Spark's rules decide
        return ChosenChange.by(self._spark, metadata, merge)
