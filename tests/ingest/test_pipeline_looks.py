"""What a look at directories costs, and that it sees all the same what was done to files that are known."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pipeline_feed import Query
from telemetry_samples import spans, write

from esker.ingest.files import recognise


def told(tmp_path: Path, files: int) -> Query:
    """A query that has ingested so many files."""
    query = Query(tmp_path, most_files=1000)
    for number in range(files):
        write(query.folder, f"{number:03}.jsonl", spans([number]))
    assert query.step() == 1
    assert len(query.finish()) == files
    assert query.step() == 0
    return query


def cost_of_a_look(query: Query, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """How many statements a look that finds nothing new makes, and how many files it opens."""
    statements: list[str] = []
    opened: list[Path] = []
    database = query.feed._checkpoint._database
    database.set_trace_callback(statements.append)
    real = Path.open

    def noted(path: Path, *given: Any, **more: Any) -> Any:
        opened.append(path)
        return real(path, *given, **more)

    with monkeypatch.context() as watched:
        watched.setattr(Path, "open", noted)
        assert query.step() == 0
    database.set_trace_callback(None)
    return len(statements), len(opened)


def test_an_idle_look_asks_nothing_about_files_that_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    costs = []
    for files in (3, 30):
        (tmp_path / str(files)).mkdir()
        query = told(tmp_path / str(files), files)
        costs.append(cost_of_a_look(query, monkeypatch))
        query.close()
    assert costs[0] == costs[1]
    assert costs[0][1] == 0


def test_planning_costs_the_same_for_each_of_many_files(tmp_path: Path) -> None:
    lines: list[float] = []
    for files in (25, 100):
        (tmp_path / str(files)).mkdir()
        lines.append(lines_run(lambda files=files: told(tmp_path / str(files), files).close()) / files)  # type: ignore[misc]
    assert lines[1] <= 1.1 * lines[0]


def lines_run(work: Callable[[], object]) -> int:
    """How many lines of the module that recognises files are run, each turn of a loop among them."""
    count = 0

    def trace(frame: Any, event: str, _: object) -> Any:
        nonlocal count
        if frame.f_code.co_filename != recognise.__file__:
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def test_a_known_file_that_grows_is_read_on(tmp_path: Path) -> None:
    query = told(tmp_path, 3)
    with (query.folder / "001.jsonl").open("ab") as file:
        file.write(spans([9]))
    assert query.step() == 1
    assert query.finish() == ["001.jsonl"]
    query.close()


@pytest.mark.parametrize("how", ["in place", "by another file"])
def test_a_known_file_that_is_written_again_with_the_same_size_is_read(tmp_path: Path, how: str) -> None:
    query = told(tmp_path, 3)
    path = query.folder / "001.jsonl"
    before = path.stat()
    if how == "by another file":
        other = write(tmp_path, "other", spans([7]))
        os.utime(other, ns=(before.st_mtime_ns, before.st_mtime_ns))
        other.replace(path)
    else:
        path.write_bytes(spans([7]))
        os.utime(path, ns=(before.st_mtime_ns + 1, before.st_mtime_ns + 1))
    assert path.stat().st_size == before.st_size
    assert query.step() == 1
    assert query.finish() == ["001.jsonl"]
    query.close()


def test_a_known_file_under_another_name_is_still_known(tmp_path: Path) -> None:
    query = told(tmp_path, 3)
    path = query.folder / "001.jsonl"
    path.rename(query.folder / "x.jsonl")
    os.link(query.folder / "002.jsonl", query.folder / "y.jsonl")
    assert query.step() == 0
    (query.folder / "002.jsonl").unlink()  # the file stays, under its second name
    assert query.step() == 0
    names = {Path(seen.path).name for one in (0, 1, 2) for seen in [query.row_of(one)]}
    assert names == {"000.jsonl", "x.jsonl", "y.jsonl"}
    query.close()


def test_a_batch_that_is_withdrawn_makes_its_files_new_again_however_often_they_were_looked_at(tmp_path: Path) -> None:
    query = told(tmp_path, 2)
    write(query.folder, "a.jsonl", spans([5]))
    before = query.at
    assert query.step() == 1
    assert query.feed.latest(before) == query.at
    query.driver.withdraw(1)
    assert query.step() == 1
    assert query.finish() == ["a.jsonl"]
    query.close()


def test_the_driver_is_told_how_many_files_an_earlier_query_had_ingested(tmp_path: Path) -> None:
    query = told(tmp_path, 3)
    assert query.driver.known_files == 0
    query.restart()
    write(query.folder, "a.jsonl", spans([5]))
    assert query.step() == 1
    query.finish()
    assert query.step() == 0
    assert query.driver.known_files == 3
    query.close()
