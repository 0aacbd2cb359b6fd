"""The ways rows get into a table of Esker's: each is judged by the same tests in ``tests/interop_jvm``."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

import esker

Write = Callable[[esker.Table, pa.Table], object]


def _by_arrow(table: esker.Table, rows: pa.Table) -> object:
    return table.append(rows)


def _by_spark(table: esker.Table, rows: pa.Table) -> object:
    """By the workers: a few rows by one of them, so that there is one file to compare, more by two."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PySpark's, about the pandas it finds and does not need here
        frame = spark().createDataFrame(rows)
        return table.append(frame.coalesce(1) if rows.num_rows < 5 else frame)


WRITERS: dict[str, Write] = {"arrow": _by_arrow, "spark": _by_spark}

#: The test is run once for each writer; others take Arrow's, which needs no second JVM.
every_writer = pytest.mark.parametrize("write", WRITERS, indirect=True)


@cache
def spark() -> Any:
    """Plain Spark with no jar: the session that Esker writes through."""
    from esker.spark.session.spark_session import start_session

    os.environ.setdefault("ESKER_SPARK_MASTER", "local[2]")
    os.environ.setdefault("ESKER_SPARK_MEMORY", "1g")
    session = start_session()
    session.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")  # no value may depend on it
    session.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")  # what has no zone in Arrow has none in Spark
    return session
