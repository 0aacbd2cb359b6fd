"""A disk that fails, or a file that is gone or broken, in Spark's workers has the same error in the driver,
with its facts, and not a traceback."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

import esker
from esker.cli.commands.sql import _of_frame
from esker.engines.choose_engine import SparkRowEngine
from esker.errors import Corrupt, EskerError, InvalidInput, NoSuchFile, StorageFailed
from esker.ingest.spark.telemetry_frame import Rows, rows_here
from esker.ports.row_changes import RowChange
from esker.spark.workers.worker_failures import failure_in, noted

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


GONE = NoSuchFile("cannot read a: there is no such file", file="a")
BROKEN = Corrupt("a", "its footer is cut off", length=3)


@pytest.mark.parametrize("error", [FULL, GONE, BROKEN], ids=lambda error: type(error).__name__)
def test_the_facts_come_through_the_text_of_a_traceback(error: EskerError) -> None:
    text = f"[PYTHON_EXCEPTION] An exception was thrown from the Python worker:\n{traceback_of(error)}\n at org.apache"
    found = failure_in(text)
    assert type(found) is type(error)
    assert (found.message, found.facts) == (error.message, error.facts)


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


def spark_error(error: Exception) -> Exception:
    """What Spark raises in the driver for a worker's error."""
    from pyspark.errors import PythonException

    return PythonException(f"An exception was thrown from the Python worker:\n{traceback_of(error)}")


class Failing:
    """Spark's part of a merge, and a frame: every job ends with a worker's error."""

    columns = ("id",)
    schema = SimpleNamespace(simpleString=lambda: "struct<id:bigint>")

    def __init__(self, error: Exception) -> None:
        self._error = error

    def fail(self, *_: object) -> NoReturn:
        raise spark_error(self._error)

    toArrow = toLocalIterator = fail  # noqa: N815

    def limit(self, _: int) -> Failing:
        return self


class Lost:
    """The types between the steps of a row change: the first look at one ends with a worker's error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattr__(self, name: str) -> NoReturn:
        raise spark_error(self._error)


def actions(error: Exception) -> dict[str, Callable[[], object]]:
    """Where Esker itself lets Spark run: a worker may be reading a table there."""
    frame: Any = Failing(error)
    lost: Any = Lost(error)
    engine = SparkRowEngine(lambda: lost, lost, frame.fail, lost)
    return {
        "resolve": lambda: engine.resolve(lost, RowChange(verb="merge")),
        "decide": lambda: engine.decide(lost, lost),
        "write": lambda: engine.write(lost),
        "esker sql": lambda: _of_frame(frame, 10),
        "telemetry": lambda: list(rows_here(Rows(frame))),
    }


@pytest.mark.parametrize("action", ["resolve", "decide", "write", "esker sql", "telemetry"])
def test_a_worker_that_cannot_read_is_named_wherever_esker_runs_the_job(action: str) -> None:
    from pyspark.errors import PythonException

    with pytest.raises(StorageFailed, match=r"^cannot create a: No space left$") as raised:
        actions(FULL)[action]()
    assert raised.value.facts == FULL.facts
    with pytest.raises(PythonException):
        actions(InvalidInput("no"))[action]()
