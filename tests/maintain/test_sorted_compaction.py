"""Compaction that orders rows: sorted files, and z-order, by which a filter on any of its columns skips most files."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from doors import MemoryLake
from orders import NAME, orders
from sound_tables import check_sound, live_files, rows_of

from esker.arrow.z_order import comparable, cuts_of, z_values
from esker.model.types import DATE, DOUBLE, LONG, STRING
from esker.table import Table

POINTS = "id bigint, x int, y string, z double"


@pytest.fixture
def memory() -> MemoryLake:
    return MemoryLake()


def points(memory: MemoryLake, count: int = 4000, files: int = 8, **how: object) -> Table:
    """Points in no order, in some files."""
    drawn = random.Random(7)
    table = orders(memory.lake(), schema=POINTS, **how)  # type: ignore[arg-type]
    each = count // files
    for at in range(files):
        table.append(
            pa.table(
                {
                    "id": pa.array(range(at * each, (at + 1) * each), pa.int64()),
                    "x": pa.array([drawn.randrange(1000) for _ in range(each)], pa.int32()),
                    "y": [f"{drawn.randrange(10**6):06}" for _ in range(each)],
                    "z": [None if drawn.random() < 0.01 else drawn.gauss(0, 1) for _ in range(each)],
                }
            )
        )
    return table


def kept(table: Table, where: str) -> int:
    return table.scan(where).plan().funnel.files_kept


def size_of(table: Table, files: int) -> int:
    return sum(file.file_size for file in live_files(table)) // files


BOXES = ("x between 100 and 150", "y between '200000' and '250000'", "z between 0.1 and 0.2")


@pytest.mark.slow
def test_by_z_order_a_box_on_any_column_keeps_few_files(memory: MemoryLake) -> None:
    """At most 30 % of the files that the unsorted table keeps, for each of the two columns."""
    table = points(memory, count=32_000, files=64)
    before = [kept(table, box) for box in BOXES[:2]]
    assert before == [64, 64]
    table.compact("z-order", sort_by=["x", "y"], target_file_size=size_of(table, 64))
    files = len(live_files(table))
    assert files >= 32
    for box in BOXES[:2]:
        assert kept(table, box) <= 0.3 * files, box
    assert kept(table, "x between 100 and 150 and y between '200000' and '250000'") <= 0.1 * files
    assert rows_of(table) == list(range(32_000))
    check_sound(memory.lake(), NAME, deep=False)


def test_sorted_files_do_not_overlap(memory: MemoryLake) -> None:
    table = points(memory)
    table.compact("sort", sort_by=["x desc", "y"], target_file_size=size_of(table, 8))
    found = table.scan(columns=["x", "_file", "_pos"]).to_arrow().to_pylist()
    by_file: dict[str, list[int]] = {}
    for row in sorted(found, key=lambda row: (row["_file"], row["_pos"])):
        by_file.setdefault(row["_file"], []).append(row["x"])
    assert len(by_file) >= 4
    assert all(values == sorted(values, reverse=True) for values in by_file.values())
    ends = sorted((min(values), max(values)) for values in by_file.values())
    assert all(one[1] <= other[0] for one, other in pairwise(ends))
    assert {file.sort_order_id for file in live_files(table)} == {0}, "no order of the table's"
    assert rows_of(table) == list(range(4000))


def test_the_order_of_the_table_is_used_and_recorded(memory: MemoryLake) -> None:
    table = points(memory, sort_by=["z nulls last"])
    assert table.compact(rewrite_all=True).files_added == 1
    assert {file.sort_order_id for file in live_files(table)} == {0}, "rows that are only copied are not sorted"
    table.compact("sort")
    (file,) = live_files(table)
    assert file.sort_order_id == table.sort_order.order_id
    values = table.scan(columns=["z"]).to_arrow().column(0).to_pylist()
    known = [value for value in values if value is not None]
    assert known == sorted(known)
    assert values == known + [None] * (len(values) - len(known))


def test_sorting_rewrites_all_files_unless_it_is_not_to(memory: MemoryLake) -> None:
    table = points(memory, files=4)
    assert table.compact("sort", sort_by=["x"], dry_run=True, rewrite_all=False).files == 0
    assert table.compact("sort", sort_by=["x"], dry_run=True).files == 4


def test_partitions_are_sorted_apart(memory: MemoryLake) -> None:
    table = points(memory, files=4, partition_by=["bucket(2, id)"])
    assert len(table.compact("z-order", sort_by=["x", "z"], dry_run=True).groups) == 2
    report = table.compact("z-order", sort_by=["x", "z"])
    assert report.files_added == 2
    assert rows_of(table) == list(range(4000))


# ---------------------------------------------------------------- the numbers behind it


def test_comparable_numbers_have_the_order_of_the_values() -> None:
    cases = (
        (LONG, [None, -(2**63) + 1, -1, 0, 1, 2**63 - 1], pa.int64()),
        (DOUBLE, [None, float("-inf"), -1.5, -0.0, 0.5, 1e300, float("inf")], pa.float64()),
        (STRING, [None, "a", "ab", "b", "é", "日本"], pa.string()),
        (DATE, [None, -5, 0, 7], pa.int32()),
    )
    for type_, values, arrow in cases:
        array = pa.array(values, arrow)
        array = array.cast(pa.date32()) if type_ == DATE else array
        found = comparable(array, type_).tolist()
        assert found == sorted(found), type_
        assert len(set(found)) == len(found), type_


def test_bits_are_interleaved_from_the_highest() -> None:
    column = np.arange(4, dtype=np.int64)
    cuts = np.array([1, 2, 3], dtype=np.int64)
    xs, ys = np.repeat(column, 4), np.tile(column, 4)
    order = np.argsort(z_values([xs, ys], [cuts, cuts]), kind="stable")
    walked = [(int(xs[at]), int(ys[at])) for at in order]
    assert walked[:8] == [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3), (1, 2), (1, 3)]


def test_a_column_of_few_values_counts_as_much_as_one_of_many() -> None:
    """Ranks are spread over the whole range: a switch divides the rows in two at the first bit."""
    switch = np.array([0, 1] * 50, dtype=np.int64)
    many = np.arange(100, dtype=np.int64)
    order = z_values([switch, many], [cuts_of(switch, 2), cuts_of(many, 2)])
    assert max(order[switch == 0]) < min(order[switch == 1])


def test_no_rows_have_no_cuts() -> None:
    assert len(cuts_of(np.array([], dtype=np.int64), 2)) == 0
