"""Telemetry out of Kafka, with no JVM: every message once, over restarts, outages, gaps and kills at any step."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import run, run_json
from doors import MemoryLake
from kafka_broker import Broker, broker
from mortal import Mortal
from outages import IMPATIENT, Outage
from telemetry_samples import letters, log_bodies, logs, span_names, spans

import esker
from esker.errors import EskerError, InvalidInput
from esker.ingest.follow import Pace
from esker.ingest.otlp.ingest_otlp import Asked
from esker.ingest.otlp.kafka_topics import KafkaTopics
from esker.kafka.address import source_of
from esker.kafka.subscription import Source
from esker.lake import Lake

QUICK = Pace(every_s=0.02, idle_s=0.5, first_wait_s=0.05)


@pytest.fixture
def kafka() -> Iterator[Broker]:
    with broker() as made:
        yield made


def topic(kafka: Broker, rest: str = "") -> Source:
    return replace(source_of(f"kafka://{kafka.address}/telemetry{rest}"), timeout_s=5)


def asked(folder: Path, **more: Any) -> Asked:
    return Asked(paths=(), checkpoint=folder / "checkpoint", properties=IMPATIENT, **more)


def names(*numbers: int) -> Counter[str]:
    return Counter(f"span {number}" for number in numbers)


def test_messages_go_to_their_tables_once_and_the_next_run_goes_on_behind_them(kafka: Broker, tmp_path: Path) -> None:
    held = MemoryLake()
    kafka.send("telemetry", spans([0, 1]), logs([0]), b"{broken", None, b"")
    kafka.send("telemetry", spans([2]), partition=3)
    account = KafkaTopics(topic(kafka)).ingest(held.lake(), asked(tmp_path))
    assert (account.received, account.requests, account.dead_letters, account.holds) == (5, 4, 1, True)
    assert (account.oddities["empty_messages"], account.oddities["unused_offsets"]) == (2, 0)  # beside four requests
    assert span_names(held.lake()) == names(0, 1, 2)
    letter = held.lake().table("otel.dead_letter").scan().to_arrow().to_pylist()[0]
    assert (letter["source"], letter["offset"], letter["raw"]) == ("telemetry/0", 2, b"{broken")
    assert KafkaTopics(topic(kafka)).ingest(held.lake(), asked(tmp_path)).received == 0
    kafka.send("telemetry", spans([3]), partition=1)
    assert KafkaTopics(topic(kafka)).ingest(held.lake(), asked(tmp_path)).received == 1
    assert span_names(held.lake()) == names(0, 1, 2, 3)


def test_what_the_sdk_exports_arrives(kafka: Broker, tmp_path: Path) -> None:
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

    class ToKafka(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            done: list[ReadableSpan] = list(spans)
            kafka.send("telemetry", encode_spans(done).SerializeToString())
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(ToKafka()))
    tracer = provider.get_tracer("shop")
    for number in range(20):
        with tracer.start_as_current_span(f"span {number}"):
            pass
    held = MemoryLake()
    account = KafkaTopics(topic(kafka)).ingest(held.lake(), asked(tmp_path))
    assert (account.received, account.requests, account.dead_letters, account.holds) == (20, 20, 0, True)
    assert span_names(held.lake()) == names(*range(20))


def test_batches_are_about_as_large_as_was_asked_for(kafka: Broker, tmp_path: Path) -> None:
    held = MemoryLake()
    request = spans(range(10))
    for _ in range(200):
        kafka.send("telemetry", request)
    account = KafkaTopics(topic(kafka)).ingest(held.lake(), asked(tmp_path, batch_bytes=50 * len(request)))
    assert (account.received, account.holds) == (2000, True)
    assert 4 <= account.batches <= 12
    counted = KafkaTopics(topic(kafka)).ingest(MemoryLake().lake(), asked(tmp_path / "rows", batch_rows=500))
    assert (counted.received, counted.holds) == (2000, True)
    assert 4 <= counted.batches <= 8


def test_a_stream_takes_what_comes_while_it_runs_and_ends_when_it_is_told_to(kafka: Broker, tmp_path: Path) -> None:
    held = MemoryLake()
    kafka.make("telemetry")
    stop = threading.Event()

    def send() -> None:
        for number in range(4):
            kafka.send("telemetry", spans([number]), partition=number)
            time.sleep(0.1)

    sender = threading.Thread(target=send)
    sender.start()
    account = KafkaTopics(topic(kafka)).follow(
        held.lake(),
        asked(tmp_path),
        pace=Pace(every_s=0.02),
        stop=stop,
        told=lambda account: stop.set() if account.received == 4 else None,
    )
    sender.join()
    assert (account.received, account.holds) == (4, True)
    assert span_names(held.lake()) == names(0, 1, 2, 3)


def test_a_stream_from_the_latest_offsets_takes_what_comes_after_its_first_look(kafka: Broker, tmp_path: Path) -> None:
    held = MemoryLake()
    kafka.send("telemetry", spans([0]))
    latest = topic(kafka, "?startingOffsets=latest")
    assert KafkaTopics(latest).ingest(held.lake(), asked(tmp_path)).received == 0
    kafka.send("telemetry", spans([1]))
    assert KafkaTopics(latest).ingest(held.lake(), asked(tmp_path)).received == 1
    assert span_names(held.lake()) == names(1)


def test_a_catalog_that_is_away_leaves_a_receipt_and_nothing_goes_ahead_of_it(kafka: Broker, tmp_path: Path) -> None:
    held = MemoryLake()
    kafka.send("telemetry", spans([0]))
    KafkaTopics(topic(kafka)).ingest(held.lake(), asked(tmp_path))
    kafka.send("telemetry", spans([1]), logs([1]))
    account = KafkaTopics(topic(kafka)).ingest(held.lake(Outage(from_swap=1, how="before")), asked(tmp_path))
    assert (account.pending, bool(account.failures)) == (2, True)
    kafka.send("telemetry", spans([2]))
    account = KafkaTopics(topic(kafka)).ingest(held.lake(), asked(tmp_path))
    assert (account.received, account.pending, account.holds) == (3, 0, True)
    assert (span_names(held.lake()), log_bodies(held.lake())) == (names(0, 1, 2), Counter(["log 1"]))


def test_a_broker_that_goes_away_fails_a_run_and_is_waited_for_by_a_stream(kafka: Broker, tmp_path: Path) -> None:
    away = source_of("kafka://127.0.0.1:1/telemetry")
    quick = replace(away, timeout_s=0.3)
    with pytest.raises(EskerError, match=r"Kafka at 127\.0\.0\.1:1: .*Connection refused.*whether the broker runs"):
        KafkaTopics(quick).ingest(MemoryLake().lake(), asked(tmp_path))
    stop = threading.Event()
    told: list[str] = []

    def trouble(text: str) -> None:
        told.append(text)
        threading.Timer(1.0, stop.set).start()

    KafkaTopics(quick).follow(MemoryLake().lake(), asked(tmp_path), pace=QUICK, stop=stop, told_trouble=trouble)
    assert len(told) == 1  # reported once, however often it is tried
    assert "trying again" in told[0]


def test_messages_that_retention_took_stop_a_run_or_are_counted(kafka: Broker, tmp_path: Path) -> None:
    held = MemoryLake()
    kafka.send("telemetry", spans([0]))
    KafkaTopics(topic(kafka)).ingest(held.lake(), asked(tmp_path))
    padded = spans([1], filler="x" * 100_000)
    sent = kafka.overflow("telemetry", padded)
    for _ in range(2):  # nothing is forgotten by being told of it
        with pytest.raises(
            InvalidInput, match=r"partition 0 of telemetry from offset 1: .* set failOnDataLoss = false"
        ):
            KafkaTopics(topic(kafka)).ingest(held.lake(), asked(tmp_path))
    account = KafkaTopics(topic(kafka, "?failOnDataLoss=false")).ingest(
        held.lake(), asked(tmp_path, batch_bytes=1 << 20)
    )
    skipped = account.oddities["skipped_offsets"]
    assert skipped > 0
    assert (account.received + skipped, account.holds) == (sent, True)


def test_a_failure_before_the_receipt_gives_the_offsets_back(kafka: Broker, tmp_path: Path) -> None:
    held = MemoryLake()
    kafka.send("telemetry", spans([0]))
    lake = held.lake()
    lake.create_namespace("otel")
    lake.create_table("otel.spans", "other bigint")
    with pytest.raises(EskerError):
        KafkaTopics(topic(kafka)).ingest(lake, asked(tmp_path))
    lake.drop_table("otel.spans")
    assert KafkaTopics(topic(kafka)).ingest(held.lake(), asked(tmp_path)).received == 1
    assert span_names(held.lake()) == names(0)


def test_offsets_of_one_cluster_are_not_taken_for_those_of_another(kafka: Broker, tmp_path: Path) -> None:
    held = MemoryLake()
    kafka.send("telemetry", spans([0]))
    KafkaTopics(topic(kafka)).ingest(held.lake(), asked(tmp_path))
    with broker() as another:
        another.send("telemetry", spans([1]), spans([2]))
        with pytest.raises(InvalidInput, match=r"its offsets are of the Kafka cluster \S+, and 127\.0\.0\.1:\d+ is"):
            KafkaTopics(topic(another)).ingest(held.lake(), asked(tmp_path))
    assert span_names(held.lake()) == names(0)


def test_the_command_takes_a_topic_and_says_what_it_read(
    kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kafka.send("telemetry", spans([0]), logs([0]))
    address = f"kafka://{kafka.address}/telemetry"
    first = run("ingest", "otlp", address)
    assert first.exit_code == 0, first.output
    assert "2 requests, 1 batch" in first.stdout
    kafka.send("telemetry", spans([1]))
    document = run_json("ingest", "otlp", address, "--follow", "--idle", "0", "--every", "0.01")
    assert (document["received"], document["tables"], document["holds"]) == (1, {"otel.spans": 1}, True)
    assert (tmp_path / "lake/ingest/kafka-telemetry/checkpoint.db").is_file()
    assert run_json("replay", "--checkpoint", "lake/ingest/kafka-telemetry")["holds"]
    result = run("ingest", "otlp", address, "more.jsonl")
    assert (result.exit_code, "either files or one Kafka address" in result.stderr) == (2, True)


class DyingIngest(Mortal):
    """An ingest of a topic."""

    def ingest(self, folder: Path, address: str, *, at: int | None = None) -> tuple[int, list[str]]:
        """Exit status and the steps taken."""
        return self.run(
            uri=f"sqlite:///{folder}/lake/catalog.db",
            kafka=address,
            source="",
            checkpoint=str(folder / "checkpoint"),
            batch_bytes=64 << 10,  # a few messages: more than one batch
            follow=False,
            at=at,
        )


def lake_in(folder: Path) -> Lake:
    return esker.connect(f"sqlite:///{folder}/lake/catalog.db")


@pytest.mark.slow
def test_an_ingest_killed_at_any_step_is_finished_by_the_next(kafka: Broker, scratch: Path) -> None:
    kafka.send("telemetry", spans([0, 1]), logs([0]), b"{broken", spans([2]), spans([3]), logs([1]))
    kafka.send("telemetry", spans([4]), partition=1)
    source = topic(kafka)
    mortal = DyingIngest("dying_ingest.py")
    status, steps = mortal.ingest(scratch / "whole", f"kafka://{kafka.address}/telemetry")
    assert status == 0
    between = ("before", "after fsync", "after unlink")
    deaths = [at for at, step in enumerate(steps, 1) if not step.startswith(between)] + [len(steps)]
    assert {steps[at - 1] for at in deaths} >= {"after link data", "after COMMIT", "after COMMIT of the checkpoint"}
    for at in deaths:
        folder = scratch / str(at)
        status, taken = mortal.ingest(folder, f"kafka://{kafka.address}/telemetry", at=at)
        where = f"step {at}, {taken[-1]}"
        assert status == -9, where
        account = KafkaTopics(source).ingest(lake_in(folder), asked(folder))
        assert (account.holds, account.lost, account.duplicated) == (True, 0, 0), where
        assert span_names(lake_in(folder)) == names(0, 1, 2, 3, 4), where
        assert log_bodies(lake_in(folder)) == Counter(["log 0", "log 1"]), where
        assert letters(lake_in(folder)).total() == 1, where
        assert not list((folder / "checkpoint/pending").glob("*.json")), where
        assert KafkaTopics(source).ingest(lake_in(folder), asked(folder)).received == 0, where
    mortal.close()
