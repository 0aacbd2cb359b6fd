"""The pages' Python runs with Spark as it does without."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from documentation import ROOT, python_of
from kafka_broker import Broker
from page_givens import GIVEN, order_rows
from telemetry_samples import spans, write

import esker
from esker.spark.source.register import PUSH_DOWN


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "docs/guide.md",
        "docs/data-source.md",
        "docs/merge.md",
        "docs/kafka.md",
        "docs/ingest.md",
        "docs/otlp.md",
    ],
)
def test_the_python_of_a_page_runs_on_spark(
    spark: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ESKER_CATALOG", raising=False)
    other = esker.connect(f"file://{tmp_path}/other")
    other.create_namespace("a")
    table = other.create_table("a.b", "id int")
    table.append(pa.table({"id": pa.array([1], pa.int32())}))
    shutil.copytree(table.location, tmp_path / "downloads/some_table")
    given = {
        "spark": spark,
        "frame_of_yours": spark.createDataFrame(order_rows(500, 5).to_pandas()).selectExpr("int(id) id", "ts"),
        "checkpoints": tmp_path / "checkpoints",
        "checkpoint": str(tmp_path / "checkpoint"),
        "events": spark.readStream.format("rate").load(),
    }
    spark.createDataFrame([(1, 7)], "id bigint, amount int").createOrReplaceTempView("corrections")
    write(tmp_path / "captures", "a.jsonl", spans([1, 2]))
    kafka = Broker()
    kafka.send("orders", b"a", b"b", b"c")
    kafka.send("otlp", spans([1, 2]))
    given["broker"] = kafka.address
    program = compile(python_of(ROOT / name, ("python", "python spark")), name, "exec")
    try:
        exec(program, {"__name__": "page", **GIVEN.get(name, {}), **given})
    finally:
        for query in spark.streams.active:
            query.stop()
        kafka.close()
        spark.catalog.dropTempView("corrections")
        spark.conf.unset(PUSH_DOWN)
