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
from esker.errors import NoSuchFile, SparkFailed
from esker.lake import Lake
from esker.ports.file_rewriting import FileGroup
from esker.spark.write import rewrite_on_spark
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


@pytest.fixture(params=["one task", "ranges"])
def sorted_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Who orders the rows: one task in memory, or Spark in ranges, as it does above a size."""
    if request.param == "ranges":
        monkeypatch.setattr(rewrite_on_spark, "_MOST_SORTED", 0)
    return str(request.param)


def test_z_order_makes_files_that_a_filter_on_either_column_skips(lake: Lake, sorted_by: str) -> None:
    table = points(lake)
    size = sum(file.file_size for file in live_files(table)) // 64 + 1
    table.compact("z-order", sort_by=["x", "y"], target_file_size=size, engine="spark")
    files = len(live_files(table))
    assert 48 <= files <= (72 if sorted_by == "ranges" else 100)  # a writer measures files of 2 kB badly
    for box in ("x between 100 and 110", "y between '300000' and '310000'"):
        assert table.scan(box).plan().funnel.files_kept <= 0.3 * files, box
    assert rows_of(table) == list(range(8000))


def test_sorted_files_do_not_overlap(lake: Lake, sorted_by: str) -> None:
    table = points(lake)
    size = sum(file.file_size for file in live_files(table)) // 4 + 1
    report = table.compact("sort", sort_by=["x"], target_file_size=size, engine="spark")
    assert report.files_added == 4
    assert table.scan("x = 500").plan().funnel.files_kept <= 2
    assert rows_of(table) == list(range(8000))


def many_files(lake: Lake) -> Table:
    """40 files of one size, with a UUID and a time of day, which Spark does not have."""
    table = orders(lake, schema="id bigint, u uuid, t time, text string")
    for at in range(40):
        ids = range(at * 50, at * 50 + 50)
        table.append(
            pa.table(
                {
                    "id": pa.array(ids, pa.int64()),
                    "u": pa.array([bytes([at]) * 16 for _ in ids], pa.binary(16)),
                    "t": pa.array([n * 1_000_000 for n in ids], pa.time64("us")),
                    "text": [f"{hash((at, n)):x}" * 4 for n in ids],
                }
            )
        )
    return table


def test_rows_that_are_only_copied_are_divided_among_tasks_that_read_and_write_alone(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No frame of Spark reads the rows, and each task writes one file."""
    table = many_files(lake)
    before = table.scan().to_arrow().sort_by("id")
    size = sum(file.file_size for file in live_files(table)) // 4 + 1
    monkeypatch.setattr(rewrite_on_spark.SparkFileRewriter, "_by_rows", None)
    report = table.compact(target_file_size=size, engine="spark")
    assert (report.files_rewritten, report.files_added) == (40, 4)
    assert table.scan().to_arrow().sort_by("id") == before
    rows_each = sorted(file.record_count for file in live_files(table))
    assert sum(rows_each) == 2000
    assert rows_each[0] >= 400
    check_sound(lake, NAME)


def test_a_large_file_among_small_ones_is_divided_by_rows(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task rewrites whole files, so its portion would be as large as the largest file."""
    found: list[FileGroup] = []
    divided = rewrite_on_spark.divided

    def seen(group: FileGroup) -> Any:
        found.append(group)
        return divided(group)

    monkeypatch.setattr(rewrite_on_spark, "divided", seen)
    table = orders(lake, schema="id bigint, text string")
    for start, count in ((0, 4000), (4000, 10), (4010, 10), (4020, 10), (4030, 10)):
        texts = [f"{hash((start, n)):x}" * 4 for n in range(count)]
        table.append(pa.table({"id": pa.array(range(start, start + count), pa.int64()), "text": texts}))
    size = sum(file.file_size for file in live_files(table)) // 2 + 1
    table.compact(target_file_size=size, engine="spark", rewrite_all=True)
    assert found
    assert all(divided(group) == [] for group in found)
    assert rows_of(table) == list(range(4040))


def test_the_files_of_a_failed_job_are_deleted(lake: Lake, tmp_path: Path) -> None:
    table = many_files(lake)
    lost = Path(data_files(table)[-1].path.removeprefix("file://"))
    lost.unlink()
    stored = set((tmp_path / "warehouse").rglob("*.parquet"))
    size = sum(file.file_size for file in live_files(table)) // 4 + 1
    with pytest.raises(NoSuchFile, match=lost.name):
        table.compact(target_file_size=size, engine="spark")
    assert set((tmp_path / "warehouse").rglob("*.parquet")) == stored


def test_a_group_that_spark_cannot_read_does_not_stop_the_others(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewrite_on_spark, "_MOST_SORTED", 0)
    table = orders(lake, partition_by=["region"])
    for at in range(5):
        table.append(pa.concat_tables([rows([at], "eu"), rows([10 + at], "us")]))
    lost = next(file for file in data_files(table) if file.partition == ("us",))
    Path(lost.path.removeprefix("file://")).unlink()
    report = table.compact("sort", sort_by=["id"], engine="spark", partial_progress=True)
    assert (report.groups, report.files_rewritten, report.files_added) == (1, 5, 1)
    (failed,) = report.failed
    assert isinstance(failed.error, SparkFailed | NoSuchFile)
    assert lost.path.rpartition("/")[2] in str(failed.error)
