"""From the SDK's exporter through receiver and spool into the table, with both processes killed on the way."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from command_line import run_json
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from receiver_process import receiving
from telemetry_samples import span_names

import esker

SPANS = 2_000


def following() -> subprocess.Popen[bytes]:
    pace = ["--every", "0.05", "--settle", "0"]
    return subprocess.Popen([sys.executable, "-m", "esker.cli.main", "ingest", "otlp", "--follow", *pace])


@pytest.mark.slow
def test_what_the_exporter_sent_is_in_the_table_whoever_dies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    spool = tmp_path / "lake/spool"
    with receiving(spool) as receiver:
        exporter = OTLPSpanExporter(endpoint=f"http://127.0.0.1:{receiver.port}/v1/traces", timeout=60)
        provider = TracerProvider(resource=Resource({"service.name": "shop"}))
        provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=SPANS, max_export_batch_size=50))
        tracer = provider.get_tracer("test")
        driver = following()
        try:
            for number in range(SPANS):
                tracer.start_span(f"span {number}").end()
                if number % 700 == 699:
                    provider.force_flush(60_000)
                    receiver.kill()  # seals, when it comes back, what it was writing
                    receiver.start()
                    time.sleep(0.7)
                    driver.kill()
                    driver.wait(30)
                    driver = following()
            assert provider.force_flush(60_000)
            provider.shutdown()
            receiver.stop()
        finally:
            driver.kill()
            driver.wait(30)
    document = run_json("ingest", "otlp", "--follow", "--every", "0.05", "--settle", "0", "--idle", "0")
    assert document["holds"]
    there = span_names(esker.connect())
    assert set(there) == {f"span {number}" for number in range(SPANS)}
    # A request whose answer was killed is sent again, as is the sender's right: what Esker doubles would be far more.
    assert there.total() <= SPANS + 3 * 50
    assert Counter(there.values())[1] >= SPANS - 3 * 50
    assert not list(spool.glob("*.otlp"))
