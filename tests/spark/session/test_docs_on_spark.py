"""The pages' Python runs with Spark as it does without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from documentation import ROOT, python_of
from kafka_broker import Broker
from telemetry_samples import spans, write

from esker.spark.source.register_source import PUSH_DOWN


@pytest.fixture
def session(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The session, in an empty folder; what a page leaves in it is taken back."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ESKER_CATALOG", raising=False)
    yield spark
    for query in spark.streams.active:
        query.stop()
    spark.catalog.dropTempView("corrections")
    spark.conf.unset(PUSH_DOWN)


def _program(name: str) -> Any:
    return compile(python_of(ROOT / name, ("python", "python spark")), name, "exec")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "times"), [("README.md", 2), ("docs/guide.md", 1)])  # the guide's lake is in memory
@pytest.mark.usefixtures("session")
def test_the_python_of_the_first_pages_runs_on_spark_as_it_is(name: str, times: int) -> None:
    program = _program(name)
    for _ in range(times):  # in the folder that the first left
        exec(program, {"__name__": "page"})


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "docs/coming-from.md",
        "docs/data-source.md",
        "docs/merge.md",
        "docs/kafka.md",
        "docs/ingest.md",
        "docs/otlp.md",
    ],
)
def test_the_python_of_a_page_runs_on_spark(session: Any, name: str, tmp_path: Path) -> None:
    write(tmp_path / "captures", "a.jsonl", spans([1, 2]))
    kafka = Broker()
    kafka.send("orders", b"a", b"b", b"c")
    kafka.send("otlp", spans([1, 2]))
    given = {"spark": session, "checkpoints": tmp_path / "checkpoints", "broker": kafka.address}
    try:
        exec(_program(name), {"__name__": "page", **given})
    finally:
        kafka.close()
