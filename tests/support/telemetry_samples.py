"""Small OTLP by hand, told apart by ids, and what of it a lake holds."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from esker.lake import Lake

START_NS = 1_700_000_000_000_000_000
DAY_NS = 86_400_000_000_000


def spans(ids: Iterable[int], *, day: int = 0, service: str = "shop", **attributes: str) -> bytes:
    """A request of spans, one for each number, on a line."""
    made = [
        {
            "traceId": f"{number:032x}",
            "spanId": f"{number:016x}",
            "name": f"span {number}",
            "startTimeUnixNano": str(START_NS + day * DAY_NS + number),
            "endTimeUnixNano": str(START_NS + day * DAY_NS + number + 1000),
            "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
        }
        for number in ids
    ]
    return _line({"resourceSpans": [{"resource": _resource(service), "scopeSpans": [{"spans": made}]}]})


def logs(ids: Iterable[int], *, service: str = "shop") -> bytes:
    """A request of log records, one for each number, on a line."""
    made = [{"timeUnixNano": str(START_NS + number), "body": {"stringValue": f"log {number}"}} for number in ids]
    return _line({"resourceLogs": [{"resource": _resource(service), "scopeLogs": [{"logRecords": made}]}]})


def points(ids: Iterable[int], *, service: str = "shop") -> bytes:
    """A request of points of one gauge, one for each number, on a line."""
    made = [{"timeUnixNano": str(START_NS + number), "asInt": str(number)} for number in ids]
    metrics = [{"name": "orders", "gauge": {"dataPoints": made}}]
    return _line({"resourceMetrics": [{"resource": _resource(service), "scopeMetrics": [{"metrics": metrics}]}]})


def bad_span(number: int) -> bytes:
    """A request whose one span has an id of a wrong length."""
    return spans([number]).replace(f"{number:032x}".encode(), b"abcd")


def by_name(number: int) -> bytes:
    """A span that only the lenient decoder takes: its kind is a name."""
    return spans([number]).replace(b'"name"', b'"kind": "SPAN_KIND_SERVER", "name"')


def span_names(lake: Lake) -> Counter[str]:
    """Every span's name, and how often it is there."""
    return _values(lake, "otel.spans", "SpanName")


def log_bodies(lake: Lake) -> Counter[str]:
    """Every log record's body, and how often it is there."""
    return _values(lake, "otel.logs", "Body")


def point_values(lake: Lake) -> Counter[int]:
    """Every gauge point's value, and how often it is there."""
    return _values(lake, "otel.metrics_gauge", "ValueInt")


def letters(lake: Lake) -> Counter[str]:
    """The classes of the dead letters."""
    return _values(lake, "otel.dead_letter", "error_class")


def write(folder: Path, name: str, *requests: bytes) -> Path:
    """A file of requests, renamed into place."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".{name}"
    draft.write_bytes(b"".join(requests))
    return draft.rename(folder / name)


def _values(lake: Lake, table: str, column: str) -> Counter[Any]:
    if table not in (lake.tables("otel") if "otel" in lake.namespaces() else ()):
        return Counter()
    return Counter(lake.table(table).scan(columns=[column]).to_arrow().column(column).to_pylist())


def _resource(service: str) -> dict[str, Any]:
    return {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}


def _line(document: dict[str, Any]) -> bytes:
    return json.dumps(document).encode() + b"\n"
