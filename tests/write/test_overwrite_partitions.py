"""Replacing the partitions that data falls into, whatever the transform."""

from __future__ import annotations

import pyarrow as pa
import pytest
from doors import MemoryLake
from orders import NAME, orders, rows
from sound_tables import check_sound, rows_of

from esker.errors import InvalidInput


@pytest.fixture
def memory() -> MemoryLake:
    return MemoryLake()


def test_only_the_partitions_of_the_data_are_replaced(memory: MemoryLake) -> None:
    table = orders(memory.lake(), partition_by=["region"])
    table.append(pa.concat_tables([rows([1, 2], "eu"), rows([3], "us"), rows([4], None)]))
    snapshot = table.overwrite_partitions(rows([5], "eu"))
    assert rows_of(table) == [3, 4, 5]
    assert snapshot.operation == "overwrite"
    assert snapshot.summary["changed-partition-count"] == "1"
    table.overwrite_partitions(rows([6], None))  # null is a partition too
    assert rows_of(table) == [3, 5, 6]
    check_sound(memory.lake(), NAME)


@pytest.mark.parametrize(
    ("term", "old", "new", "left"),
    [
        ("bucket(4, id)", range(8), [1], {1, *(n for n in range(8))}),
        ("truncate(10, id)", [1, 5, 11, 15], [12], {1, 5, 12}),
        ("truncate(1, region)", [1, 2], [3], {3}),
    ],
)
def test_rows_leave_with_the_partition_their_value_is_transformed_to(
    memory: MemoryLake, term: str, old: list[int], new: list[int], left: set[int]
) -> None:
    table = orders(memory.lake(), partition_by=[term])
    table.append(rows(old))
    before = {tuple(file["partition"].values()): file for file in table.inspect.files().to_pylist()}
    table.overwrite_partitions(rows(new))
    if term.startswith("bucket"):
        [bucket] = {
            tuple(f["partition"].values())
            for f in table.inspect.files().to_pylist()
            if f["file_path"] not in {b["file_path"] for b in before.values()}
        }
        assert len(rows_of(table)) == 8 - before[bucket]["record_count"] + 1
    else:
        assert set(rows_of(table)) == left


@pytest.mark.parametrize(
    ("term", "hours", "left"),
    [
        ("hour(ts)", [0, 1, 25], [1, 2]),
        ("day(ts)", [0, 1, 25], [2]),
        ("month(ts)", [0, 1, 25, 24 * 40], [3]),
        ("year(ts)", [0, 1, 25, 24 * 40, 24 * 400], [4]),
    ],
)
def test_times_leave_with_their_hour_day_month_or_year(
    memory: MemoryLake, term: str, hours: list[int], left: list[int]
) -> None:
    table = orders(memory.lake(), schema="id bigint, ts timestamp", partition_by=[term])
    hour = 3_600_000_000

    def at(ids: list[int], micros: list[int]) -> pa.Table:
        return pa.table({"id": pa.array(ids, pa.int64()), "ts": pa.array(micros, pa.timestamp("us", "UTC"))})

    table.append(at(list(range(len(hours))), [h * hour for h in hours]))
    table.overwrite_partitions(at([100], [hour // 2]))
    assert rows_of(table) == [*left, 100]


def test_without_partitions_the_whole_table_is_one(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    table.append(rows([1, 2]))
    table.overwrite_partitions(rows([3]))
    assert rows_of(table) == [3]


def test_no_rows_replace_no_partition(memory: MemoryLake) -> None:
    table = orders(memory.lake(), partition_by=["region"])
    table.append(rows([1]))
    table.overwrite_partitions(rows([]))
    assert rows_of(table) == [1]


def test_files_of_an_older_spec_are_not_guessed_at(memory: MemoryLake) -> None:
    table = orders(memory.lake(), partition_by=["region"])
    table.append(rows([1], "eu"))
    with table.alter() as change:
        change.add_partition("bucket(2, id)")
    there = memory.files()
    with pytest.raises(InvalidInput, match=r"was written with partition spec 0, the table now has 1.*overwrite\("):
        table.overwrite_partitions(rows([2], "eu"))
    assert memory.files() == there


def test_f10_zeros_of_either_sign_are_partitions_of_their_own(memory: MemoryLake) -> None:
    table = orders(memory.lake(), schema="id bigint, x double", partition_by=["x"])

    def some(ids: list[int], xs: list[float]) -> pa.Table:
        return pa.table({"id": pa.array(ids, pa.int64()), "x": pa.array(xs, pa.float64())})

    table.append(some([1, 2, 3], [0.0, -0.0, float("nan")]))
    table.overwrite_partitions(some([4], [-0.0]))
    assert rows_of(table) == [1, 3, 4]
    table.overwrite_partitions(some([5], [float("nan")]))
    assert rows_of(table) == [1, 4, 5]
