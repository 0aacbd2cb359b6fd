"""What an engine is shown of a transaction, and what of its answers is taken or refused."""

from __future__ import annotations

import pytest
from doors import MemoryLake
from orders import NAME, orders, rows
from pyroaring import BitMap64
from sound_tables import check_sound, rows_of

from esker.errors import InvalidInput
from esker.model.predicates.predicate import FALSE, TRUE
from esker.ports.row_changes import Mode, RowDelta
from esker.table import Table
from esker.write.verbs import Transaction

BESIDE = {"write.merge.mode": "merge-on-read", "write.delete.mode": "merge-on-read"}


@pytest.fixture
def memory() -> MemoryLake:
    return MemoryLake()


def begun(memory: MemoryLake) -> tuple[Table, Transaction]:
    table = orders(memory.lake(), properties=BESIDE)
    table.append(rows([1, 2, 3]))
    table.append(rows([4, 5, 6]))
    return table, table.transaction()


def test_an_engine_sees_what_earlier_steps_left(memory: MemoryLake) -> None:
    _, tx = begun(memory)
    tx.delete("id = 2")
    tx.append(rows([7]))
    view = tx.look("merge", TRUE).view
    assert view.mode is Mode.MERGE_ON_READ
    assert [(len(task.gone or ()), task.data_file.path in view.fresh) for task in view.tasks] == [
        (0, False),
        (1, False),
        (0, True),
    ]
    assert [view.rewrites(task.data_file.path) for task in view.tasks] == [False, False, True]
    tx.abandon()


def test_nothing_is_planned_where_nothing_can_match(memory: MemoryLake) -> None:
    _, tx = begun(memory)
    tx.append(rows([7]))
    assert tx.look("merge", FALSE).view.tasks == ()
    tx.abandon()


def test_positions_and_files_make_one_snapshot(memory: MemoryLake) -> None:
    table, tx = begun(memory)
    seen = tx.look("merge", TRUE)
    first, second = (task.data_file.path for task in seen.view.tasks)
    tx.change_rows(seen, RowDelta(gone={first: BitMap64([0, 2])}, rewritten=frozenset([second])))
    tx.commit()
    assert rows_of(check_sound(memory.lake(), NAME)) == [5]
    assert len(table.snapshots) == 3


def test_an_answer_without_any_change_commits_nothing(memory: MemoryLake) -> None:
    table, tx = begun(memory)
    seen = tx.look("merge", TRUE)
    tx.change_rows(seen, RowDelta(gone={seen.view.tasks[0].data_file.path: BitMap64()}))
    assert tx.commit() is None
    assert len(table.refresh().snapshots) == 2


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("unknown", "it is not among the files planned"),
        ("fresh", "it is of this transaction or leaves the table"),
        ("both", "it is of this transaction or leaves the table"),
        ("beyond", "cannot delete row 3 of .*: it has fewer rows"),
    ],
)
def test_an_answer_that_does_not_fit_the_view_is_refused_and_taken_back(
    memory: MemoryLake, what: str, message: str
) -> None:
    _, tx = begun(memory)
    there = memory.files()
    tx.append(rows([7]))
    seen = tx.look("merge", TRUE)
    old, new = seen.view.tasks[0].data_file.path, seen.view.tasks[-1].data_file.path
    answer = {
        "unknown": RowDelta(rewritten=frozenset(["memory://warehouse/elsewhere.parquet"])),
        "fresh": RowDelta(gone={new: BitMap64([0])}),
        "both": RowDelta(gone={old: BitMap64([0])}, rewritten=frozenset([old])),
        "beyond": RowDelta(gone={old: BitMap64([3])}),
    }[what]
    with pytest.raises(InvalidInput, match=message):
        tx.change_rows(seen, answer)
    assert memory.files() == there
    with pytest.raises(InvalidInput, match="a transaction that has ended"):
        tx.commit()
