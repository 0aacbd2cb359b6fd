"""Rows are spread, ordered and sized as the table asks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from spark_writes import files_of, lake_at, on_disk

import esker
from esker.spark.write.distribution import distribution_mode

SCATTERED = ["id", "cast(id % 8 as int) part", "if(id % 9 = 0, double('NaN'), if(id % 2 = 0, -0D, 0D) * id) f"]


@pytest.fixture
def lake(tmp_path: Path) -> esker.Lake:
    return lake_at(tmp_path)


def scattered(spark: Any, rows: int = 800, parts: int = 4) -> Any:
    """Rows of which every task has some of every partition, in no order."""
    return spark.range(0, rows, 1, parts).selectExpr("id * 7919 % 800 as id").selectExpr(*SCATTERED)


@pytest.mark.parametrize(
    ("partition_by", "sort_by", "chosen", "mode"),
    [
        ((), (), None, "none"),
        (("part",), (), None, "hash"),
        (("part",), ("id",), None, "range"),
        ((), ("id",), None, "range"),
        (("part",), ("id",), "none", "none"),
        (("part",), (), " HASH", "hash"),
    ],
)
def test_the_mode_of_spreading_follows_the_table(
    lake: esker.Lake, partition_by: tuple[str, ...], sort_by: tuple[str, ...], chosen: str | None, mode: str
) -> None:
    properties = {} if chosen is None else {"write.distribution-mode": chosen.strip()}
    table = lake.create_table("a.t", "id bigint, part int", partition_by=partition_by, sort_by=sort_by)
    with table.alter() as change:
        change.set_properties(properties)
    assert distribution_mode(table.metadata) == mode


@pytest.mark.parametrize(
    ("properties", "files"),
    [
        ({}, 8),
        ({"write.distribution-mode": "range"}, 8),
        ({"write.distribution-mode": "none"}, 32),
        ({"write.distribution-mode": "none", "write.spark.fanout.enabled": "true"}, 32),
        ({"write.distribution-mode": "hash", "write.spark.fanout.enabled": "true"}, 8),
    ],
)
def test_rows_of_a_partition_come_together_unless_they_are_not_spread(
    spark: Any, lake: esker.Lake, properties: dict[str, str], files: int
) -> None:
    table = lake.create_table("a.t", "id bigint, part int, f double", partition_by=["part"], properties=properties)
    table.append(scattered(spark))
    found = files_of(table)
    assert len(found) == files
    assert sum(file["record_count"] for file in found) == 800


def test_rows_come_together_without_adaptive_execution_too(spark: Any, lake: esker.Lake) -> None:
    table = lake.create_table("a.t", "id bigint, part int, f double", partition_by=["bucket(4, id)"])
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        table.append(scattered(spark))
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")
    assert len(files_of(table)) == 4


@pytest.mark.parametrize("fans_out", ["true", "false"])
@pytest.mark.parametrize("sort_by", [("f desc nulls last", "id"), ("f", "id desc"), ("bucket(3, id)", "id")])
def test_every_file_is_in_the_tables_order(
    spark: Any, lake: esker.Lake, fans_out: str, sort_by: tuple[str, ...]
) -> None:
    properties = {"write.spark.fanout.enabled": fans_out, "write.parquet.row-group-limit": "30"}
    table = lake.create_table(
        "a.t", "id bigint, part int, f double", partition_by=["part"], sort_by=sort_by, properties=properties
    )
    table.append(scattered(spark))
    again = lake.create_table("a.again", "id bigint, part int, f double", partition_by=["part"], sort_by=sort_by)
    assert len(on_disk(table)) == 8
    for file in on_disk(table):
        rows = pq.read_table(file)
        again.overwrite(rows)  # the embedded writer sorts by itself, as the spec compares
        (sorted_file,) = [Path(f["file_path"]) for f in files_of(again)]
        assert repr(pq.read_table(sorted_file)["id"].to_pylist()) == repr(rows["id"].to_pylist())
        again.delete("true")
    assert {file["sort_order_id"] for file in files_of(table)} == {table.sort_order.order_id}


def test_files_end_at_the_size_that_the_table_asks_for(spark: Any, lake: esker.Lake) -> None:
    table = lake.create_table(
        "a.t", "id bigint", properties={"write.target-file-size-bytes": "100000", "write.distribution-mode": "none"}
    )
    table.append(spark.range(0, 200_000, 1, 1).selectExpr("xxhash64(id) id"))
    sizes = [file["file_size_in_bytes"] for file in files_of(table)]
    assert len(sizes) > 8
    assert max(sizes) < 200_000


def test_names_of_files_tell_task_attempt_and_operation(spark: Any, lake: esker.Lake) -> None:
    table = lake.create_table("a.t", "id bigint")
    table.append(spark.range(0, 4, 1, 2))
    names = sorted(file.name.split("-") for file in on_disk(table))
    assert [name[0] for name in names] == ["00000", "00001"]
    assert names[0][1] != names[1][1]  # the attempt, which no other task of the session has
    assert names[0][2:7] == names[1][2:7]


def test_the_advised_size_of_a_task_is_the_tables(spark: Any, lake: esker.Lake) -> None:
    properties = {"write.spark.advisory-partition-size-bytes": "3000"}
    table = lake.create_table("a.t", "id bigint, part int, f double", partition_by=["part"], properties=properties)
    table.append(scattered(spark).selectExpr("id", "0 part", "f"))
    assert len(files_of(table)) > 1  # one partition, too large for one task
