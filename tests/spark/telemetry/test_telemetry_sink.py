"""DataFrames of OTLP into the telemetry tables by ``foreachBatch``: from Kafka, files and columns, once per batch."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka_broker import Broker, broker
from telemetry_samples import bad_span, letters, log_bodies, logs, span_names, spans, write

import esker
from esker.errors import EskerError, InvalidInput
from esker.ingest.otlp.replay import replay_receipts
from esker.ingest.spark.telemetry_sink import TelemetrySink
from esker.lake import Lake
from esker.otlp import telemetry_sink
from esker.spark.source.register_source import PUSH_DOWN
from esker.write.exactly_once import EPOCH, QUERY


@pytest.fixture
def kafka() -> Iterator[Broker]:
    with broker() as made:
        yield made


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Iterator[Lake]:
    found = esker.connect(f"sqlite:///{tmp_path}/lake/catalog.db", spark=spark)
    esker.spark.register(spark, found)
    yield found
    spark.conf.unset(PUSH_DOWN)


def stream(lake: Lake, kafka: Broker, sink: TelemetrySink, folder: Path) -> str:
    """Stream until nothing is left; the query's id."""
    frame = lake.spark.readStream.format("esker_kafka").option("bootstrap.servers", kafka.address)
    frame = frame.option("subscribe", "t").option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 4)
    writer = frame.load().writeStream.foreachBatch(sink).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    query.awaitTermination(120)
    return str(query.id)


def forget_last_commit(folder: Path) -> None:
    """Let the checkpoint be as if Spark had died right after the batch."""
    commits = folder / "checkpoint" / "commits"
    last = max(int(file.name) for file in commits.iterdir() if file.name.isdigit())
    for name in (str(last), f".{last}.crc"):
        (commits / name).unlink(missing_ok=True)


def data_files(lake: Lake, table: str) -> set[str]:
    return {path.name for path in Path(lake.table(table).location).rglob("*.parquet")}


@pytest.mark.parametrize("engine", ["spark", "arrow"])
def test_messages_stream_into_their_tables_once_and_a_batch_sent_again_adds_nothing(
    lake: Lake, kafka: Broker, tmp_path: Path, engine: str
) -> None:
    kafka.send("t", spans([0, 1]), logs([0]), b"{broken", None)
    kafka.send("t", spans([2]), bad_span(9), partition=1)
    sink = telemetry_sink(lake, engine=engine, promote={"k": "int"})
    query = stream(lake, kafka, sink, tmp_path)
    account = sink.checked()
    assert (account.received, account.dead_letters, account.holds) == (6, 2, True)
    assert (span_names(lake), log_bodies(lake)) == (Counter(["span 0", "span 1", "span 2"]), Counter(["log 0"]))
    found = lake.table("otel.dead_letter").scan(columns=["source", "offset", "batch"]).to_arrow().to_pylist()
    assert sorted((one["source"], one["offset"]) for one in found) == [("t/0", 2), ("t/1", 1)]
    assert {one["batch"].partition("/")[0] for one in found} == {query}
    summary = lake.table("otel.spans").snapshots[-1].summary
    assert (summary[QUERY], summary[EPOCH]) == (query, "0")
    before = {table: data_files(lake, table) for table in ("otel.spans", "otel.logs", "otel.dead_letter")}
    forget_last_commit(tmp_path)
    again = telemetry_sink(lake, engine=engine, promote={"k": "int"})
    stream(lake, kafka, again, tmp_path)
    assert again.checked().already_committed >= 1
    assert (again.account.received, again.account.holds) == (0, True)
    assert before == {table: data_files(lake, table) for table in before}  # nor are files left behind
    kafka.send("t", spans([3]))
    stream(lake, kafka, again, tmp_path)
    assert span_names(lake) == Counter(f"span {number}" for number in range(4))
    assert again.checked().holds


def test_a_batch_of_which_some_tables_have_their_part_is_finished(lake: Lake, tmp_path: Path) -> None:
    rows = [(spans([0]),), (logs([0]),), (b"{broken",)]
    frame = lake.spark.createDataFrame(rows, "value binary")
    sink = telemetry_sink(lake, application="one", most_dead=0.5)
    sink(frame, 0)
    lake.drop_table("otel.logs")
    again = telemetry_sink(lake, application="one")
    again(frame, 0)
    assert (again.checked().received, again.account.already_committed, again.account.holds) == (1, 2, True)
    assert (span_names(lake), log_bodies(lake), letters(lake).total()) == (Counter(["span 0"]), Counter(["log 0"]), 1)


