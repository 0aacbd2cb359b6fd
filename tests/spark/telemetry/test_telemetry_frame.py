"""Telemetry decoded in DataFrames: the same rows as an ingest has, into any sink that takes frames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from kafka_broker import Broker, broker
from telemetry_samples import bad_span, letters, logs, span_names, spans, write

import esker
from esker.errors import InvalidInput, Unsupported
from esker.ingest.otlp.ingest_otlp import Asked, ingest_otlp
from esker.lake import Lake
from esker.otlp import telemetry_frame
from esker.spark.source.register_source import PUSH_DOWN


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Iterator[Lake]:
    found = esker.connect(f"sqlite:///{tmp_path}/lake/catalog.db", spark=spark)
    esker.spark.register(spark, found)
    yield found
    spark.conf.unset(PUSH_DOWN)


@pytest.fixture
def kafka() -> Iterator[Broker]:
    with broker() as made:
        yield made


def held(rows: pa.Table) -> list[dict[str, Any]]:
    """Rows without what differs from run to run."""
    left_out = ("_source", "_batch_id", "_ingested_at", "batch", "at", "source", "offset", "error")
    kept = rows.drop_columns([name for name in left_out if name in rows.column_names])
    return sorted(kept.to_pylist(), key=str)


@pytest.mark.parametrize("profile", ["map", "flat"])
def test_a_frame_has_the_rows_that_an_ingest_has(lake: Lake, tmp_path: Path, profile: str) -> None:
    lines = [spans(range(1, 20), day=1, k="7"), logs([1]), bad_span(5), b'{"broken\n']
    write(tmp_path / "in", "a.jsonl", *lines)
    other = esker.connect(f"sqlite:///{tmp_path}/other/catalog.db")
    asked = Asked(paths=[tmp_path / "in"], checkpoint=tmp_path / "c", promote={"k": "int"}, profile=profile)
    ingest_otlp(other, asked)
    frame = lake.spark.createDataFrame([(line.strip(),) for line in lines], "value binary")
    for table in ("otel.spans", "otel.logs", "otel.dead_letter"):
        made = telemetry_frame(lake, frame, table, promote={"k": "int"}, profile=profile)
        assert made.columns == [field.name for field in lake.table(table).schema.fields]
        lake.table(table).append(made)
        assert held(lake.table(table).scan().to_arrow()) == held(other.table(table).scan().to_arrow())


def test_a_topic_streams_through_frames_into_tables_once(lake: Lake, kafka: Broker, tmp_path: Path) -> None:
    def stream(table: str) -> str:
        topic = lake.spark.readStream.format("esker_kafka").option("bootstrap.servers", kafka.address)
        frame = topic.option("subscribe", "t").option("startingOffsets", "earliest").load()
        writer = telemetry_frame(lake, frame, table).writeStream.format("esker").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / table)).start(table)
        query.awaitTermination(120)
        return str(query.id)

    kafka.send("t", spans([1, 2]), b"{broken")
    for _ in range(2):
        query = stream("otel.spans")
        stream("otel.dead_letter")
    kafka.send("t", spans([3]), partition=1)
    stream("otel.spans")
    assert span_names(lake) == Counter(["span 1", "span 2", "span 3"])
    assert letters(lake).total() == 1
    origins = lake.table("otel.spans").scan(columns=["_batch_id", "_source"]).to_arrow().to_pylist()
    assert {(one["_batch_id"], one["_source"]) for one in origins} == {(f"{query}/0", "t/0"), (f"{query}/1", "t/1")}


def test_what_cannot_be_a_frame_is_said_so(lake: Lake) -> None:
    frame = lake.spark.createDataFrame([(1,)], "id bigint")
    with pytest.raises(InvalidInput, match=r"cannot decode telemetry for otel\.profiles: the tables are otel\.logs"):
        telemetry_frame(lake, frame, "otel.profiles")
    with pytest.raises(InvalidInput, match="cannot read requests from column 'value': there are id"):
        telemetry_frame(lake, frame, "otel.spans")
    with pytest.raises(Unsupported, match="cannot decode telemetry into a frame of variants: use telemetry_sink"):
        telemetry_frame(lake, frame, "otel.spans", profile="variant")
