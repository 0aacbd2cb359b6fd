"""Many writers on one table, in threads and in processes: every row once, every snapshot on the one before."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from doors import Door, MemoryLake, WatchedCatalog
from orders import NAME, SCHEMA, orders, rows
from sound_tables import check_sound, reachable, rows_of

import esker
from esker.catalogs.open_catalog import open_catalog
from esker.errors import Conflict
from esker.lake import Lake
from esker.model.table_names import TableName
from esker.ports.catalog import Accepted, Catalog, Swap, TableState
from esker.tree.table_metadata import TableMetadata
from esker.wiring import lake_over

SUPPORT = Path(__file__).parents[1] / "support"


class LinedUp(WatchedCatalog):
    """Both writers wait for each other before their first swap; answers are remembered."""

    def __init__(self, inner: Catalog, barrier: threading.Barrier) -> None:
        super().__init__(inner, Door())
        self.barrier = barrier
        self.answers: list[Swap] = []

    def swap(self, name: TableName, base: TableState, new: TableMetadata) -> Swap:
        if not self.answers:
            self.barrier.wait(60)
        answer = self.inner.swap(name, base, new)
        self.answers.append(answer)
        return answer


def together(*work: Callable[[], object]) -> list[BaseException]:
    """Run these at once; gives what they raised."""
    errors: list[BaseException] = []

    def guarded(one: Callable[[], object]) -> None:
        try:
            one()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return errors


def test_of_two_writers_lined_up_on_one_base_one_wins_first_and_both_are_in_at_the_end(uri: str) -> None:
    orders(esker.connect(uri)).append(rows([0]))
    barrier = threading.Barrier(2)
    catalogs = [LinedUp(open_catalog(uri), barrier) for _ in range(2)]
    tables = [lake_over(catalog).table(NAME) for catalog in catalogs]
    errors = together(*(lambda at=at: tables[at].append(rows([at + 1])) for at in range(2)))  # type: ignore[misc]
    assert errors == []
    first = [type(catalog.answers[0]) for catalog in catalogs]
    assert first.count(Accepted) == 1
    assert sum(len(catalog.answers) for catalog in catalogs) == 3
    table = check_sound(esker.connect(uri), NAME)
    assert rows_of(table) == [0, 1, 2]
    assert [s.sequence_number for s in table.snapshots] == [1, 2, 3]


def test_threads_that_share_one_lake_lose_nothing() -> None:
    memory = MemoryLake()
    lake = memory.lake()
    orders(lake, properties={"commit.retry.num-retries": "200"})

    def work(who: int) -> None:
        table = lake.table(NAME)
        for at in range(10):
            table.append(rows([who * 100 + at]))

    assert together(*(lambda who=who: work(who) for who in range(4))) == []  # type: ignore[misc]
    table = check_sound(memory.lake(), NAME)
    assert rows_of(table) == sorted(who * 100 + at for who in range(4) for at in range(10))
    assert memory.files() == reachable(table)


@pytest.mark.parametrize(("version", "mode"), [(2, "merge-on-read"), (3, "merge-on-read"), (3, "copy-on-write")])
def test_every_increment_counts_once_whoever_else_increments(version: int, mode: str) -> None:
    """A counter in a row, read and written by whoever comes: lost updates would show."""
    memory = MemoryLake()
    modes = {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")}
    orders(memory.lake(), format_version=version, properties=modes).append(rows([1, 2, 3], n=0))

    def work(who: int) -> None:
        table = memory.lake().table(NAME)
        for _ in range(6):
            while True:
                try:
                    table.update({"n": "n + 1"}, "id = 2")
                    break
                except Conflict:
                    continue

    assert together(*(lambda who=who: work(who) for who in range(3))) == []  # type: ignore[misc]
    table = check_sound(memory.lake(), NAME)
    found = table.scan(columns=["id", "n"]).to_arrow().to_pylist()
    assert sorted((row["id"], row["n"]) for row in found) == [(1, 0), (2, 18), (3, 0)]
    assert memory.files() == reachable(table)


@pytest.mark.slow
def test_p6_a_hundred_random_commits_of_two_writers_are_the_union_of_their_successes() -> None:
    """Those that came through are there once; those that met a conflict are not there at all."""
    import random

    memory = MemoryLake()
    orders(memory.lake(), partition_by=["region"]).append(rows([0], "eu"))
    came: dict[int, set[int]] = {0: set(), 1: set()}

    def work(who: int) -> None:
        draw = random.Random(who)
        table = memory.lake().table(NAME)
        for at in range(50):
            id_ = who * 1000 + at + 1
            try:
                if draw.random() < 0.7:
                    table.append(rows([id_], "eu"))
                else:  # of its own region, so that it replaces nothing of the other's
                    table.overwrite(rows([id_], f"r{who}"), where=f"id = {id_ - 1} and region = 'r{who}'")
                came[who].add(id_)
            except Conflict:
                continue

    assert together(lambda: work(0), lambda: work(1)) == []
    table = check_sound(memory.lake(), NAME, deep=False)
    found = rows_of(table)
    assert len(found) == len(set(found))
    assert set(found) <= {0} | came[0] | came[1]
    added = [s for s in table.snapshots if s.summary.get("added-records") == "1"]
    assert len(added) == 1 + len(came[0]) + len(came[1])
    left = memory.files() - reachable(table)
    assert not [file for file in left if not file.endswith(".metadata.json")]  # of those the log forgets the oldest


@pytest.mark.slow
def test_eight_processes_of_twenty_five_appends_make_two_hundred_snapshots(uri: str) -> None:
    lake = esker.connect(uri)
    lake.create_namespace("sales")
    lake.create_table(NAME, SCHEMA)  # with the retries that every table has
    source = str(Path(esker.__file__).parents[1])
    command = [sys.executable, str(SUPPORT / "racing_writer.py"), uri]
    writers = [
        subprocess.Popen(
            [*command, str(who), "25"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": source, "PATH": ""},
        )
        for who in range(8)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.communicate("go\n", timeout=300)[0] == "done\n"
        assert writer.returncode == 0
    check_two_hundred(lake)


def check_two_hundred(lake: Lake) -> None:
    table = check_sound(lake, NAME, deep=False)
    assert len(table.snapshots) == 200
    assert rows_of(table) == sorted(who * 1000 + at for who in range(8) for at in range(25))
    parents = [snapshot.parent_snapshot_id for snapshot in table.snapshots]
    assert parents == [None, *(snapshot.snapshot_id for snapshot in table.snapshots[:-1])]
    assert [snapshot.sequence_number for snapshot in table.snapshots] == list(range(1, 201))
    assert len({snapshot.summary["who"] for snapshot in table.snapshots}) == 200
    # what lost attempts wrote is gone: lists and data files are as many as there are snapshots
    files = [file.name for file in Path(table.location).rglob("*") if file.is_file()]
    assert sum(name.startswith("snap-") for name in files) == 200
    assert sum(name.endswith(".parquet") for name in files) == 200
    assert not [name for name in files if name.endswith(".tmp")]
