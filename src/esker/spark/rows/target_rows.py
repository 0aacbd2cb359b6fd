"""The table's side of a row change: the rows of planned files, each with the number of its file and its position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as F  # noqa: N812

from esker.arrow.read.row_metadata import CHANGE_ORDINAL, POS
from esker.model.parsing.tokens import Kind, tokens_of
from esker.model.predicates.predicate import TRUE, Bound
from esker.model.schema import Schema
from esker.model.types import LONG, Field
from esker.ports.engine import INSERT, Change, ReadRequest, ScanTask, SparkFrames
from esker.ports.row_changes import InsertRow, RowChange, RowView, SqlText, UpdateRow
from esker.read.metadata_columns import METADATA_COLUMN_NAMES, metadata_column
from esker.spark.expressions.plan_arrays import Int64s
from esker.spark.scan.apply_deletes import way_for, without_positions
from esker.spark.scan.file_scan import NUMBER, POSITION
from esker.tree.table_metadata import TableMetadata
from esker.write.rows.rewrite_file import with_lineage

if TYPE_CHECKING:
    from pyroaring import BitMap64
    from pyspark.sql import DataFrame, SparkSession

_PLACE = (  # the number of a task goes through the scan as the ordinal of a change
    Field(id=CHANGE_ORDINAL, name=NUMBER, type=LONG, required=True),
    Field(id=POS, name=POSITION, type=LONG, required=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRows:
    """Reads the files of a view. A file's number is its place among the view's tasks."""

    frames: SparkFrames
    session: SparkSession
    view: RowView
    hidden: tuple[Field, ...] = ()  # metadata columns that rows are to have besides

    def matching(self, predicate: Bound) -> DataFrame:
        """The rows of every file that pass the predicate."""
        tasks = [replace(task, residual=predicate) for task in self.view.tasks]
        return self._frame(list(enumerate(tasks)), predicate)

    def without(self, numbers: Sequence[int], gone: dict[int, Int64s]) -> DataFrame:
        """The rows of some files that stay when these positions go."""
        tasks = [(number, replace(self.view.tasks[number], residual=TRUE)) for number in numbers]
        frame = self._frame(tasks, TRUE)
        return self._without(frame, tasks, [(number, gone[number]) for number in numbers])

    def _frame(self, tasks: Sequence[tuple[int, ScanTask]], predicate: Bound) -> DataFrame:
        metadata = self.view.metadata
        rows = with_lineage(metadata)
        fields = (*rows.fields, *(column for column in self.hidden if column.id != POS), *_PLACE)
        request = ReadRequest(
            metadata=metadata,
            tasks=[
                replace(task, gone=None, change=Change(kind=INSERT, ordinal=number, snapshot_id=0))
                for number, task in tasks
            ],
            row_schema=metadata.schema,
            projection=Schema(fields=fields, schema_id=rows.schema_id),
        )
        frame = self.frames.frame(request, predicate, self.session)
        for column in self.hidden:
            if column.id == POS:
                frame = frame.withColumn(column.name, F.col(POSITION))
        gone = [(number, _numbers(task.gone)) for number, task in tasks if task.gone]
        return self._without(frame, tasks, gone) if gone else frame

    def _without(
        self, frame: DataFrame, tasks: Sequence[tuple[int, ScanTask]], gone: Sequence[tuple[int, Int64s]]
    ) -> DataFrame:
        way = way_for(self.session, [(number, task.data_file) for number, task in tasks])
        return without_positions(self.session, frame, gone, way)


def hidden_columns(change: RowChange, metadata: TableMetadata, source_columns: Sequence[str]) -> tuple[Field, ...]:
    """The metadata columns of the table that expressions of a change name.

    As in a query, a name that stands alone is a column of the source where the source has it.
    """
    shown = {field.name.lower() for field in with_lineage(metadata).fields}
    given = {name.lower() for name in source_columns}
    found = set[str]()
    for said in _expressions(change):
        tokens = tokens_of(said.text, "the expression")
        for at, token in enumerate(tokens):
            name = token.text.lower()
            if name not in METADATA_COLUMN_NAMES or name in shown or token.kind not in (Kind.WORD, Kind.QUOTED):
                continue
            is_qualified = at > 1 and tokens[at - 1].text == "."
            of_target = is_qualified and tokens[at - 2].text.lower() == change.target_name.lower()
            if of_target or (not is_qualified and name not in given):
                found.add(name)
    return tuple(column for name in sorted(found) if (column := metadata_column(name, metadata)) is not None)


def _expressions(change: RowChange) -> Iterator[SqlText]:
    yield change.on
    for clause in change.clauses:
        if clause.condition is not None:
            yield clause.condition
        if isinstance(clause.action, UpdateRow | InsertRow) and clause.action.values is not None:
            yield from clause.action.values.values()


def _numbers(positions: BitMap64) -> Int64s:
    return np.fromiter(positions, dtype=np.int64, count=len(positions))
