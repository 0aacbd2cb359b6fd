"""Deleting rows: by metadata where whole files match, by copying what stays otherwise; nulls and NaN as SQL has it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from doors import Door, MemoryLake
from hypothesis import given, settings
from hypothesis import strategies as st
from orders import NAME, orders, rows
from sound_tables import check_sound, live_files, manifests_of, rows_of
from with_deletes import commit_deletes, deletion_vectors, equality_delete, position_delete

from esker.table import Table
from esker.tree.manifest_list import ManifestContent


@pytest.fixture
def memory() -> MemoryLake:
    return MemoryLake()


def table_of_x(memory: MemoryLake, *files: list[Any], type_: str = "int", **how: Any) -> Table:
    """A table of ids and x, one data file per list of x."""
    lake = memory.lake()
    table = orders(lake, schema=f"id bigint, x {type_}", **how)
    arrow = {"int": pa.int32(), "double": pa.float64(), "string": pa.string()}[type_]
    at = 0
    for xs in files:
        ids = range(at, at + len(xs))
        table.append(pa.table({"id": pa.array(ids, pa.int64()), "x": pa.array(xs, arrow)}))
        at += len(xs)
    return table


def test_a_delete_of_whole_files_reads_no_data(memory: MemoryLake) -> None:
    orders(memory.lake(), partition_by=["region"])
    door = Door()
    table = memory.lake(door).table(NAME)
    for at in range(3):
        table.append(rows([at], f"r{at}"))
    door.calls.clear()
    snapshot = table.delete("region = 'r1'")
    assert snapshot is not None
    assert snapshot.operation == "delete"
    assert not [w for w in door.of("open", "read", "begin", "write") if w.endswith(".parquet")]
    assert rows_of(table) == [0, 2]
    check_sound(memory.lake(), NAME)


def test_a_delete_by_bounds_alone_reads_no_data(memory: MemoryLake) -> None:
    orders(memory.lake())
    door = Door()
    table = memory.lake(door).table(NAME)
    table.append(rows([1, 2, 3]))
    table.append(rows([7, 8, 9]))
    door.calls.clear()
    table.delete("id >= 5")
    assert not [w for w in door.of("open", "begin") if w.endswith(".parquet")]
    assert rows_of(table) == [1, 2, 3]


def test_a_delete_that_copies_is_an_overwrite(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    table.append(rows([1, 2, 3]))
    snapshot = table.delete("id = 2")
    assert snapshot is not None
    assert snapshot.operation == "overwrite"
    assert (snapshot.summary["added-records"], snapshot.summary["deleted-records"]) == ("2", "3")
    assert rows_of(table) == [1, 3]


def test_a_delete_that_matches_nothing_commits_nothing(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    first = table.append(rows([1, 2, 5]))
    there = memory.files()
    assert table.delete("id = 3") == first  # within the bounds, so the file is looked at
    assert table.delete("id = 99") == first
    assert orders_are_untouched(memory, there)
    assert len(table.refresh().snapshots) == 1


def orders_are_untouched(memory: MemoryLake, there: set[str]) -> bool:
    return memory.files() == there


def test_a_delete_on_an_empty_table_does_nothing(memory: MemoryLake) -> None:
    assert orders(memory.lake()).delete("id = 1") is None


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ("x <> 5", [0, 1, 5]),  # N2: a null is not different, it is unknown
        ("not (x = 5)", [0, 1, 5]),
        ("x not in (5)", [0, 1, 5]),
        ("x not in (5, null)", [0, 1, 2, 3, 4, 5]),
        ("not (x < 7)", [0, 1, 2, 3, 5]),
        ("x is null", [0, 2, 3, 4]),
        ("x is not null", [1, 5]),
        ("x = 5 or x is null", [2, 3, 4]),
        ("true", []),
        ("false", [0, 1, 2, 3, 4, 5]),
    ],
)
def test_n2_a_null_is_deleted_only_where_sql_says_so(memory: MemoryLake, where: str, left: list[int]) -> None:
    table = table_of_x(memory, [5, None], [6], [6, 7], [None])
    table.delete(where)
    assert rows_of(table) == left


def test_n1_a_file_without_null_counts_is_not_deleted_unread(memory: MemoryLake) -> None:
    table = table_of_x(memory, [6, None], properties={"write.metadata.metrics.default": "none"})
    [file] = live_files(table)
    assert file.metrics is not None
    assert not file.metrics.null_counts
    table.delete("x > 5")
    assert rows_of(table) == [1]


def test_n1_bounds_that_all_match_do_not_delete_a_nan_unread(memory: MemoryLake) -> None:
    table = table_of_x(memory, [1.0, float("nan")], [2.0], type_="double")
    table.delete("x < 5")
    assert rows_of(table) == [1]
    table.delete("x > 5")  # N3: NaN is larger than any number
    assert rows_of(table) == []


@settings(max_examples=40)
@given(
    st.lists(st.lists(st.sampled_from([None, 1, 2, 3]), min_size=1, max_size=4), min_size=1, max_size=3),
    st.sampled_from(["x = 2", "x <> 2", "x < 2", "x >= 2", "x in (1, 3)", "x not in (1)", "x is null", "not x > 1"]),
    st.sampled_from([[], ["x"], ["bucket(2, id)"], ["truncate(2, x)"]]),
)
def test_a_delete_removes_exactly_the_rows_that_a_scan_finds(
    files: list[list[int | None]], where: str, partition_by: list[str]
) -> None:
    memory = MemoryLake()
    table = table_of_x(memory, *files, partition_by=partition_by)
    every = set(rows_of(table))
    matching = set(table.scan(where).to_arrow().column("id").to_pylist())
    table.delete(where)
    assert set(rows_of(table)) == every - matching
    assert rows_of(table, where=where) == []
    check_sound(memory.lake(), NAME)


def test_rows_deleted_before_stay_deleted_when_their_file_is_copied(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    table.append(rows([1, 2, 3, 4]))
    [file] = live_files(table)
    commit_deletes(table, position_delete(table, file, [0]), equality_delete(table, [2], file))
    assert rows_of(table) == [3, 4]
    table.delete("id = 3")
    assert rows_of(table) == [4]
    check_sound(memory.lake(), NAME)


def test_h7_a_data_file_that_leaves_takes_its_deletion_vector_along(memory: MemoryLake) -> None:
    table = orders(memory.lake(), partition_by=["region"], format_version=3)
    table.append(pa.concat_tables([rows([1, 2], "eu"), rows([3, 4], "us"), rows([5, 6], "jp")]))
    files = {file.partition[0]: file for file in live_files(table)}
    commit_deletes(table, *deletion_vectors(table, [(files[r], [0]) for r in ("eu", "us", "jp")]))
    assert rows_of(table) == [2, 4, 6]

    whole = table.delete("region = 'eu'")  # the file goes whole
    assert whole is not None
    assert whole.summary["removed-dvs"] == "1"
    assert rows_of(table) == [4, 6]
    copied = table.delete("id = 4")  # what stays of the file is nothing
    assert copied is not None
    assert copied.summary["removed-dvs"] == "1"
    assert rows_of(table) == [6]
    table.overwrite_partitions(rows([7], "jp"))
    assert rows_of(table) == [7]
    assert not [f for f in live_files(table) if f.is_deletion_vector]
    table.append(rows([8]))
    assert not [m for m in manifests_of(table) if m.content is ManifestContent.DELETES]
    check_sound(memory.lake(), NAME)


def test_a_table_upgraded_from_v1_keeps_its_files_when_one_leaves(memory: MemoryLake) -> None:
    table = orders(memory.lake(), format_version=1, partition_by=["region"])
    table.append(pa.concat_tables([rows([1], "eu"), rows([2, 3], "us")]))
    with table.alter() as change:
        change.upgrade_format(2)
    table.append(rows([4], "jp"))
    table.delete("id in (1, 2)")
    assert rows_of(table) == [3, 4]
    assert {f.sequence_number for f in live_files(table)} <= {0, 1, 2, 3}
    check_sound(memory.lake(), NAME)
