"""Reads of an S3 lake by Spark's own reader through ``s3a``. Run as a program: folder with jars, folder to work in.

Prints one JSON document of what it saw. It starts two S3 servers with a bucket of the same name, and one session with
the jars, a page of its own and an event log.
"""

from __future__ import annotations

import json
import sys
import urllib.request
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mixed_tables import mixed_table, scans
from object_stores import storage_on
from s3_server import ACCESS_KEY, DENY, SECRET_KEY, S3Server
from spark_tables import answers_of

import esker
from esker.spark.scan.routes import Routes
from esker.table import Table

BUCKET = "one-name"
TOKEN = "session+token/that/must/never/be/shown"
MARK = "mark_of_this_query"
PLACE = "odd folder %41+é/t"


def session(jars: Path, folder: Path) -> Any:
    """A session with the jars. Its event log is text."""
    from pyspark.sql import SparkSession

    (folder / "events").mkdir()
    settings = {
        "spark.jars": ",".join(sorted(map(str, jars.glob("*.jar")))),
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.eventLog.compress": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "INFO",
    }
    builder: Any = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def plan_of(frame: Any) -> str:
    """Spark's plan, as text."""
    return str(frame._jdf.queryExecution().toString())


def compared(table: Table, arrow: Table, spark: Any, names: tuple[str, ...] = ()) -> dict[str, Any]:
    """For each scan: the number of rows, and whether Spark's own reader and Arrow's workers agree with Arrow here."""
    found = {}
    for (name, scan), other in zip(scans(table).items(), scans(arrow).values(), strict=True):
        if names and name not in names:
            continue
        native, workers = scan.to_spark(spark), other.to_spark(spark)
        own, expected = answers_of(native, scan)
        theirs, _ = answers_of(workers, other)
        found[name] = {
            "rows": len(expected),
            "native": own == expected,
            "workers": theirs == expected,
            "native reader": "FileScan parquet" in plan_of(native),
            "workers' reader": "FileScan" not in plan_of(workers),
        }
    return found


def shown_texts(spark: Any, frame: Any) -> Iterator[str]:
    """Everything that Spark shows of a frame and of the session to somebody who looks."""
    plan = frame._jdf.queryExecution()
    yield from (plan.toString(), plan.logical().prettyJson(), plan.analyzed().toJSON(), plan.executedPlan().toJSON())
    for mode in ("simple", "extended", "codegen", "cost", "formatted"):
        java = spark._jvm.org.apache.spark.sql.execution.ExplainMode
        yield plan.explainString(java.fromString(mode))
    yield json.dumps(dict(spark.conf.getAll))
    yield json.dumps(spark.sparkContext.getConf().getAll())
    yield str(spark.sql("SET -v").collect())
    pages = f"{spark.sparkContext.uiWebUrl}/api/v1/applications/{spark.sparkContext.applicationId}"
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for page in ("environment", "sql?details=true&planDescription=true", "jobs", "stages?details=true"):
        with direct.open(f"{pages}/{page}", timeout=60) as answer:
            yield answer.read().decode()


def read_with_keys(spark: Any, server: S3Server, keys: dict[str, str]) -> tuple[Any, esker.Lake]:
    """A frame of a lake with these keys, which was read, under a view that was cached."""
    lake = esker.connect(f"s3://{BUCKET}/wh", properties={**server.properties, **keys}, spark=spark)
    frame = lake.sql(f"SELECT count(*) AS {MARK}, sum(id) AS s FROM a.t WHERE id > 1")
    frame.collect()
    lake.table("a.t").scan().to_spark().createOrReplaceTempView("seen")
    spark.sql("CACHE TABLE seen_again AS SELECT * FROM seen")
    spark.sql("UNCACHE TABLE seen_again")
    return frame, lake


