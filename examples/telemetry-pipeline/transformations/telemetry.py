"""Files of OTLP, in any framing, into the tables of a lake: one append flow for each table, dead letters among them."""

from pyspark import pipelines as dp
from pyspark.sql import SparkSession

import esker
from esker.otlp import telemetry_frame

spark = SparkSession.active()
lake = esker.connect(spark.conf.get("telemetry.lake"))
esker.spark.register(spark, lake)

columns = "path string, modificationTime timestamp, length bigint, content binary"  # Spark's, of such files
files = spark.readStream.format("binaryFile").schema(columns).load(spark.conf.get("telemetry.captures"))


def into(table, change=lambda rows: rows):
    """A sink for a table, and the flow that fills it. Frames are made here: inside of a flow's function, Spark lets
    nobody ask a frame for its columns."""
    name = table.replace(".", "_")
    rows = change(telemetry_frame(lake, files, table, value="content", framed=True))
    dp.create_sink(name=name, format="esker", options={"path": table})

    @dp.append_flow(target=name, name=f"{name}_flow")
    def flow():
        return rows


into("otel.spans", lambda rows: rows.where("SpanName <> 'GET /health'"))  # a flow may change rows
into("otel.logs")
into("otel.dead_letter")
