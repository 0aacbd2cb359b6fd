"""Every call of storage and catalog fails once, before it is done or after, and the table is whole each time.

Each operation runs once per call it makes: the first call fails, then the second, until a run comes through
untouched. After each run the invariants INV1 to INV7 are checked through a lake that does not fail, and one more commit
must succeed.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from breaking import MANY, Breaking, outcome
from doors import MemoryLake
from orders import NAME, QUICK, SCHEMA, orders, rows
from sound_tables import check_sound, reachable, rows_of

import esker
from esker.errors import EskerError, OutcomeUnknown
from esker.table import Table

Verb = Callable[[Table], object]


def append(table: Table) -> object:
    return table.append(pa.concat_tables([rows([10], "eu"), rows([11], "us")]))


def overwrite(table: Table) -> object:
    return table.overwrite(rows([12], "eu"), where="id = 1")


def delete(table: Table) -> object:
    return table.delete("id in (1, 4)")


def delete_whole(table: Table) -> object:
    return table.delete("region = 'us'")


def overwrite_partitions(table: Table) -> object:
    return table.overwrite_partitions(rows([13], "us"))


def transaction(table: Table) -> object:
    with table.transaction() as tx:
        tx.append(rows([14, 15], "eu"))
        tx.delete("id in (2, 14)")
    return tx


def alter(table: Table) -> object:
    with table.alter() as change:
        change.add_column("note", "string")
    return change


VERBS: dict[Verb, list[int]] = {
    append: [1, 2, 3, 4, 10, 11],
    overwrite: [2, 3, 4, 12],
    delete: [2, 3],
    delete_whole: [1, 2],
    overwrite_partitions: [1, 2, 13],
    transaction: [1, 3, 4, 15],
    alter: [1, 2, 3, 4],
}


def started() -> MemoryLake:
    memory = MemoryLake()
    table = orders(memory.lake(), partition_by=["region"])
    table.append(pa.concat_tables([rows([1, 2], "eu"), rows([3, 4], "us")]))
    return memory


@pytest.mark.parametrize("how", ["before", *(pytest.param(how, marks=pytest.mark.slow) for how in ("after", "raw"))])
@pytest.mark.parametrize("verb", list(VERBS), ids=[verb.__name__ for verb in VERBS])
def test_a_table_is_whole_whichever_call_fails(verb: Verb, how: str) -> None:
    for at in range(1, MANY):
        memory = started()
        there = memory.files()
        door = Breaking(at, how)
        error = outcome(lambda: verb(memory.lake(door).table(NAME)))  # noqa: B023  # called at once
        if door.broke is None:
            assert error is None
            assert at > 5, "no call was made to fail"
            return
        where = f"{how} call {at}, {door.calls[at - 1]}"
        table = check_sound(memory.lake(), NAME)  # INV1, INV2, INV4, INV5
        check_rows(table, verb, error, where)  # INV3
        assert not set(door.of("delete")) & there, where  # INV6
        left = memory.files() - reachable(table)
        assert left <= memory.files() - there, where  # INV7
        if how == "before" and door.broke not in ("delete", "move"):
            assert error is None or left == set(), where
        table.append(rows([99]))
        assert 99 in rows_of(check_sound(memory.lake(), NAME)), where
    raise AssertionError("never came through")


def check_rows(table: Table, verb: Verb, error: BaseException | None, where: str) -> None:
    before, after = [1, 2, 3, 4], VERBS[verb]
    found = rows_of(table)
    if verb is alter:
        found_new = "note" in [field.name for field in table.schema]
        assert found == before, where
        assert error is not None or found_new, where
        assert error is None or isinstance(error, OutcomeUnknown) or not found_new, where
    elif error is None:
        assert found == after, where  # acknowledged: it is there
    elif isinstance(error, OutcomeUnknown):
        assert found in (before, after), where
    else:
        assert found == before, where  # refused: it is not there
    for snapshot in table.snapshots[:1]:
        assert rows_of(table, snapshot_id=snapshot.snapshot_id) == before, where


# ---------------------------------------------------------------- the file system itself (F41)


@contextmanager
def broken(monkeypatch: pytest.MonkeyPatch, at: int, code: int, *, after: bool) -> Iterator[list[str]]:
    """Of the calls that make files durable and visible, the one of this number fails."""
    calls: list[str] = []
    with monkeypatch.context() as patch:

        def breaking(name: str) -> None:
            real: Callable[..., Any] = getattr(os, name)

            def call(*args: Any, **more: Any) -> Any:
                calls.append(name)
                if len(calls) != at:
                    return real(*args, **more)
                if after:
                    real(*args, **more)
                raise OSError(code, os.strerror(code))

            patch.setattr(os, name, call)

        for name in ("fsync", "link", "rename", "mkdir"):
            breaking(name)
        yield calls


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO], ids=["full", "broken"])
@pytest.mark.parametrize("verb", [append, delete], ids=["append", "delete"])
def test_f41_a_disk_that_fails_at_any_call_leaves_the_table_as_it_was_or_as_it_should_be(
    uri: str, verb: Verb, code: int, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(1, MANY):
        lake = esker.connect(uri)
        name = f"sales.orders{at}"
        if "sales" not in lake.namespaces():
            lake.create_namespace("sales")
        table = lake.create_table(name, SCHEMA, partition_by=["region"], properties=QUICK)
        table.append(pa.concat_tables([rows([1, 2], "eu"), rows([3, 4], "us")]))
        with broken(monkeypatch, at, code, after=after) as calls:
            try:
                verb(table)
                error = None
            except EskerError as raised:  # F41: typed
                error = raised
        found = check_sound(esker.connect(uri), name)
        where = f"call {at} of {calls}"
        if error is None:
            assert rows_of(found) == VERBS[verb], where
        elif isinstance(error, OutcomeUnknown):
            assert rows_of(found) in ([1, 2, 3, 4], VERBS[verb]), where
        else:
            assert rows_of(found) == [1, 2, 3, 4], where
        found.append(rows([99]))
        assert 99 in rows_of(found), where
        assert not list(Path(found.location).rglob("*.tmp")), where
        if at > len(calls):
            return
    raise AssertionError("never came through")
