"""What the OpenTelemetry SDK itself sends: spans with events and links, logs, and the metrics it has."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, SpanKind, Status, StatusCode
from otlp_decoding import WALKS, comparable, decoded, plain_rows, request, using
from otlp_messages import to_json
from otlp_rows import rows_of

from esker.otlp.decoding.signals import signal_of_protobuf
from esker.otlp.protocol.messages import Signal

RESOURCE = Resource({"service.name": "shop", "service.instance.id": "i-1", "cpus": 4})


def sdk_spans() -> Any:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(resource=RESOURCE)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("shop.web", "1.0")
    with tracer.start_as_current_span("parent", kind=SpanKind.SERVER) as parent:
        parent.set_attributes({"code": 200, "ok": True, "ratio": 0.5, "tags": ["a", "b"], "text": "é"})
        parent.add_event("cache.miss", {"key": "k"})
        with tracer.start_as_current_span("child", links=[Link(parent.get_span_context(), {"why": 1})]) as child:
            child.set_status(Status(StatusCode.ERROR, "no"))
    return encode_spans(exporter.get_finished_spans())


def sdk_logs() -> Any:
    exporter = InMemoryLogRecordExporter()
    provider = LoggerProvider(resource=RESOURCE)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    logger = provider.get_logger("shop.log")
    from opentelemetry._logs import LogRecord, SeverityNumber

    for body in ("text", 5, {"a": [1, 2.5, None]}):
        logger.emit(LogRecord(timestamp=10**18, severity_text="INFO", severity_number=SeverityNumber.INFO, body=body))
    return encode_logs(exporter.get_finished_logs())


def sdk_metrics() -> Any:
    reader = InMemoryMetricReader()
    view = View(
        instrument_type=Histogram, instrument_name="exponential", aggregation=ExponentialBucketHistogramAggregation()
    )
    provider = MeterProvider(metric_readers=[reader], resource=RESOURCE, views=[view])
    meter = provider.get_meter("shop.meter")
    meter.create_counter("count", unit="1").add(3, {"a": 1})
    meter.create_up_down_counter("level").add(-2.5)
    meter.create_gauge("gauge").set(7)
    for name in ("explicit", "exponential"):
        histogram = meter.create_histogram(name, unit="ms")
        for value in (0, 1, 50, 2000):
            histogram.record(value)
    found = encode_metrics(reader.get_metrics_data())
    provider.shutdown()
    return found


@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize(
    ("signal", "made", "tables"),
    [
        (Signal.TRACES, sdk_spans, {"spans": 2}),
        (Signal.LOGS, sdk_logs, {"logs": 3}),
        (
            Signal.METRICS,
            sdk_metrics,
            {"metrics_sum": 2, "metrics_gauge": 1, "metrics_histogram": 1, "metrics_exponential_histogram": 1},
        ),
    ],
)
def test_what_the_sdk_sends_is_decoded_whole(walk: str, signal: Signal, made: Any, tables: dict[str, int]) -> None:
    message = made()
    data = message.SerializeToString()
    assert signal_of_protobuf(data) is signal
    with using(walk):
        for one in (request(data), request(to_json(message), json=True)):
            batch = decoded([one])
            assert batch.counts.records == tables
            assert batch.counts.dead_letters == batch.counts.unknown_fields == 0
            found = {name: plain_rows(table) for name, table in batch.tables.items()}
            assert found == comparable(rows_of(signal, message))


def test_a_span_of_the_sdk_reads_as_its_author_wrote_it() -> None:
    table = decoded([request(sdk_spans().SerializeToString())]).tables["spans"]
    child, parent = sorted(plain_rows(table), key=lambda row: row["SpanName"])
    assert parent["SpanAttributes"] == {"code": "200", "ok": "true", "ratio": "0.5", "tags": '["a","b"]', "text": "é"}
    assert parent["SpanAttributeTypes"] == {"code": "int", "ok": "bool", "ratio": "double", "tags": "array"}
    assert (parent["ServiceName"], parent["ServiceInstanceId"]) == ("shop", "i-1")
    assert (parent["SpanKind"], parent["ParentSpanId"]) == ("SPAN_KIND_SERVER", None)
    assert [event["Name"] for event in parent["Events"]] == ["cache.miss"]
    assert (child["StatusCode"], child["StatusMessage"]) == ("STATUS_CODE_ERROR", "no")
    assert child["ParentSpanId"] == child["Links"][0]["SpanId"] == parent["SpanId"]
    assert child["Links"][0]["AttributeTypes"] == {"why": "int"}
