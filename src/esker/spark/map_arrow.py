"""``mapInArrow`` without its aside: it asks for pandas, which it does not use, and warns of pandas 3 on every call."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from esker.spark.workers_python import use_this_python

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def map_arrow(frame: DataFrame, task: Callable[..., Any], schema: Any) -> DataFrame:
    """The frame's rows as batches through a function of theirs, in the workers."""
    use_this_python(frame.sparkSession)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        return frame.mapInArrow(task, schema)
