"""The commit: lost races rebuild the list and the metadata alone, and a swap that nobody answered keeps every file."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from doors import Door, MemoryLake, WatchedCatalog
from orders import NAME, orders, rows
from sound_tables import check_sound, reachable, rows_of

from esker.errors import AlreadyExists, Conflict, InvalidInput, NoSuchTable, OutcomeUnknown
from esker.model.table_names import TableName
from esker.ports.catalog import Catalog, Rejected, Swap, TableState, Unanswered
from esker.table import Table
from esker.tree.table_metadata import TableMetadata
from esker.wiring import lake_over
from esker.write.commit import RetryPolicy

FULL_NAME = TableName.parse(NAME)


@pytest.fixture
def memory() -> MemoryLake:
    found = MemoryLake()
    orders(found.lake()).append(rows([1]))
    return found


class Told(WatchedCatalog):
    """A catalog whose swaps go as a script says; ``then`` happens right after one."""

    def __init__(self, inner: Catalog, *script: str, then: Callable[[], object] = lambda: None) -> None:
        super().__init__(inner, Door())
        self.script = list(script)
        self.then = then
        self.offered: list[TableMetadata] = []

    def swap(self, name: TableName, base: TableState, new: TableMetadata) -> Swap:
        self.door.calls.append(("swap", str(name)))
        self.offered.append(new)
        how = self.script.pop(0) if self.script else "do"
        answer: Swap = Rejected("lost")
        if "do" in how:
            answer = self.inner.swap(name, base, new)
        self.then()
        if "unanswered" in how:
            return Unanswered("no answer", getattr(getattr(answer, "state", None), "metadata_location", None))
        if "nameless" in how:
            return Unanswered("no answer")
        if "break" in how:
            raise ConnectionResetError("the line went dead")
        if "interrupt" in how:
            raise KeyboardInterrupt
        if "refuse" in how:
            raise InvalidInput("cannot swap: it will not")
        return answer


def told(memory: MemoryLake, *script: str, **how: Any) -> tuple[Told, Table]:
    catalog = Told(memory.catalog(), *script, **how)
    return catalog, lake_over(catalog).table(NAME)


# ---------------------------------------------------------------- lost races


def test_a_lost_race_keeps_data_and_manifest_and_rewrites_the_list(memory: MemoryLake) -> None:
    catalog, table = told(memory, "lose", "lose")
    snapshot = table.append(rows([2, 3]))
    written = catalog.door.of("write")
    assert sum(path.endswith(".parquet") for path in written) == 1
    lists = [path for path in written if "/snap-" in path]
    manifests = [path for path in written if path.endswith("-m0.avro")]
    assert (len(lists), len(manifests)) == (3, 1)
    assert len(written) == 5
    assert catalog.door.of("delete") == lists[:2]  # of the attempts that lost
    assert snapshot.manifest_list == lists[2]
    assert len({offer.snapshots[-1].snapshot_id for offer in catalog.offered}) == 1
    assert rows_of(table) == [1, 2, 3]
    assert memory.files() == reachable(check_sound(memory.lake(), NAME))


def test_a_rebase_takes_the_next_sequence_number_on_the_winner_s_snapshot(memory: MemoryLake) -> None:
    rival = memory.lake().table(NAME)
    rivals = iter([lambda: rival.append(rows([50])), lambda: rival.append(rows([51]))])
    catalog = Racing(memory.catalog(), lambda: next(rivals, lambda: None)())
    table = lake_over(catalog).table(NAME)
    snapshot = table.append(rows([2]))
    assert [s.sequence_number for s in table.snapshots] == [1, 2, 3, 4]
    assert snapshot.sequence_number == 4
    assert snapshot.parent_snapshot_id == table.snapshots[-2].snapshot_id
    assert snapshot.summary["total-records"] == "4"
    assert rows_of(table) == [1, 2, 50, 51]
    assert memory.files() == reachable(check_sound(memory.lake(), NAME))


class Racing(WatchedCatalog):
    """A catalog in which something happens just before each swap."""

    def __init__(self, inner: Catalog, before: Callable[[], object]) -> None:
        super().__init__(inner, Door())
        self.before = before

    def swap(self, name: TableName, base: TableState, new: TableMetadata) -> Swap:
        self.before()
        return self.inner.swap(name, base, new)


@pytest.mark.parametrize(
    "verb",
    [
        lambda table: table.append(rows([2])),
        lambda table: table.delete("id = 1"),
        lambda table: table.overwrite(rows([2]), where="id = 77"),
    ],
)
def test_writers_that_never_win_give_up_and_remove_what_is_theirs_alone(
    memory: MemoryLake, verb: Callable[[Table], object]
) -> None:
    memory.lake().table(NAME).append(rows([9, 10]))
    there = memory.files()
    catalog, table = told(memory, *["lose"] * 50)
    with pytest.raises(Conflict, match=r"committed first 17 times in a row \(lost\); nothing was changed") as raised:
        verb(table)
    assert raised.value.attempts == 17
    assert memory.files() == there
    assert set(catalog.door.of("delete")) <= set(catalog.door.of("write"))
    assert rows_of(table.refresh()) == [1, 9, 10]


def test_the_number_of_retries_is_the_table_s(memory: MemoryLake) -> None:
    with memory.lake().table(NAME).alter() as change:
        change.set_properties({"commit.retry.num-retries": "2"})
    catalog, table = told(memory, *["lose"] * 50)
    with pytest.raises(Conflict, match="committed first 3 times"):
        table.append(rows([2]))
    assert len(catalog.offered) == 3


def test_a_swap_that_is_refused_is_not_tried_again(memory: MemoryLake) -> None:
    there = memory.files()
    catalog, table = told(memory, "refuse")
    with pytest.raises(InvalidInput, match="it will not"):
        table.append(rows([2]))
    assert len(catalog.offered) == 1
    assert memory.files() == there


def test_f34_a_table_dropped_and_made_again_under_the_name_is_another(memory: MemoryLake) -> None:
    table = memory.lake().table(NAME)
    tx = table.transaction()
    tx.append(rows([2]))
    memory.lake().drop_table(NAME)
    orders(memory.lake())
    there = memory.files()
    with pytest.raises(Conflict, match="dropped and another table has its name"):
        tx.commit()
    assert not {path for path in there if tx._names.operation_id in path} & memory.files()
    with pytest.raises(Conflict, match="dropped and another table has its name"):
        table.append(rows([3]))
    assert memory.lake().table(NAME).current_snapshot is None


def test_a_table_dropped_in_mid_commit_is_said_to_be_gone(memory: MemoryLake) -> None:
    table = memory.lake().table(NAME)
    there = memory.files()
    tx = table.transaction()
    tx.append(rows([2]))
    memory.lake().drop_table(NAME)
    with pytest.raises(NoSuchTable, match=r"sales\.orders"):
        tx.commit()
    assert memory.files() == there


def test_p7_conflicts_are_logged(memory: MemoryLake, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "esker.commit"):
        told(memory, "lose")[1].append(rows([2]))
    assert caplog.messages == [f"commit to {NAME} lost the race (attempt 1): lost"]


# ---------------------------------------------------------------- no answer


@pytest.mark.parametrize("how", ["do, unanswered", "do, nameless", "do, break"])
def test_f16_an_unanswered_swap_that_happened_is_a_success(memory: MemoryLake, how: str) -> None:
    catalog, table = told(memory, how)
    snapshot = table.append(rows([2]))
    assert len(catalog.offered) == 1
    assert rows_of(table) == [1, 2]
    assert table.current_snapshot == snapshot
    assert catalog.door.of("delete") == []
    check_sound(memory.lake(), NAME)


@pytest.mark.parametrize("how", ["unanswered", "nameless", "break"])
def test_f17_an_unanswered_swap_that_is_not_there_keeps_every_file(memory: MemoryLake, how: str) -> None:
    catalog, table = told(memory, how)
    with pytest.raises(OutcomeUnknown, match=r"cannot find out whether the commit to .* every file was kept") as raised:
        table.append(rows([2]))
    assert catalog.door.of("delete") == []
    assert set(catalog.door.of("write")) <= memory.files()
    assert raised.value.snapshot_id == catalog.offered[0].snapshots[-1].snapshot_id
    # the swap arrives late, after all: what it needs is there
    memory.catalog().swap(FULL_NAME, memory.catalog().load(FULL_NAME), catalog.offered[0])
    assert rows_of(check_sound(memory.lake(), NAME)) == [1, 2]


@pytest.mark.parametrize("how", ["unanswered", "nameless", "break"])
def test_f19_once_another_follows_the_base_the_swap_is_lost_and_tried_again(memory: MemoryLake, how: str) -> None:
    rival = memory.lake().table(NAME)
    once = iter([lambda: rival.append(rows([50]))])
    catalog, table = told(memory, how, then=lambda: next(once, lambda: None)())
    table.append(rows([2]))
    assert rows_of(table) == [1, 2, 50]
    assert len(catalog.offered) == 2
    assert memory.files() == reachable(check_sound(memory.lake(), NAME))


@pytest.mark.parametrize("how", ["do, unanswered", "do, nameless", "do, break"])
def test_f20_a_commit_is_found_below_those_that_followed(memory: MemoryLake, how: str) -> None:
    rival = memory.lake().table(NAME)
    catalog, table = told(memory, how, then=lambda: [rival.append(rows([50 + at])) for at in range(3)])
    table.append(rows([2]))
    assert len(catalog.offered) == 1
    assert rows_of(table) == [1, 2, 50, 51, 52]
    check_sound(memory.lake(), NAME)


@pytest.mark.parametrize("how", ["do, unanswered", "do, nameless"])
def test_f20_even_where_the_log_of_metadata_files_is_short(memory: MemoryLake, how: str) -> None:
    """The log forgets our version; the snapshot is still there. Trying again would add the rows twice."""
    with memory.lake().table(NAME).alter() as change:
        change.set_properties({"write.metadata.previous-versions-max": "1"})
    rival = memory.lake().table(NAME)
    catalog, table = told(memory, how, then=lambda: [rival.append(rows([50 + at])) for at in range(3)])
    table.append(rows([2]))
    assert len(catalog.offered) == 1
    assert rows_of(table) == [1, 2, 50, 51, 52]


def test_f21_what_may_have_come_and_gone_is_unknown(memory: MemoryLake) -> None:
    from esker.write.commit import is_in

    with memory.lake().table(NAME).alter() as change:
        change.set_properties({"write.metadata.previous-versions-max": "1"})
    rival = memory.lake().table(NAME)
    catalog, table = told(memory, "unanswered", then=lambda: [rival.append(rows([50 + at])) for at in range(3)])
    with pytest.raises(OutcomeUnknown):  # the log no longer tells who followed the base
        table.append(rows([2]))
    assert set(catalog.door.of("write")) <= memory.files()
    base = memory.catalog().load(FULL_NAME)
    assert is_in(base, base, catalog.offered[0], None) is None


def test_f21_a_commit_rolled_back_since_is_no_failure(memory: MemoryLake) -> None:
    rival = memory.lake().table(NAME)
    first = rival.current_snapshot
    assert first is not None
    _, table = told(memory, "do, unanswered", then=lambda: rival.refresh().rollback(snapshot_id=first.snapshot_id))
    snapshot = table.append(rows([2]))
    assert rows_of(table) == [1]
    assert rows_of(table, snapshot_id=snapshot.snapshot_id) == [1, 2]
    check_sound(memory.lake(), NAME)


def test_a_table_that_is_gone_when_asked_is_unknown(memory: MemoryLake) -> None:
    catalog, table = told(memory, "do, unanswered", then=lambda: memory.lake().drop_table(NAME))
    with pytest.raises(OutcomeUnknown):
        table.append(rows([2]))
    assert set(catalog.door.of("write")) <= memory.files()


@pytest.mark.parametrize("error", [ConnectionResetError("again"), Conflict("locked")])
def test_a_catalog_that_cannot_be_asked_leaves_it_unknown(
    memory: MemoryLake, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    catalog, table = told(memory, "do, unanswered")
    load = catalog.load

    def ask(name: TableName, known: TableState | None = None) -> TableState:
        if known is None and catalog.offered:
            raise error
        return load(name, known)

    monkeypatch.setattr(catalog, "load", ask)
    with pytest.raises(OutcomeUnknown):
        table.append(rows([2]))
    assert rows_of(memory.lake().table(NAME)) == [1, 2]
    check_sound(memory.lake(), NAME)


@pytest.mark.parametrize("how", ["do, interrupt", "interrupt"])
def test_an_interrupt_in_mid_swap_keeps_every_file(memory: MemoryLake, how: str) -> None:
    catalog, table = told(memory, how)
    with pytest.raises(KeyboardInterrupt):
        table.append(rows([2]))
    assert catalog.door.of("delete") == []
    assert rows_of(check_sound(memory.lake(), NAME)) == ([1, 2] if "do" in how else [1])


def test_an_interrupt_before_the_swap_removes_what_was_written(
    memory: MemoryLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = memory.files()
    table = memory.lake().table(NAME)

    def stop(*args: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("esker.write.build_snapshot.build_summary", stop)
    with pytest.raises(KeyboardInterrupt):
        table.append(rows([2]))
    assert memory.files() == there


def test_f14_an_error_in_cleaning_up_after_the_commit_is_still_a_success(
    memory: MemoryLake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: object) -> None:
        raise MemoryError("no room to clean up")

    monkeypatch.setattr("esker.write.context.Scratch.discard", fail)
    table = memory.lake().table(NAME)
    table.append(rows([2]))
    assert rows_of(check_sound(memory.lake(), NAME)) == [1, 2]
    assert "no room to clean up" in caplog.text


def test_a_change_of_metadata_alone_that_nobody_answered_is_not_taken_for_done(memory: MemoryLake) -> None:
    """Its newest snapshot was there before: finding that proves nothing."""
    for how in ("unanswered", "nameless"):
        _, table = told(memory, how)
        with pytest.raises(OutcomeUnknown) as raised, table.alter() as change:
            change.set_properties({"owner": "me"})
        assert raised.value.snapshot_id is None
        assert "owner" not in memory.lake().table(NAME).properties
    _, table = told(memory, "do, unanswered")
    with table.alter() as change:
        change.set_properties({"owner": "me"})
    assert table.properties["owner"] == "me"


def test_a_location_taken_already_is_said_and_not_overwritten(
    memory: MemoryLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = memory.lake().table(NAME)
    location = f"{table.location}/metadata/taken.avro"
    memory.storage.write_new(location, b"someone's")
    monkeypatch.setattr("esker.write.context.MetadataNames.manifest", lambda self, metadata: location)
    with pytest.raises(AlreadyExists, match="taken"):
        table.append(rows([2]))
    assert memory.storage.read(location) == b"someone's"


# ---------------------------------------------------------------- patience


def test_waits_grow_to_a_ceiling_and_end_with_the_time_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    clock = [0.0]

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock[0] += seconds

    monkeypatch.setattr("esker.write.commit.time.sleep", sleep)
    monkeypatch.setattr("esker.write.commit.time.monotonic", lambda: clock[0])
    monkeypatch.setattr("esker.write.commit.random.uniform", lambda low, high: high)
    policy = RetryPolicy.of(
        {
            "commit.retry.num-retries": "100",
            "commit.retry.min-wait-ms": "100",
            "commit.retry.max-wait-ms": "400",
            "commit.retry.total-timeout-ms": "2000",
        }
    )
    assert list(policy.attempts()) == list(range(1, 8))
    assert slept == [0.1, 0.2, 0.4, 0.4, 0.4, 0.4]
    slept.clear()
    checks = RetryPolicy.of(
        {
            "commit.status-check.num-retries": "9",
            "commit.status-check.min-wait-ms": "1000",
            "commit.status-check.max-wait-ms": "3000",
            "commit.status-check.total-timeout-ms": "9500",
        }
    )
    assert list(checks.status_checks()) == [1, 2, 3, 4, 5]
    assert slept == [1, 2, 3, 3]


def test_a_wait_is_drawn_at_random_up_to_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writers that lost the same race must not meet again at the next one."""
    slept: list[float] = []
    drawn: list[tuple[float, float]] = []

    def draw(low: float, high: float) -> float:
        drawn.append((low, high))
        return high / 4

    monkeypatch.setattr("esker.write.commit.time.sleep", slept.append)
    monkeypatch.setattr("esker.write.commit.random.uniform", draw)
    assert list(RetryPolicy(retries=3, min_wait_ms=100).attempts()) == [1, 2, 3, 4]
    assert drawn == [(0, 100), (0, 200), (0, 400)]
    assert slept == [0.025, 0.05, 0.1]


def test_the_default_is_sixteen_retries_within_a_jitter() -> None:
    assert RetryPolicy().retries == 16
    assert RetryPolicy.of({}) == RetryPolicy()
    with pytest.raises(InvalidInput, match=r"commit\.retry\.num-retries = 'many'"):
        RetryPolicy.of({"commit.retry.num-retries": "many"})
