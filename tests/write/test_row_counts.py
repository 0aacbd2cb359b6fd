"""How many rows a change deleted, updated and inserted: in every mode what the rows themselves say."""

from __future__ import annotations

import pytest
from doors import MemoryLake
from hypothesis import given, settings
from hypothesis import strategies as st
from orders import orders, rows
from sound_tables import live_files
from with_deletes import commit_deletes, equality_delete, position_delete

from esker.table import Table
from esker.tree.snapshot import Snapshot

MODES = ("copy-on-write", "merge-on-read")


def table_of(memory: MemoryLake, mode: str, version: int) -> Table:
    verbs = {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")}
    return orders(memory.lake(), format_version=version, properties=verbs)


def counts(snapshot: Snapshot | None) -> tuple[int | None, ...]:
    assert snapshot is not None
    return snapshot.rows_deleted, snapshot.rows_updated, snapshot.rows_inserted


def ids(table: Table) -> set[int]:
    return set(table.scan(columns=["id"]).to_arrow()["id"].to_pylist())


@settings(max_examples=40, deadline=None)
@given(
    mode=st.sampled_from(MODES),
    version=st.sampled_from([2, 3]),
    changes=st.lists(
        st.tuples(st.sampled_from(["delete", "update", "upsert", "overwrite"]), st.integers(0, 40), st.integers(0, 40)),
        min_size=1,
        max_size=5,
    ),
)
def test_the_counts_are_what_the_rows_say(mode: str, version: int, changes: list[tuple[str, int, int]]) -> None:
    table = table_of(MemoryLake(), mode, version)
    table.append(rows(range(10)))
    table.append(rows(range(10, 30)))
    for verb, start, end in changes:
        before, head = ids(table), table.current_snapshot
        chosen = set(range(start, end))
        match verb:
            case "delete":
                snapshot = table.delete(f"id >= {start} AND id < {end}")
                expected: tuple[int, ...] = (len(before & chosen), 0, 0)
            case "update":
                snapshot = table.update({"n": "n + 1"}, f"id >= {start} AND id < {end}")
                expected = (0, len(before & chosen), 0)
            case "upsert":
                if not chosen:
                    continue
                snapshot = table.upsert(rows(sorted(chosen)), on=["id"])
                expected = (0, len(before & chosen), len(chosen - before))
            case _:
                snapshot = table.overwrite(rows(sorted(chosen)), where=f"id >= {start} AND id < {end}")
                expected = (len(before & chosen), 0, len(chosen))
        if snapshot == head:
            assert not any(expected)
        else:
            assert counts(snapshot) == expected


@pytest.mark.parametrize("mode", MODES)
def test_rows_that_were_deleted_before_are_not_counted_again(mode: str) -> None:
    table = table_of(MemoryLake(), mode, 2)
    table.append(rows(range(10)))
    table.delete("id < 3")
    assert counts(table.delete("id < 100")) == (7, 0, 0)


def test_positions_that_two_files_delete_count_once() -> None:
    table = table_of(MemoryLake(), "merge-on-read", 2)
    table.append(rows(range(10)))
    (file,) = live_files(table)
    commit_deletes(table, position_delete(table, file, [1, 2]), position_delete(table, file, [2, 3]))
    assert counts(table.delete("id < 100")) == (7, 0, 0)


def test_where_only_the_data_could_say_the_count_is_unknown_and_nothing_is_read_for_it() -> None:
    table = table_of(MemoryLake(), "merge-on-read", 2)
    table.append(rows(range(10)))
    (file,) = live_files(table)
    commit_deletes(table, equality_delete(table, [1, 99], file))
    assert counts(table.delete("id < 100")) == (None, None, None)


def test_where_the_data_is_read_anyway_equality_deletes_are_counted() -> None:
    table = table_of(MemoryLake(), "copy-on-write", 2)
    table.append(rows(range(10)))
    (file,) = live_files(table)
    commit_deletes(table, equality_delete(table, [1, 99], file))
    assert counts(table.delete("id < 5")) == (4, 0, 0)


def test_a_partition_that_is_overwritten_counts_its_rows() -> None:
    table = orders(MemoryLake().lake(), partition_by=["region"])
    table.append(rows(range(10), "eu"))
    table.append(rows(range(5), "us"))
    assert counts(table.overwrite_partitions(rows(range(3), "eu"))) == (10, 0, 3)


def test_an_append_inserts_and_says_no_more_than_iceberg_does() -> None:
    table = orders(MemoryLake().lake())
    snapshot = table.append(rows(range(3)))
    assert counts(snapshot) == (0, 0, 3)
    assert not [key for key in snapshot.summary if key.startswith("esker.rows")]


def test_an_upsert_fills_the_fields_that_iceberg_has_for_merges() -> None:
    table = table_of(MemoryLake(), "copy-on-write", 2)
    table.append(rows(range(10)))
    snapshot = table.upsert(rows([8, 9, 10]), on=["id"])
    assert snapshot is not None
    said = {key: value for key, value in snapshot.summary.items() if key.startswith("spark.merge-into.")}
    assert said == {
        "spark.merge-into.num-target-rows-copied": "8",
        "spark.merge-into.num-target-rows-updated": "2",
        "spark.merge-into.num-target-rows-matched-updated": "2",
        "spark.merge-into.num-target-rows-inserted": "1",
    }


def test_several_changes_in_one_transaction_add_up() -> None:
    table = table_of(MemoryLake(), "merge-on-read", 2)
    table.append(rows(range(10)))
    with table.transaction() as tx:
        tx.delete("id < 2")
        tx.update({"n": "7"}, "id < 5")
        tx.append(rows([20, 21]))
    assert counts(tx.snapshot) == (2, 3, 2)
