"""The data source on real executor processes, in which Esker cannot be imported. Run as a program: folder, master.

Prints one JSON document of what it saw. The driver finds Esker by ``ESKER_SOURCE``; where Spark plans, it is found as
the driver found it.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, os.environ.pop("ESKER_SOURCE"))
warnings.simplefilter("ignore")

# Executors work below a folder of their own; a process that plans is the driver's, and finds the real module.
VOID = """
import importlib, os, sys
if f"{os.sep}app-" in os.getcwd():
    raise ImportError("not in executors")
name, here = __name__, os.path.dirname(os.path.dirname(__file__))
while here in sys.path:
    sys.path.remove(here)
del sys.modules[name]
importlib.invalidate_caches()
sys.modules[name] = importlib.import_module(name)
"""


def main(folder: Path, master: str) -> None:
    """Write, read and stream with tasks that fail, and say what came of it."""
    from pyspark.sql import SparkSession

    import esker

    for package in ("esker", "mmh3", "msgspec", "fastavro", "pyroaring", "sqlglot", "lz4", "click", "rich"):
        (folder / "void" / package).mkdir(parents=True)
        (folder / "void" / package / "__init__.py").write_text(VOID)
    builder: Any = SparkSession.builder.master(master)
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.executorEnv.PYTHONPATH": str(folder / "void"),
        "spark.executor.memory": "600m",
        "spark.driver.memory": "600m",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.speculation": "true",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.minTaskRuntime": "1s",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    lake = esker.connect(f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "warehouse"))
    lake.create_namespace("a")
    esker.spark.register(spark, lake)
    table = lake.create_table("a.t", "id bigint, region string", partition_by=["region"])
    rows = spark.range(0, 4000, 1, 4).mapInArrow(unlucky(), "id bigint")
    rows.selectExpr("id", "concat('r', id % 3) region").write.format("esker").mode("append").save("a.t")
    ids = table.refresh().scan().to_arrow()["id"].to_pylist()
    frame = spark.read.format("esker").load("a.t").where("region = 'r1'")
    lake.create_table("a.copy", "id bigint, region string")
    stream = spark.readStream.format("esker").load("a.t").writeStream.format("esker").trigger(availableNow=True)
    stream.option("checkpointLocation", str(folder / "checkpoint")).start("a.copy").awaitTermination(120)
    merging = {"write.delete.mode": "merge-on-read"}
    vectors = lake.create_table("a.vectors", "id bigint", format_version=3, properties=merging)
    vectors.append(table.scan(columns=["id"]).to_arrow())
    vectors.delete("id IN (3, 5, 3999)")
    heard = telemetry(spark, lake, folder)
    print(
        json.dumps(
            {
                "with vectors": [
                    vectors.inspect.delete_files()["file_format"].to_pylist()[0],
                    spark.read.format("esker").load("a.vectors").count(),
                ],
                "written": [len(ids), len(set(ids))],
                "read": [frame.count(), frame.selectExpr("sum(id)").collect()[0][0]],
                "streamed": lake.table("a.copy").scan().count(),
                "heard": heard,
                "found": rows.mapInArrow(imports(), "found string").distinct().collect()[0][0],
            }
        )
    )
    spark.stop()


def telemetry(spark: Any, lake: Any, folder: Path) -> list[list[int]]:
    """Messages of Kafka, read and decoded by executors, for a sink and for a pipeline: spans and dead letters in the
    tables, and what is lost."""
    from kafka_broker import Broker
    from telemetry_samples import spans

    from esker import connect
    from esker.otlp import pipeline, telemetry_sink

    kafka = Broker()
    for partition in range(4):
        kafka.send("t", *(spans([partition * 100 + at]) for at in range(1, 51)), b"{broken", partition=partition)
    topic = spark.readStream.format("esker_kafka").option("bootstrap.servers", kafka.address).option("topic", "t")
    sink = telemetry_sink(lake)
    stream = topic.option("startingOffsets", "earliest").load().writeStream.foreachBatch(sink)
    query = stream.option("checkpointLocation", str(folder / "heard")).trigger(availableNow=True).start()
    query.awaitTermination(120)
    found = sink.checked()
    piped = pipeline(
        spark,
        f"kafka://{kafka.address}/t",
        connect(f"sqlite:///{folder}/piped/catalog.db"),
        available_now=True,
        max_offsets_per_trigger=150,
    )
    piped.awaitTermination(120)
    kafka.close()
    return [
        [account.tables["otel.spans"], account.dead_letters, account.lost + account.duplicated]
        for account in (found, piped.account)
    ]


def unlucky() -> Any:
    """The first attempt at a task fails after its rows, and that at another dawdles until a twin overtakes it."""

    def run(batches: Any) -> Any:
        import time

        from pyspark import TaskContext

        context = TaskContext.get()
        yield from batches
        if context is not None and context.attemptNumber() == 0:
            if context.partitionId() == 1:
                raise RuntimeError("this attempt fails")
            if context.partitionId() == 3:
                time.sleep(4)

    return run


def imports() -> Any:
    """Says what importing Esker in a worker comes to."""

    def run(batches: Any) -> Any:
        import importlib
        import sys

        import pyarrow

        for _ in batches:
            pass
        for name in [name for name in sys.modules if name.partition(".")[0] == "esker"]:
            del sys.modules[name]
        sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__name__ != "Parcel"]
        try:
            importlib.import_module("esker")
            found = "Esker"
        except ImportError as error:
            found = str(error)
        yield pyarrow.record_batch([pyarrow.array([found])], names=["found"])

    return run


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
