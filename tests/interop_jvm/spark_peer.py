"""Iceberg's own Spark runtime behind a socket: ``spark_peer.py ADDRESS JARS``, run in the environment of the reference.

It reads one mapping of session settings, then SQL texts, and answers each with its columns and rows as plain Python
values, or with what went wrong. It ends when the other side does.
"""

from __future__ import annotations

import sys
import time
from multiprocessing.connection import Client, Connection
from typing import Any

from pyspark.sql import Row, SparkSession
from pyspark.sql.types import VariantVal

SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    # many small statements, each run once: what is compiled for speed costs more than it gives
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}


def main(address: str, jars: str) -> None:
    """Serve one client."""
    with Client(address, "AF_UNIX") as client:
        builder = SparkSession.builder.appName("reference")
        for key, value in {**SETTINGS, "spark.driver.extraClassPath": f"{jars}/*", **client.recv()}.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        client.send({"version": spark.version})
        try:
            _serve(client, spark)
        finally:
            spark.stop()


def _serve(client: Connection, spark: SparkSession) -> None:
    while True:
        try:
            text = client.recv()
        except EOFError:
            return
        try:
            client.send(_answer(spark, text))
        except Exception as error:  # whatever it is, the other side is told and decides
            client.send({"error": f"{type(error).__name__}: {error}"})


def _answer(spark: SparkSession, text: str) -> dict[str, Any]:
    began = time.perf_counter()
    found = spark.sql(text)
    rows = found.collect()
    return {
        "seconds": time.perf_counter() - began,
        "columns": [(field.name, field.dataType.simpleString()) for field in found.schema.fields],
        "rows": [tuple(_plain(value) for value in row) for row in rows],
    }


def _plain(value: Any) -> Any:
    match value:
        case Row():
            return {name: _plain(part) for name, part in zip(value.__fields__, value, strict=True)}
        case list():
            return [_plain(part) for part in value]
        case dict():
            return {_plain(key): _plain(part) for key, part in value.items()}
        case bytearray():
            return bytes(value)
        case VariantVal():
            return value.toPython()
        case _:
            return value


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
