"""What rows a request must become, told plainly from the messages that opentelemetry-proto parsed: the oracle."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator
from typing import Any

from esker.otlp.protocol.messages import Signal

Row = dict[str, Any]
_KINDS = ("gauge", "sum", "histogram", "exponential_histogram", "summary")


def rows_of(signal: Signal, request: Any) -> dict[str, list[Row]]:
    """Rows by table; times as microseconds, maps as dictionaries."""
    found: dict[str, list[Row]] = {}
    groups = {Signal.LOGS: "logs", Signal.TRACES: "spans", Signal.METRICS: "metrics"}[signal]
    for resource in getattr(request, f"resource_{groups}"):
        for scope in getattr(resource, f"scope_{groups}"):
            shared = _resource(resource) | _scope(scope)
            match signal:
                case Signal.LOGS:
                    found.setdefault("logs", []).extend(shared | _log(log) for log in scope.log_records)
                case Signal.TRACES:
                    found.setdefault("spans", []).extend(shared | _span(span) for span in scope.spans)
                case Signal.METRICS:
                    for metric in scope.metrics:
                        for table, row in _points(metric):
                            found.setdefault(table, []).append(shared | row)
    return {table: rows for table, rows in found.items() if rows}


def _attributes(name: str, types: str, pairs: Any, *, present: bool = True) -> Row:
    texts: dict[str, str | None] = {}
    kinds: dict[str, str] = {}
    for pair in pairs:
        kind = pair.value.WhichOneof("value") if pair.HasField("value") else None
        texts[pair.key] = None if kind is None else _text(pair.value)
        kinds.pop(pair.key, None)
        if kind not in (None, "string_value"):
            kinds[pair.key] = kind.removesuffix("_value")
    return {name: texts if present else None, types: kinds or None}


def _text(value: Any) -> str:
    kind = value.WhichOneof("value")
    match kind:
        case "string_value":
            return value.string_value
        case "bool_value":
            return "true" if value.bool_value else "false"
        case "int_value":
            return str(value.int_value)
        case "double_value":
            return _double(value.double_value)
        case "bytes_value":
            return base64.b64encode(value.bytes_value).decode()
        case _:
            return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _double(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return repr(value) if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"


def _plain(value: Any) -> Any:
    match value.WhichOneof("value"):
        case None:
            return None
        case "array_value":
            return [_plain(one) for one in value.array_value.values]
        case "kvlist_value":
            return {one.key: _plain(one.value) for one in value.kvlist_value.values}
        case "bytes_value":
            return {"$bytes": base64.b64encode(value.bytes_value).decode()}
        case "double_value" if not math.isfinite(value.double_value):
            return {"$double": _double(value.double_value)}
        case kind:
            return getattr(value, kind)


def _resource(group: Any) -> Row:
    resource, present = group.resource, group.HasField("resource")
    row = _attributes("ResourceAttributes", "ResourceAttributeTypes", resource.attributes, present=present)
    texts = row["ResourceAttributes"] or {}
    refs = [
        {
            "SchemaUrl": ref.schema_url or None,
            "Type": ref.type or None,
            "IdKeys": list(ref.id_keys),
            "DescriptionKeys": list(ref.description_keys),
        }
        for ref in resource.entity_refs
    ]
    return row | {
        "ServiceName": texts.get("service.name") or None,
        "ServiceNamespace": texts.get("service.namespace") or None,
        "ServiceInstanceId": texts.get("service.instance.id") or None,
        "ResourceDroppedAttributesCount": resource.dropped_attributes_count if present else None,
        "ResourceEntityRefs": refs if present else None,
        "ResourceSchemaUrl": group.schema_url or None,
    }


def _scope(group: Any) -> Row:
    scope, present = group.scope, group.HasField("scope")
    return _attributes("ScopeAttributes", "ScopeAttributeTypes", scope.attributes, present=present) | {
        "ScopeName": scope.name or None,
        "ScopeVersion": scope.version or None,
        "ScopeDroppedAttributesCount": scope.dropped_attributes_count if present else None,
        "ScopeSchemaUrl": group.schema_url or None,
    }


def _time(nanoseconds: int) -> int | None:
    return nanoseconds // 1000 if nanoseconds else None


INGESTED_AT_US = 1_790_000_000_000_000


def _log(log: Any) -> Row:
    nanoseconds = log.time_unix_nano or log.observed_time_unix_nano or INGESTED_AT_US * 1000
    time = nanoseconds // 1000
    kind = log.body.WhichOneof("value") if log.HasField("body") else None
    return _attributes("LogAttributes", "LogAttributeTypes", log.attributes) | {
        "Timestamp": time,
        "TimestampTime": time,
        "TimeUnixNano": log.time_unix_nano,
        "ObservedTimestamp": _time(log.observed_time_unix_nano),
        "ObservedTimeUnixNano": log.observed_time_unix_nano,
        "TraceId": log.trace_id or None,
        "SpanId": log.span_id or None,
        "TraceFlags": log.flags,
        "SeverityText": log.severity_text or None,
        "SeverityNumber": log.severity_number,
        "EventName": log.event_name or None,
        "Body": None if kind is None else _text(log.body),
        "BodyType": None if kind is None else kind.removesuffix("_value"),
        "DroppedAttributesCount": log.dropped_attributes_count,
    }


def _name(enum: Any, number: int) -> str:
    return enum.Name(number) if number in enum.values() else str(number)


def _span(span: Any) -> Row:
    from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

    return _attributes("SpanAttributes", "SpanAttributeTypes", span.attributes) | {
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
        "SpanKind": _name(Span.SpanKind, span.kind),
        "StatusCode": _name(Status.StatusCode, span.status.code) if span.HasField("status") else None,
        "StatusMessage": span.status.message or None,
        "DroppedAttributesCount": span.dropped_attributes_count,
        "DroppedEventsCount": span.dropped_events_count,
        "DroppedLinksCount": span.dropped_links_count,
        "Events": [_event(event) for event in span.events],
        "Links": [_link(link) for link in span.links],
    }


def _event(event: Any) -> Row:
    return {
        "Timestamp": _time(event.time_unix_nano),
        "TimeUnixNano": event.time_unix_nano,
        "Name": event.name or None,
        **_attributes("Attributes", "AttributeTypes", event.attributes),
        "DroppedAttributesCount": event.dropped_attributes_count,
    }


def _link(link: Any) -> Row:
    return {
        "TraceId": link.trace_id or None,
        "SpanId": link.span_id or None,
        "TraceState": link.trace_state or None,
        "Flags": link.flags,
        **_attributes("Attributes", "AttributeTypes", link.attributes),
        "DroppedAttributesCount": link.dropped_attributes_count,
    }


def _exemplar(exemplar: Any) -> Row:
    kind = exemplar.WhichOneof("value")
    return {
        "Timestamp": _time(exemplar.time_unix_nano),
        "TimeUnixNano": exemplar.time_unix_nano,
        "ValueDouble": exemplar.as_double if kind == "as_double" else None,
        "ValueInt": exemplar.as_int if kind == "as_int" else None,
        "TraceId": exemplar.trace_id or None,
        "SpanId": exemplar.span_id or None,
        **_attributes("FilteredAttributes", "FilteredAttributeTypes", exemplar.filtered_attributes),
    }


def _points(metric: Any) -> Iterator[tuple[str, Row]]:
    kind = metric.WhichOneof("data")
    if kind is None:
        return
    data = getattr(metric, kind)
    shared = _attributes("MetricMetadata", "MetricMetadataTypes", metric.metadata) | {
        "MetricName": metric.name or None,
        "MetricDescription": metric.description or None,
        "MetricUnit": metric.unit or None,
    }
    if kind not in ("gauge", "summary"):
        shared["AggregationTemporality"] = data.aggregation_temporality
    if kind == "sum":
        shared["IsMonotonic"] = data.is_monotonic
    for point in data.data_points:
        yield f"metrics_{kind}", shared | _point(kind, point)


def _point(kind: str, point: Any) -> Row:
    row = _attributes("Attributes", "AttributeTypes", point.attributes) | {
        "Timestamp": point.time_unix_nano // 1000,
        "StartTimestamp": _time(point.start_time_unix_nano),
        "StartTimeUnixNano": point.start_time_unix_nano,
        "TimeUnixNano": point.time_unix_nano,
        "Flags": point.flags,
    }
    if kind != "summary":
        row["Exemplars"] = [_exemplar(one) for one in point.exemplars]
    if kind in ("gauge", "sum"):
        sent = point.WhichOneof("value")
        row["Value"] = None if sent is None else float(getattr(point, sent))
        row["ValueInt"] = point.as_int if sent == "as_int" else None
        return row
    row |= {"Count": point.count, "Sum": point.sum if kind == "summary" or point.HasField("sum") else None}
    if kind == "summary":
        row["QuantileValues"] = [one.value for one in point.quantile_values]
        row["QuantileQuantiles"] = [one.quantile for one in point.quantile_values]
        return row
    row |= {name.title(): getattr(point, name) if point.HasField(name) else None for name in ("min", "max")}
    if kind == "histogram":
        return row | {"BucketCounts": list(point.bucket_counts), "ExplicitBounds": list(point.explicit_bounds)}
    for side in ("positive", "negative"):
        buckets, present = getattr(point, side), point.HasField(side)
        row[f"{side.title()}Offset"] = buckets.offset if present else None
        row[f"{side.title()}BucketCounts"] = list(buckets.bucket_counts) if present else None
    return row | {"Scale": point.scale, "ZeroCount": point.zero_count, "ZeroThreshold": point.zero_threshold}
