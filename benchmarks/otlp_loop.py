"""The peer: a loop over opentelemetry-proto, or ``json.loads``, that makes the rows of the spans table one by one."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from esker.otlp.schemas import SPANS

_TIMES = ("Timestamp", "_ingested_at")


def from_protobuf(requests: Iterable[bytes]) -> pa.Table:
    """The table, by the protocol's own parser."""
    rows: list[dict[str, Any]] = []
    for data in requests:
        for resource in ExportTraceServiceRequest.FromString(data).resource_spans:
            attributes, types = _attributes(resource.resource.attributes)
            above = _resource(attributes, types, resource.schema_url)
            for scope in resource.scope_spans:
                over = above | {"ScopeName": scope.scope.name or None, "ScopeVersion": scope.scope.version or None}
                rows.extend(over | _span(span) for span in scope.spans)
    return pa.Table.from_pylist(rows, schema=SPANS.schema)


def _resource(attributes: list[Any], types: list[Any] | None, schema_url: str) -> dict[str, Any]:
    return {
        "ServiceName": dict(attributes).get("service.name"),
        "ResourceAttributes": attributes,
        "ResourceAttributeTypes": types,
        "ResourceSchemaUrl": schema_url or None,
        "_source": "file",
        "_batch_id": "b",
        "_ingested_at": 0,
    }


def _attributes(pairs: Any) -> tuple[list[tuple[str, str | None]], list[tuple[str, str]] | None]:
    texts: dict[str, str | None] = {}
    types: dict[str, str] = {}
    for pair in pairs:
        kind = pair.value.WhichOneof("value")
        if kind == "string_value":
            texts[pair.key] = pair.value.string_value
        elif kind is None:
            texts[pair.key] = None
        else:
            value = getattr(pair.value, kind)
            text = base64.b64encode(value).decode() if kind == "bytes_value" else str(value)
            texts[pair.key] = text.lower() if kind == "bool_value" else text
            types[pair.key] = kind.removesuffix("_value")
    return list(texts.items()), list(types.items()) or None


def _span(span: Any) -> dict[str, Any]:
    attributes, types = _attributes(span.attributes)
    return {
        "Timestamp": span.start_time_unix_nano // 1000,
        "StartTimeUnixNano": span.start_time_unix_nano,
        "EndTimeUnixNano": span.end_time_unix_nano,
        "Duration": span.end_time_unix_nano - span.start_time_unix_nano,
        "TraceId": span.trace_id or None,
        "SpanId": span.span_id or None,
        "ParentSpanId": span.parent_span_id or None,
        "TraceState": span.trace_state or None,
        "Flags": span.flags,
        "SpanName": span.name or None,
        "SpanKind": Span.SpanKind.Name(span.kind),
        "StatusCode": Status.StatusCode.Name(span.status.code) if span.HasField("status") else None,
        "StatusMessage": span.status.message or None,
        "SpanAttributes": attributes,
        "SpanAttributeTypes": types,
        "DroppedAttributesCount": span.dropped_attributes_count,
        "DroppedEventsCount": span.dropped_events_count,
        "DroppedLinksCount": span.dropped_links_count,
        "Events": [_event(event) for event in span.events],
        "Links": [],
    }


def _event(event: Any) -> dict[str, Any]:
    attributes, types = _attributes(event.attributes)
    return {
        "Timestamp": event.time_unix_nano // 1000,
        "TimeUnixNano": event.time_unix_nano,
        "Name": event.name,
        "Attributes": attributes,
        "AttributeTypes": types,
        "DroppedAttributesCount": event.dropped_attributes_count,
    }


def from_json(requests: Iterable[bytes]) -> pa.Table:
    """The table, by Python's own decoder: opentelemetry-proto has none for OTLP's JSON."""
    rows: list[dict[str, Any]] = []
    for data in requests:
        for resource in json.loads(data).get("resourceSpans", ()):
            attributes, types = _json_attributes(resource.get("resource", {}).get("attributes", ()))
            above = _resource(attributes, types, resource.get("schemaUrl", ""))
            for scope in resource.get("scopeSpans", ()):
                told = scope.get("scope", {})
                over = above | {"ScopeName": told.get("name"), "ScopeVersion": told.get("version")}
                rows.extend(over | _json_span(span) for span in scope.get("spans", ()))
    return pa.Table.from_pylist(rows, schema=SPANS.schema)


def _json_attributes(pairs: Any) -> tuple[list[tuple[str, str | None]], list[tuple[str, str]] | None]:
    texts: dict[str, str | None] = {}
    types: dict[str, str] = {}
    for pair in pairs:
        [(kind, value)] = pair["value"].items()
        texts[pair["key"]] = value if kind == "stringValue" else str(value)
        if kind != "stringValue":
            types[pair["key"]] = kind.removesuffix("Value")
    return list(texts.items()), list(types.items()) or None


def _json_span(span: dict[str, Any]) -> dict[str, Any]:
    attributes, types = _json_attributes(span.get("attributes", ()))
    start, end, status = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"]), span.get("status")
    return {
        "Timestamp": start // 1000,
        "StartTimeUnixNano": start,
        "EndTimeUnixNano": end,
        "Duration": end - start,
        "TraceId": bytes.fromhex(span["traceId"]),
        "SpanId": bytes.fromhex(span["spanId"]),
        "ParentSpanId": bytes.fromhex(span.get("parentSpanId", "")) or None,
        "SpanName": span.get("name"),
        "SpanKind": Span.SpanKind.Name(span.get("kind", 0)),
        "StatusCode": None if status is None else Status.StatusCode.Name(status.get("code", 0)),
        "SpanAttributes": attributes,
        "SpanAttributeTypes": types,
        "Flags": span.get("flags", 0),
        "DroppedAttributesCount": 0,
        "DroppedEventsCount": 0,
        "DroppedLinksCount": 0,
        "Events": [
            {"TimeUnixNano": int(event["timeUnixNano"]), "Name": event["name"]} for event in span.get("events", ())
        ],
        "Links": [],
    }
