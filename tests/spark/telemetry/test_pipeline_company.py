"""Pipelines are not alone: several receivers before one query, receivers that die, several queries on one lake."""

from __future__ import annotations

import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import DataSourceStreamReader
from receiver_process import receiving
from telemetry_samples import log_bodies, logs, span_names, spans, write

import esker
from esker.lake import Lake
from esker.otlp import pipeline
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
def followed(spark: Any, lake: Lake) -> Iterator[Callable[..., Any]]:
    """Starts pipelines that follow, and stops those that are left."""
    made: list[Any] = []

    def start(source: Any, **wishes: Any) -> Any:
        made.append(pipeline(spark, source, lake, **({"settle_s": 0.0, "processing_time": "50 milliseconds"} | wishes)))
        return made[-1]

    yield start
    for query in made:
        query.stop()


def named(what: str, ids: range) -> Counter[str]:
    return Counter(f"{what} {number}" for number in ids)


def wait_for(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.05)


def sealed(spool: Spool, data: bytes, signal: Signal) -> None:
    spool.append(frame(data, signal=signal, json=True, refused=False, received_at_ms=1))
    spool.seal()


def test_one_query_reads_the_spools_of_several_receivers(
    tmp_path: Path, lake: Lake, followed: Callable[..., Any]
) -> None:
    """Two below one directory, as of receivers that are added while the query runs, and one elsewhere."""
    (tmp_path / "spools").mkdir()
    elsewhere = Spool(tmp_path / "elsewhere")
    query = followed([tmp_path / "spools", tmp_path / "elsewhere"])
    below = [Spool(tmp_path / "spools" / name) for name in ("a", "b")]
    for number, spool in enumerate((*below, elsewhere)):
        sealed(spool, spans([number]), Signal.TRACES)
        sealed(spool, logs([number]), Signal.LOGS)
    wait_for(lambda: query.account.received == 6)
    query.end()
    assert (query.account.holds, query.account.refused) == (True, [])
    assert (span_names(lake), log_bodies(lake)) == (named("span", range(3)), named("log", range(3)))
    assert not list(tmp_path.glob("**/*.otlp")), "a segment is released whichever spool it is of"
    for spool in (*below, elsewhere):
        spool.close()


def test_a_receiver_that_is_killed_while_its_spool_is_followed_loses_nothing_that_it_acknowledged(
    tmp_path: Path, lake: Lake, followed: Callable[..., Any]
) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    query = followed(spool)
    count = 0
    with receiving(spool) as receiver:
        for _ in range(2):
            for _ in range(5):
                send(receiver.port, spans([count]))  # answered: it is on disk
                count += 1
            receiver.kill()  # while it writes a segment, which it seals when it comes back
            receiver.start()
        wait_for(lambda: span_names(lake).total() >= count)
        receiver.stop()
    query.end()
    assert (query.account.received, query.account.holds) == (count, True)
    assert span_names(lake) == named("span", range(count))


def send(port: int, data: bytes) -> None:
    address = f"http://127.0.0.1:{port}/v1/traces"
    request = urllib.request.Request(address, data=data, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 200


def test_several_queries_feed_one_lake_at_the_same_time(
    spark: Any, tmp_path: Path, lake: Lake, followed: Callable[..., Any]
) -> None:
    """Each has its own checkpoint; their commits meet in the same tables."""
    files = 4
    for name in ("a", "b"):
        for number in range(files):
            first = 100 * number + (0 if name == "a" else 50)
            write(tmp_path / name, f"{number}.jsonl", spans(range(first, first + 50)))
    queries = [
        followed(
            tmp_path / name,
            checkpoint=tmp_path / f"checkpoint-{name}",
            available_now=True,
            processing_time=None,
            max_files_per_trigger=1,
            name=f"pipeline_{name}",
        )
        for name in ("a", "b")
    ]
    for query in queries:
        assert query.awaitTermination(WAIT_S)
    for query in queries:
        assert (query.account.received, query.account.batches) == (50 * files, files)
        assert query.account.holds
    assert span_names(lake) == named("span", range(100 * files))
    assert len(lake.table("otel.spans").snapshots) == 2 * files
