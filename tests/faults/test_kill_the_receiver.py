"""The SDK's own exporters lose nothing when the receiver is killed and comes back."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from receiver_process import receiving

from esker.otlp.decoding.decode import decode
from esker.otlp.receive.spool import sealed_segments
from esker.otlp.record_counts import Counts
from esker.otlp.source.read_requests import read_file

SPANS = 6_000


def received(spool: Path) -> tuple[Counts, set[str]]:
    """The account, and the numbers of the spans that are there."""
    counts, numbers = Counts(), set()
    for segment in sealed_segments(spool):
        for batch in decode(read_file(segment), batch_id="b", ingested_at_us=time.time_ns() // 1000):
            counts.add(batch.counts)
            for attributes in batch.tables["spans"].column("SpanAttributes").to_pylist():
                numbers.add(dict(attributes)["number"])
    return counts, numbers


@pytest.mark.slow
@pytest.mark.parametrize("compression", [Compression.Gzip, Compression.NoCompression])
def test_an_exporter_loses_nothing_across_kills(tmp_path: Path, compression: Compression) -> None:
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    with receiving(tmp_path) as receiver:
        exporter = OTLPSpanExporter(
            endpoint=f"http://127.0.0.1:{receiver.port}/v1/traces", compression=compression, timeout=60
        )
        provider = TracerProvider(resource=Resource({"service.name": "shop"}))
        provider.add_span_processor(
            BatchSpanProcessor(exporter, max_queue_size=SPANS, max_export_batch_size=50, schedule_delay_millis=10)
        )
        sender = threading.Thread(target=send, args=(provider,))
        sender.start()
        for _ in range(3):
            time.sleep(0.3)
            receiver.kill()
            time.sleep(0.1)
            receiver.start()
        sender.join()
        assert provider.force_flush(60_000)
        provider.shutdown()
        receiver.stop()
    counts, numbers = received(tmp_path)
    assert numbers == {str(number) for number in range(SPANS)}
    assert counts.dead_letters == 0
    assert counts.records["spans"] >= SPANS  # a request whose answer was killed is sent again: the sender's right


def send(provider: TracerProvider) -> None:
    tracer = provider.get_tracer("test")
    for number in range(SPANS):
        tracer.start_span("work", attributes={"number": number}).end()
        if number % 100 == 0:
            time.sleep(0.02)


def test_a_receiver_that_is_asked_to_stop_says_what_it_took(tmp_path: Path) -> None:
    import http.client

    with receiving(tmp_path, "--cap", "1M") as receiver:
        connection = http.client.HTTPConnection("127.0.0.1", receiver.port, timeout=10)
        connection.request("POST", "/v1/logs", b"{}", {"Content-Type": "application/json"})
        assert connection.getresponse().status == 200
        connection.close()
        said = receiver.stop()
    assert said.strip() == "Received 1 requests, 0 records, 0 rejected, 0 refused, 0 put off."
    assert receiver.process.returncode == 0
    [segment] = sealed_segments(tmp_path)
    assert [one.data for one in read_file(segment)] == [b"{}"]
