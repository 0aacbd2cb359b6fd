"""What people type first in PySpark, on a session that a lake is attached to: the same on classic and on Connect."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import Any

from esker.errors import AlreadyExists, InvalidInput


def typed(spark: Any, lake: Any) -> dict[str, Any]:
    """What came of it, by what was typed."""
    import esker

    lake.create_namespace("sales")
    early = spark.createDataFrame([(1, "eu"), (2, "us")], "id bigint, region string")
    esker.spark.attach(spark, lake)
    found: dict[str, Any] = {}

    def ids(frame: Any) -> list[Any]:
        return sorted(row[0] for row in frame.collect())

    spark.sql("CREATE TABLE lake.sales.orders (id bigint, region string) PARTITIONED BY (region)")
    spark.sql("INSERT INTO lake.sales.orders VALUES (1, 'eu'), (2, 'us')")
    rows = spark.createDataFrame([(3, "eu"), (4, "asia")], "id bigint, region string")
    rows.writeTo("lake.sales.orders").append()
    found["sql"] = ids(spark.sql("SELECT id FROM lake.sales.orders o WHERE o.region = 'eu'"))
    found["plain name"] = ids(spark.sql("SELECT id FROM sales.orders"))
    found["table"] = ids(spark.table("lake.sales.orders"))
    found["read.table"] = ids(spark.read.table("sales.orders").where("id > 2"))
    first = lake.table("sales.orders").snapshots[0].snapshot_id
    found["an older version"] = ids(spark.read.option("snapshot-id", first).table("lake.sales.orders"))
    orders = lake.table("sales.orders")
    orders.tag("it's first", first)
    found["a tag"] = ids(spark.read.option("tag", "it's first").table("lake.sales.orders"))
    found["a version as text"] = ids(spark.read.option("versionAsOf", str(first)).table("lake.sales.orders"))
    orders.drop_ref("it's first")
    try:
        spark.read.option("snapshot-id", "1 OR 1").table("sales.orders")
    except InvalidInput as error:
        found["no number"] = str(error)
    spark.sql(
        "MERGE INTO lake.sales.orders t USING {news} s ON t.id = s.id WHEN MATCHED THEN DELETE "
        "WHEN NOT MATCHED THEN INSERT *",
        news=spark.createDataFrame([(1, "eu"), (9, "eu")], "id bigint, region string"),
    )
    found["merged"] = ids(spark.table("sales.orders"))
    found["parameters"] = [
        ids(spark.sql("SELECT id FROM sales.orders WHERE region = :r AND id > :n", {"r": "eu", "n": 3})),
        ids(spark.sql("SELECT id FROM lake.sales.orders WHERE id IN (?, ?)", [2, 9])),
    ]
    rows.selectExpr("id + 10 AS id", "region").writeTo("lake.sales.orders").overwritePartitions()
    found["overwritePartitions"] = ids(spark.table("sales.orders"))
    rows.limit(1).selectExpr("99L AS id", "'us' AS region").writeTo("sales.orders").overwrite(
        spark_column("region", "us")
    )
    found["overwrite"] = ids(spark.table("sales.orders"))
    rows.filter("id = 3").select("id").groupBy("id").count().write.saveAsTable("lake.sales.counts")
    rows.limit(1).selectExpr("id", "5L AS count").write.mode("append").saveAsTable("sales.counts")
    found["saveAsTable"] = [list(row) for row in spark.table("sales.counts").orderBy("count").collect()]
    try:
        rows.write.saveAsTable("lake.sales.counts")
    except AlreadyExists as error:
        found["refused"] = type(error).__name__
    rows.write.insertInto("lake.sales.orders")
    found["insertInto"] = ids(spark.table("sales.orders"))
    rows.writeTo("lake.sales.made").partitionedBy("region").tableProperty("format-version", "3").create()
    rows.selectExpr("id", "upper(region) AS area").writeTo("lake.sales.made").createOrReplace()
    made = lake.table("sales.made")
    found["createOrReplace"] = [made.format_version, [field.name for field in made.schema.fields], len(made.snapshots)]
    found["older rows"] = ids(
        spark.sql(f"SELECT id FROM lake.sales.made VERSION AS OF {made.snapshots[0].snapshot_id}")
    )
    early.writeTo("lake.sales.early").create()
    early.write.mode("append").saveAsTable("sales.early")
    found["a frame from before"] = ids(spark.table("lake.sales.early"))
    found["streams"] = streamed(spark, lake)
    spark.range(3).createOrReplaceTempView("mine")
    found["a view of Spark's"] = ids(spark.table("mine"))
    found["lake.sql"] = ids(lake.sql("SELECT id FROM lake.sales.counts"))
    esker.spark.detach(spark)
    try:
        spark.sql("SELECT * FROM lake.sales.orders").collect()
        found["detached"] = "still there"
    except Exception as error:
        found["detached"] = type(error).__name__
    spark.catalog.dropTempView("mine")
    return found


def streamed(spark: Any, lake: Any) -> list[Any]:
    """A stream from a table into one that it makes."""
    with TemporaryDirectory() as folder:
        stream = spark.readStream.option("streaming-max-files-per-micro-batch", 50).table("lake.sales.early")
        writer = stream.writeStream.trigger(availableNow=True).option("checkpointLocation", folder)
        query = writer.toTable("lake.sales.new", partitionBy="region", outputMode="append")
        query.awaitTermination(120)
        assert query.exception() is None
    new = lake.table("sales.new")
    return [sorted(new.to_arrow()["id"].to_pylist()), [field.name for field in new.spec.fields], len(new.snapshots)]


def spark_column(name: str, value: str) -> Any:
    """A condition as a column."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.col(name) == value


EXPECTED = {
    "sql": [1, 3],
    "plain name": [1, 2, 3, 4],
    "table": [1, 2, 3, 4],
    "read.table": [3, 4],
    "an older version": [1, 2],
    "merged": [2, 3, 4, 9],
    "a tag": [1, 2],
    "a version as text": [1, 2],
    "no number": "cannot read with the option 'snapshot-id' = '1 OR 1': it must be a whole number",
    "parameters": [[9], [2, 9]],
    "overwritePartitions": [2, 13, 14],
    "overwrite": [13, 14, 99],
    "saveAsTable": [[3, 1], [3, 5]],
    "refused": "AlreadyExists",
    "insertInto": [3, 4, 13, 14, 99],
    "createOrReplace": [3, ["id", "area"], 2],
    "older rows": [3, 4],
    "a frame from before": [1, 1, 2, 2],
    "streams": [[1, 1, 2, 2], ["region"], 1],
    "a view of Spark's": [0, 1, 2],
    "lake.sql": [3, 3],
    "detached": "AnalysisException",
}