@pytest.mark.parametrize("kept", [True, False], ids=["receipts kept", "receipts lost"])
def test_a_batch_that_fails_between_any_two_commits_is_made_whole_by_the_next_start(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    import esker.ingest.deliver as delivering

    real = delivering.commit
    frame = lake.spark.createDataFrame([(spans([1]),), (logs([1]),), (b"{broken",)], "value binary")
    for epoch, most in enumerate(range(4)):
        made: list[object] = []

        def dying(*given: Any, made: list[object] = made, most: int = most) -> Any:
            if len(made) >= most:
                raise ConnectionResetError("the line went dead")
            made.append(real(*given))

        sink = telemetry_sink(lake, application="one", receipts=tmp_path / "receipts", engine="arrow")
        with monkeypatch.context() as patch:
            patch.setattr(delivering, "commit", dying)
            if most < 3:
                with pytest.raises(EskerError, match=f"cannot commit batch {epoch} of one"):
                    sink(frame, epoch)
            else:
                sink(frame, epoch)
        assert len(made) == most
        if not kept:  # the driver comes back on another machine
            for receipt in (tmp_path / "receipts/pending").glob("*.json"):
                receipt.unlink()
        again = telemetry_sink(lake, application="one", receipts=tmp_path / "receipts", engine="arrow")
        again(frame, epoch)
        assert (again.checked().holds, again.account.already_committed) == (True, most)
        assert span_names(lake) == Counter({"span 1": epoch + 1})
        assert log_bodies(lake) == Counter({"log 1": epoch + 1})
        assert letters(lake).total() == epoch + 1


def test_text_files_and_columns_without_a_place_are_taken_too(lake: Lake, tmp_path: Path) -> None:
    text = lake.spark.createDataFrame([(spans([0]).decode(),), ("{broken",), (None,)], "body string")
    sink = telemetry_sink(lake, application="text", value="body")
    sink(text, 0)
    (letter,) = lake.table("otel.dead_letter").scan().to_arrow().to_pylist()
    assert (letter["source"], letter["offset"], letter["raw"]) == (None, None, b"{broken")
    write(tmp_path / "in", "a.jsonl", spans([1]), spans([2]))
    files = lake.spark.read.format("binaryFile").load(str(tmp_path / "in"))
    whole = telemetry_sink(lake, application="files", value="content", framed=True)
    whole(files, 0)
    assert span_names(lake) == Counter(["span 0", "span 1", "span 2"])
    sources = lake.table("otel.spans").scan("SpanName = 'span 1'", columns=["_source"]).to_arrow()["_source"]
    assert sources.to_pylist()[0].endswith("/in/a.jsonl")
    assert (sink.checked().holds, whole.checked().holds) == (True, True)


def test_a_commit_that_cannot_be_made_stops_the_batch_and_leaves_a_receipt(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = lake.spark.createDataFrame([(spans([0]),), (logs([0]),)], "value binary")
    later = lake.spark.createDataFrame([(spans([1]),)], "value binary")
    receipts = tmp_path / "receipts"
    sink = telemetry_sink(lake, application="one", receipts=receipts)

    def away(*_: Any, **__: Any) -> Any:
        raise ConnectionResetError("the line went dead")

    with monkeypatch.context() as patch:
        patch.setattr("esker.ingest.deliver.commit", away)
        for _ in range(2):
            with pytest.raises(
                EskerError, match=r"cannot commit batch 0 of one to every table: .*line went dead.*Nothing"
            ):
                sink(frame, 0)
        with pytest.raises(EskerError, match="cannot commit batch 1 of one"):  # nothing goes ahead of the first
            sink(later, 1)
        assert (sink.account.received, sink.account.pending) == (2, 2)
    assert [path.name for path in (receipts / "pending").glob("*.json")] == ["000000000000.json"]
    replayed = replay_receipts(lake, receipts)
    assert (replayed.received, replayed.holds) == (2, True)
    sink(frame, 0)  # as Spark would
    sink(later, 1)
    assert (span_names(lake), log_bodies(lake)) == (Counter(["span 0", "span 1"]), Counter(["log 0"]))
    assert not list((receipts / "pending").glob("*.json"))


def test_too_many_dead_letters_stop_the_query_once_they_are_committed(lake: Lake) -> None:
    frame = lake.spark.createDataFrame([(spans([0]),), (b"{broken",), (b"{broken",)], "value binary")
    sink = telemetry_sink(lake, application="one", most_dead=0.5, engine="arrow")
    with pytest.raises(
        EskerError, match="batch 0 is committed, and 67% of its records are dead letters, more than 50%"
    ):
        sink(frame, 0)
    assert (letters(lake).total(), sink.checked().holds) == (2, True)
    sink(frame, 0)  # started again by somebody who has looked


def test_what_was_sent_again_is_left_out_and_counted(lake: Lake) -> None:
    frame = lake.spark.createDataFrame([(spans([1, 2]),), (spans([2, 3]),)], "value binary")
    sink = telemetry_sink(lake, application="one", dedup="span_id")
    sink(frame, 0)
    sink(frame, 1)
    account = sink.checked()
    assert (account.received, account.deduplicated, account.holds) == (8, 5, True)
    assert span_names(lake) == Counter(["span 1", "span 2", "span 3"])


def test_what_cannot_be_a_sink_is_said_so(lake: Lake) -> None:
    frame = lake.spark.createDataFrame([(1, b"")], "id bigint, value binary")
    for wishes, message in (
        ({"promotes": {}}, "cannot create a sink with 'promotes': it takes"),
        ({"dedup": "hash"}, "cannot leave out what was sent again by 'hash'"),
        ({"engine": "flink"}, "cannot decode with 'flink'"),
        ({}, "cannot find out the query of this batch"),
        ({"application": "a b"}, "cannot mark a batch of the application 'a b'"),
        ({"application": "a", "value": "id"}, "cannot read requests from column 'id': it is bigint"),
        ({"application": "a", "value": "body"}, "cannot read requests from column 'body': there are id, value"),
    ):
        with pytest.raises(InvalidInput, match=message):
            telemetry_sink(lake, **wishes)(frame, 0)
    sink = telemetry_sink(lake, application="a")
    sink(frame, 0)
    moved: TelemetrySink = pickle.loads(pickle.dumps(sink))  # as Connect does
    moved(frame.selectExpr("value"), 0)
    assert moved.account.received == 0
