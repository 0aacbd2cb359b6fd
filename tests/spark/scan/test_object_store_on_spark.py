"""Plain PySpark on a lake in an object store: no jar, and no key where others can read it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa
import pytest
from mixed_tables import mixed_table, scans
from object_stores import storage_on
from s3_server import ACCESS_KEY, SECRET_KEY, S3Server
from spark_tables import agrees

import esker
from esker.lake import Lake
from esker.storage.local import LocalStorage

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


WHY = "on Spark   Arrow in the workers for 1 file: the session has no file system for s3a; put hadoop-aws on it"


def plan_of(frame: object) -> str:
    return str(frame._jdf.queryExecution().toString())  # type: ignore[attr-defined]


def test_an_explanation_says_that_arrow_reads_and_why(lake: Lake) -> None:
    assert lake.table("sales.orders").scan().explain().splitlines()[-1] == WHY
    [row] = lake.sql("EXPLAIN UPDATE sales.orders SET name = 'q' WHERE id = 1").collect()
    assert WHY in row.plan.splitlines()


def test_the_native_reader_is_refused_by_name_where_the_jar_is_missing(s3: S3Server, lake: Lake, bucket: str) -> None:
    lake.sql("ALTER TABLE sales.orders SET TBLPROPERTIES ('read.spark.reader' = 'native')")
    with pytest.raises(esker.Unsupported, match="own reader: the session has no file system for s3a; put hadoop-aws"):
        lake.table("sales.orders").scan().to_spark()
    said = lake.table("sales.orders").scan().explain().splitlines()[-1]
    assert said.startswith("on Spark   cannot read s3://")
    properties = {**s3.properties, "read.spark.reader": "auto"}  # what the lake says wins
    other = esker.connect(f"{bucket}/warehouse", properties=properties, spark=lake.spark)
    assert other.table("sales.orders").scan().to_spark().count() == 3
    lake.sql("ALTER TABLE sales.orders SET TBLPROPERTIES ('read.spark.reader' = 'jar')")
    with pytest.raises(esker.InvalidInput, match="reader=jar: it is auto, native or arrow"):
        lake.table("sales.orders").scan().to_spark()
    with pytest.raises(esker.InvalidInput, match="auto, native or arrow"):
        esker.connect(f"{bucket}/warehouse", properties={**properties, "read.spark.reader": "x"})


@pytest.mark.parametrize("place", ["t", "odd folder %41+é/t"])
def test_workers_read_deletes_evolved_columns_and_odd_names(
    s3: S3Server, bucket: str, spark: SparkSession, place: str
) -> None:
    table = mixed_table(storage_on(s3), f"{bucket}/{place}").table()
    for name, scan in scans(table).items():
        assert agrees(scan, spark) > 0, name


def test_arrow_can_be_chosen_for_local_files(tmp_path: Path, spark: SparkSession) -> None:
    table = mixed_table(LocalStorage(), f"{tmp_path}/t").table(properties={"read.spark.reader": "arrow"})
    assert "FileScan" not in plan_of(table.scan().to_spark(spark))
    assert agrees(table.scan(), spark) == 489


class Mounted(LocalStorage):
    """Files on this machine that Hadoop knows under another scheme, and Esker by no path."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = root

    def _here(self, location: str) -> str:
        return location.replace("viewfs://mounted/data", str(self._root))

    def local_path(self, location: str) -> str | None:
        return None

    def open(self, location: str) -> BinaryIO:
        return super().open(self._here(location))

    def read(self, location: str) -> bytes:
        return super().read(self._here(location))

    def size(self, location: str) -> int:
        return super().size(self._here(location))

    def write_new(self, location: str, data: bytes) -> None:
        super().write_new(self._here(location), data)


def test_a_scheme_of_hadoop_alone_is_read_by_sparks_own_reader(tmp_path: Path, spark: SparkSession) -> None:
    key = "fs.viewfs.mounttable.mounted.link./data"
    spark.conf.set(key, tmp_path.as_uri())
    try:
        table = mixed_table(Mounted(tmp_path), "viewfs://mounted/data/odd folder %41+é", all_formats=False).table()
        assert "Spark's own reader through viewfs for 12 files" in table.scan().explain()
        for name in ("all columns", "a filter", "a filter on a partition"):
            scan = scans(table)[name]
            frame = scan.to_spark(spark)
            assert "FileScan parquet" in plan_of(frame), name
            assert agrees(scan, spark) > 0, name
    finally:
        spark.conf.unset(key)
