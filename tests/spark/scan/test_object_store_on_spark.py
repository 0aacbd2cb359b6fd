"""Plain PySpark on a lake in an object store: no jar, and no key where others can read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from s3_server import ACCESS_KEY, SECRET_KEY, S3Server

import esker
from esker.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def lake(s3: S3Server, bucket: str, spark: SparkSession) -> Lake:
    lake = esker.connect(f"{bucket}/warehouse", properties=s3.properties, spark=spark)
    lake.create_namespace("sales")
    orders = lake.create_table("sales.orders", "id bigint, name string")
    orders.append(pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["x", "y", "z"]}))
    return lake


def test_workers_read_write_and_change_rows_without_a_jar(lake: Lake, spark: SparkSession) -> None:
    lake.sql("INSERT INTO sales.orders SELECT id + 10, name FROM sales.orders")
    lake.table("sales.orders").append(spark.range(20, 23).selectExpr("id", "'new' AS name"))
    lake.sql("UPDATE sales.orders SET name = 'q' WHERE id % 2 = 1")
    found = lake.sql("SELECT id, name FROM sales.orders ORDER BY id").collect()
    assert [(row.id, row.name) for row in found] == [
        *((1, "q"), (2, "y"), (3, "q"), (11, "q"), (12, "y"), (13, "q")),
        *((20, "new"), (21, "q"), (22, "new")),
    ]
    files = lake.table("sales.orders").inspect.files().column("file_path").to_pylist()
    assert all(file.startswith("s3://") for file in files)


def test_no_key_is_in_a_plan_or_a_setting(lake: Lake, spark: SparkSession) -> None:
    frame = lake.sql("SELECT * FROM sales.orders")
    java = frame._jdf.queryExecution()
    shown = java.toString()
    settings = "\n".join(f"{name}={value}" for name, value in spark.sparkContext.getConf().getAll())
    for secret in (ACCESS_KEY, SECRET_KEY):
        assert secret not in shown + settings


def test_s05_s07_rows_elsewhere_are_refused_by_spark(
    s3: S3Server, lake: Lake, bucket: str, spark: SparkSession
) -> None:
    """Another bucket, whose name begins with that of the lake's: nothing is read or written there."""
    elsewhere = s3.make_bucket(f"{bucket.removeprefix('s3://')}2") + "/warehouse"
    assert lake.address is not None
    allowing = esker.connect(**{**lake.address, "allowed_roots": [elsewhere]}, spark=spark)
    with allowing.table("sales.orders").alter() as change:
        change.set_properties({"write.data.path": elsewhere})
    allowing.sql("INSERT INTO sales.orders VALUES (4, 'far')")
    assert allowing.sql("SELECT count(*) AS n FROM sales.orders").collect()[0].n == 4
    with s3.counted() as requests:
        for act in (
            lambda: lake.sql("SELECT * FROM sales.orders").collect(),
            lambda: lake.table("sales.orders").to_spark().collect(),
            lambda: lake.table("sales.orders").append(spark.range(20, 23).selectExpr("id", "'new' AS name")),
            lambda: lake.sql("INSERT INTO sales.orders VALUES (5, 'near')"),
            lambda: lake.sql("UPDATE sales.orders SET name = upper(name) WHERE id % 2 = 0"),
            lambda: lake.sql("MERGE INTO sales.orders t USING sales.orders s ON t.id = s.id WHEN MATCHED THEN DELETE"),
        ):
            with pytest.raises(esker.InvalidInput, match=r"allowed_roots"):
                act()
    assert not [request for request in requests if elsewhere.removeprefix("s3://") in request]
    assert allowing.sql("SELECT count(*) AS n FROM sales.orders").collect()[0].n == 4
