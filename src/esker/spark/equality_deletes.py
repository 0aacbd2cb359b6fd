"""Rows deleted by the values of some columns, taken out of a scan by null-safe anti-joins (checklist H3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from esker.arrow.delete_store import EqualityRows
from esker.model.types import Field
from esker.spark.arrow_frames import frame_of_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_BROADCAST = 4_000_000  # keys beyond which Spark decides how to join


def without_keys(
    session: SparkSession,
    frame: DataFrame,
    deletes: Sequence[EqualityRows],
    column_at: Callable[[Sequence[Field]], Column],
) -> DataFrame:
    """The frame without the rows whose columns equal a row of the deletes, one join per choice of columns."""
    for rows in deletes:
        names = [f"__esker_key_{at}" for at in range(len(rows.paths))]
        types = [path[-1].type for path in rows.paths]
        keys = frame_of_columns(session, list(zip(names, types, rows.columns, strict=True))).distinct()
        if len(rows.columns[0]) < _BROADCAST:
            keys = F.broadcast(keys)
        matches = [column_at(path).eqNullSafe(F.col(name)) for path, name in zip(rows.paths, names, strict=True)]
        frame = frame.join(keys, reduce(and_, matches), "left_anti")
    return frame
