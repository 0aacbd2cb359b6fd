"""Plain PySpark on a lake behind a REST catalog, with files in an object store and credentials that expire."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from faulty_rest import FaultyRest, faulty_rest
from s3_server import ACCESS_KEY, SECRET_KEY, S3Server

import esker
from esker.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def server(bucket: str) -> Iterator[FaultyRest]:
    with faulty_rest(bucket) as found:
        yield found


def vend(server: FaultyRest, bucket: str, *, for_s: float) -> None:
    keys = {"s3.access-key-id": ACCESS_KEY, "s3.secret-access-key": SECRET_KEY}
    ends = {"s3.session-token": "t", "s3.session-token-expires-at-ms": str(int(1000 * (time.time() + for_s)))}
    server.extra = {"storage-credentials": [{"prefix": bucket, "config": {**keys, **ends}}]}


@pytest.fixture
def lake(s3: S3Server, bucket: str, server: FaultyRest, spark: SparkSession) -> Lake:
    vend(server, bucket, for_s=3600)
    reach = {name: s3.properties[name] for name in ("s3.endpoint", "s3.region")}
    lake = esker.connect(server.uri, properties=reach, spark=spark)
    lake.create_namespace("sales")
    orders = lake.create_table("sales.orders", "id bigint, name string")
    orders.append(pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["x", "y", "z"]}))
    return lake


def test_workers_read_write_and_change_rows_with_what_the_catalog_vends(lake: Lake, spark: SparkSession) -> None:
    lake.sql("INSERT INTO sales.orders SELECT id + 10, name FROM sales.orders")
    lake.table("sales.orders").append(spark.range(20, 22).selectExpr("id", "'new' AS name"))
    lake.sql("UPDATE sales.orders SET name = 'q' WHERE id % 2 = 1")
    found = lake.sql("SELECT id, name FROM sales.orders ORDER BY id").collect()
    expected = [(1, "q"), (2, "y"), (3, "q"), (11, "q"), (12, "y"), (13, "q"), (20, "new"), (21, "q")]
    assert [(row.id, row.name) for row in found] == expected
    files = lake.table("sales.orders").inspect.files().column("file_path").to_pylist()
    assert all(file.startswith("s3://") for file in files)


def test_workers_renew_credentials_that_have_expired(lake: Lake, server: FaultyRest, bucket: str) -> None:
    vend(server, bucket, for_s=1)
    frame = lake.table("sales.orders").scan().to_spark()  # with credentials that are over before it runs
    time.sleep(1.5)
    vend(server, bucket, for_s=3600)
    asked = len(server.requests("GET", "/tables/orders"))
    assert sorted(row.id for row in frame.collect()) == [1, 2, 3]
    assert len(server.requests("GET", "/tables/orders")) > asked
