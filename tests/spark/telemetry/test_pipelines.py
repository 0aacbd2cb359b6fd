"""Declarative pipelines: tables, topics and files in, a table of the lake as the sink of an append flow; the example of
the documentation among them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from kafka_broker import broker
from telemetry_samples import letters, log_bodies, logs, span_names, spans, write

import esker

pytest.importorskip("yaml")
pytest.importorskip("grpc_status")
pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "telemetry-pipeline"
DEFINITIONS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

import esker
from esker.otlp import telemetry_frame

spark = SparkSession.active()
lake = esker.connect({uri!r})
esker.spark.register(spark, lake)
dp.create_sink(name="doubled", format="esker", options={{"path": "sales.doubled"}})
dp.create_sink(name="heard", format="esker", options={{"path": "sales.heard"}})
dp.create_sink(name="spans", format="esker", options={{"path": "otel.spans"}})


@dp.append_flow(target="doubled")
def of_a_table():
    return spark.readStream.format("esker").load("sales.orders").selectExpr("id", "2 * id twice")


@dp.append_flow(target="heard")
def of_a_topic():
    topic = spark.readStream.format("esker_kafka").option("bootstrap.servers", {broker!r})
    topic = topic.option("subscribe", "t").option("startingOffsets", "earliest")
    return topic.load().selectExpr("cast(value as string) value", "`offset`")


topic = spark.readStream.format("esker_kafka").option("bootstrap.servers", {broker!r})
requests = topic.option("subscribe", "otlp").option("startingOffsets", "earliest").load()
decoded = telemetry_frame(lake, requests, "otel.spans")


@dp.append_flow(target="spans")
def of_telemetry():
    return decoded
"""


def test_a_pipeline_streams_tables_and_topics_into_sinks_once(tmp_path: Path) -> None:
    lake = esker.connect(uri := f"sqlite:///{tmp_path}/catalog.db")
    lake.create_namespace("sales")
    lake.create_table("sales.orders", "id bigint").append(pa.table({"id": [1, 2, 3]}))
    lake.create_table("sales.doubled", "id bigint, twice bigint")
    lake.create_table("sales.heard", "value string, `offset` bigint")
    with broker() as kafka:
        kafka.send("t", b"a", b"b")
        kafka.send("otlp", spans([1, 2]), spans([3]))
        folder = example(tmp_path, uri)
        (folder / "transformations" / "flows.py").write_text(DEFINITIONS.format(uri=uri, broker=kafka.address))
        said = run_pipeline(folder)
    # The status is not asked for: when all is done, the client of PySpark 4.3 stumbles over a message of the server's
    # own (UNKNOWN_RESPONSE for __python_accumulator__), whatever Python source is in the pipeline.
    assert "Run is COMPLETED" in said, said[-3000:]
    doubled = lake.table("sales.doubled").scan().to_arrow().sort_by("id").to_pydict()
    assert doubled == {"id": [1, 2, 3], "twice": [2, 4, 6]}
    assert span_names(lake) == Counter(["span 1", "span 2", "span 3", "span 4"])
    sources = lake.table("otel.spans").scan("SpanName <> 'span 4'").to_arrow()["_source"].to_pylist()
    assert set(sources) == {"otlp/0"}
    assert (log_bodies(lake), letters(lake).total()) == (Counter(["log 1", "log 2"]), 1)
    assert lake.table("sales.heard").scan().to_arrow().to_pydict() == {"value": ["a", "b"], "offset": [0, 1]}


def example(folder: Path, uri: str) -> Path:
    """The example of the documentation with files to take in, its places set to those of a test."""
    made = folder / "example"
    shutil.copytree(EXAMPLE, made)
    specification = (made / "spark-pipeline.yml").read_text()
    for place, here in {
        "file:///var/lib/telemetry/storage": f"{folder.as_uri()}/storage",
        "/var/lib/telemetry/captures": str(folder / "captures"),
        "sqlite:////var/lib/telemetry/lake/catalog.db": uri,
    }.items():
        assert place in specification
        specification = specification.replace(place, here)
    (made / "spark-pipeline.yml").write_text(specification)
    healthy = spans([9]).replace(b"span 9", b"GET /health")
    write(folder / "captures", "a.jsonl", spans([4]), logs([1, 2]), healthy, b"{broken\n")
    return made


def run_pipeline(folder: Path) -> str:
    """What the program of pipelines says, run where its specification lies."""
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_"))}
    done = subprocess.run(
        ["bash", str(home / "bin" / "spark-pipelines"), "run"],
        env={
            **environment,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": str(ROOT / "src"),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_HOME": str(home),
            "SPARK_TESTING": "1",  # a free port for the server
        },
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
        start_new_session=True,  # the end of a local server is a signal to its whole group
    )
    return "\n".join(line for line in done.stdout.splitlines() if not line.startswith("\tat "))
