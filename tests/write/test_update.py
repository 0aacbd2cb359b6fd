"""Updating rows without Spark: expressions, both modes, row lineage, and what is refused by name."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from doors import Door, MemoryLake
from orders import NAME, orders, rows
from sound_tables import check_sound, live_files, rows_of

from esker.errors import InvalidInput, NoSuchSnapshot
from esker.table import Table
from esker.tree.data_file import FileContent

BESIDE = {"write.update.mode": "merge-on-read", "write.delete.mode": "merge-on-read"}
MODES = pytest.mark.parametrize("properties", [{}, BESIDE], ids=["rewriting", "beside"])


@pytest.fixture
def memory() -> MemoryLake:
    return MemoryLake()


def values(table: Table, *columns: str) -> list[tuple[Any, ...]]:
    found = table.scan(columns=list(columns)).to_arrow()
    return sorted(zip(*(found[name].to_pylist() for name in columns), strict=True))


@MODES
@pytest.mark.parametrize("version", [1, 2, 3])
def test_rows_that_match_are_set_and_the_rest_stay(
    memory: MemoryLake, version: int, properties: dict[str, str]
) -> None:
    table = orders(memory.lake(), format_version=version, properties=properties)
    table.append(rows([1, 2, 3]))
    snapshot = table.update({"n": "n + id * 10", "region": "'us'"}, "id >= 2")
    assert snapshot is not None
    assert snapshot.operation == "overwrite"
    assert values(table, "id", "region", "n") == [(1, "eu", 1), (2, "us", 21), (3, "us", 31)]
    assert len(table.snapshots) == 2
    check_sound(memory.lake(), NAME)


def test_beside_files_only_changed_rows_are_written(memory: MemoryLake) -> None:
    table = orders(memory.lake(), properties=BESIDE)
    table.append(rows(range(1000)))
    snapshot = table.update({"n": "0"}, "id = 500")
    assert snapshot is not None
    assert (snapshot.summary["added-records"], snapshot.summary["added-position-deletes"]) == ("1", "1")


def test_a_rewritten_file_holds_changed_rows_and_those_that_stay(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    table.append(rows([1, 2, 3]))
    table.update({"n": "0"}, "id = 2")
    (file,) = live_files(table)
    assert file.record_count == 3


def test_only_files_that_may_hold_a_match_are_read(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    for at in range(5):
        table.append(rows([at * 10, at * 10 + 1]))
    door = Door()
    watched = memory.lake(door).table(NAME)
    door.calls.clear()
    watched.update({"n": "5"}, "id = 21")
    assert len({what for what in door.of("open") if what.endswith(".parquet")}) == 1


@MODES
def test_an_update_that_matches_nothing_commits_nothing(memory: MemoryLake, properties: dict[str, str]) -> None:
    table = orders(memory.lake(), properties=properties)
    first = table.append(rows([1, 5]))
    there = memory.files()
    assert table.update({"n": "0"}, "id = 3") == first
    assert table.update({"n": "0"}, "id = 300") == first
    assert memory.files() == there


@MODES
def test_a_row_that_changes_its_partition_moves(memory: MemoryLake, properties: dict[str, str]) -> None:
    table = orders(memory.lake(), partition_by=["region"], properties=properties)
    table.append(rows([1, 2], "eu"))
    table.update({"region": "'us'"}, "id = 1")
    data = [file for file in live_files(table) if file.content is FileContent.DATA]
    assert sorted(file.partition for file in data) == [("eu",), ("us",)]
    assert rows_of(table, where="region = 'us'") == [1]


@MODES
def test_without_a_filter_every_row_is_set(memory: MemoryLake, properties: dict[str, str]) -> None:
    table = orders(memory.lake(), properties=properties)
    table.append(rows([1, 2]))
    table.update({"n": "- n"})
    assert values(table, "id", "n") == [(1, -1), (2, -1)]


@MODES
def test_i7_a_row_keeps_its_id_for_life(memory: MemoryLake, properties: dict[str, str]) -> None:
    table = orders(memory.lake(), format_version=3, properties=properties)
    table.append(rows([1, 2, 3]))
    table.update({"n": "7"}, "id = 2")
    table.update({"n": "8"}, "id IN (2, 3)")
    table.delete("id = 1")
    wanted = [(2, 1, 3), (3, 2, 3)]
    assert values(table, "id", "_row_id", "_last_updated_sequence_number") == wanted


@MODES
def test_i7_a_row_that_is_copied_keeps_the_commit_that_changed_it(
    memory: MemoryLake, properties: dict[str, str]
) -> None:
    table = orders(memory.lake(), format_version=3, properties=properties)
    table.append(rows([1, 2, 3]))
    table.update({"n": "7"}, "id = 2")
    table.update({"n": "8"}, "id = 3")
    wanted = [(1, 0, 1), (2, 1, 2), (3, 2, 3)]
    assert values(table, "id", "_row_id", "_last_updated_sequence_number") == wanted


@MODES
def test_updates_of_one_transaction_follow_one_another(memory: MemoryLake, properties: dict[str, str]) -> None:
    table = orders(memory.lake(), properties=properties)
    table.append(rows([1, 2, 3]))
    with table.transaction() as tx:
        tx.append(rows([4]))
        tx.update({"n": "n + 1"}, "id <= 2")
        tx.update({"n": "n * 10"}, "id IN (2, 3, 4)")
        tx.delete("n = 20 OR id = 1")
        tx.update({"id": "id + 100"})
    assert values(table, "id", "n") == [(103, 10), (104, 10)]
    assert len(table.snapshots) == 2
    check_sound(memory.lake(), NAME)


TYPES = {
    "i": ("int", pa.array([7], pa.int32())),
    "l": ("bigint", pa.array([7], pa.int64())),
    "f": ("float", pa.array([0.5], pa.float32())),
    "d": ("double", pa.array([0.1])),
    "dec": ("decimal(9,2)", pa.array([Decimal("1.25")], pa.decimal128(9, 2))),
    "s": ("string", pa.array(["x"])),
    "b": ("boolean", pa.array([True])),
    "day": ("date", pa.array([datetime.date(2024, 2, 3)])),
    "ts": ("timestamp_ntz", pa.array([datetime.datetime(2024, 2, 3, 4)], pa.timestamp("us"))),
}


@pytest.mark.parametrize(
    ("column", "expression", "expected"),
    [
        ("i", "i + 1", 8),
        ("i", "(i - 10) * -2", 6),
        ("l", "i * l", 49),
        ("l", "NULL", None),
        ("f", "f + 1", 1.5),
        ("d", "d * 3", 0.1 * 3),
        ("d", "i / 2", 3.5),
        ("d", "l", 7.0),
        ("dec", "dec * 1.1", Decimal("1.38")),
        ("dec", "dec - 2", Decimal("-0.75")),
        ("dec", "3", Decimal("3.00")),
        ("s", "'it''s'", "it's"),
        ("b", "false", False),
        ("day", "DATE '2025-01-02'", datetime.date(2025, 1, 2)),
        ("ts", "TIMESTAMP '2025-01-02 03:04:05.5'", datetime.datetime(2025, 1, 2, 3, 4, 5, 500_000)),
        ("ts", "CAST('2025-01-02' AS TIMESTAMP)", datetime.datetime(2025, 1, 2)),
        ("i", "I + `i`", 14),
    ],
)
def test_expressions_mean_what_they_mean_in_spark(
    memory: MemoryLake, column: str, expression: str, expected: object
) -> None:
    table = orders(memory.lake(), schema=", ".join(f"{name} {kind}" for name, (kind, _) in TYPES.items()))
    table.append(pa.table({name: array for name, (_, array) in TYPES.items()}))
    table.update({column: expression})
    assert table.scan(columns=[column]).to_arrow().column(0).to_pylist() == [expected]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "cannot update nothing"),
        ({"nope": "1"}, "nope"),
        ({"n": 1}, "give a SQL expression as text"),
        ({"n": "1", "N": "2"}, "cannot update a column twice"),
        ({"n": "'x'"}, "column 'n' is string in the data, which does not fit the table's int"),
        ({"n": "3000000000"}, "column 'n' does not fit"),
        ({"n": "n * 3000000000"}, "column 'n' does not fit"),
        ({"id": "9223372036854775807 + id"}, "the result of an expression is too large"),
        ({"id": "NULL"}, "column 'id' does not fit"),
        ({"n": "n / 0"}, "divides by zero"),
        ({"n": "nope + 1"}, "nope"),
        ({"n": "("}, "cannot read the expression"),
    ],
)
@MODES
def test_what_cannot_be_set_is_refused_and_leaves_nothing_behind(
    memory: MemoryLake, properties: dict[str, str], values: Any, message: str
) -> None:
    table = orders(memory.lake(), properties=properties)
    table.append(rows([1, 2, 3]))
    there = memory.files()
    with pytest.raises(InvalidInput, match=message):
        table.update(values, "id > 1")
    assert memory.files() == there
    assert len(table.refresh().snapshots) == 1


def test_an_update_goes_to_its_branch_and_takes_a_summary(memory: MemoryLake) -> None:
    table = orders(memory.lake(), properties=BESIDE)
    table.append(rows([1, 2]))
    table.branch("audit")
    snapshot = table.update({"n": "9"}, "id = 1", ref="audit", summary={"why": "audit"})
    assert snapshot is not None
    assert snapshot.summary["why"] == "audit"
    assert values(table, "id", "n") == [(1, 1), (2, 1)]
    assert rows_of(table, "n", ref="audit") == [1, 9]
    with pytest.raises(NoSuchSnapshot, match="cannot write to branch 'nope'"):
        table.update({"n": "9"}, ref="nope")
