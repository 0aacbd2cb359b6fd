"""The tour's telemetry: recorded and encoded by the OpenTelemetry SDK, for a shop with four services.

It covers the last weeks. It is written to files in the usual framings, and sent over HTTP by the SDK's exporter.
"""

from __future__ import annotations

import gzip
import json
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from esker.errors import Unsupported

# ---------------------------------------------------------------- recording


SERVICES = {
    "checkout": ("POST /checkout", "charge", "reserve"),
    "cart": ("GET /cart", "PUT /cart", "price"),
    "search": ("GET /search", "rank", "suggest"),
    "payment": ("POST /charge", "settle", "fraud check"),
}
DAY_NS = 86_400_000_000_000
CUSTOMERS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much telemetry is made."""

    days: int = 30
    spans_a_day: int = 1_000
    logs_a_day: int = 200
    points: int = 600


def check_sdk() -> None:
    """Raise ``Unsupported``, with what to install, if the OpenTelemetry SDK is missing."""
    try:
        import opentelemetry.exporter.otlp.proto.http
        import opentelemetry.sdk.trace  # noqa: F401
    except ImportError:
        raise Unsupported(
            "cannot run the demo without the OpenTelemetry SDK: "
            "pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http",
            feature="demo",
        ) from None


class Shop:
    """The services, each with its own tracer. The same seed makes the same traffic, except for ids."""

    def __init__(self, size: Size, seed: int = 46) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        self.size = size
        self.now_ns = time.time_ns()
        self._random = random.Random(seed)
        self._finished = InMemorySpanExporter()
        self._tracers = {}
        for service in SERVICES:
            provider = TracerProvider(resource=_resource(Resource, service), shutdown_on_exit=False)
            provider.add_span_processor(SimpleSpanProcessor(self._finished))
            self._tracers[service] = provider.get_tracer("shop", "1.4.2")

    def spans(self, day: int) -> Sequence[Any]:
        """The finished spans of a day; day 0 is the first."""
        from opentelemetry.trace import SpanKind, Status, StatusCode

        draw = self._random
        start = self.now_ns - (self.size.days - day) * DAY_NS
        for number in range(self.size.spans_a_day):
            service = draw.choice(list(SERVICES))
            begun = start + draw.randrange(DAY_NS)
            span = self._tracers[service].start_span(
                draw.choice(SERVICES[service]),
                kind=SpanKind.SERVER if number % 3 else SpanKind.CLIENT,
                start_time=begun,
                attributes={
                    "http.response.status_code": 500 if draw.random() < 0.02 else 200,
                    "user.id": f"u-{draw.randrange(CUSTOMERS)}",
                    "retry": draw.random() < 0.1,
                },
            )
            if number % 5 == 0:
                span.add_event("cache miss", {"key": f"k{number}"}, timestamp=begun + 1_000)
            if draw.random() < 0.02:
                span.set_status(Status(StatusCode.ERROR, "upstream timed out"))
            span.end(end_time=begun + int(draw.lognormvariate(16, 1)))
        finished = self._finished.get_finished_spans()
        self._finished.clear()
        return finished

    def logs(self, day: int) -> Sequence[Any]:
        """The log records of a day."""
        from opentelemetry._logs import LogRecord, SeverityNumber
        from opentelemetry.sdk._logs import LoggerProvider
        from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
        from opentelemetry.sdk.resources import Resource

        kept = InMemoryLogRecordExporter()
        provider = LoggerProvider(resource=_resource(Resource, "checkout"), shutdown_on_exit=False)
        provider.add_log_record_processor(SimpleLogRecordProcessor(kept))
        start = self.now_ns - (self.size.days - day) * DAY_NS
        for number in range(self.size.logs_a_day):
            provider.get_logger("shop").emit(
                LogRecord(
                    timestamp=start + number * 1_000_000,
                    severity_number=SeverityNumber.INFO,
                    severity_text="INFO",
                    body=f"order {number} of day {day} placed",
                    attributes={"order": number},
                )
            )
        return kept.get_finished_logs()

    def points(self) -> Any:
        """Points of a counter, a gauge and two kinds of histogram, as the SDK collects them."""
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader
        from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
        from opentelemetry.sdk.resources import Resource

        reader = InMemoryMetricReader()
        fine = View(instrument_name="latency.fine", aggregation=ExponentialBucketHistogramAggregation())
        provider = MeterProvider([reader], resource=_resource(Resource, "search"), views=[fine], shutdown_on_exit=False)
        meter = provider.get_meter("shop")
        counter, gauge = meter.create_counter("orders"), meter.create_gauge("queue")
        coarse, exact = meter.create_histogram("latency"), meter.create_histogram("latency.fine")
        for number in range(self.size.points // 4):
            shelf = {"shelf": number}
            counter.add(number, shelf)
            gauge.set(number, shelf)
            coarse.record(number * 1.5, shelf)
            exact.record(number * 1.5, shelf)
        return reader.get_metrics_data()


def in_requests(records: Sequence[Any], most: int) -> Iterator[Sequence[Any]]:
    """Records in groups of one request each."""
    for start in range(0, len(records), most):
        yield records[start : start + most]


def _resource(kind: Any, service: str) -> Any:
    return kind.create({"service.name": service, "service.namespace": "shop", "host.name": f"{service}-1"})


# ---------------------------------------------------------------- files and HTTP


CORRUPT = b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"this is no id","name":'


def encoded(spans: Sequence[Any]) -> Any:
    """The SDK's own protobuf request of spans."""
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

    return encode_spans(spans)


def encoded_logs(logs: Sequence[Any]) -> Any:
    """The SDK's own protobuf request of log records."""
    from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs

    return encode_logs(logs)


def encoded_points(data: Any) -> Any:
    """The SDK's own protobuf request of metric points."""
    from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics

    return encode_metrics(data)


def json_line(request: Any) -> bytes:
    """A request as OTLP's JSON on one line: protobuf's JSON, except that ids are hexadecimal."""
    from google.protobuf.json_format import MessageToDict

    document = MessageToDict(request, use_integers_for_enums=True)
    _spell_ids(document)
    return json.dumps(document).encode() + b"\n"


def delimited(requests: Iterable[Any]) -> bytes:
    """Requests in protobuf, each after its length."""
    parts = []
    for request in requests:
        body = request.SerializeToString()
        parts += [_varint(len(body)), body]
    return b"".join(parts)


def exporter_framing(requests: Iterable[Any]) -> bytes:
    """Requests as the collector's file exporter writes protobuf: four bytes of length before each."""
    bodies = [request.SerializeToString() for request in requests]
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


def put(folder: Path, name: str, content: bytes) -> None:
    """Write a file that becomes visible only when it is complete."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".{name}"
    draft.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    draft.rename(folder / name)


def send(port: int, spans: Sequence[Any]) -> None:
    """Export by the SDK's own exporter, which tries again if the receiver asks for it."""
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import SpanExportResult

    exporter = OTLPSpanExporter(endpoint=f"http://127.0.0.1:{port}/v1/traces", compression=Compression.Gzip)
    try:
        assert exporter.export(spans) is SpanExportResult.SUCCESS, "the receiver did not accept the spans"
    finally:
        exporter.shutdown()


def _spell_ids(value: Any) -> None:
    import base64

    if isinstance(value, list):
        for item in value:
            _spell_ids(item)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key in ("traceId", "spanId", "parentSpanId"):
                value[key] = base64.b64decode(inner).hex()
            else:
                _spell_ids(inner)


def _varint(number: int) -> bytes:
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)
