"""A table followed from commit to commit: every row that is added is given once, and what cannot be given is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from doors import MemoryLake
from hypothesis import given, settings
from hypothesis import strategies as st
from orders import NAME, orders, rows

from esker.errors import InvalidInput, NoSuchSnapshot, Unsupported
from esker.model.table_names import TableName
from esker.spark.source.table_feed import START, Feed, Manner, Offset
from esker.table import Table


@pytest.fixture
def memory() -> MemoryLake:
    found = MemoryLake()
    orders(found.lake(), partition_by=["region"])
    return found


def table_of(memory: MemoryLake) -> Table:
    return memory.lake().table(NAME)


def feed_of(memory: MemoryLake, where: str | None = None, **how: Any) -> Feed:
    table = table_of(memory)
    return Feed(table, table.scan(where), Manner(branch=how.pop("branch", "main"), **how))


def given_out(feed: Feed, start: Offset, end: Offset) -> list[int]:
    """The ids of the rows between two offsets, as workers would read them."""
    scan = feed._scan
    request = replace(scan._request(feed.tasks(start, end), scan.projection), metadata=feed._metadata)
    return sorted(id_ for batch in scan.engine.read(request) for id_ in batch.column("id").to_pylist())


def batches(feed: Feed, start: Offset | None = None, *, is_limited: bool = True) -> list[list[int]]:
    """What a query that runs until nothing is left is given, batch by batch."""
    at, found = start or START, []
    while (end := feed.latest(at, is_limited=is_limited)) != at:
        assert Offset.of(end.as_json()) == end
        found.append(given_out(feed, at, end))
        at = end
    assert given_out(feed, at, at) == []
    return [batch for batch in found if batch]


def replaced(table: Table) -> None:
    """A snapshot as compaction makes it."""
    with table.transaction() as tx:
        tx.append(rows([999]))
        tx._operation = "replace"


def expire(memory: MemoryLake, *, keep: int) -> None:
    """Let all but the newest snapshots be gone."""
    catalog = memory.catalog()
    name = TableName.parse(NAME)
    state = catalog.load(name)
    kept = tuple(state.metadata.snapshots)[-keep:]
    log = tuple(e for e in state.metadata.snapshot_log if e.snapshot_id in {s.snapshot_id for s in kept})
    catalog.swap(name, state, replace(state.metadata, snapshots=kept, snapshot_log=log))


def test_a_stream_begins_with_the_table_as_it_is_and_goes_on_with_what_is_added(memory: MemoryLake) -> None:
    table = table_of(memory)
    table.append(rows([1, 2, 3]))
    table.delete("id = 2")
    feed = feed_of(memory)
    start = feed.begin()
    table.append(rows([4]))
    end = feed.latest(start, is_limited=False)
    assert given_out(feed, start, end) == [1, 3, 4]
    assert feed.latest(end, is_limited=False) == end
    table.append(rows([5]))
    later = feed.latest(end, is_limited=False)
    assert given_out(feed, end, later) == [5]
    assert feed.newest() == later


def test_a_stream_of_an_empty_table_waits(memory: MemoryLake) -> None:
    feed = feed_of(memory)
    start = feed.begin()
    assert feed.latest(start, is_limited=False) == start
    assert feed.newest() is None
    table_of(memory).append(rows([1]))
    assert batches(feed, start) == [[1]]


@pytest.mark.parametrize(
    "how",
    [{}, {"max_files": 1}, {"start": "latest"}, {"start_time": "2001-01-01"}],
    ids=lambda how: next(iter(how), ""),
)
def test_the_first_batch_is_the_same_when_it_is_asked_for_again_later(memory: MemoryLake, how: Any) -> None:
    table = table_of(memory)
    table.append(rows([1]))
    table.append(rows([2]))
    feed = feed_of(memory, **how)
    end = feed.latest(START, is_limited=True)
    first = given_out(feed, START, end)
    table.append(rows([3]))
    again = feed_of(memory, **how)  # a restart: Spark knows how far the batch went, and not where it began
    assert given_out(again, START, end) == first
    given_by_all = first + [id_ for batch in batches(again, end) for id_ in batch]
    assert sorted(given_by_all) == ([3] if how == {"start": "latest"} else [1, 2, 3])


def test_compaction_gives_nothing(memory: MemoryLake) -> None:
    table = table_of(memory)
    table.append(rows([1]))
    feed = feed_of(memory)
    start = feed.begin()
    replaced(table)
    table.append(rows([2]))
    assert batches(feed, start, is_limited=False) == [[1, 2]]


@pytest.mark.parametrize(
    ("change", "kind", "option"),
    [
        (lambda table: table.delete("id = 1"), "delete", "skips_deletes"),
        (lambda table: table.overwrite(rows([7]), "id = 1"), "overwrite", "skips_overwrites"),
    ],
)
def test_what_takes_rows_back_is_refused_by_name_or_passed_over_when_told_so(
    memory: MemoryLake, change: Any, kind: str, option: str
) -> None:
    table = table_of(memory)
    table.append(rows([1]))
    feed, tolerant = feed_of(memory, start="latest"), feed_of(memory, **{option: True}, start="latest")
    start = feed.begin()
    table.append(rows([2]))
    change(table)
    table.append(rows([3]))
    reached = feed.latest(start, is_limited=False)
    assert given_out(feed, start, reached) == [2]  # what came before is given first
    with pytest.raises(
        Unsupported,
        match=rf"cannot stream past snapshot \d+ of sales\.orders: it is of the kind {kind}, .*"
        rf"set streaming-skip-{kind}-snapshots = true",
    ) as why:
        feed.latest(reached, is_limited=False)
    assert why.value.snapshot_id == table.snapshots[-2].snapshot_id
    assert batches(tolerant, start, is_limited=False) == [[2, 3]]


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.integers(0, 3),
    st.none() | st.integers(1, 5),
    st.none() | st.integers(1, 5),
)
@settings(max_examples=25, deadline=None)
def test_whatever_the_limits_every_row_is_given_once_and_no_batch_is_larger(
    files: list[int], begun: int, max_files: int | None, max_rows: int | None
) -> None:
    memory = MemoryLake()
    table = orders(memory.lake(), partition_by=["region"])
    feed: Feed | None = None
    start, number = None, 0
    for at, count in enumerate(files):
        if at == min(begun, len(files) - 1):
            feed = feed_of(memory, max_files=max_files, max_rows=max_rows)
            start = feed.begin()
        with table.transaction() as tx:
            for region in range(count):
                tx.append(rows([number], region=f"r{region}"))
                number += 1
    assert feed is not None
    found = batches(feed, start)
    assert sorted(id_ for batch in found for id_ in batch) == list(range(number))
    assert [id_ for batch in found for id_ in batch] == [id_ for batch in batches(feed, start) for id_ in batch]
    most = min(max_files or 1000, max_rows or 1000)  # each file has one row
    assert all(len(batch) <= most for batch in found)


def test_a_file_larger_than_the_limit_is_a_batch_of_its_own(memory: MemoryLake) -> None:
    table = table_of(memory)
    table.append(rows([1, 2, 3]))
    table.append(rows([4]))
    assert sorted(batches(feed_of(memory, max_rows=2))) == [[1, 2, 3], [4]]


def test_a_filter_prunes_and_may_change_between_runs(memory: MemoryLake) -> None:
    table = table_of(memory)
    with table.transaction() as tx:
        tx.append(rows([1], region="eu"))
        tx.append(rows([2], region="us"))
        tx.append(rows([3], region="eu"))
    feed = feed_of(memory, "region = 'eu'", max_files=2)
    assert sorted(id_ for batch in batches(feed) for id_ in batch) == [1, 3]
    start = feed.begin()
    end = feed.latest(start, is_limited=True)
    assert {task.data_file.partition for task in feed.tasks(start, end)} == {("eu",)}
    other = feed_of(memory, "region = 'us'", max_files=2)
    both = given_out(feed, start, end) + given_out(other, start, end)
    rest = other.latest(end, is_limited=True)
    both += given_out(feed, end, rest) + given_out(other, end, rest)
    assert sorted(both) == [1, 2, 3]


def test_a_query_that_ends_with_what_is_there_leaves_later_commits(memory: MemoryLake) -> None:
    table = table_of(memory)
    table.append(rows([1]))
    feed = feed_of(memory)
    start = feed.begin()
    feed.stop_at_now()
    table.append(rows([2]))
    assert batches(feed, start) == [[1]]
    empty = MemoryLake()
    orders(empty.lake())
    waiting = feed_of(empty)
    waiting.stop_at_now()
    table_of(empty).append(rows([1]))
    assert batches(waiting, Offset(snapshot_id=-1)) == []


def test_rows_are_given_in_the_columns_that_the_stream_began_with(memory: MemoryLake) -> None:
    table = table_of(memory)
    feed = feed_of(memory)
    start = feed.begin()
    with table.alter() as change:
        change.add_column("more", "string")
        change.add_partition("bucket(4, id)")
    table.append(rows([1]))
    assert batches(feed, start) == [[1]]
    assert [field.name for field in feed._scan.projection] == ["id", "region", "n"]


# ---------------------------------------------------------------- where a stream begins


def test_a_stream_may_begin_after_a_snapshot_at_a_time_or_now(memory: MemoryLake) -> None:
    table = table_of(memory)
    snapshots = [table.append(rows([number])) for number in (1, 2, 3)]
    assert batches(feed_of(memory, start_snapshot=snapshots[0].snapshot_id), is_limited=False) == [[2, 3]]
    assert batches(feed_of(memory, start_time=str(snapshots[1].timestamp_ms)), is_limited=False) == [[2, 3]]
    assert batches(feed_of(memory, start_time="2001-01-01"), is_limited=False) == [[1, 2, 3]]
    assert batches(feed_of(memory, start_time="2999-01-01")) == []
    assert batches(feed_of(memory, start="latest")) == []


def test_a_branch_is_followed_by_itself(memory: MemoryLake) -> None:
    table = table_of(memory)
    table.append(rows([1]))
    table.branch("dev")
    feed = feed_of(memory, branch="dev")
    start = feed.begin()
    table.append(rows([2]), ref="dev")
    table.append(rows([3]))
    assert batches(feed, start, is_limited=False) == [[1, 2]]


def test_a_snapshot_that_expired_after_it_was_done_is_not_missed(memory: MemoryLake) -> None:
    table = table_of(memory)
    table.append(rows([1]))
    feed = feed_of(memory)
    done = feed.latest(feed.begin(), is_limited=False)
    table.append(rows([2]))
    table.append(rows([3]))
    expire(memory, keep=2)
    assert batches(feed, done, is_limited=False) == [[2, 3]]


def test_what_expired_unread_is_said_clearly(memory: MemoryLake) -> None:
    table = table_of(memory)
    first = table.append(rows([1]))
    feed = feed_of(memory)
    start = feed.begin()
    done = feed.latest(start, is_limited=False)
    table.append(rows([2]))
    table.append(rows([3]))
    expire(memory, keep=1)
    gone = rf"cannot stream sales\.orders on from snapshot {first.snapshot_id}: it has expired"
    for offset in (start, done):
        with pytest.raises(NoSuchSnapshot, match=gone):
            feed.latest(offset, is_limited=False)
    with pytest.raises(NoSuchSnapshot, match=gone):
        feed_of(memory, start_snapshot=first.snapshot_id).begin()
    with pytest.raises(NoSuchSnapshot, match=r"from 2001-.*: snapshots of that time have expired, the oldest"):
        feed_of(memory, start_time="2001-01-01").begin()
    with pytest.raises(NoSuchSnapshot, match="on from a table without snapshots: it has expired"):
        feed.latest(Offset(snapshot_id=-1), is_limited=False)


def test_a_table_rolled_back_under_a_stream_is_said_clearly(memory: MemoryLake) -> None:
    table = table_of(memory)
    first = table.append(rows([1]))
    table.append(rows([2]))
    feed = feed_of(memory)
    done = feed.latest(feed.begin(), is_limited=False)
    table.rollback(first.snapshot_id)
    table.append(rows([3]))
    with pytest.raises(InvalidInput, match="the branch main was rolled back"):
        feed.latest(done, is_limited=False)


@pytest.mark.parametrize("kept", [{}, {"snapshot": 1}, {"snapshot": "1", "files": 0, "whole": False}, 7])
def test_an_offset_that_is_not_ours_is_refused(kept: Any) -> None:
    with pytest.raises(InvalidInput, match="is not an offset of a table's stream"):
        Offset.of(kept)


def test_a_release_of_spark_that_knows_no_limits_is_given_all_there_is(memory: MemoryLake) -> None:
    table = table_of(memory)
    table.append(rows([1]))
    feed = feed_of(memory, max_files=1)
    table.append(rows([2]))
    end = feed.latest(None, is_limited=False)
    assert given_out(feed, START, end) == [1, 2]
    table.append(rows([3]))
    later = feed.latest(None, is_limited=False)
    assert given_out(feed, end, later) == [3]
