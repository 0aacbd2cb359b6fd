"""Batches that count once: sent again after a crash, a lost race or a lost answer, they change nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from doors import Door, MemoryLake, WatchedCatalog
from hypothesis import given
from hypothesis import strategies as st
from orders import NAME, orders, rows
from sound_tables import check_sound, reachable, rows_of

from esker.errors import Conflict, InvalidInput, OutcomeUnknown
from esker.model.table_names import TableName
from esker.ports.catalog import Catalog, Swap, TableState, Unanswered
from esker.table import Table
from esker.tree.table_metadata import TableMetadata
from esker.wiring import lake_over
from esker.write.definition.new_table import define_table
from esker.write.exactly_once import KEEP_APPLICATIONS, KEEP_MS, PREFIX, Batch, is_applied, with_batch
from esker.write.existing_files import Written


@pytest.fixture
def memory() -> MemoryLake:
    found = MemoryLake()
    orders(found.lake())
    return found


class Raced(WatchedCatalog):
    """A catalog in which something happens before the first swap."""

    def __init__(self, inner: Catalog, before: Callable[[], object]) -> None:
        super().__init__(inner, Door())
        self.before = before

    def swap(self, name: TableName, base: TableState, new: TableMetadata) -> Swap:
        before, self.before = self.before, lambda: None
        before()
        return self.inner.swap(name, base, new)


class Unreachable(WatchedCatalog):
    """A catalog that goes silent with the first swap, which is done or not."""

    def __init__(self, inner: Catalog, *, does: bool) -> None:
        super().__init__(inner, Door())
        self.does, self.silent = does, False

    def swap(self, name: TableName, base: TableState, new: TableMetadata) -> Swap:
        self.silent = True
        if self.does:
            self.inner.swap(name, base, new)
        return Unanswered("the line went dead")

    def load(self, name: TableName, known: TableState | None = None) -> TableState:
        if self.silent:
            raise ConnectionError("the line is dead")
        return self.inner.load(name, known)


def table_of(memory: MemoryLake) -> Table:
    return memory.lake().table(NAME)


def test_a_batch_sent_twice_counts_once_and_writes_nothing(memory: MemoryLake) -> None:
    first = table_of(memory).append(rows([1, 2]), batch=("loader", 0))
    stored = memory.files()
    assert table_of(memory).append(rows([1, 2]), batch=("loader", 0)) == first
    assert memory.files() == stored
    assert rows_of(table_of(memory)) == [1, 2]


def test_a_batch_is_marked_in_the_summary_and_in_the_property_of_one_version(memory: MemoryLake) -> None:
    table = table_of(memory)
    before = len(table.metadata.metadata_log)
    snapshot = table.append(rows([1]), batch=("loader", 7))
    assert (snapshot.summary["esker.application"], snapshot.summary["esker.batch"]) == ("loader", "7")
    now = table_of(memory)
    assert len(now.metadata.metadata_log) == before + 1
    assert now.properties[f"{PREFIX}main/loader"] == f"7@{snapshot.timestamp_ms}"


def test_later_batches_are_applied_and_earlier_ones_are_not(memory: MemoryLake) -> None:
    table = table_of(memory)
    for number in (0, 1, 4, 2, 4, 5):
        table.append(rows([number]), batch=("loader", number))
    assert rows_of(table) == [0, 1, 4, 5]
    assert [key for key in table.properties if key.startswith(PREFIX)] == [f"{PREFIX}main/loader"]


def test_applications_do_not_disturb_each_other(memory: MemoryLake) -> None:
    table, other = table_of(memory), table_of(memory)
    for number in range(3):
        table.append(rows([number]), batch=("one", number))
        other.append(rows([10 + number]), batch=("other", number))
        table.append(rows([number]), batch=("one", number))
    assert rows_of(table.refresh()) == [0, 1, 2, 10, 11, 12]
    assert check_sound(memory.lake(), NAME)


def test_expiry_of_the_snapshot_does_not_forget(memory: MemoryLake) -> None:
    table = table_of(memory)
    table.append(rows([1]), batch=("loader", 3))
    head = table.append(rows([2]))
    expired = replace(table.metadata, snapshots=(replace(head, parent_snapshot_id=None),))
    assert is_applied(expired, "main", head.snapshot_id, Batch("loader", 3))
    assert not is_applied(expired, "main", head.snapshot_id, Batch("loader", 4))


def test_a_property_that_is_gone_leaves_the_summary_to_tell(memory: MemoryLake) -> None:
    table = table_of(memory)
    table.append(rows([1]), batch=("loader", 3))
    table.append(rows([2]), batch=("other", 9))
    with table.alter() as change:
        change.remove_properties(f"{PREFIX}main/loader")
    table.append(rows([1]), batch=("loader", 3))
    assert rows_of(table) == [1, 2]


def test_a_batch_that_iceberg_s_own_sink_committed_is_known(memory: MemoryLake) -> None:
    table = table_of(memory)
    marks = {"spark.sql.streaming.queryId": "q", "spark.sql.streaming.epochId": "4"}
    table.append(rows([1]), summary=marks)
    table.append(rows([2]))
    for number in (3, 4, 5):
        table.append(rows([10 + number]), batch=("q", number))
    assert rows_of(table) == [1, 2, 15]


def test_what_a_branch_has_main_has_only_once_it_is_brought_there(memory: MemoryLake) -> None:
    table = table_of(memory)
    table.append(rows([0]), batch=("loader", 0))
    table.branch("dev")
    table.append(rows([1]), batch=("loader", 1), ref="dev")
    table.append(rows([1]), batch=("loader", 1), ref="dev")
    assert rows_of(table, ref="dev") == [0, 1]
    table.fast_forward("main", "dev")
    table.append(rows([1]), batch=("loader", 1))
    assert rows_of(table) == [0, 1]


def test_a_crash_before_the_commit_leaves_the_batch_to_be_sent_again(memory: MemoryLake) -> None:
    table = table_of(memory)
    with pytest.raises(KeyboardInterrupt), table.transaction(batch=("loader", 0)) as tx:  # noqa: PT012  # a story
        tx.append(rows([1]))
        raise KeyboardInterrupt
    table.append(rows([1]), batch=("loader", 0))
    assert rows_of(table) == [1]
    assert memory.files() == reachable(check_sound(memory.lake(), NAME))


def test_a_rival_that_sends_the_same_batch_wins_and_nothing_of_ours_is_left(memory: MemoryLake) -> None:
    rival = table_of(memory)
    catalog = Raced(memory.catalog(), lambda: rival.append(rows([1]), batch=("loader", 0)))
    table = lake_over(catalog).table(NAME)
    assert table.append(rows([1]), batch=("loader", 0)) == rival.current_snapshot
    assert rows_of(table) == [1]
    assert memory.files() == reachable(check_sound(memory.lake(), NAME))


def test_a_lost_race_is_tried_again_with_its_mark(memory: MemoryLake) -> None:
    rival = table_of(memory)
    catalog = Raced(memory.catalog(), lambda: rival.append(rows([5]), batch=("other", 0)))
    table = lake_over(catalog).table(NAME)
    table.append(rows([1]), batch=("loader", 0))
    marks = {key.removeprefix(PREFIX) for key in table.properties if key.startswith(PREFIX)}
    assert marks == {"main/loader", "main/other"}
    assert rows_of(table) == [1, 5]


@pytest.mark.parametrize("arrived", [False, True])
def test_a_batch_whose_fate_is_unknown_may_be_sent_again(memory: MemoryLake, arrived: bool) -> None:
    catalog = Unreachable(memory.catalog(), does=arrived)
    with pytest.raises(OutcomeUnknown, match=r"cannot find out whether the commit to sales\.orders succeeded"):
        lake_over(catalog).table(NAME).append(rows([1]), batch=("loader", 0))
    assert rows_of(table_of(memory)) == ([1] if arrived else [])
    table_of(memory).append(rows([1]), batch=("loader", 0))
    assert rows_of(table_of(memory)) == [1]


def test_files_written_by_others_are_deleted_where_their_batch_is_applied_already(memory: MemoryLake) -> None:
    table = table_of(memory)
    table.append(rows([1]), batch=("loader", 0))
    stored = memory.files()
    written = written_by_workers(table)
    assert len(memory.files()) == len(stored) + 1
    table.append(written, batch=("loader", 0))
    assert memory.files() == stored


def test_files_written_by_others_are_committed_as_they_are(memory: MemoryLake) -> None:
    table = table_of(memory)
    written = written_by_workers(table)
    table.append(written)
    assert rows_of(table) == [9]
    assert memory.files() == reachable(check_sound(memory.lake(), NAME))


def test_an_overwrite_by_files_conflicts_with_what_came_after_they_were_begun(memory: MemoryLake) -> None:
    table = table_of(memory)
    table.append(rows([1]))
    written = written_by_workers(table)
    table.append(rows([2]))
    stored = memory.files()
    with pytest.raises(Conflict, match="cannot overwrite: another commit has added"):
        table.overwrite(written)
    assert len(memory.files()) == len(stored) - 1


def test_files_begun_from_a_snapshot_that_expired_are_refused(memory: MemoryLake) -> None:
    table = table_of(memory)
    written = replace(written_by_workers(table), began_at=77)
    with pytest.raises(Conflict, match="snapshot 77, which the writing began from, has expired"):
        table.append(written)
    with pytest.raises(Conflict, match="cannot commit files of partition spec 5"):
        table.append(replace(written, spec_id=5))


def written_by_workers(table: Table) -> Written:
    """A file of one row, as a worker leaves it: written, and named in no snapshot."""
    tx = table.transaction()
    tx.append(rows([9]))
    (step,) = tx._steps
    head = table.current_snapshot
    return Written(files=step.files, spec_id=0, began_at=None if head is None else head.snapshot_id)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (("", 1), "1 to 200 letters, digits and signs of ASCII"),
        (("a b", 1), "cannot mark a batch of the application 'a b'"),
        (("x" * 201, 1), "1 to 200"),
        (("a", -1), "cannot mark batch -1: batches are numbered from 0"),
        (("a", True), "give an application's name and a number"),
        ("a", "cannot mark a batch by 'a'"),
    ],
)
def test_a_batch_that_cannot_be_marked_is_refused(memory: MemoryLake, batch: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        table_of(memory).append(rows([1]), batch=batch)  # type: ignore[arg-type]
    assert rows_of(table_of(memory)) == []


def test_a_mark_that_somebody_spoilt_is_named(memory: MemoryLake) -> None:
    table = table_of(memory)
    with table.alter() as change:
        change.set_properties({f"{PREFIX}main/loader": "seven"})
    with pytest.raises(InvalidInput, match=rf"the table property {PREFIX}main/loader is 'seven'"):
        table.append(rows([1]), batch=("loader", 0))


def test_a_batch_is_never_staged(memory: MemoryLake) -> None:
    table = table_of(memory)
    with table.alter() as change:
        change.set_properties({"write.wap.enabled": "true"})
    with pytest.raises(InvalidInput, match="cannot stage a batch: a staged snapshot is on no branch"):
        table.append(rows([1]), summary={"wap.id": "a"}, batch=("loader", 0))


@given(
    st.lists(st.tuples(st.integers(0, 2 * KEEP_APPLICATIONS), st.integers(0, KEEP_MS // 50)), min_size=1, max_size=400)
)
def test_what_is_remembered_is_bounded_and_the_newest_is_always_there(steps: list[tuple[int, int]]) -> None:
    metadata = define_table(schema="id bigint", location="memory://t")
    for number, (application, later_ms) in enumerate(steps):
        metadata = replace(metadata, last_updated_ms=metadata.last_updated_ms + later_ms)
        metadata = with_batch(metadata, "main", Batch(f"a{application}", number))
        assert is_applied(metadata, "main", None, Batch(f"a{application}", number))
    kept = {key: int(value.partition("@")[2]) for key, value in metadata.properties.items() if key.startswith(PREFIX)}
    assert len(kept) <= KEEP_APPLICATIONS
    assert all(metadata.last_updated_ms - at_ms < KEEP_MS for at_ms in kept.values())
    lately = {f"{PREFIX}main/a{application}" for application, _ in steps[-40:]}  # not silent for as long as 30 days
    assert lately <= set(kept)


def test_two_hundred_applications_are_kept_and_the_longest_silent_goes_first() -> None:
    metadata = define_table(schema="id bigint", location="memory://t")
    for at in range(KEEP_APPLICATIONS + 5):
        metadata = replace(metadata, last_updated_ms=metadata.last_updated_ms + 1)
        metadata = with_batch(metadata, "main", Batch(f"a{at}", 0))
    marks = [key for key in metadata.properties if key.startswith(PREFIX)]
    assert marks == [f"{PREFIX}main/a{at}" for at in range(5, KEEP_APPLICATIONS + 5)]


def test_a_batch_of_changed_rows_counts_once_and_writes_nothing_the_second_time(memory: MemoryLake) -> None:
    table = table_of(memory)
    table.append(rows([1, 2]))
    for _ in range(2):
        with table.transaction(batch=("loader", 7)) as tx:
            tx.update({"n": "n + 1"}, "id = 1")
            tx.upsert(rows([2, 3], n=5), on=["id"])
        there = memory.files()
    assert memory.files() == there
    found = table.scan(columns=["id", "n"]).to_arrow().to_pylist()
    assert sorted((row["id"], row["n"]) for row in found) == [(1, 2), (2, 5), (3, 5)]
    assert len(table.snapshots) == 2
