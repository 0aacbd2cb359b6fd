"""Commits of the data source, without Spark: what tasks report becomes one snapshot, and what fails is taken back."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

import esker
from esker.errors import Conflict, InvalidInput, OutcomeUnknown, Unsupported
from esker.ports.catalog import Unanswered
from esker.spark.source import batch_write, stream_write
from esker.spark.source.batch_write import Report
from esker.spark.source.write_worker import as_bytes
from esker.spark.workers.arrow_write_worker import Order, carry_out

FRAME = StructType([StructField("id", LongType()), StructField("region", StringType())])


class Job:
    """A job of the data source: tasks are run by hand, and their reports go to a commit or an abort."""

    def __init__(self, lake: esker.Lake, *, stream: bool = False, overwrite: bool = False, **given: str) -> None:
        self.module: Any = stream_write if stream else batch_write
        self.given = {"path": "sales.orders", **given}
        self.plan, self.task = self.module.plan_write(self.given, lake.address, FRAME, overwrite)
        self.lake, self.overwrite = lake, overwrite
        self.attempts = 0

    def run(self, *ids: int | None, query: str | None = None) -> Report:
        """One task, in this process."""
        order: Order = pickle.loads(_order_of(self.task))
        self.attempts += 1
        rows = pa.record_batch([pa.array(ids, pa.int64()), pa.array(["eu"] * len(ids))], names=["a", "b"])
        report = carry_out(order, [rows], task=0, attempt=self.attempts)
        return order.operation_id, query, as_bytes(report)

    def commit(self, *reports: Report | None, batch: int | None = None) -> None:
        """The commit, as Spark asks for it: a stream's writer is made anew for it."""
        if batch is None:
            self.module.commit(self.plan, list(reports))
        else:
            plan, _ = self.module.plan_write(self.given, self.lake.address, FRAME, self.overwrite)
            self.module.commit(plan, list(reports), batch)

    def abort(self, *reports: Report | None) -> None:
        """Giving up, as Spark asks for it."""
        batch_write.abort(self.plan, list(reports))


def _order_of(task: Callable[[Any], Any]) -> bytes:
    """What a shipped function carries to its worker."""
    names = task.__code__.co_freevars
    cells = task.__closure__
    assert cells is not None
    return cells[names.index("order")].cell_contents


@pytest.fixture
def lake(tmp_path: Path) -> esker.Lake:
    made = esker.connect(f"sqlite:///{tmp_path}/catalog.db")
    made.create_namespace("sales")
    made.create_table(
        "sales.orders",
        "id bigint not null, region string",
        partition_by=["region"],
        properties={"commit.status-check.num-retries": "0"},
    )
    return made


def ids_of(lake: esker.Lake) -> list[int]:
    return sorted(lake.table("sales.orders").scan().to_arrow()["id"].to_pylist())


def files_of(lake: esker.Lake) -> set[str]:
    return {path.name for path in Path(lake.table("sales.orders").location).rglob("*.parquet")}


def test_all_tasks_make_one_snapshot_and_twins_that_lost_add_nothing(lake: esker.Lake) -> None:
    job = Job(lake)
    job.run(1, 2)  # a twin that Spark did not believe
    job.commit(job.run(1, 2), job.run(3), job.run())
    assert ids_of(lake) == [1, 2, 3]
    assert len(lake.table("sales.orders").snapshots) == 1


def test_rows_that_do_not_fit_are_refused_and_every_file_is_taken_back(lake: esker.Lake) -> None:
    job = Job(lake)
    with pytest.raises(InvalidInput, match="column 'id' does not fit: it is required and cannot be null"):
        job.commit(job.run(1, 2), job.run(3, None))
    assert files_of(lake) == set()


def test_a_job_that_fails_takes_back_what_its_tasks_wrote_and_nothing_else(lake: esker.Lake) -> None:
    lake.table("sales.orders").append(pa.table({"id": [0], "region": ["eu"]}))
    before, other, job = files_of(lake), Job(lake), Job(lake)
    kept = other.run(7)
    written = job.run(1)
    job.run(2)  # finished, and never reported
    assert len(files_of(lake)) == len(before) + 3
    job.abort(written, None)
    assert len(files_of(lake)) == len(before) + 1
    other.commit(kept)
    assert ids_of(lake) == [0, 7]


