"""A disk that fails in Spark's workers is `StorageFailed` in the driver, with its facts, and not a traceback."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import esker
from esker.errors import InvalidInput, StorageFailed
from esker.spark.worker_failures import failure_in, noted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FULL = StorageFailed("cannot create a: No space left", retryable=True, operation="create", file="a", reason="full")


def failing(error: Exception) -> Iterator[int]:
    yield 1
    raise error


def traceback_of(error: Exception) -> str:
    rows = noted(failing(error))
    assert next(rows) == 1
    try:
        next(rows)
    except Exception:
        return traceback.format_exc()
    raise AssertionError("it did not fail")


def test_the_facts_come_through_the_text_of_a_traceback() -> None:
    text = f"[PYTHON_EXCEPTION] An exception was thrown from the Python worker:\n{traceback_of(FULL)}\n at org.apache"
    found = failure_in(text)
    assert found is not None
    assert (found.message, found.facts) == (FULL.message, FULL.facts)


def test_another_error_is_left_as_it_is() -> None:
    assert failure_in(traceback_of(InvalidInput("no"))) is None
    assert failure_in("storage failed: not JSON") is None
    assert noted([1]) == [1]


@pytest.mark.spark
def test_a_disk_that_refuses_a_worker_is_named_in_the_driver(tmp_path: Path, spark: SparkSession) -> None:
    """Nobody may make files in ``/sys``, be it root."""
    if not Path("/sys/kernel").is_dir():
        pytest.skip("the system has no folder that refuses everybody")
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", spark=spark, allowed_roots=["/sys/kernel"])
    lake.create_namespace("a")
    table = lake.create_table("a.t", "id bigint", properties={"write.data.path": "/sys/kernel/data"})
    with pytest.raises(StorageFailed, match=r"cannot create /sys/kernel/data/") as raised:
        table.append(spark.range(10))
    assert not raised.value.retryable
    assert raised.value.operation == "create"
    assert "Traceback" not in raised.value.message
    assert table.snapshots == ()
