"""A program of its own, for a process holds one kind of session: what one Spark Connect server is asked for.

Run with a folder for a lake, the folder of the table to read, and a file for what it saw, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

STATEMENTS = (
    "CREATE NAMESPACE sales",
    "CREATE TABLE sales.orders (id bigint NOT NULL, region string, ts timestamp) PARTITIONED BY (region)",
    "INSERT INTO sales.orders SELECT id, if(id % 2 = 0, 'eu', 'us'), timestamp '2026-01-01 00:00:00' FROM range(6)",
    "CREATE TABLE sales.copy AS SELECT * FROM sales.orders WHERE region = 'eu'",
    "INSERT OVERWRITE sales.orders PARTITION (region = 'us') SELECT 100, ts FROM sales.copy LIMIT 1",
    "DELETE FROM sales.orders WHERE id = 0",
    "CREATE TEMP VIEW mine AS SELECT id AS key FROM sales.orders",
    "CREATE VIEW sales.europe (key, time) AS SELECT id, ts FROM copy WHERE region = 'eu'",
    "CREATE NAMESPACE odd",
    """CREATE TABLE odd.things TBLPROPERTIES ('format-version' = '3') AS
        SELECT id, if(id = 0, null, parse_json('{"a":[7]}')) v FROM range(2)""",
    "UPDATE odd.things SET id = 5 WHERE v IS NOT NULL",
)
QUERIES = (
    "SELECT o.id, c.id, m.key FROM sales.orders o LEFT JOIN sales.copy c USING (id) JOIN mine m ON m.key = o.id "
    "WHERE o.ts >= '2026-01-01' ORDER BY o.id",
    "SELECT count(*) FROM sales.orders.files f JOIN sales.orders.snapshots s ON true",
    "SHOW TABLES IN sales",
    "TABLE sales.copy ORDER BY id",
    "SELECT key FROM sales.europe WHERE key > 1 ORDER BY key",
    "SELECT id, v:a[0]::int FROM odd.things ORDER BY id",
)


def main(folder: str, table: str, answer: str) -> None:
    """Do all three on one server, and write down what came of it."""
    warnings.simplefilter("ignore")
    from entry_points import tried
    from pyspark.sql import SparkSession

    import esker

    builder: Any = SparkSession.builder.remote("local[2]")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "Asia/Kathmandu",
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    lake = esker.connect(f"sqlite:///{folder}/catalog.db", warehouse=f"{folder}/warehouse", spark=spark)
    before = dict(spark.conf.getAll)
    found = {
        "session": type(spark).__module__,
        "read": read(spark, esker.open_table(table)),
        "written": written(spark, lake),
        "sql": answered(lake),
        "merged": merged(spark, lake),
        "source": sourced(spark, lake, folder),
        "telemetry": telemetry(spark, lake, folder),
        "views": viewed(spark, folder),
        "first calls": tried(spark.newSession, folder),
        "attached": attached(spark, folder),
        "settings kept": before == dict(spark.conf.getAll),
    }
    Path(answer).write_text(json.dumps(found))
    spark.stop()
    os._exit(0)  # PySpark's own farewell asks the server that has just been stopped, again and again


def read(spark: Any, table: Any) -> dict[str, Any]:
    """How many rows Spark and Arrow agreed on."""
    from spark_tables import agrees

    frame = table.scan().to_spark(spark)
    return {
        "whole": agrees(table.scan(), spark),
        "filtered": agrees(table.scan("called = 'n3' AND id > 10"), spark),
        "renamed member": agrees(table.scan("s.new = 4", columns=["s.new", "id"]), spark),
        "metadata columns": agrees(table.scan(columns=["id", "_file", "_pos"]), spark),
        "again": [frame.count(), frame.filter("id < 5").count()],
        "default session": table.scan().to_spark().count(),
    }


def written(spark: Any, lake: Any) -> dict[str, Any]:
    """What an append and a refused one left."""
    import esker

    lake.create_namespace("a")
    columns = "id bigint not null, name string, ts timestamp"
    table = lake.create_table("a.t", columns, partition_by=["bucket(3, name)"], sort_by=["ts desc"])
    rows = spark.range(0, 1000, 1, 4).selectExpr("id", "concat('n', id % 10) name", "timestamp_micros(id) ts")
    table.append(rows)
    refusal = ""
    try:
        table.append(rows.selectExpr("nullif(id, 500) id"))
    except esker.EskerError as error:
        refusal = f"{type(error).__name__}: {error}"
    return {
        "rows": table.scan().count(),
        "partitions": sorted(part["name_bucket"] for part in table.inspect.files()["partition"].to_pylist()),
        "sum": sum(table.scan().to_arrow()["id"].to_pylist()),
        "refusal": refusal,
    }


def answered(lake: Any) -> list[list[list[str]]]:
    """What the queries gave, after the statements."""
    for statement in STATEMENTS:
        lake.sql(statement)
    frames = [lake.sql(query) for query in QUERIES]  # Connect looks at them again when they are used
    return [[list(map(str, row)) for row in frame.collect()] for frame in frames]


def attached(spark: Any, folder: str) -> dict[str, Any]:
    """What people type first, on a session that a lake is attached to."""
    from attached import typed

    import esker

    return typed(spark, esker.connect(f"sqlite:///{folder}/attached.db", warehouse=f"{folder}/attached", spark=spark))


def viewed(spark: Any, folder: str) -> dict[str, Any]:
    """Attacks by stored views that were not refused by name, and ordinary views that gave other rows."""
    from guarded_views import ATTACKS, ORDINARY, SECRET, foreign_view, orders_lake

    import esker

    place = Path(folder, "views")
    place.mkdir()
    (place / "secret.txt").write_text(SECRET)
    lake = orders_lake(spark, place)
    let_through, other = [], []
    for sql, why in ATTACKS:
        text, named = (part.format(secret=place / "secret.txt", canary=place / "canary") for part in (sql, why))
        foreign_view(lake, "sales.attack", text)
        try:
            lake.sql("SELECT * FROM sales.attack").collect()
            let_through.append(text)
        except esker.EskerError as error:
            if named not in str(error):
                let_through.append(f"{text}: {error}")
    for sql, rows in ORDINARY[::3]:  # each starts jobs, and a server in a process of its own is slow
        foreign_view(lake, "sales.ordinary", sql.format(), ", ".join(f"c{at} string" for at in range(len(rows[0]))))
        found = [tuple(row) for row in lake.sql("SELECT * FROM sales.ordinary").collect()]
        if sorted(map(repr, found)) != sorted(map(repr, rows)):
            other.append(f"{sql}: {found}")
    return {"let through": let_through, "other": other, "canary": (place / "canary").exists()}


def merged(spark: Any, lake: Any) -> dict[str, Any]:
    """What a merge, a delete by any condition and an upsert left, and what a merge was refused with."""
    import esker

    table = lake.create_table(
        "a.merged", "id bigint, name string", format_version=3, properties={"write.merge.mode": "merge-on-read"}
    )
    table.append(spark.range(0, 10, 1, 2).selectExpr("id", "'old' name"))
    source = spark.range(8, 12).selectExpr("id", "concat('{', id, '}') name")
    merge = table.merge(source, "t.id = s.id").when_matched_delete("s.id = 8").when_matched_update("*")
    merge.when_not_matched_insert("*").commit()
    table.delete("abs(id) IN (SELECT id FROM range(5))")
    table.upsert(source.where("id = 11").selectExpr("id + 1 AS id", "name"), on=["id"])
    refusal = ""
    try:
        table.merge(source, "t.id = s.nosuch").when_matched_delete().commit()
    except esker.EskerError as error:
        refusal = f"{type(error).__name__}: {error}"
    rows = [list(row.values()) for row in table.scan().to_arrow().to_pylist()]
    return {"rows": sorted(rows), "refusal": refusal}


def sourced(spark: Any, lake: Any, folder: str) -> dict[str, Any]:
    """What the data source read, wrote and streamed; the server plans, in processes of its own."""
    import esker
    from esker.spark.source.register_source import PUSH_DOWN

    esker.spark.register(spark, lake)
    table = lake.create_table("a.source", "id bigint, region string", partition_by=["region"])
    rows = spark.range(0, 20, 1, 2).selectExpr("id", "if(id % 2 = 0, 'eu', 'us') region")
    rows.write.format("esker").mode("append").save("a.source")
    lake.create_table("a.streamed", "id bigint, region string")
    stream = spark.readStream.format("esker").load("a.source").writeStream.format("esker").trigger(availableNow=True)
    stream.option("checkpointLocation", f"{folder}/checkpoint").start("a.streamed").awaitTermination(120)
    refusal = ""
    try:
        print(spark.read.format("esker").option("colums", "id").load("a.source").columns)  # Connect asks only now
    except Exception as error:
        refusal = str(error)
    found = {
        "rows": table.refresh().scan().count(),
        "read": sorted(row.id for row in spark.read.format("esker").load("a.source").where("region = 'eu'").collect()),
        "streamed": lake.table("a.streamed").scan().count(),
        "refusal": refusal,
    }
    spark.conf.unset(PUSH_DOWN)
    return found


def telemetry(spark: Any, lake: Any, folder: str) -> dict[str, Any]:
    """Requests in lines of text, streamed into the telemetry tables by a sink that goes to the server."""
    from telemetry_samples import letters, span_names, spans, write

    from esker.otlp import pipeline, roll_up, telemetry_sink

    write(Path(folder, "lines"), "a.txt", spans([1]), b"{broken\n", spans([2]))
    found: dict[str, Any] = {}
    for run, sink in enumerate((telemetry_sink(lake, application="lines"), telemetry_sink(lake))):
        lines = spark.readStream.schema("value string").text(f"{folder}/lines")
        stream = lines.writeStream.foreachBatch(sink).option("checkpointLocation", f"{folder}/lines-{run}")
        try:
            stream.trigger(availableNow=True).start().awaitTermination(120)
        except Exception as error:
            found["refusal"] = str(error)
    try:
        pipeline(spark, f"{folder}/lines", lake)
    except Exception as error:
        found["pipeline"] = f"{type(error).__name__}: {error}"
    roll_up(lake)
    rolled_up = lake.table("otel.service_red").scan(columns=["Requests"]).to_arrow()
    found["requests"] = sum(rolled_up.column("Requests").to_pylist())
    return {**found, "spans": dict(span_names(lake)), "letters": letters(lake).total()}


if __name__ == "__main__":
    main(*sys.argv[1:])
