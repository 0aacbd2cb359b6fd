"""Batches under the format ``esker``: frames hold the rows of a scan, and a write is there whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from spark_tables import answers_of
from with_deletes import commit_deletes, position_delete

import esker
from esker.spark.source.register_source import PUSH_DOWN

EVERY_TYPE = (
    "id bigint not null, b boolean, i int, f float, d double, dec decimal(20, 3), day date, t time, ts timestamp, "
    "ntz timestamp_ntz, s string, u uuid, fx fixed[4], bin binary, st struct<a: int, u: uuid>, "
    "li array<struct<x: decimal(5, 1)>>, m map<string, array<double>>"
)


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Iterator[esker.Lake]:
    """A lake that the session knows."""
    made = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "ware house"))
    made.create_namespace("sales")
    esker.spark.register(spark, made)
    yield made
    spark.conf.unset(PUSH_DOWN)


def orders(lake: esker.Lake) -> esker.Table:
    """Two partitions of two files."""
    table = lake.create_table("sales.orders", "id bigint not null, region string", partition_by=["region"])
    for start in (0, 10):
        ids = list(range(start, start + 6))
        table.append(pa.table({"id": pa.array(ids, pa.int64()), "region": ["eu", "us"] * 3}))
    return table


def files_of(table: esker.Table) -> set[str]:
    return {path.name for path in Path(table.location).rglob("*.parquet")}


def read(spark: Any, name: str = "sales.orders", **options: str) -> Any:
    return spark.read.format("esker").options(**options).load(name)


def ids_of(frame: Any) -> list[int]:
    return sorted(frame.toArrow()["id"].to_pylist())


def test_a_frame_holds_what_the_scan_does_whatever_the_type(spark: Any, lake: esker.Lake) -> None:
    table = lake.create_table("sales.types", EVERY_TYPE)
    rows = spark.range(0, 40, 1, 2).selectExpr(
        "id",
        "id % 2 = 0 b",
        "cast(id as int) i",
        "cast(id / 7 as float) f",
        "id / 7 d",
        "cast(id / 7 as decimal(20, 3)) dec",
        "date_add(date '1969-12-30', cast(id as int)) day",
        "cast('12:34:56.789012' as time(6)) t",
        "timestamp_micros(-id * 1000001) ts",
        "cast(timestamp_micros(id * 1000001) as timestamp_ntz) ntz",
        "if(id % 5 = 0, null, concat('ä', id)) s",
        "concat('0000000', id % 10, '-0000-4000-8000-0000000000ff') u",
        "cast(lpad(id, 4, '0') as binary) fx",
        "cast(concat('x', id) as binary) bin",
        "named_struct('a', cast(id as int), 'u', null) st",
        "array(named_struct('x', cast(1.5 as decimal(5, 1))), null) li",
        "map('k', array(1.5D, null)) m",
    )
    rows.write.format("esker").mode("append").save("sales.types")
    table.refresh()
    with table.alter() as change:
        change.rename_column("s", "text")
        change.add_column("later", "string")
    found, expected = answers_of(read(spark, "sales.types"), table.scan())
    assert found == expected
    assert len(found) == 40


def test_deletes_time_travel_branches_and_columns_are_read_as_the_scan_reads_them(spark: Any, lake: esker.Lake) -> None:
    table = orders(lake)
    first = table.snapshots[0]
    table.tag("v1", first.snapshot_id)
    commit_deletes(table, position_delete(table, table.scan("region = 'eu'").plan().tasks[0].data_file, [0]))
    table.refresh()
    assert ids_of(read(spark)) == sorted(table.scan().to_arrow()["id"].to_pylist())
    assert read(spark).count() == 11
    for options in ({"snapshot-id": str(first.snapshot_id)}, {"tag": "v1"}, {"as-of": str(first.timestamp_ms)}):
        assert ids_of(read(spark, **options)) == [0, 1, 2, 3, 4, 5]
    assert ids_of(read(spark, table.location, where="id >= 12")) == [12, 13, 14, 15]
    assert read(spark, columns="region").columns == ["region"]
    narrow = spark.read.format("esker").schema("region string").load("sales.orders")
    assert (narrow.columns, narrow.distinct().count()) == (["region"], 2)


def test_a_frame_stays_with_the_snapshot_that_was_current_when_it_was_made(spark: Any, lake: esker.Lake) -> None:
    table = orders(lake)
    frame = read(spark)
    table.append(pa.table({"id": [99], "region": ["eu"]}))
    assert frame.count() == 12
    assert read(spark).count() == 13


@pytest.mark.parametrize("pushed", [True, False])
def test_filters_keep_files_from_being_opened(spark: Any, lake: esker.Lake, pushed: bool) -> None:
    table = orders(lake)
    for task in table.scan("region = 'us'").plan().tasks:
        Path(task.data_file.path).unlink()
    frame = read(spark).where("region = 'eu' AND id > 1")
    if pushed:
        assert ids_of(frame) == [2, 4, 10, 12, 14]
    else:
        spark.conf.set(PUSH_DOWN, "false")  # then Spark filters by itself, and all is read
        with pytest.raises(Exception, match="NoSuchFile"):
            frame.collect()
        assert ids_of(read(spark, where="region = 'eu' AND id > 1")) == [2, 4, 10, 12, 14]


def test_modes_add_or_replace_all_or_partitions_or_what_matches(spark: Any, lake: esker.Lake) -> None:
    table = orders(lake)
    some = spark.range(100, 103).selectExpr("id", "'eu' region")

    def write(mode: str, **options: str) -> list[int]:
        some.write.format("esker").mode(mode).options(**options).save("sales.orders")
        return sorted(table.refresh().scan().to_arrow()["id"].to_pylist())

    new = [100, 101, 102]
    assert write("append", **{"snapshot-property.job": "load"}) == [*range(6), *range(10, 16), *new]
    assert table.current_snapshot is not None
    assert table.current_snapshot.summary["job"] == "load"
    assert write("overwrite", **{"replace-where": "id < 10"}) == sorted([*range(10, 16), *new, *new])
    assert write("overwrite", **{"overwrite-mode": "dynamic"}) == [11, 13, 15, *new]
    assert write("overwrite") == new
    assert write("append", branch="main", **{"if-exists": "ignore"}) == new
    table.branch("dev")
    assert write("append", branch="dev") == new
    assert table.scan(ref="dev").count() == 6


def test_a_missing_table_is_made_as_told(spark: Any, lake: esker.Lake) -> None:
    frame = spark.range(5).selectExpr("id", "timestamp_micros(id) ts")
    writer = frame.write.format("esker").mode("append").option("create", "true")
    writer.option("partitionBy", "day(ts), bucket(2, id)").option("sortBy", "id desc").save("sales.made")
    made = lake.table("sales.made")
    assert [field.name for field in made.spec.fields] == ["ts_day", "id_bucket"]
    assert made.scan().count() == 5
    (order,) = {file["sort_order_id"] for file in made.inspect.files().to_pylist()}
    assert order == made.sort_order.order_id != 0


def test_what_cannot_be_is_said_in_our_words(spark: Any, lake: esker.Lake) -> None:
    orders(lake)
    with pytest.raises(Exception, match=r"cannot take the option 'snapshot-idd': did you mean snapshot-id\?"):
        read(spark, **{"snapshot-idd": "1"})
    with pytest.raises(Exception, match=r"NoSuchTable: .*did you mean sales\.orders\?"):
        read(spark, "sales.ordres")
    with pytest.raises(Exception, match="cannot take the option stream-from here"):
        read(spark, **{"stream-from": "latest"}).count()
    with pytest.raises(Exception, match="cannot read column 'region' as int: it is string; cast it after reading"):
        spark.read.format("esker").schema("region int").load("sales.orders").count()
    with pytest.raises(Exception, match="cannot take the option replace-where: it is for mode"):
        spark.range(1).write.format("esker").mode("append").option("replace-where", "id = 1").save("sales.orders")
    with pytest.raises(Exception, match='cannot be written in the "ErrorIfExists" mode'):  # Spark's own word
        spark.range(1).write.format("esker").save("sales.orders")


def test_a_write_that_fails_leaves_the_table_and_its_folder_as_they_were(spark: Any, lake: esker.Lake) -> None:
    table = orders(lake)
    before, snapshots = files_of(table), len(table.snapshots)
    odd = spark.range(0, 4, 1, 2).selectExpr("if(id = 3, null, id) id", "'eu' region")
    with pytest.raises(Exception, match="column 'id' does not fit: it is required and cannot be null"):
        odd.write.format("esker").mode("append").save("sales.orders")
    failing = spark.range(0, 40, 1, 2).selectExpr("if(id = 39, raise_error('no'), id) id", "'eu' region")
    with pytest.raises(Exception, match="USER_RAISED_EXCEPTION"):
        failing.write.format("esker").mode("append").save("sales.orders")
    with pytest.raises(Exception, match=r"column 'region' is list.* which does not fit the table's string"):
        spark.range(3).selectExpr("id", "array(1) region").write.format("esker").mode("append").save("sales.orders")
    assert files_of(table) == before
    assert len(table.refresh().snapshots) == snapshots
