"""Spark's TIME type, which sessions have to be told to take."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from esker.errors import Unsupported
from esker.model.schema import walk
from esker.model.types import Field, TimeType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTING = "spark.sql.timeType.enabled"


def check_times(session: SparkSession, fields: Iterable[Field]) -> None:
    """``Unsupported`` for a column of times where the session takes none. It is asked again at every use of a frame,
    so setting it for a moment would not help."""
    names = [".".join(part.name for part in path) for f, path in walk(tuple(fields)) if isinstance(f.type, TimeType)]
    if names and str(session.conf.get(SETTING, "false")).lower() != "true":
        raise Unsupported(
            f"cannot give column {names[0]!r} to Spark: its type time needs spark.conf.set({SETTING!r}, 'true'); "
            "or leave the column out of columns=[…]",
            feature="time",
            column=names[0],
        )
