"""The source of a pipeline without Spark: which offsets it gives, and what it writes down for them."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pipeline_feed import Query
from telemetry_samples import logs, spans, write

from esker.errors import Conflict, InvalidInput, StorageFailed
from esker.ingest.checkpoint import Checkpoint
from esker.ingest.files import source_files


@pytest.fixture
def query(tmp_path: Path) -> Iterator[Query]:
    made = Query(tmp_path, most_files=1)
    yield made
    made.feed.close()
    made.driver.close()


def test_a_batch_is_planned_when_the_one_before_it_is_finished(query: Query) -> None:
    assert query.step() == 0
    for name in ("a.jsonl", "b.jsonl"):
        write(query.folder, name, spans([1]))
    assert query.step() == 1
    assert query.feed.newest() | {"ingest": ""} == {
        "ingest": "",
        "next": 1,
        "waiting_files": 1,
        "waiting_bytes": len(spans([1])),
    }
    assert query.feed.latest(query.feed.initial())["next"] == 1, "a batch was planned ahead of one that is unfinished"
    assert query.finish() == ["a.jsonl"]
    assert query.step() == 1
    assert query.finish() == ["b.jsonl"]
    assert query.step() == 0


def test_a_batch_that_spark_did_not_write_down_is_given_again(query: Query) -> None:
    write(query.folder, "a.jsonl", spans([1]))
    before = query.at
    planned = query.feed.latest(before)
    again = query.restarted()
    assert again.latest(before) == planned
    assert len(query.driver.unfinished()) == 1
    again.close()


def test_a_batch_that_spark_counts_as_done_and_is_not_gets_another_to_be_finished_in(query: Query) -> None:
    write(query.folder, "a.jsonl", spans([1]))
    query.step()
    query.at = {**query.at, "next": 1}  # as if Spark had committed it
    assert query.step() == 1
    assert [len(plan.files) for plan in query.driver.unfinished()] == [1, 0]
    query.finish()
    assert query.step() == 0


def test_a_lost_checkpoint_of_spark_s_plans_nothing_twice(query: Query) -> None:
    write(query.folder, "a.jsonl", spans([1]))
    query.step()
    query.finish()
    assert query.feed.latest(query.feed.initial()) == query.feed.initial()
    write(query.folder, "b.jsonl", spans([2]))
    assert query.feed.latest(query.feed.initial())["next"] == 2
    assert query.finish() == ["b.jsonl"]


def test_offsets_of_another_ingest_are_refused(query: Query) -> None:
    with pytest.raises(
        InvalidInput, match=r"its offsets are of the ingest other, and .* bring the old checkpoint back"
    ):
        query.feed.latest({"ingest": "other", "next": 3})


def test_a_query_that_ends_takes_nothing_that_comes_later(query: Query) -> None:
    write(query.folder, "a.jsonl", spans([1]))
    query.feed.stop_at_now()
    write(query.folder, "b.jsonl", spans([2]))
    assert query.step() == 1
    assert query.finish() == ["a.jsonl"]
    assert query.step() == 0


def test_a_batch_has_no_more_bytes_than_it_may(tmp_path: Path) -> None:
    query = Query(tmp_path, most_bytes=2 * len(spans([1])))
    for name in ("a", "b", "c"):
        write(query.folder, name, spans([1]))
    query.step()
    assert query.finish() == ["a", "b"]
    query.step()
    assert query.finish() == ["c"]


def test_a_batch_has_about_as_many_rows_as_it_may_by_what_was_read_before(tmp_path: Path) -> None:
    query = Query(tmp_path, most_rows=2)
    write(query.folder, "a", spans([1]))
    query.step()
    assert query.finish() == ["a"]  # of which one record was counted
    for name in ("b", "c", "d"):
        write(query.folder, name, spans([1]))
    query.step()
    assert query.finish() == ["b", "c"]


def test_a_file_that_the_driver_refused_is_planned_again_when_it_changes(query: Query) -> None:
    path = write(query.folder, "a.jsonl", spans([1]))
    query.step()
    (plan,) = query.driver.unfinished()
    query.driver.refuse(plan, plan.files[0], "it was changed")
    query.finish()
    assert query.step() == 0
    assert query.feed.newest()["waiting_files"] == 0
    with path.open("ab") as file:
        file.write(logs([1]))
    assert query.step() == 1
    assert query.finish() == ["a.jsonl"]


def test_files_of_a_withdrawn_batch_are_in_the_next(query: Query) -> None:
    write(query.folder, "a.jsonl", spans([1]))
    query.step()
    query.driver.withdraw(0)
    assert query.step() == 1
    assert query.finish() == ["a.jsonl"]


def test_nobody_plans_for_a_driver_whose_term_is_over(query: Query) -> None:
    write(query.folder, "a.jsonl", spans([1]))
    query.driver.close()
    query.driver = Checkpoint(query.driver.directory, kind="otlp")
    with pytest.raises(Conflict, match="another process drives it now"):
        query.feed.latest(query.at)
    assert query.driver.unfinished() == []


def test_a_look_that_fails_is_no_batch_and_the_next_look_goes_on(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    write(query.folder, "a.jsonl", spans([1]))
    with monkeypatch.context() as broken:

        def fail(*_: Any, **__: Any) -> Any:
            raise OSError(errno.EIO, "the disk is away")

        broken.setattr(source_files, "find_files", fail)
        assert query.step() == 0
        assert "the disk is away" in query.feed.newest()["trouble"]
        assert query.driver.trouble == query.feed.newest()["trouble"]
        with pytest.raises((OSError, StorageFailed), match="the disk is away"):
            query.feed.stop_at_now()
    assert query.step() == 1
    assert "trouble" not in query.feed.newest()
    assert query.driver.trouble is None


def test_what_may_not_be_looked_at_is_named_and_its_neighbours_are_planned(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(query.folder, "a.jsonl", spans([1]))
    real = source_files.find_files

    def find(paths: Any, *, pass_over: Any, **more: Any) -> Any:
        pass_over("secrets", "Permission denied")
        return real(paths, pass_over=pass_over, **more)

    monkeypatch.setattr(source_files, "find_files", find)
    assert query.step() == 1
    assert query.feed.newest()["refused"] == {"secrets": "Permission denied"}


def test_tasks_are_as_many_as_the_files_are_worth_and_never_none(query: Query) -> None:
    assert query.feed.tasks() == [(0, 1)]
    write(query.folder, "a.jsonl", spans([1]))
    query.step()
    assert query.feed.tasks() == [(0, 1)]
    query.finish()
    (query.folder / "large").write_bytes(b"\n" * (200 << 20))
    query.feed._watch = replace(query.watch, most_bytes=1 << 30)
    query.step()
    assert query.feed.tasks() == [(number, 4) for number in range(4)]
