"""Choose between the Arrow engine and Spark: for writing data, and for changing rows."""

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


# ---------------------------------------------------------------- choose writer
#
# One writer for all data: a Spark DataFrame goes to Spark's workers, all else is written in this process.


class AnyWriter:
    """Implements ``ports.engine.Writer``. Nothing of Spark is loaded before a DataFrame of Spark's is handed over."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._arrow = ArrowWriter(storage)

    def fit(self, metadata: TableMetadata, schema: Schema, data: object) -> Any:
        """The data, fitted by whom it will be written."""
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
        """A file that lies there already."""
        return self._arrow.describe(metadata, location, folders=folders, ignore_extra_columns=ignore_extra_columns)

    def _writer_of(self, data: object) -> Writer:
        from esker.spark.write.frame_schema import is_spark_frame

        return self._spark if is_spark_frame(data) else self._arrow

    @cached_property
    def _spark(self) -> Writer:
        from esker.spark.write.spark_writer import SparkWriter

        return SparkWriter(self._storage)


# ---------------------------------------------------------------- small
#
# Rows of a DataFrame that this process can hold itself: to change a little, a join over a cluster is much.


_ROWS, _BYTES = 2_000_000, 256 << 20  # of a source, as Arrow holds it
_FILES = 512 << 20  # of the files that it may change, as they lie there
_FIXED = 16  # bytes of a value that has no length of its own, at most


@dataclass(frozen=True, slots=True)
class SmallSource:
    """Rows to upsert, held here; and how Spark would do it, if the files to change are large."""

    here: KeyedRows
    plan: MergePlan


def hold(
    metadata: TableMetadata, plan: MergePlan, engine: RowEngine, keeper: RowKeeper
) -> tuple[MergePlan, SmallSource | None]:
    """The plan with its source kept still, and its rows where they are few; None too where the engine here does not
    take them as they are, for then Spark's rules decide."""
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
    """Whether the files to change are small enough to be changed here as well."""
    return sum(task.data_file.file_size for task in view.tasks) <= _FILES


def _few(frame: DataFrame) -> pa.Table | None:
    lengths = []
    for field in frame.schema.fields:
        match field.dataType.typeName():
            case "string" | "binary":
                lengths.append(f"coalesce(sum(octet_length({quote_name(field.name)})), 0)")
            case "array" | "map" | "struct" | "variant":
                return None  # nobody can say how long they are without a look at each
    with named_jobs(frame.sparkSession, "measure the rows to upsert"):
        told: Any = frame.selectExpr("count(*)", *lengths).collect()[0]
        count = int(told[0])
        size = sum(map(int, told[1:])) + count * _FIXED * len(frame.columns)
        return frame.toArrow() if count <= _ROWS and size <= _BYTES else None


# ---------------------------------------------------------------- choose rows
#
# Who changes rows: Arrow what it can, without a JVM; Spark what is a DataFrame's or takes its expressions.


class LateMerger:
    """Implements ``ports.merging.Merger``. Nothing of Spark is loaded before the first merge."""

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
        """Whether Spark is there, and the text may be an expression of its: told without starting it."""
        if find_spec("pyspark") is None:
            return False
        from esker.errors import InvalidInput
        from esker.spark.sql.grammar.table_references import parse_query

        try:
            return len(parse_query(f"SELECT {text}").expressions) == 1
        except InvalidInput:
            return False

    def source_columns(self, metadata: TableMetadata, plan: MergePlan) -> tuple[MergePlan, tuple[Field, ...]]:
        """What columns the source has, as Spark sees them."""
        merger = self._merger
        with naming_worker_failures():
            return merger.source_columns(metadata, plan)

    def prepare(self, metadata: TableMetadata, plan: MergePlan) -> PreparedMerge:
        """Let Spark read every expression, then look at the source's keys."""
        merger = self._merger
        with naming_worker_failures():
            return merger.prepare(metadata, plan)

    def merge(self, view: RowView, prepared: PreparedMerge) -> RowDelta:
        """Decide, look up what goes, write what comes."""
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
        """Rows to upsert, by whom they will be: few rows of a DataFrame are brought here."""
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
        """Rows with a key of the source are replaced by the source's, the rest of the source is inserted."""
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
        """By Arrow where it knows the expressions, else by Spark."""
        try:
            return self._arrow.update(view, values)
        except Unsupported:
            if not view.tasks or find_spec("pyspark") is None:
                raise
        said = {name: SqlText.plain(text) for name, text in values.items()}
        clause = Clause(side=Side.MATCHED, action=UpdateRow(said))
        # The view's rows are read by its predicate already, so all of them are meant.
        plan = MergePlan(on=SqlText("TRUE"), clauses=(clause,), verb="update")
        return self._merger.merge(view, self._merger.prepare(view.metadata, plan))
