"""Kafka's own broker beside the mock of the other tests: transactions, partitions that are added, kills and restarts.

Every story is read by three readers at once: the ingest without Spark, the pipeline, and the source ``esker_kafka``.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from command_line import run_json
from real_broker import RealBroker
from telemetry_samples import span_names, spans

import esker
from esker.ingest.account import Account
from esker.ingest.follow import Pace
from esker.ingest.otlp.ingest_otlp import Asked
from esker.ingest.otlp.kafka_topics import KafkaJob, KafkaTopics
from esker.ingest.spark import topics_job
from esker.kafka.address import source_of
from esker.lake import Lake
from esker.otlp import pipeline, telemetry_sink
from esker.spark.source.register_source import PUSH_DOWN

JARS = Path(os.environ.get("ESKER_JVM_ENVIRONMENT", "")) / "kafka"
pytestmark = [
    pytest.mark.skipif(not (JARS / "pom.xml").exists(), reason="Maven could not bring the jars of Kafka's broker"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
WAIT_S = 300
SOON = "200 milliseconds"


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealBroker]:
    made = RealBroker(JARS, tmp_path_factory.mktemp("kafka"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def spark() -> Any:
    """The session of this process, which other modules use after this one: it ends with the process."""
    from esker.spark.session.spark_session import start_session

    os.environ.setdefault("ESKER_SPARK_MASTER", "local[2]")
    os.environ.setdefault("ESKER_SPARK_MEMORY", "1g")
    return start_session()


def begun(writer: Any) -> Any:
    """Start a query whose source runs. Spark gives a Python process ten seconds to start, and not more: a machine that
    is busy needs longer at times, before anything of the source has run."""
    for _ in range(5):
        query = writer.start()
        while query.isActive and "nitializ" in query.status["message"]:
            time.sleep(0.1)
        if "worker failed to connect back" not in reasons(query):
            break
    return query


class Readers:
    """One topic, and a lake for each way to read it."""

    def __init__(self, spark: Any, kafka: RealBroker, folder: Path, topic: str) -> None:
        self.spark, self.kafka, self.folder, self.topic = spark, kafka, folder, topic
        self.address = f"kafka://{kafka.address}/{topic}"
        self.query: Any = None  # of the source esker_kafka, when it runs
        self.arrow, self.piped, self.stream = (self._lake(name) for name in ("arrow", "piped", "stream"))

    def _lake(self, name: str) -> Lake:
        return esker.connect(f"sqlite:///{self.folder}/{name}/catalog.db", spark=self.spark)

    def found(self) -> dict[str, Counter[str]]:
        """The spans that each has."""
        lakes = {"arrow": self.arrow, "piped": self.piped, "stream": self.stream}
        return {name: span_names(lake) if "otel" in lake.namespaces() else Counter() for name, lake in lakes.items()}

    def asked(self, **more: Any) -> Asked:
        return Asked(paths=(), checkpoint=self.folder / "arrow" / "checkpoint", engine="arrow", **more)

    def streaming(self, **trigger: Any) -> Any:
        """The query of ``esker_kafka`` into the telemetry tables."""
        esker.spark.register(self.spark, self.stream)
        source = self.spark.readStream.format("esker_kafka").option("bootstrap.servers", self.kafka.address)
        patient = source.option("kafkaConsumer.pollTimeoutMs", str(WAIT_S * 1000))  # a broker may start slowly
        frame = patient.option("subscribe", self.topic).option("startingOffsets", "earliest").load()
        sink = telemetry_sink(self.stream, receipts=self.folder / "receipts")
        writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(self.folder / "spark"))
        self.query = begun(writer.trigger(**trigger))
        return self.query

    def drain(self, **limits: Any) -> tuple[Account, Account]:
        """Let all three read what there is now; gives the accounts of the first two."""
        arrow = KafkaTopics(source_of(self.address)).ingest(self.arrow, self.asked(batch_bytes=1))
        query = pipeline(self.spark, self.address, self.piped, available_now=True, **limits)
        assert query.awaitTermination(WAIT_S)
        assert self.streaming(availableNow=True).awaitTermination(WAIT_S)
        return arrow, query.account


@pytest.fixture
def readers(spark: Any, kafka: RealBroker, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Readers]:
    yield Readers(spark, kafka, tmp_path, f"t-{request.node.name[-20:].strip('_')}")
    for query in spark.streams.active:
        query.stop()
    spark.conf.unset(PUSH_DOWN)


def named(*ids: int) -> Counter[str]:
    return Counter(f"span {number}" for number in ids)


def in_all(ids: Counter[str]) -> dict[str, Counter[str]]:
    return {"arrow": ids, "piped": ids, "stream": ids}


def wait_for(is_so: Callable[[], bool], what: Callable[[], object]) -> None:
    until = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < until, what()
        time.sleep(0.2)


def test_aborted_messages_never_arrive_and_every_offset_is_accounted_for(kafka: RealBroker, readers: Readers) -> None:
    kafka.make(readers.topic, 2)
    kafka.transaction(readers.topic, [spans([1]), spans([2])]).commit_transaction(60)  # offsets 0, 1; 2 is the mark
    kafka.transaction(readers.topic, [spans([90]), spans([91])]).abort_transaction(60)  # 3, 4; 5
    kafka.send(readers.topic, spans([3]))  # 6
    kafka.transaction(readers.topic, [spans([92])], partition=1).abort_transaction(60)  # 0; 1: nothing but that
    kafka.transaction(readers.topic, [spans([93])]).abort_transaction(60)  # 7; 8
    opened = kafka.transaction(readers.topic, [spans([4])])  # 9, and nothing may go beyond it
    kafka.send(readers.topic, spans([5]))  # 10
    arrow, piped = readers.drain(max_offsets_per_trigger=4)
    assert readers.found() == in_all(named(1, 2, 3))
    for account in (arrow, piped):
        assert (account.received, account.requests, account.holds) == (3, 3, True)
        assert account.oddities["unused_offsets"] == 8  # of the nine and two offsets before the open transaction
    assert (arrow.batches, piped.batches) == (11, 3)  # one offset each, and four
    opened.commit_transaction(60)
    arrow, piped = readers.drain()
    assert readers.found() == in_all(named(1, 2, 3, 4, 5))
    for account in (arrow, piped):
        assert (account.received, account.holds, account.oddities["unused_offsets"]) == (2, True, 1)


def test_what_retention_took_is_counted(kafka: RealBroker, readers: Readers) -> None:
    kafka.make(readers.topic, 1)
    kafka.send(readers.topic, spans([1]))
    readers.drain()
    kafka.send(readers.topic, spans([2]), spans([3]), spans([4]))
    kafka.forget(readers.topic, 0, before=3)
    for lake, engine in ((readers.arrow, "arrow"), (readers.piped, "spark")):
        asked = Asked(paths=(), checkpoint=readers.folder / engine / "late", engine=engine)
        source = source_of(
            f"{readers.address}?failOnDataLoss=false&startingOffsets=%7B%22{readers.topic}%22:%7B%220%22:1%7D%7D"
        )
        account = KafkaTopics(source).ingest(lake, asked)
        assert (account.received, account.oddities["skipped_offsets"], account.holds) == (1, 2, True)


def reasons(*queries: Any) -> str:
    """Why queries ended, as a text: pytest cuts an object of an assertion, and not a text."""
    return "\n\n".join(str(query.exception()) for query in queries if query.exception() is not None)


@contextmanager
def following(readers: Readers) -> Iterator[Callable[[], list[Account]]]:
    """All three readers, on and on; gives a function that ends them and has the accounts of the first two."""
    stop, accounts = threading.Event(), []

    def follow() -> None:
        topics = KafkaTopics(source_of(readers.address))
        accounts.append(topics.follow(readers.arrow, readers.asked(), pace=Pace(every_s=0.2), stop=stop))

    thread = threading.Thread(target=follow)
    query = pipeline(readers.spark, readers.address, readers.piped, processing_time=SOON)
    with ExitStack() as stack:
        stack.callback(query.stop)
        stack.callback(lambda: thread.join(WAIT_S))
        stack.callback(stop.set)
        thread.start()
        stream = readers.streaming(processingTime=SOON)
        stack.callback(stream.stop)

        def end() -> list[Account]:
            assert (query.isActive, stream.isActive) == (True, True), reasons(query, stream)
            stop.set()
            thread.join(WAIT_S)
            query.end()
            stream.stop()
            assert not reasons(query, stream), reasons(query, stream)
            return [*accounts, query.account]

        yield end


def test_partitions_that_are_added_and_a_broker_that_is_killed_cost_nothing(
    kafka: RealBroker, readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.make(readers.topic, 1)
    dying: list[str] = []
    starting: list[Future[None]] = []

    def fall(at: str) -> None:
        """Once, in the middle of a batch of each of the two: the broker goes, and comes back."""
        if at in dying:
            dying.remove(at)
            kafka.kill()
            starting.append(starter.submit(kafka.start))

    def wrapped(real: Callable[..., Any], at: str) -> Callable[..., Any]:
        def call(*given: Any, **more: Any) -> Any:
            fall(at)
            return real(*given, **more)

        return call

    monkeypatch.setattr(topics_job, "run_shares", wrapped(topics_job.run_shares, "piped"))
    monkeypatch.setattr(KafkaJob, "stage", wrapped(KafkaJob.stage, "arrow"))
    with ThreadPoolExecutor(1) as starter, following(readers) as end:

        def sent(*ids: int, partition: int = 0) -> None:
            kafka.send(readers.topic, spans([ids[-1]]), partition=partition)
            expected = in_all(named(*ids))
            wait_for(lambda: arrived(expected), lambda: (readers.found(), expected))

        def arrived(expected: dict[str, Counter[str]]) -> bool:
            for start in starting:
                if start.done():
                    start.result()  # raises with the log of the broker, where it did not start
            assert readers.query.isActive, reasons(readers.query)
            return readers.found() == expected

        sent(1)
        kafka.add_partitions(readers.topic, 3)
        sent(1, 2, partition=2)
        for number, at in enumerate(("piped", "arrow"), 3):
            dying.append(at)
            sent(*range(1, number + 1), partition=number % 3)
            assert not dying
            starting[-1].result(WAIT_S)
        for account in end():
            assert (account.received, account.holds, account.duplicated) == (4, True, 0)


def test_the_command_reads_the_broker_with_and_without_spark(
    kafka: RealBroker, readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(readers.folder)
    kafka.make(readers.topic, 1)
    kafka.send(readers.topic, spans([1]))
    for engine, received in (("arrow", 1), ("spark", 0)):  # on one checkpoint
        document = run_json("ingest", "otlp", readers.address, "--engine", engine)
        assert (document["received"], document["holds"]) == (received, True)
    kafka.send(readers.topic, spans([2]))
    assert run_json("ingest", "otlp", readers.address, "--engine", "spark")["received"] == 1
