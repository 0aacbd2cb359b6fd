"""Deleted rows that Spark finds by bitmaps in its plan, and by a join where the plan would be too large."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from spark_tables import agrees, on_disk
from table_maker import TableMaker

import esker
from esker.model.schema import Schema
from esker.model.types import LONG, STRING, Field
from esker.spark.expressions import plan_arrays
from esker.spark.scan import apply_deletes
from esker.spark.session.jobs import settings
from esker.table import Table

PLAIN = Schema(fields=(Field(id=1, name="id", type=LONG, required=True), Field(id=2, name="name", type=STRING)))
GONE = {0: (0, 63, 64, 127, 128, 4095, 4096, 8999), 2: (3,)}  # by file; the file between them has no deletes
HIDDEN = ["id", "_file", "_pos", "_row_id", "_last_updated_sequence_number"]


def physical_plan(frame: Any) -> str:
    text: str = frame._jdf.queryExecution().toString()
    return text.split("== Physical Plan ==")[1]


def table_with_deletes(folder: Path, version: int, sizes: tuple[int, ...] = (9000, 50, 9)) -> Table:
    """A table whose files have deletes at GONE: position delete files in v2, vectors in v3."""
    maker = TableMaker(PLAIN, format_version=version)
    starts = [sum(sizes[:at]) for at in range(len(sizes))]
    spans = zip(starts, sizes, strict=True)
    rows = [[{"id": n, "name": f"n{n % 7}"} for n in range(at, at + size)] for at, size in spans]
    files = [maker.data_file(each, row_group_size=1000) for each in rows]
    maker.manifest(files)
    maker.snapshot()
    gone = {at: held for at, held in GONE.items() if at < len(files)}
    if version == 2:
        maker.manifest([maker.position_deletes([(files[at].path, p) for at, held in gone.items() for p in held])])
    else:
        maker.manifest([maker.vector(held, files[at]) for at, held in gone.items()])
    maker.snapshot()
    return on_disk(maker, folder)


def files_with_deletes(version: int) -> int:
    """A position delete file applies to every file whose path is between the first and the last of its paths."""
    return 3 if version == 2 else 2


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("sizes", [(9000,), (9000, 50, 9)], ids=["one file", "files"])
def test_bitmaps_are_part_of_the_plan_and_nothing_is_joined(
    version: int, sizes: tuple[int, ...], tmp_path: Path, spark: Any
) -> None:
    table = table_with_deletes(tmp_path, version, sizes)
    left = sum(sizes) - len(GONE[0]) - (len(GONE[2]) if len(sizes) > 2 else 0)
    assert agrees(table.scan(), spark) == left
    assert agrees(table.scan(columns=HIDDEN), spark) == left
    assert agrees(table.scan("id > 100 AND id < 4099", columns=["name"]), spark) == 3998 - 4
    plan = physical_plan(table.scan().to_spark(spark))
    assert "Join" not in plan
    assert "MapInArrow" not in plan
    shown = "1 file by a bitmap" if len(sizes) == 1 else f"{files_with_deletes(version)} files by bitmaps"
    assert f"; deleted positions of {shown} in the plan" in table.scan().explain()


@pytest.mark.parametrize("version", [2, 3])
def test_above_the_bound_bitmaps_are_joined(
    version: int, tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_with_deletes(tmp_path, version)
    monkeypatch.setattr(apply_deletes, "MOST_BYTES", 9000 >> 3)
    assert f"; deleted positions of {files_with_deletes(version)} files by a join of bitmaps" in table.scan().explain()
    assert agrees(table.scan(columns=HIDDEN), spark) == 9059 - 9
    assert "Join" in physical_plan(table.scan().to_spark(spark))


def test_a_release_without_plan_arrays_joins(tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_with_deletes(tmp_path, 3)
    monkeypatch.setattr(apply_deletes, "has_plan_arrays", lambda _: False)
    assert agrees(table.scan(), spark) == 9059 - 9


def test_columns_of_a_file_may_be_left_out_of_a_frame(tmp_path: Path, spark: Any) -> None:
    """Spark refuses a scan that reads positions in two ways, also if one of them is not used."""
    table = table_with_deletes(tmp_path, 3)
    frame = table.scan(columns=HIDDEN).to_spark(spark)
    clean = table.scan(columns=HIDDEN, snapshot_id=table.snapshots[0].snapshot_id).to_spark(spark)
    for each, rows in ((frame, 9050), (clean, 9059)):
        assert each.select("id", "_pos").distinct().count() == rows
        assert each.select("id", "_row_id").distinct().count() == rows
        assert each.select("_file").distinct().count() == 3
        assert each.filter("_pos < 65 AND _pos > 62").count() == (0 if each is frame else 2)
    assert frame.count() == 9050


def test_pieces_of_a_file_and_the_reader_of_rows_find_the_same_rows(tmp_path: Path, spark: Any) -> None:
    table = table_with_deletes(tmp_path, 3, (9000,))
    for key, value in (
        ("spark.sql.files.maxPartitionBytes", "2000"),
        ("spark.sql.parquet.enableVectorizedReader", "false"),
        ("spark.sql.codegen.wholeStage", "false"),
    ):
        with settings(spark, {key: value}):
            frame = table.scan(columns=["id", "_pos"]).to_spark(spark)
            assert frame.filter("id = _pos").count() == 9000 - 8, key
            assert frame.rdd.getNumPartitions() > 3 or not key.startswith("spark.sql.files")


# ---------------------------------------------------------------- DELETE


def test_a_delete_takes_one_job_and_a_delete_again_sees_the_first(tmp_path: Path, spark: Any) -> None:
    lake = esker.connect(f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path / "w"), spark=spark)
    lake.create_namespace("a")
    properties = {"write.delete.mode": "merge-on-read"}
    table = lake.create_table("a.t", "id bigint, name string", format_version=3, properties=properties)
    for start in (0, 500, 1000):
        table.append(pa.table({"id": pa.array(range(start, start + 500)), "name": ["x"] * 500}))
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()
    before = scheduler.numTotalJobs()
    lake.sql("DELETE FROM a.t WHERE id % 100 = 7")
    assert scheduler.numTotalJobs() == before + 1
    answer = lake.sql("DELETE FROM a.t WHERE id % 50 = 7").collect()
    assert [row[-1] for row in answer] == [15]  # rows deleted
    expected = [n for n in range(1500) if n % 50 != 7]
    table = lake.table("a.t")
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == expected
    assert sorted(row[0] for row in lake.sql("SELECT id FROM a.t").collect()) == expected
    assert table.current_snapshot is not None
    assert len([task for task in table.scan().plan().tasks if task.deletes]) == 3


# ---------------------------------------------------------------- the bytes of an array


def test_bitmaps_have_the_bits_that_are_given() -> None:
    """Positions may come in several parts, in any order, and twice."""
    at = np.array
    found = apply_deletes.bitmaps_of([(1, at([64, 0])), (0, at([], np.int64)), (1, at([63, 0])), (5, at([130]))])
    assert {number: words.tolist() for number, words in found.items()} == {1: [1 - (1 << 63), 1], 5: [0, 0, 4]}


def test_spark_reads_the_arrays_that_are_given(spark: Any) -> None:
    assert plan_arrays.has_plan_arrays(spark)
    many = np.arange(-100, 10_000) << 40
    nested = [np.empty(0, np.int64), many, np.array([7])]
    row = spark.range(1).select(
        plan_arrays.plan_array(spark, many).alias("one"), plan_arrays.plan_arrays(spark, nested).alias("several")
    )
    assert [list(part) for part in row.head()] == [many.tolist(), [each.tolist() for each in nested]]