def test_what_a_commit_may_have_named_is_never_taken_back(lake: esker.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(lake)
    report = job.run(1)
    with _silent(monkeypatch), pytest.raises(OutcomeUnknown, match="cannot find out whether the commit"):
        job.commit(report)
    job.abort(report)  # Spark gives up after every commit that fails
    assert ids_of(lake) == [1]
    assert len(files_of(lake)) == 1


def test_a_batch_whose_fate_is_unknown_is_sent_again_and_counts_once(
    lake: esker.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Job(lake, stream=True)
    with _silent(monkeypatch), pytest.raises(OutcomeUnknown, match="cannot find out whether the commit"):
        first.commit(first.run(1, query="q"), batch=0)
    again = Job(lake, stream=True)
    again.commit(again.run(1, query="q"), batch=0)
    again.commit(again.run(2, query="q"), batch=1)
    assert ids_of(lake) == [1, 2]
    assert len(files_of(lake)) == 2
    assert len(lake.table("sales.orders").snapshots) == 2


class _silent:  # noqa: N801  # reads as a word in a with statement
    """While it lasts, swaps happen and nobody says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch

    def __enter__(self) -> None:
        from esker.catalogs.pointer_catalog import PointerCatalog

        swap, load = PointerCatalog.swap, PointerCatalog.load

        def unanswered(catalog: Any, name: Any, base: Any, new: Any) -> Unanswered:
            swap(catalog, name, base, new)
            self._patch.setattr(PointerCatalog, "load", _no_answer)
            return Unanswered("the line went dead")

        self._real = swap, load
        self._patch.setattr(PointerCatalog, "swap", unanswered)

    def __exit__(self, *how: object) -> None:
        from esker.catalogs.pointer_catalog import PointerCatalog

        self._patch.setattr(PointerCatalog, "swap", self._real[0])
        self._patch.setattr(PointerCatalog, "load", self._real[1])


def _no_answer(*_: object) -> Iterator[None]:
    raise ConnectionError("the line is dead")


def test_a_batch_without_rows_makes_no_snapshot(lake: esker.Lake) -> None:
    job = Job(lake, stream=True)
    job.commit(job.run(query="q"), batch=0)
    job.commit(batch=1)
    assert list(lake.table("sales.orders").snapshots) == []


def test_a_complete_answer_replaces_the_last_and_a_replay_does_not(lake: esker.Lake) -> None:
    job = Job(lake, stream=True, overwrite=True)
    for batch, ids in ((0, [1, 2]), (1, [3]), (0, [1, 2])):
        job.commit(job.run(*ids, query="q"), batch=batch)
    assert ids_of(lake) == [3]


def test_a_release_of_spark_that_names_no_query_is_told_of_another_way(lake: esker.Lake) -> None:
    job = Job(lake, stream=True)
    with pytest.raises(Unsupported, match=r"write with foreachBatch and table\.append\(df, batch=\(name, batch_id\)\)"):
        job.commit(job.run(1), batch=0)


def test_an_overwrite_conflicts_with_rows_that_came_while_it_was_written(lake: esker.Lake) -> None:
    table = lake.table("sales.orders")
    table.append(pa.table({"id": [0], "region": ["eu"]}))
    for mode in ("static", "dynamic"):
        job = Job(lake, overwrite=True, **{"overwrite-mode": mode})
        report = job.run(9)
        table.append(pa.table({"id": [1], "region": ["eu"]}))
        before = files_of(lake)
        with pytest.raises(Conflict, match="cannot overwrite: another commit has added"):
            job.commit(report)
        assert len(files_of(lake)) == len(before) - 1


def test_files_written_before_the_partitioning_changed_keep_theirs(lake: esker.Lake) -> None:
    appended, replacing = Job(lake), Job(lake, overwrite=True, **{"overwrite-mode": "dynamic"})
    streamed = Job(lake, stream=True)
    reports = appended.run(1), replacing.run(2), streamed.run(3, query="q")
    with lake.table("sales.orders").alter() as change:
        change.drop_partition("region")
        change.add_partition("bucket(4, id)")
    appended.commit(reports[0])
    streamed.commit(reports[2], batch=0)
    with pytest.raises(Conflict, match="its partitioning was changed meanwhile"):
        replacing.commit(reports[1])
    assert ids_of(lake) == [1, 3]
    assert len(files_of(lake)) == 2
    assert lake.table("sales.orders").scan("region = 'eu'").count() == 2
