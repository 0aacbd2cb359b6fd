"""Telemetry as a Structured Streaming query: each record once, with the numbers in Spark's progress."""

from __future__ import annotations

import itertools
import os
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.datasource import DataSourceStreamReader
from telemetry_samples import bad_span, letters, log_bodies, logs, span_names, spans, write

import esker
from esker.errors import Conflict, InvalidInput, StorageFailed, Unsupported
from esker.ingest import deliver
from esker.ingest.defaults import default_spool
from esker.ingest.job import Refused
from esker.ingest.pipeline.batches import Hand
from esker.ingest.spark import telemetry_job
from esker.lake import Lake
from esker.otlp import PipelineListener, pipeline
from esker.otlp.decoding.signals import Signal
from esker.otlp.receive.spool import Spool
from esker.otlp.source.segment import frame

pytestmark = pytest.mark.skipif(
    not hasattr(DataSourceStreamReader, "getDefaultReadLimit"), reason="a pipeline needs Spark 4.2"
)
WAIT_S = 120


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return esker.connect(f"sqlite:///{tmp_path}/lake/catalog.db")


@pytest.fixture
def started(spark: Any, tmp_path: Path, lake: Lake) -> Iterator[Callable[..., Any]]:
    """Starts pipelines over the folder ``in``, and stops those that are left."""
    made: list[Any] = []
    (tmp_path / "in").mkdir()

    def start(source: Any = tmp_path / "in", **wishes: Any) -> Any:
        made.append(pipeline(spark, source, lake, **({"settle_s": 0.0, "processing_time": "50 milliseconds"} | wishes)))
        return made[-1]

    yield start
    for query in made:
        query.stop()


@pytest.fixture
def drained(spark: Any, tmp_path: Path, lake: Lake) -> Callable[..., Any]:
    """Runs a pipeline over the folder ``in`` until it ends by itself."""

    def drain(source: Any = tmp_path / "in", **wishes: Any) -> Any:
        query = pipeline(spark, source, lake, **({"available_now": True} | wishes))
        assert query.awaitTermination(WAIT_S)
        return query

    return drain


def numbers(progress: Any) -> tuple[int, ...]:
    row = progress.observedMetrics["esker"]
    return row.received, row.committed, row.dead, row.pending, row.lag_files


def wait_for(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.05)


def named(*ids: int) -> Counter[str]:
    return Counter(f"span {number}" for number in ids)


def test_a_batch_for_each_file_and_an_end_by_itself(
    spark: Any, tmp_path: Path, lake: Lake, drained: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry_job.slices_of, "__kwdefaults__", {"size": 100})  # a task has several shares
    write(tmp_path / "in", "a.jsonl", spans([1, 2]), bad_span(9))
    write(tmp_path / "in", "b.jsonl", logs([1]))
    write(tmp_path / "in", "c.jsonl", spans([3]))
    seen: list[Any] = []
    listener = PipelineListener(seen.append)
    query = drained(max_files_per_trigger=1, listener=listener)
    assert (span_names(lake), log_bodies(lake), letters(lake).total()) == (named(1, 2, 3), Counter(["log 1"]), 1)
    account = query.account
    assert (account.received, account.batches, account.holds) == (5, 3, True)
    expected = [(3, 2, 1, 0, 2), (1, 1, 0, 0, 1), (1, 1, 0, 0, 0)]
    assert [numbers(one) for one in query.recentProgress if one.numInputRows] == expected
    assert numbers(query.lastProgress)[3:] == (0, 0)
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    spark.streams.removeListener(listener)
    assert [numbers(one) for one in seen if one.numInputRows] == expected
    again = drained()
    assert (again.account.received, span_names(lake).total()) == (0, 3)


def test_an_idle_trigger_runs_no_job_and_a_batch_runs_one_with_a_name(
    spark: Any, tmp_path: Path, lake: Lake, started: Callable[..., Any]
) -> None:
    query = started()

    def jobs() -> list[int]:
        return list(spark.sparkContext.statusTracker().getJobIdsForGroup(query.runId))

    for count, name in enumerate(("a.jsonl", "b.jsonl"), 1):
        write(tmp_path / "in", name, spans([count]))
        wait_for(lambda count=count: span_names(lake).total() == count)  # type: ignore[misc]
        query.processAllAvailable()
        time.sleep(0.5)  # some triggers with nothing to do
        assert len(jobs()) == count
    store = spark.sparkContext._jsc.sc().statusStore()
    descriptions = {store.job(job).description().get() for job in jobs()}
    assert descriptions == {"esker: decode batch 0", "esker: decode batch 1"}
    with pytest.raises(Conflict, match="cannot drive the checkpoint"):
        started()
    query.end()
    assert (query.isActive, query.exception()) == (False, None)
    assert query.account.holds


