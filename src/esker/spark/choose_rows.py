"""Who changes rows: Arrow what it can, without a JVM; Spark what is a DataFrame's or takes its expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING

from esker.errors import Unsupported
from esker.model.types import Field
from esker.ports.engine import Writer
from esker.ports.merging import Clause, MergePlan, Merger, PreparedMerge, Side, SqlText, UpdateRow
from esker.ports.row_changes import KeyedRows, RowDelta, RowEngine, RowView
from esker.ports.spark_frames import SparkFrames
from esker.spark.rows.keep import RowKeeper
from esker.spark.rows.small import SmallSource, hold, suits
from esker.spark.worker_failures import naming_worker_failures
from esker.tree.table_metadata import TableMetadata

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
        from esker.spark.sql.references import parse_query

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
        from esker.spark.frame_schema import is_spark_frame

        if not is_spark_frame(data):
            return self._arrow.keyed(metadata, data, on)
        from esker.spark.rows.upsert import upsert_plan

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
