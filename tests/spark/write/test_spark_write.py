"""A Spark DataFrame handed to a table is written by Spark's workers, and is then what Arrow would have written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark_writes import COLUMNS, described, files_of, frame, lake_at, on_disk, rows_of

import esker
from esker.errors import InvalidInput
from esker.spark.expressions.arrow_frames import gathered


@pytest.fixture
def lake(tmp_path: Path) -> esker.Lake:
    return lake_at(tmp_path)


@pytest.mark.parametrize(
    ("partition_by", "sort_by"),
    [
        ((), ()),
        (("bucket(4, id)",), ()),
        (("bucket(3, name)", "month(wall)"), ()),
        (("day(ts)",), ("ratio desc",)),
        (("truncate(100, id)", "year(day)"), ("name",)),
        (("truncate(500, price)",), ("bucket(5, id)", "ratio")),
        (("inner.b",), ()),
        ((), ("price desc", "id")),
    ],
)
def test_workers_write_what_arrow_writes(
    spark: Any, lake: esker.Lake, partition_by: tuple[str, ...], sort_by: tuple[str, ...]
) -> None:
    by_spark = lake.create_table("a.spark", COLUMNS, partition_by=partition_by, sort_by=sort_by)
    by_arrow = lake.create_table("a.arrow", COLUMNS, partition_by=partition_by, sort_by=sort_by)
    rows = frame(spark, 120 if partition_by == ("inner.b",) else 400)
    by_spark.append(rows)
    by_arrow.append(gathered(rows))
    assert list(map(repr, rows_of(by_spark))) == list(map(repr, rows_of(by_arrow)))  # NaN equals NaN when spelt
    assert described(by_spark) == described(by_arrow)


def test_every_node_of_a_file_has_its_field_id(spark: Any, lake: esker.Lake) -> None:
    table = lake.create_table("a.t", COLUMNS)
    table.append(frame(spark, 10, 1))
    (file,) = on_disk(table)
    schema = pq.read_schema(file)
    wanted = table.schema.id_by_name
    found: dict[str, int] = {}

    def look(field: Any, above: str) -> None:
        name = f"{above}{field.name}"
        found[name] = int(field.metadata[b"PARQUET:field_id"])
        for at in range(field.type.num_fields):
            inner = field.type.field(at)
            if name == "tags":  # pyarrow shows a map's entries as a struct that Iceberg has no id for
                look(inner.type.field(0), "tags.")
                look(inner.type.field(1), "tags.")
            else:
                look(inner, f"{name}.")

    for field in schema:
        look(field, "")
    assert found == dict(wanted)
    facts = pq.ParquetFile(file).metadata.schema
    assert {facts.column(at).physical_type for at in range(len(facts))}.isdisjoint({"INT96"})


def test_overwriting_replaces_rows_that_match(spark: Any, lake: esker.Lake) -> None:
    table = lake.create_table("a.t", "id bigint, part int", partition_by=["part"])
    rows = spark.range(0, 30, 1, 2).selectExpr("id", "cast(id % 3 as int) part")
    table.append(rows)
    table.overwrite(rows.where("part = 1 and id < 10"), "part = 1")
    assert sorted(row["id"] for row in rows_of(table)) == sorted([i for i in range(30) if i % 3 != 1 or i < 10])
    table.overwrite_partitions(rows.where("id = 5"))
    assert sorted(row["id"] for row in rows_of(table) if row["part"] == 2) == [5]
    table.overwrite(rows.where("id < 2"))
    assert [row["id"] for row in rows_of(table)] == [0, 1]


def test_a_transaction_takes_frames_and_arrow_data_alike(spark: Any, lake: esker.Lake) -> None:
    table = lake.create_table("a.t", "id bigint")
    with table.transaction() as tx:
        tx.append([{"id": 1}])
        tx.append(spark.range(2, 4))
        tx.append(spark.range(4, 6))
    assert len(table.snapshots) == 1
    assert [row["id"] for row in rows_of(table)] == [1, 2, 3, 4, 5]


def test_a_table_may_be_overwritten_by_what_was_read_from_it(spark: Any, lake: esker.Lake) -> None:
    table = lake.create_table("a.t", "id bigint")
    table.append(spark.range(10))
    table.overwrite(table.scan().to_spark(spark).where("id % 2 = 0"))
    assert [row["id"] for row in rows_of(table)] == [0, 2, 4, 6, 8]


def test_a_frame_of_no_rows_adds_no_file(spark: Any, lake: esker.Lake) -> None:
    table = lake.create_table("a.t", "id bigint", partition_by=["bucket(2, id)"])
    table.append(spark.range(0))
    assert files_of(table) == []
    assert len(table.snapshots) == 1


def test_a_lake_in_memory_takes_frames_too(spark: Any) -> None:
    lake = esker.connect("memory:")
    lake.create_namespace("a")
    table = lake.create_table("a.t", "id bigint not null")
    table.append(spark.range(3))
    assert [row["id"] for row in rows_of(table)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        (["id", "1 as nam"], "the data has a column 'nam' that the table does not have; did you mean 'name'?"),
        (["'x' as name"], "the required column 'id' is missing from the data"),
        (["string(id) as id"], "column 'id' is string in the data, which does not fit the table's long"),
        (["id", "id as ID"], "the data has a column 'ID' that the table does not have"),
        (["id", "timestamp_ntz'2020-01-01' as ts"], "one has a time zone and the other has none"),
        (["id", "named_struct('a', 1, 'c', 2) as inner"], "the data has a column 'inner.c' that the table does not"),
        (["id", "interval 1 day as name"], "column 'name' cannot be written: its Spark type is 'interval day'"),
        (["id", "parse_json('1') as name"], "column 'name' is variant in the data, which does not fit"),
        (["id", "1.5D as price"], "column 'price' is double in the data, which does not fit the table's decimal"),
    ],
)
def test_columns_that_cannot_fit_are_refused_before_any_job_runs(
    spark: Any, lake: esker.Lake, terms: list[str], message: str
) -> None:
    table = lake.create_table("a.t", COLUMNS)
    group = f"refused-{len(message)}-{terms[-1][:10]}"
    spark.sparkContext.setJobGroup(group, "none should run")
    with pytest.raises(InvalidInput) as refused:
        table.append(spark.range(5).selectExpr(*terms))
    assert message in str(refused.value)
    assert spark.sparkContext.statusTracker().getJobIdsForGroup(group) == []
    assert table.current_snapshot is None


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        (["if(id = 7, null, id) as id"], "column 'id' does not fit: it is required and cannot be null"),
        (["id", "cast(cast('ff' as binary) || unhex('ff') as string) as name"], "column 'name' does not fit"),
        (["id", "cast(id * 1000000000000 as decimal(20,0)) as price"], "column 'price' does not fit"),
        (["id", "named_struct('a', id * 3000000000, 'b', 'x') as inner"], "column 'inner.a' does not fit"),
    ],
)
def test_values_that_do_not_fit_are_refused_by_workers_and_leave_nothing(
    spark: Any, lake: esker.Lake, terms: list[str], message: str
) -> None:
    table = lake.create_table("a.t", COLUMNS, partition_by=["bucket(2, id)"])
    with pytest.raises(InvalidInput) as refused:
        table.append(spark.range(0, 20, 1, 2).selectExpr(*terms))
    assert message in str(refused.value)
    assert table.refresh().current_snapshot is None
    assert on_disk(table) == set()


def test_names_match_without_case_and_in_any_order(spark: Any, lake: esker.Lake) -> None:
    table = lake.create_table("a.t", "id bigint, Name string", partition_by=["truncate(1, Name)"], sort_by=["Name"])
    table.append(spark.range(3).selectExpr("concat('n', id) as NAME", "id as ID"))
    assert rows_of(table) == [{"id": at, "Name": f"n{at}"} for at in range(3)]


def test_columns_not_given_take_their_defaults(spark: Any, lake: esker.Lake) -> None:
    table = lake.create_table("a.t", "id bigint, kind string, note string", partition_by=["kind"], format_version=3)
    with table.alter() as change:
        change.set_default("kind", "plain")
    table.append(spark.range(2))
    assert rows_of(table) == [{"id": at, "kind": "plain", "note": None} for at in range(2)]


def test_names_with_dots_blanks_and_backticks_are_names(spark: Any, lake: esker.Lake) -> None:
    awkward = "a.b `c` d"
    table = lake.create_table("a.t", pa.schema([(awkward, pa.int64())]), sort_by=["`a.b ``c`` d` desc"])
    table.append(spark.range(3).toDF(awkward))
    assert rows_of(table) == [{awkward: at} for at in range(3)]
