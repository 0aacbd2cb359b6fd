"""The rows of planned files, each with the number of its file and its place in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from esker.model.predicate import TRUE, Bound
from esker.model.schema import Schema
from esker.model.types import LONG, STRING
from esker.ports.engine import ReadRequest, ScanTask
from esker.ports.row_changes import RowView
from esker.ports.spark_frames import SparkFrames
from esker.read.metadata_columns import metadata_column
from esker.spark.arrow_frames import frame_of_columns
from esker.spark.file_scan import NUMBER, POSITION
from esker.spark.position_deletes import Int64s, without_positions
from esker.spark.stored_columns import quoted
from esker.write.rewrite import with_lineage

if TYPE_CHECKING:
    from pyroaring import BitMap64
    from pyspark.sql import DataFrame, SparkSession

_OF = "__esker_of"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRows:
    """Reads the files of a view. A file's number is its place among the view's tasks."""

    frames: SparkFrames
    session: SparkSession
    view: RowView

    def matching(self, predicate: Bound) -> DataFrame:
        """The rows of every file that pass the predicate."""
        tasks = [replace(task, residual=predicate) for task in self.view.tasks]
        return self._frame(list(enumerate(tasks)), predicate)

    def without(self, numbers: Sequence[int], gone: dict[int, Int64s]) -> DataFrame:
        """The rows of some files that stay when these positions go."""
        tasks = [(number, replace(self.view.tasks[number], residual=TRUE)) for number in numbers]
        frame = self._frame(tasks, TRUE)
        return without_positions(self.session, frame, [(number, gone[number]) for number in numbers])

    def _frame(self, tasks: Sequence[tuple[int, ScanTask]], predicate: Bound) -> DataFrame:
        metadata = self.view.metadata
        place = tuple(column for name in ("_file", "_pos") if (column := metadata_column(name)) is not None)
        rows = with_lineage(metadata)
        request = ReadRequest(
            metadata=metadata,
            tasks=[replace(task, gone=None) for _, task in tasks],
            row_schema=metadata.schema,
            projection=Schema(fields=(*rows.fields, *place), schema_id=rows.schema_id),
        )
        frame = self.frames.frame(request, predicate, self.session)
        numbered = self._numbered(frame, tasks).select(
            *(quoted(f.name) for f in rows.fields), NUMBER, F.col("_pos").alias(POSITION)
        )
        gone = [(number, _numbers(task.gone)) for number, task in tasks if task.gone]
        return without_positions(self.session, numbered, gone) if gone else numbered

    def _numbered(self, frame: DataFrame, tasks: Sequence[tuple[int, ScanTask]]) -> DataFrame:
        """By number instead of by path: a number is cheap to shuffle."""
        if len(tasks) < 2:
            return frame.withColumn(NUMBER, F.lit(tasks[0][0] if tasks else 0).cast("bigint"))
        paths = pa.array([task.data_file.path for _, task in tasks])
        numbers = pa.array([number for number, _ in tasks], pa.int64())
        known = frame_of_columns(self.session, [(_OF, STRING, paths), (NUMBER, LONG, numbers)])
        return frame.join(F.broadcast(known), F.col("_file") == F.col(_OF))


def _numbers(positions: BitMap64) -> Int64s:
    return np.fromiter(positions, dtype=np.int64, count=len(positions))
