"""A topic through the pipeline: Spark's workers read their ranges from the broker, each message counts once."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event, Timer
from typing import Any

import pytest
from command_line import run, run_json
from kafka_broker import Broker, broker
from pyspark.errors import StreamingQueryException
from pyspark.sql.datasource import DataSourceStreamReader
from telemetry_samples import bad_span, letters, log_bodies, logs, span_names, spans

import esker
from esker.errors import InvalidInput, StorageFailed, Unsupported
from esker.ingest import deliver
from esker.ingest.follow import Pace
from esker.ingest.otlp.ingest_otlp import Asked
from esker.ingest.otlp.kafka_topics import KafkaTopics
from esker.ingest.spark import topics_job
from esker.kafka.address import source_of
from esker.lake import Lake
from esker.otlp import pipeline

pytestmark = pytest.mark.skipif(
    not hasattr(DataSourceStreamReader, "getDefaultReadLimit"), reason="a pipeline needs Spark 4.2"
)
WAIT_S = 120


@pytest.fixture
def kafka() -> Iterator[Broker]:
    with broker() as made:
        yield made


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Lake:
    return esker.connect(f"sqlite:///{tmp_path}/lake/catalog.db", spark=spark)


@pytest.fixture
def drained(spark: Any, lake: Lake, kafka: Broker) -> Callable[..., Any]:
    """Runs a pipeline over the topic ``t`` until it ends by itself."""

    def drain(rest: str = "", **wishes: Any) -> Any:
        query = pipeline(spark, f"kafka://{kafka.address}/t{rest}", lake, **({"available_now": True} | wishes))
        assert query.awaitTermination(WAIT_S)
        return query

    return drain


def numbers(progress: Any) -> tuple[int, ...]:
    row = progress.observedMetrics["esker"]
    return row.received, row.committed, row.dead, row.pending, row.lag_offsets


def named(*ids: int) -> Counter[str]:
    return Counter(f"span {number}" for number in ids)


def wait_for(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_every_message_counts_once_in_batches_of_so_many_offsets(
    kafka: Broker, lake: Lake, drained: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics_job, "shares_of", lambda plan: 3)  # a task has several shares
    kafka.send("t", spans([1, 2]), bad_span(9), b"{broken", None)
    kafka.send("t", logs([1]), spans([3]), partition=2)
    query = drained(maxOffsetsPerTrigger=4)
    assert (span_names(lake), log_bodies(lake), letters(lake).total()) == (named(1, 2, 3), Counter(["log 1"]), 2)
    account = query.account
    assert (account.received, account.requests, account.batches, account.holds) == (6, 5, 2, True)
    assert (account.oddities["empty_messages"], account.oddities["unused_offsets"]) == (1, 0)  # beside five requests
    batches = [numbers(one) for one in query.recentProgress if one.numInputRows]
    assert [one[4] for one in batches] == [2, 0]
    assert [sum(column) for column in zip(*batches, strict=True)][:4] == [6, 4, 2, 0]
    letter = lake.table("otel.dead_letter").scan("raw is not null").to_arrow().to_pylist()
    assert {("t/0", 1), ("t/0", 2)} == {(one["source"], one["offset"]) for one in letter}
    again = drained()
    assert (again.account.received, span_names(lake).total()) == (0, 3)
    kafka.send("t", spans([4]))
    arrow = Asked(
        paths=(), checkpoint=Path(str(lake.address["uri"]).removeprefix("sqlite:///")).parent / "ingest/kafka-t"
    )  # type: ignore[index]
    assert KafkaTopics(source_of(f"kafka://{kafka.address}/t")).ingest(lake, arrow).received == 1  # they take turns
    assert drained().account.received == 0


def test_a_stream_takes_what_comes_and_waits_for_a_commit_that_cannot_be_made(
    spark: Any, kafka: Broker, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.make("t")
    address = f"kafka://{kafka.address}/t"
    query = pipeline(spark, address, lake, processing_time="50 milliseconds")
    kafka.send("t", spans([1]))
    wait_for(lambda: query.account.received == 1)
    with monkeypatch.context() as broken:

        def fail(*_: Any) -> Any:
            raise StorageFailed("the catalog is away", retryable=True)

        broken.setattr(deliver, "commit", fail)
        kafka.send("t", spans([2]), partition=1)
        wait_for(lambda: query.account.pending == 1)
        query.stop()
        assert (query.isActive, query.exception()) == (False, None)
    query = pipeline(spark, address, lake, processing_time="50 milliseconds")
    wait_for(lambda: span_names(lake) == named(1, 2))
    query.end()
    assert (query.exception(), query.account.holds) == (None, True)


def test_a_broker_that_leaves_in_the_middle_of_a_batch_is_waited_for(
    spark: Any, kafka: Broker, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.send("t", spans([1]))
    real, told = topics_job.run_shares, []

    def away(*given: Any, **more: Any) -> Any:
        if not told:
            order = topics_job.pickle.loads(given[2])
            nowhere = replace(source_of("kafka://127.0.0.1:1/t"), timeout_s=0.5)
            given = (*given[:2], topics_job.pickle.dumps(replace(order, source=nowhere)))
        return real(*given, **more)

    monkeypatch.setattr(topics_job, "run_shares", away)
    query = pipeline(
        spark, f"kafka://{kafka.address}/t", lake, processing_time="50 milliseconds", told_trouble=told.append
    )
    wait_for(lambda: query.account.received == 1)
    query.end()
    assert (query.exception(), query.account.holds, span_names(lake)) == (None, True, named(1))
    assert "Connection refused" in told[0]


def test_a_broker_that_is_away_is_reported_once_and_is_no_idleness(lake: Lake, tmp_path: Path) -> None:
    away = KafkaTopics(replace(source_of("kafka://127.0.0.1:1/t"), timeout_s=0.3))
    asked = Asked(paths=(), checkpoint=tmp_path / "checkpoint", engine="spark")
    stop, told = Event(), []

    def trouble(text: str) -> None:
        told.append(text)
        Timer(3.0, stop.set).start()

    pace = Pace(every_s=0.05, idle_s=0.2)
    account = away.follow(lake, asked, pace=pace, stop=stop, told_trouble=trouble)
    assert (stop.is_set(), account.received, account.holds) == (True, 0, True)
    assert len(told) == 1
    assert "Connection refused" in told[0]
    with pytest.raises(StorageFailed, match="whether the broker runs"):
        away.ingest(lake, asked)


def test_messages_that_retention_took_end_a_query_or_are_counted(
    kafka: Broker, lake: Lake, drained: Callable[..., Any], spark: Any
) -> None:
    kafka.send("t", spans([0]))
    drained()
    sent = kafka.overflow("t", spans([1], filler="x" * 100_000))
    with pytest.raises(StreamingQueryException, match=r"set failOnDataLoss = false"):
        drained()
    account = drained("?failOnDataLoss=false", max_bytes_per_trigger=4 << 20).account
    skipped = account.oddities["skipped_offsets"]
    assert skipped > 0
    assert (account.received + skipped, account.holds) == (sent, True)


def test_what_a_worker_finds_gone_is_said_as_it_is(
    spark: Any, kafka: Broker, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.send("t", spans([0]))
    real = topics_job.run_shares

    def other(*given: Any, **more: Any) -> Any:
        order = topics_job.pickle.loads(given[2])
        return real(*given[:2], topics_job.pickle.dumps(replace(order, cluster="another")), **more)

    monkeypatch.setattr(topics_job, "run_shares", other)
    asked = Asked(paths=(), checkpoint=Path(str(lake.address["uri"])[10:]).parent / "c", engine="spark")  # type: ignore[index]
    with pytest.raises(InvalidInput, match=r"^cannot finish batch 0: it is for the Kafka cluster another, but"):
        KafkaTopics(source_of(f"kafka://{kafka.address}/t")).ingest(lake, asked)


def test_the_command_takes_a_topic_by_spark(
    spark: Any, kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kafka.send("t", spans([0]), logs([0]))
    address = f"kafka://{kafka.address}/t"
    document = run_json("ingest", "otlp", address)
    assert document["engine"] == "spark"
    assert (document["received"], document["requests"], document["holds"]) == (2, 2, True)
    kafka.send("t", spans([1]))
    follow = ("--follow", "--idle", "0.3", "--every", "0.05")
    document = run_json("ingest", "otlp", address, "--engine", "spark", *follow)
    assert (document["received"], document["tables"], document["holds"]) == (1, {"otel.spans": 1}, True)
    assert run_json("ingest", "otlp", address, "--engine", "arrow")["received"] == 0
    kafka.send("t", spans([2]))
    with monkeypatch.context() as broken:

        def fail(*_: Any) -> Any:
            raise StorageFailed("the catalog is away", retryable=True)

        broken.setattr(deliver, "commit", fail)
        pending = run("ingest", "otlp", address, "--engine", "spark")
    assert (pending.exit_code, "pending 1" in pending.stdout) == (6, True), pending.output
    assert run_json("ingest", "otlp", address, "--engine", "spark")["received"] == 1
    missing = run("ingest", "otlp", f"kafka://{kafka.address}/nowhere", "--engine", "spark")
    assert (missing.exit_code, "cannot read topic nowhere" in missing.stderr) == (2, True), missing.output


@pytest.mark.parametrize(
    ("source", "wishes", "said"),
    [
        ("kafka://broker/t", {"max_files_per_trigger": 1}, "use max_offsets_per_trigger"),
        (["kafka://broker/t", "in"], {}, "give one address, with topics between commas, or directories"),
        ("kafka://broker", {}, "cannot read kafka://broker"),
        ("in", {"max_offsets_per_trigger": 1}, "that is for topics of Kafka"),
    ],
)
def test_what_is_asked_wrongly_is_refused(
    spark: Any, lake: Lake, source: Any, wishes: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidInput, match=said):
        pipeline(spark, source, lake, **wishes)


def test_a_missing_client_is_named(spark: Any, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(Unsupported, match=r"confluent-kafka is not installed; pip install 'esker\[kafka\]'"):
        pipeline(spark, "kafka://broker/t", lake)