def test_a_batch_costs_one_job_a_task_for_each_share_and_a_commit_for_each_table(
    spark: Any, tmp_path: Path, lake: Lake, drained: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted, not timed: of the batches after the first, none may cost more than another, and none looks at more than
    the tables that it goes to. A snapshot is three files in one folder, and each is synced once."""
    batches = 4
    for number in range(batches):
        write(tmp_path / "in", f"{number}.jsonl", spans([number]), logs([number]), b"{broken\n")
    synced: list[int] = []
    at_end: list[int] = []
    commits: list[str] = []
    real_sync, real_commit = os.fsync, deliver.commit
    monkeypatch.setattr(os, "fsync", lambda handle: (synced.append(1), real_sync(handle))[1])
    monkeypatch.setattr(deliver, "commit", lambda *given: (commits.append(given[1].name), real_commit(*given))[1])
    query = drained(max_files_per_trigger=1, told=lambda account: at_end.append(len(synced)))
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(query.runId)]
    tasks = [sum(tracker.getStageInfo(stage).numTasks for stage in job.stageIds) for job in jobs]
    assert tasks == [1] * batches
    assert Counter(commits) == Counter({"spans": batches, "logs": batches, "dead_letter": batches})
    of_each = {after - before for before, after in itertools.pairwise(at_end[1:])}
    # per table three files and the note of its pending files, and the folders of both, each once; and the receipt
    assert of_each == {3 * (4 + 2) + 2}
    assert (query.account.known_files, drained().account.known_files) == (0, batches)


def test_a_commit_that_cannot_be_made_is_tried_again_until_the_query_is_stopped(
    tmp_path: Path,
    lake: Lake,
    started: Callable[..., Any],
    drained: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(tmp_path / "in", "a.jsonl", spans([1]))
    trouble: list[str] = []
    with monkeypatch.context() as broken:

        def fail(*_: Any) -> Any:
            raise StorageFailed("the catalog is away", retryable=True)

        broken.setattr(deliver, "commit", fail)
        query = started(told_trouble=trouble.append)
        wait_for(lambda: query.account.pending == 1)
        assert query.account.holds
        query.stop()
        assert (query.isActive, query.exception()) == (False, None)
    assert len(trouble) == 1
    assert "the catalog is away" in trouble[0]
    decoded = telemetry_job._run
    monkeypatch.setattr(telemetry_job, "_run", lambda *_: pytest.fail("what has a receipt is not decoded again"))
    assert drained().account.received == 1
    monkeypatch.setattr(telemetry_job, "_run", decoded)
    assert span_names(lake) == named(1)


def test_a_query_that_is_stopped_while_it_decodes_has_not_failed_and_loses_nothing(
    spark: Any,
    tmp_path: Path,
    lake: Lake,
    started: Callable[..., Any],
    drained: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(tmp_path / "in", "a.jsonl", spans([1]))

    def sleeping(entry: str, order: bytes) -> Callable[[Any], Any]:
        def run(rows: Any) -> Any:
            import time

            time.sleep(600)
            yield from rows

        return run

    with monkeypatch.context() as slow:
        slow.setattr(telemetry_job, "shipped", sleeping)
        query = started()
        wait_for(lambda: bool(spark.sparkContext.statusTracker().getActiveJobsIds()))
        query.stop()
        assert (query.isActive, query.exception()) == (False, None)
    assert drained().account.received == 1
    assert span_names(lake) == named(1)


def test_a_batch_goes_on_when_the_catalog_is_back_and_one_that_was_withdrawn_is_planned_again(
    tmp_path: Path, lake: Lake, drained: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "in", "a.jsonl", spans([1]))
    failing = {(deliver, "commit"): 1, (telemetry_job, "_run"): 1}
    for module, name in list(failing):
        real = getattr(module, name)

        def sometimes(*given: Any, key: Any = (module, name), real: Any = real) -> Any:
            failing[key] -= 1
            if failing[key] >= 0:
                raise StorageFailed("the disk is full", retryable=True)
            return real(*given)

        monkeypatch.setattr(module, name, sometimes)
    query = drained()
    assert all(left < 0 for left in failing.values())
    assert (query.account.received, query.account.batches, query.account.holds) == (1, 1, True)
    assert span_names(lake) == named(1)


def test_a_file_that_cannot_be_read_is_refused_once_and_the_others_go_in(
    tmp_path: Path, lake: Lake, drained: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "in", "a.jsonl", spans([1]))
    write(tmp_path / "in", "b.jsonl", spans([2]))
    write(tmp_path / "in", "c.jsonl", spans([3]))

    def refusing(plan: Any, *, may_grow: bool) -> None:
        for source in plan.files:
            if source.path.endswith("b.jsonl"):
                raise Refused(source, "it was changed after its batch was planned")

    monkeypatch.setattr(telemetry_job, "check_sources", refusing)
    query = drained()
    assert [Path(file).name for file, _ in query.account.refused] == ["b.jsonl"]
    assert query.account.holds
    assert span_names(lake) == named(1, 3)


def test_a_batch_of_which_a_share_was_not_decoded_is_not_committed(
    tmp_path: Path, lake: Lake, drained: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "in", "a.jsonl", spans([1]))
    with monkeypatch.context() as broken:
        broken.setattr(Hand, "tasks", lambda self, count: self.frame.limit(0))
        with pytest.raises(StreamingQueryException, match="Spark's tasks reported 0 of 1 shares of it"):
            drained()
    assert drained().account.received == 1
    assert span_names(lake) == named(1)


def test_the_two_checkpoints_may_part_and_nothing_is_doubled(
    spark: Any, tmp_path: Path, lake: Lake, drained: Callable[..., Any]
) -> None:
    checkpoint = tmp_path / "checkpoint"
    write(tmp_path / "in", "a.jsonl", spans([1]))
    drained(checkpoint=checkpoint)
    shutil.rmtree(checkpoint / "spark")  # Spark's is lost
    write(tmp_path / "in", "b.jsonl", spans([2]))
    assert drained(checkpoint=checkpoint).account.received == 1
    with sqlite3.connect(checkpoint / "checkpoint.db") as database:  # Spark's is ahead
        database.execute("UPDATE batches SET done = NULL WHERE number = 1")
    database.close()
    query = drained(checkpoint=checkpoint)
    assert (query.account.batches, query.account.already_committed, query.account.holds) == (2, 1, True)
    assert span_names(lake) == named(1, 2)
    (checkpoint / "checkpoint.db").unlink()  # Esker's is lost
    query = pipeline(spark, tmp_path / "in", lake, checkpoint=checkpoint)
    with pytest.raises(StreamingQueryException, match="cannot go on with this checkpoint of Spark's"):
        query.awaitTermination(WAIT_S)
    assert span_names(lake) == named(1, 2)


def test_segments_of_the_spool_go_when_they_are_committed(lake: Lake, drained: Callable[..., Any]) -> None:
    place = default_spool(lake)
    assert place is not None
    spool = Spool(place)
    spool.append(frame(spans([1]), signal=Signal.TRACES, json=True, refused=False, received_at_ms=1))
    spool.seal()
    query = drained(None)
    assert (query.account.received, query.account.holds, span_names(lake)) == (1, True, named(1))
    assert not list(place.glob("*.otlp"))
    spool.close()


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        ({"max_files_per_trigger": 0}, "cannot start a pipeline with max_files_per_trigger=0"),
        ({"availableNow": True, "processingTime": "1 second"}, "choose one trigger"),
        ({"triger": 1}, "cannot start a pipeline with 'triger': it takes checkpoint, "),
        ({"source": "nowhere"}, "cannot follow nowhere: there is no such directory"),
    ],
)
def test_what_is_asked_wrongly_is_refused(
    spark: Any, tmp_path: Path, lake: Lake, wishes: dict[str, Any], said: str
) -> None:
    with pytest.raises((InvalidInput, Unsupported), match=said):
        pipeline(spark, wishes.pop("source", tmp_path), lake, **wishes)


def test_an_older_spark_is_refused_by_name(spark: Any, tmp_path: Path, lake: Lake, monkeypatch: Any) -> None:
    monkeypatch.delattr(DataSourceStreamReader, "getDefaultReadLimit")
    with pytest.raises(Unsupported, match=r"use Spark 4\.2 or newer, or esker ingest otlp --follow") as raised:
        pipeline(spark, tmp_path, lake)
    assert raised.value.feature == "streaming"
    assert not (tmp_path / "lake" / "ingest").exists()