def changed(lake: esker.Lake, spark: Any) -> list[Any]:
    """Rows of a table that SQL changed: read by Spark's reader, written by the workers."""
    lake.create_namespace("a")
    lake.create_table("a.t", "id bigint, name string", properties={"write.update.mode": "merge-on-read"})
    lake.table("a.t").append(spark.range(0, 8, 1, 2).selectExpr("id", "'new' AS name"))
    lake.sql("UPDATE a.t SET name = upper(name) WHERE id % 2 = 1")
    lake.sql("DELETE FROM a.t WHERE id IN (4, 5)")
    lake.sql("INSERT INTO a.t SELECT id + 10, name FROM a.t WHERE id < 2")
    return [list(row) for row in lake.sql("SELECT id, name FROM a.t ORDER BY id").collect()]


def refused(lake: esker.Lake, server: S3Server) -> str:
    """The words of an error of the store, as a user gets them."""
    frame = lake.table("a.t").scan().to_spark()
    server.fail(DENY, method="GET", key="parquet", times=1000)
    server.fail(DENY, method="HEAD", key="parquet", times=1000)
    try:
        frame.collect()
    except Exception as error:
        return f"{error}\n{getattr(error, 'desc', '')}"
    finally:
        server.heal()
    return "nothing was refused"


def main(jars: Path, folder: Path) -> None:
    """Read in every way, then look for the keys."""
    one, other = S3Server.start(), S3Server.start()
    for server in (one, other):
        server.make_bucket(BUCKET)
    spark = session(jars, folder)
    maker = mixed_table(storage_on(one), f"s3://{BUCKET}/{PLACE}")
    table = maker.table(properties={"read.spark.reader": "native"})
    arrow = maker.table(properties={"read.spark.reader": "arrow"})
    found: dict[str, Any] = {"by index": compared(table, arrow, spark)}
    found["explained"] = [one_table.scan().explain().splitlines()[-1] for one_table in (maker.table(), arrow)]
    begin = Routes.__init__

    def without_index(self: Routes) -> None:
        begin(self)
        self._index_fits = False

    Routes.__init__ = without_index  # type: ignore[method-assign]
    by_path = maker.table(properties={"read.spark.reader": "native"})
    found["by path"] = compared(by_path, arrow, spark, ("a filter", "metadata columns"))
    Routes.__init__ = begin  # type: ignore[method-assign]
    found["short sizes"] = short_sizes(one, spark)
    keys = {"s3.session-token": TOKEN}
    lakes = [esker.connect(f"s3://{BUCKET}/wh", properties=s.properties, spark=spark) for s in (one, other)]
    found["changed"] = [changed(lake, spark) for lake in lakes]
    lakes[1].sql("DELETE FROM a.t WHERE id < 10")
    found["of each server"] = [lake.sql("SELECT count(*) FROM a.t").head()[0] for lake in lakes]
    frame, lake = read_with_keys(spark, one, keys)
    found["scheme"] = lake.table("a.t").scan().to_spark().inputFiles()[0].partition("-")[0]
    texts = {"plans and pages": "\n".join(shown_texts(spark, frame)), "error": refused(lake, one)}
    spark.stop()
    texts["event log"] = "\n".join(p.read_text() for p in (folder / "events").rglob("*") if p.is_file())
    found["shown"] = {
        name: [secret for secret in (ACCESS_KEY, SECRET_KEY, TOKEN) if secret in text] for name, text in texts.items()
    }
    found["marked"] = {name: MARK in text for name, text in texts.items()}
    found["error"] = texts["error"][:2000]
    for server in (one, other):
        server.stop()
    print(json.dumps(found))


def short_sizes(server: S3Server, spark: Any) -> int:
    """The rows of a file that a manifest says is half as long as it is."""
    from dataclasses import replace

    from mixed_tables import OLD, rows
    from table_maker import TableMaker

    maker = TableMaker(OLD, storage=storage_on(server), location=f"s3://{BUCKET}/short")
    file = maker.data_file(rows(0, 4000), row_group_size=100)
    maker.manifest([replace(file, file_size=file.file_size // 2)])
    table = maker.table(properties={"read.spark.reader": "native"})
    return int(table.scan().to_spark(spark).count())


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
