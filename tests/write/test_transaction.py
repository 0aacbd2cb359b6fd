"""Several changes, one snapshot: all of them or none."""

from __future__ import annotations

import pyarrow as pa
import pytest
from doors import MemoryLake
from orders import NAME, orders, rows
from sound_tables import check_sound, reachable, rows_of

from esker.errors import InvalidInput


@pytest.fixture
def memory() -> MemoryLake:
    return MemoryLake()


def test_several_verbs_are_one_snapshot(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    table.append(rows([1, 2, 3]))
    with table.transaction() as tx:
        tx.delete("id = 1")
        tx.append(rows([10, 11]))
        tx.overwrite(rows([20]), where="id = 2")
    assert len(table.snapshots) == 2
    assert tx.snapshot == table.current_snapshot
    assert tx.snapshot is not None
    assert tx.snapshot.operation == "overwrite"
    assert rows_of(table) == [3, 10, 11, 20]
    assert memory.files() == reachable(check_sound(memory.lake(), NAME))


def test_a_verb_sees_what_the_verbs_before_it_did(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    table.append(rows([1]))
    with table.transaction() as tx:
        tx.append(rows([2, 3]))
        tx.delete("id in (1, 2)")  # of what was there and of what was added
        tx.append(rows([2]))  # and not of what comes after
    assert rows_of(table) == [2, 3]
    assert memory.files() == reachable(check_sound(memory.lake(), NAME))


def test_partitions_are_replaced_even_where_a_delete_touched_them_first(memory: MemoryLake) -> None:
    table = orders(memory.lake(), partition_by=["region"])
    table.append(pa.concat_tables([rows([1, 2, 3], "eu"), rows([4, 5], "us")]))
    with table.transaction() as tx:
        tx.delete("id in (1, 4)")  # part of each file
        tx.overwrite_partitions(rows([10], "eu"))
    assert rows_of(table) == [5, 10]
    with table.transaction() as tx:
        tx.overwrite_partitions(rows([11, 12], "eu"))
        tx.delete("id in (5, 11)")
        tx.overwrite_partitions(rows([13], "us"))
    assert rows_of(table) == [12, 13]
    assert memory.files() == reachable(check_sound(memory.lake(), NAME))


def test_a_transaction_of_appends_alone_is_an_append(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    with table.transaction() as tx:
        tx.append(rows([1]))
        tx.append(rows([2]))
    assert table.current_snapshot is not None
    assert table.current_snapshot.operation == "append"
    assert table.current_snapshot.summary["added-records"] == "2"


def test_an_empty_transaction_commits_nothing(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    with table.transaction() as tx:
        pass
    assert tx.snapshot is None
    assert table.refresh().current_snapshot is None


def test_an_exception_in_the_block_leaves_the_table_and_the_store_as_they_were(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    table.append(rows([1]))
    there, location = memory.files(), table.metadata_location
    with pytest.raises(ZeroDivisionError), table.transaction() as tx:  # noqa: PT012
        tx.append(rows([2]))
        tx.delete("id = 1")
        raise ZeroDivisionError
    assert memory.files() == there
    assert table.refresh().metadata_location == location


def test_a_verb_that_is_refused_takes_the_whole_block_with_it(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    there = memory.files()
    with pytest.raises(InvalidInput, match="'colour'"), table.transaction() as tx:  # noqa: PT012
        tx.append(rows([1]))
        tx.append(pa.table({"id": [1], "colour": ["red"]}))
    assert memory.files() == there


def test_nothing_is_visible_before_the_block_ends(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    with table.transaction() as tx:
        tx.append(rows([1]))
        assert memory.lake().table(NAME).current_snapshot is None
    assert rows_of(memory.lake().table(NAME)) == [1]


def test_a_transaction_that_is_over_takes_no_more(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    with table.transaction() as tx:
        tx.append(rows([1]))
    for verb in (
        lambda: tx.append(rows([2])),
        lambda: tx.delete("id = 1"),
        lambda: tx.overwrite(rows([1])),
        lambda: tx.overwrite_partitions(rows([1])),
        lambda: tx.add_files([]),
        tx.commit,
    ):
        with pytest.raises(InvalidInput, match="a transaction that has ended"):
            verb()
    assert rows_of(table.refresh()) == [1]


def test_a_block_may_commit_or_give_up_before_its_end(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    with table.transaction() as tx:
        tx.append(rows([1]))
        snapshot = tx.commit()
    assert table.current_snapshot == snapshot
    with table.transaction() as tx:
        tx.append(rows([2]))
        tx.abandon()
    assert rows_of(table) == [1]


def test_an_exception_after_the_commit_takes_nothing_back(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    with pytest.raises(ZeroDivisionError), table.transaction() as tx:  # noqa: PT012
        tx.append(rows([1]))
        tx.commit()
        raise ZeroDivisionError
    tx.abandon()
    assert rows_of(table) == [1]
    check_sound(memory.lake(), NAME)


def test_a_transaction_works_on_the_table_as_it_is_when_it_begins(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    old = memory.lake().table(NAME)
    table.append(rows([1]))
    with old.transaction() as tx:
        tx.delete("id = 1")
    assert rows_of(old) == []


def test_i7_rows_added_and_copied_in_one_transaction_get_ids_of_their_own(memory: MemoryLake) -> None:
    table = orders(memory.lake(), format_version=3)
    table.append(rows([1, 2]))
    with table.transaction() as tx:
        tx.append(rows([3, 4, 5]))
        tx.delete("id = 4")
    found = table.scan(columns=["id", "_row_id", "_last_updated_sequence_number"]).to_arrow().to_pylist()
    assert sorted(row["id"] for row in found) == [1, 2, 3, 5]
    ids = [row["_row_id"] for row in found]
    assert None not in ids
    assert len(set(ids)) == 4
    assert {row["id"]: row["_last_updated_sequence_number"] for row in found} == {1: 1, 2: 1, 3: 2, 5: 2}
