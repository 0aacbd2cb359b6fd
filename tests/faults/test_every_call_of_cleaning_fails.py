"""Every call of storage and catalog fails once while snapshots expire or orphans go: no file that is needed is gone,
nothing else was deleted, and a second run finishes (F08, F09, F10)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from breaking import MANY, Breaking, outcome
from doors import MemoryLake
from orders import NAME, orders, rows
from reachability import reachable
from sound_tables import check_sound, rows_of

from esker.errors import OutcomeUnknown
from esker.table import Table

LATE = 1 << 60
LOST = tuple(f"data/lost-{n}.parquet" for n in range(3))


def expire(table: Table) -> object:
    return table.expire_snapshots(older_than=LATE)


def remove_orphans(table: Table) -> object:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    return table.remove_orphans(older_than=tomorrow, under_24_hours=True)


def started() -> MemoryLake:
    """Five snapshots, of which a tag keeps one and main another, and three orphans."""
    memory = MemoryLake()
    table = orders(memory.lake(), partition_by=["region"])
    table.append(pa.concat_tables([rows([1, 2], "eu"), rows([3, 4], "us")]))
    table.tag("v1")
    table.append(rows([5], "eu"))
    table.delete("region = 'us'")
    table.overwrite(rows([6, 7], "eu"), where="id = 5")
    table.append(rows([8], "us"))
    for name in LOST:
        table._workings.storage.write_new(f"{table.location}/{name}", b"x")
    return memory


ROWS, TAGGED = [1, 2, 6, 7, 8], [1, 2, 3, 4]


def is_bookkeeping(place: str) -> bool:
    """Objects of a run itself: its journal, the probe of the clock, and metadata files that no pointer names."""
    return "/expired-" in place or "/.clock/" in place or place.endswith(".metadata.json")


@pytest.mark.parametrize("how", ["before", "after", "raw"])
@pytest.mark.parametrize("verb", [expire, remove_orphans], ids=["expire", "remove_orphans"])
def test_f09_no_file_that_is_needed_goes_whichever_call_fails(verb: Callable[[Table], object], how: str) -> None:
    for at in range(1, MANY):
        memory = started()
        whole = memory.lake()
        before = whole.table(NAME)
        storage = before._workings.storage
        reached = reachable(storage, before.metadata)
        lost = {f"{before.location}/{name}" for name in LOST}
        door = Breaking(at, how)
        error = outcome(lambda: verb(memory.lake(door).table(NAME)))  # noqa: B023  # called at once
        where = f"{how} call {at}, {door.calls[at - 1] if door.broke else 'none'}: {error}"
        table = check_sound(whole, NAME)  # every reachable file is there
        assert (rows_of(table), rows_of(table, ref="v1")) == (ROWS, TAGGED), where
        needless = reached - reachable(storage, table.metadata) if verb is expire else lost
        deleted = {place for place in door.of("delete") if not is_bookkeeping(place)}
        assert deleted <= needless, where
        if isinstance(error, OutcomeUnknown):
            assert not deleted, where
        _finish(table, verb, where)
        if door.broke is None:
            assert error is None
            assert at > 10, "no call was made to fail"
            return
    raise AssertionError("never came through")


def _finish(table: Table, verb: Callable[[Table], object], where: str) -> None:
    """A second run ends what is left of the first: only needed files are there, and later commits work."""
    verb(table)
    remove_orphans(table.refresh())  # what stopped between a commit and its journal has become an orphan
    storage = table._workings.storage
    logged = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    there = {file.location for file in storage.list(table.location)}
    assert there == reachable(storage, table.metadata) | logged, where
    table.append(rows([99]))
    assert (rows_of(table), rows_of(table, ref="v1")) == ([*ROWS, 99], TAGGED), where
    assert table.verify(deep=True).ok, where
