"""A stream of what the SDK exports, over Kafka into the tables, whose driver is killed and started again."""

from __future__ import annotations

import json
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from dying_driver import start
from kafka_broker import Broker, broker
from telemetry_samples import letters, span_names

import esker

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def exported(kafka: Broker, count: int) -> None:
    """Spans of the SDK, a message each, over two partitions."""
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

    class ToKafka(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            number = int(spans[0].name.split()[1])
            kafka.send("t", encode_spans(spans).SerializeToString(), partition=number % 2)
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(ToKafka()))
    for number in range(count):
        with provider.get_tracer("shop").start_as_current_span(f"span {number}"):
            pass


def stream(folder: Path, kafka: Broker, *, at: int) -> subprocess.CompletedProcess[str]:
    return start("dying_stream.py", folder, kafka.address, str(at), number=at)


def test_a_driver_killed_between_two_tables_leaves_every_span_to_be_found_once(tmp_path: Path) -> None:
    with broker() as kafka:
        exported(kafka, 24)
        kafka.send("t", b"{broken", b"{broken", partition=0)
        # Batches of ten: the last has the dead letters too, and death comes between its two tables.
        assert stream(tmp_path, kafka, at=3).returncode == -signal.SIGKILL
        done = stream(tmp_path, kafka, at=0)
    assert done.returncode == 0, (tmp_path / "words-0").read_text()[-3000:]
    account = json.loads(done.stdout.strip().splitlines()[-1])
    assert (account["holds"], account["lost"], account["duplicated"]) == (True, 0, 0)
    assert account["already_committed"] == 1
    lake = esker.connect(f"sqlite:///{tmp_path}/lake/catalog.db")
    assert span_names(lake) == Counter(f"span {number}" for number in range(24))
    assert letters(lake).total() == 2
