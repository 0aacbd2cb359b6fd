"""``esker ingest otlp --engine spark --follow``: a pipeline behind the command line."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from command_line import run_json
from pyspark.sql.datasource import DataSourceStreamReader
from telemetry_samples import bad_span, logs, span_names, spans, write

import esker
from esker.errors import InvalidInput, StorageFailed
from esker.ingest import deliver
from esker.ingest.follow import Pace
from esker.ingest.otlp.ingest_otlp import Asked, follow_otlp
from esker.ingest.spark import telemetry_job
from esker.lake import Lake

pytestmark = pytest.mark.skipif(
    not hasattr(DataSourceStreamReader, "getDefaultReadLimit"), reason="a pipeline needs Spark 4.2"
)
QUICK = Pace(every_s=0.05, settle_s=0.0, idle_s=0.3, first_wait_s=0.05)


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Lake:
    (tmp_path / "in").mkdir()
    return esker.connect(f"sqlite:///{tmp_path}/lake/catalog.db", spark=spark)


def asked(folder: Path, **more: Any) -> Asked:
    return Asked(paths=[folder / "in"], checkpoint=folder / "checkpoint", engine="spark", **more)


def test_a_stream_ends_when_nothing_came_for_long_and_takes_turns_with_one_without_spark(
    tmp_path: Path, lake: Lake
) -> None:
    for engine, number in (("spark", 1), ("arrow", 2), ("spark", 3)):
        write(tmp_path / "in", f"{number}.jsonl", spans([number]))
        one = Asked(paths=[tmp_path / "in"], checkpoint=tmp_path / "checkpoint", engine=engine)
        account = follow_otlp(lake, one, pace=QUICK)
        assert (account.received, account.batches, account.holds) == (1, 1, True)
    assert span_names(lake).total() == 3


def test_the_command_ends_by_a_signal_after_the_batch_in_hand(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "in", "a.jsonl", spans([1]))
    real, begun = telemetry_job._run, Event()

    def run(*given: Any) -> Any:
        begun.set()
        os.kill(os.getpid(), signal.SIGTERM)
        return real(*given)

    monkeypatch.setattr(telemetry_job, "_run", run)
    document = run_json("ingest", "otlp", "in", "--engine", "spark", "--follow", "--settle", "0", "--every", "0.05")
    assert begun.is_set()
    assert (document["received"], document["holds"], document["failures"]) == (1, True, [])
    assert span_names(esker.connect()).total() == 1


def test_what_is_pending_does_not_keep_a_stream_that_is_to_stop(tmp_path: Path, lake: Lake, monkeypatch: Any) -> None:
    def fail(*_: Any) -> Any:
        raise StorageFailed("the catalog is away", retryable=True)

    monkeypatch.setattr(deliver, "commit", fail)
    write(tmp_path / "in", "a.jsonl", spans([1]))
    stop = Event()
    account = follow_otlp(lake, asked(tmp_path), pace=QUICK, stop=stop, told_trouble=lambda text: stop.set())
    assert (account.pending, account.holds, len(account.failures)) == (1, True, 1)


def test_too_many_dead_letters_end_a_stream_and_are_in_its_account(tmp_path: Path, lake: Lake) -> None:
    write(tmp_path / "in", "a.jsonl", spans([1]), bad_span(2))
    account = follow_otlp(lake, asked(tmp_path, most_dead=0.1), pace=QUICK)
    assert account.stopped is not None
    assert account.stopped.startswith("batch 0 is committed, and 50% of its records are dead letters")
    assert account.holds


def test_an_error_of_a_batch_is_raised_as_it_was_and_one_of_the_source_too(
    tmp_path: Path, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "in", "a.jsonl", logs([1]))

    def refuse(*_: Any) -> Any:
        raise InvalidInput("cannot do that")

    with monkeypatch.context() as broken:
        broken.setattr(telemetry_job, "_run", refuse)
        with pytest.raises(InvalidInput, match="cannot do that"):
            follow_otlp(lake, asked(tmp_path), pace=QUICK)

    def remove() -> None:
        for path in (tmp_path / "in").iterdir():
            path.unlink()
        (tmp_path / "in").rmdir()

    with pytest.raises(InvalidInput, match=r"^cannot ingest .*/in: No such file or directory$"):
        follow_otlp(lake, asked(tmp_path), pace=Pace(every_s=0.05), told=lambda account: Thread(target=remove).start())
