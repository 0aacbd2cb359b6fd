"""Compaction on Spark: the same files as in this process, with the same rows, several groups at a time."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from orders import NAME, orders, rows
from sound_tables import check_sound, live_files, rows_of
from with_deletes import commit_deletes, deletion_vectors, equality_delete, position_delete

import esker
from esker.lake import Lake
from esker.table import Table
from esker.tree.data_file import DataFile, FileContent

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def lake(tmp_path: Path, spark: Any) -> Lake:
    uri = f"sqlite:///{tmp_path}/catalog.db"
    return esker.connect(uri, warehouse=str(tmp_path / "warehouse"), spark=spark)


def data_files(table: Table) -> list[DataFile]:
    return sorted((f for f in live_files(table) if f.content is FileContent.DATA), key=lambda f: f.sequence_number)


@pytest.mark.parametrize("version", [2, 3])
def test_deletes_of_every_kind_are_applied_and_lineage_is_kept(lake: Lake, version: int) -> None:
    table = orders(lake, format_version=version)
    for at in range(5):
        table.append(rows(range(at * 4, at * 4 + 4), n=at))
    first, second, third, *_ = data_files(table)
    if version > 2:
        commit_deletes(table, *deletion_vectors(table, [(first, [0]), (second, [1])]))
    else:
        commit_deletes(table, position_delete(table, first, [0], named=True))
        commit_deletes(table, position_delete(table, second, [1]))
    commit_deletes(table, equality_delete(table, [10, 15], third))
    columns = ["id", "region", "n", *(["_row_id", "_last_updated_sequence_number"] if version > 2 else [])]
    before = table.scan(columns=columns).to_arrow().sort_by("id").to_pylist()
    assert len(before) == 16
    report = table.compact(engine="spark")
    assert (report.rows, report.rows_deleted, report.files_added) == (16, 4, 1)
    assert table.scan(columns=columns).to_arrow().sort_by("id").to_pylist() == before
    assert len(live_files(table)) == 1
    check_sound(lake, NAME)


def test_groups_run_at_the_same_time_and_the_session_is_left_as_it_was(lake: Lake, spark: Any) -> None:
    table = orders(lake, partition_by=["region"])
    for at in range(5):
        table.append(pa.concat_tables([rows([10 * k + at], region) for k, region in enumerate("abcd")]))
    settings = dict(spark.conf.getAll)
    report = table.compact(engine="spark", max_concurrent_groups=4)
    assert (report.groups, report.files_added, len(report.snapshots)) == (4, 4, 1)
    assert rows_of(table) == sorted(10 * k + at for k in range(4) for at in range(5))
    assert dict(spark.conf.getAll) == settings
    check_sound(lake, NAME)


def test_an_old_spec_is_brought_to_the_current_one(lake: Lake) -> None:
    table = orders(lake)
    for at in range(5):
        table.append(pa.concat_tables([rows([at], "eu"), rows([10 + at], "us")]))
    with table.alter() as change:
        change.add_partition("region")
    table.compact(engine="spark")
    assert sorted((file.spec_id, file.partition) for file in data_files(table)) == [(1, ("eu",)), (1, ("us",))]
    assert rows_of(table) == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]


def points(lake: Lake) -> Table:
    drawn = random.Random(7)
    table = orders(lake, schema="id bigint, x int, y string")
    for at in range(4):
        table.append(
            pa.table(
                {
                    "id": pa.array(range(at * 2000, at * 2000 + 2000), pa.int64()),
                    "x": pa.array([drawn.randrange(1000) for _ in range(2000)], pa.int32()),
                    "y": [f"{drawn.randrange(10**6):06}" for _ in range(2000)],
                }
            )
        )
    return table


def test_z_order_makes_files_that_a_filter_on_either_column_skips(lake: Lake) -> None:
    table = points(lake)
    size = sum(file.file_size for file in live_files(table)) // 64 + 1
    table.compact("z-order", sort_by=["x", "y"], target_file_size=size, engine="spark")
    files = len(live_files(table))
    assert 48 <= files <= 72
    for box in ("x between 100 and 110", "y between '300000' and '310000'"):
        assert table.scan(box).plan().funnel.files_kept <= 0.3 * files, box
    assert rows_of(table) == list(range(8000))


def test_sorted_files_do_not_overlap(lake: Lake) -> None:
    table = points(lake)
    size = sum(file.file_size for file in live_files(table)) // 4 + 1
    report = table.compact("sort", sort_by=["x"], target_file_size=size, engine="spark")
    assert report.files_added == 4
    assert table.scan("x = 500").plan().funnel.files_kept <= 2
    assert rows_of(table) == list(range(8000))
