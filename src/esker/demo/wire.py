"""How telemetry gets to the lake: as files in the framings that are out there, and over HTTP by the SDK's exporter."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

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
    """A request as OTLP's JSON, on one line: protobuf's own form, but for ids, which are hexadecimal."""
    from google.protobuf.json_format import MessageToDict

    document = MessageToDict(request, use_integers_for_enums=True)
    _spell_ids(document)
    return json.dumps(document).encode() + b"\n"


def delimited(requests: Iterable[Any]) -> bytes:
    """Requests in protobuf, each behind its length."""
    parts = []
    for request in requests:
        body = request.SerializeToString()
        parts += [_varint(len(body)), body]
    return b"".join(parts)


def exporter_framing(requests: Iterable[Any]) -> bytes:
    """As the collector's file exporter writes protobuf: four bytes of length before each request."""
    bodies = [request.SerializeToString() for request in requests]
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


def put(folder: Path, name: str, content: bytes) -> None:
    """A file that appears whole."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".{name}"
    draft.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    draft.rename(folder / name)


def send(port: int, spans: Sequence[Any]) -> None:
    """Export by the SDK's own exporter, which tries again where it is told to."""
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import SpanExportResult

    exporter = OTLPSpanExporter(endpoint=f"http://127.0.0.1:{port}/v1/traces", compression=Compression.Gzip)
    try:
        assert exporter.export(spans) is SpanExportResult.SUCCESS, "the receiver did not take the spans"
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
