"""Makes tables of the decoded levels of a request.

The values of resources and scopes are repeated for each of their records. Times and enums get readable forms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from esker.otlp.decoding.attributes import formed
from esker.otlp.decoding.promote import Promotion, promoted_texts
from esker.otlp.protocol.arrow_columns import Items, Level
from esker.otlp.protocol.messages import SPAN_KINDS, STATUS_CODES, Signal
from esker.otlp.schemas import (
    ENTITY_REF,
    EVENT,
    EXEMPLAR,
    LINK,
    LOGS,
    METRICS,
    SPANS,
    TIME,
    Profile,
    TelemetryTable,
    in_profile,
)

Parts = dict[str, pa.Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a batch comes from. It is recorded in every row."""

    sources: Sequence[str | None]  # of the requests, by their numbers
    batch_id: str
    ingested_at_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The form of attribute columns. It is computed once for a resource, not for each of its records."""

    profile: Profile = Profile.MAP
    promote: Mapping[str, tuple[Promotion, ...]] = field(default_factory=dict)  # by table

    def of(self, table: TelemetryTable, parts: Parts) -> Parts:
        """The columns of a level: attributes in the form of the profile, and promoted attributes as texts."""
        texts = promoted_texts(parts, table.attributes, self.promote.get(table.name, ()))
        return formed(parts, self.profile) | texts


def tables_of(signal: Signal, levels: Mapping[str, Level], origin: Origin, form: Form) -> dict[str, pa.Table]:
    """The tables that have rows, by name. Promoted attributes are the last columns, still as text."""
    match signal:
        case Signal.LOGS:
            paths = ("resource_logs", "scope_logs", "log_records")
            made = {LOGS: _spread(LOGS, levels, paths, _log(_leaf(levels, paths), origin), origin, form)}
        case Signal.TRACES:
            paths = ("resource_spans", "scope_spans", "spans")
            made = {SPANS: _spread(SPANS, levels, paths, _span(_leaf(levels, paths), form), origin, form)}
        case Signal.METRICS:
            made = {table: _metric_table(table, levels, kind, origin, form) for kind, table in METRICS.items()}
    return {table.name: _table(table, parts, form) for table, parts in made.items() if len(parts["Timestamp"])}


def _table(table: TelemetryTable, parts: Parts, form: Form) -> pa.Table:
    schema = table.of(form.profile).schema
    promoted = [pa.field(one.column, pa.string()) for one in form.promote.get(table.name, ())]
    schema = pa.schema([*schema, *promoted])
    return pa.Table.from_arrays([parts[name] for name in schema.names], schema=schema)


def _leaf(levels: Mapping[str, Level], paths: tuple[str, ...]) -> Level:
    return levels[".".join(paths)]


# ---- levels above the records ----


def _spread(
    table: TelemetryTable,
    levels: Mapping[str, Level],
    paths: tuple[str, ...],
    own: Parts,
    origin: Origin,
    form: Form,
) -> Parts:
    """The columns of all levels above, repeated for each record below them, beside the record's own columns."""
    parts = form.of(table, own)
    place = _leaf(levels, paths).parent
    for depth in range(len(paths) - 1, 0, -1):
        level = _leaf(levels, paths[:depth])
        for name, column in form.of(table, _above(paths[depth - 1], level)).items():
            parts[name] = column.take(place)
        place = level.parent.take(place)
    request = levels[""].parent.take(place)
    count = len(parts["Timestamp"])
    parts["_source"] = pa.array(origin.sources, pa.string()).take(request)
    parts["_batch_id"] = pa.repeat(origin.batch_id, count)
    parts["_ingested_at"] = pa.repeat(pa.scalar(origin.ingested_at_us, TIME), count)
    return parts


def _above(name: str, level: Level) -> Parts:
    if name.startswith("resource_"):
        return _resource(level)
    if name.startswith("scope_"):
        return _scope(level)
    if name == "metrics":
        return _metric(level)
    made = {"AggregationTemporality": "aggregation_temporality", "IsMonotonic": "is_monotonic"}
    return {column: level.array(field) for column, field in made.items() if field in level.columns}


def _resource(level: Level) -> Parts:
    attributes = level.array("resource.attributes")
    refs = level.items("resource.entity_refs")
    texts = [refs.columns[name] for name in ("schema_url", "type", "id_keys", "description_keys")]
    return {
        "ServiceName": _attribute(attributes, "service.name"),
        "ServiceNamespace": _attribute(attributes, "service.namespace"),
        "ServiceInstanceId": _attribute(attributes, "service.instance.id"),
        "ResourceAttributes": attributes,
        "ResourceAttributeTypes": level.array("resource.attributes_types"),
        "ResourceDroppedAttributesCount": level.array("resource.dropped_attributes_count"),
        "ResourceEntityRefs": refs.of(pa.StructArray.from_arrays(texts, fields=list(ENTITY_REF))),
        "ResourceSchemaUrl": level.array("schema_url"),
    }


def _attribute(attributes: pa.Array, key: str) -> pa.Array:
    """The text of one key. Keys are unique here, so any occurrence is right."""
    found = pc.map_lookup(attributes, pa.scalar(key), "first")
    return pc.if_else(pc.equal(found, ""), pa.scalar(None, pa.string()), found)


def _scope(level: Level) -> Parts:
    return {
        "ScopeName": level.array("scope.name"),
        "ScopeVersion": level.array("scope.version"),
        "ScopeAttributes": level.array("scope.attributes"),
        "ScopeAttributeTypes": level.array("scope.attributes_types"),
        "ScopeDroppedAttributesCount": level.array("scope.dropped_attributes_count"),
        "ScopeSchemaUrl": level.array("schema_url"),
    }


def _metric(level: Level) -> Parts:
    return {
        "MetricName": level.array("name"),
        "MetricDescription": level.array("description"),
        "MetricUnit": level.array("unit"),
        "MetricMetadata": level.array("metadata"),
        "MetricMetadataTypes": level.array("metadata_types"),
    }


# ---- records ----


def _log(record: Level, origin: Origin) -> Parts:
    sent, observed = record.array("time_unix_nano"), record.array("observed_time_unix_nano")
    now = pa.scalar(origin.ingested_at_us, TIME)
    time = pc.coalesce(_known_time(sent), _known_time(observed), now)
    return {
        "Timestamp": time,
        "TimestampTime": time,
        "TimeUnixNano": sent,
        "ObservedTimestamp": _known_time(observed),
        "ObservedTimeUnixNano": observed,
        "TraceId": record.array("trace_id"),
        "SpanId": record.array("span_id"),
        "TraceFlags": record.array("flags"),
        "SeverityText": record.array("severity_text"),
        "SeverityNumber": record.array("severity_number"),
        "EventName": record.array("event_name"),
        "Body": record.array("body"),
        "BodyType": record.array("body_type"),
        "LogAttributes": record.array("attributes"),
        "LogAttributeTypes": record.array("attributes_types"),
        "DroppedAttributesCount": record.array("dropped_attributes_count"),
    }


def _span(record: Level, form: Form) -> Parts:
    start, end = record.array("start_time_unix_nano"), record.array("end_time_unix_nano")
    return {
        "Timestamp": _time(start),
        "StartTimeUnixNano": start,
        "EndTimeUnixNano": end,
        "Duration": pc.subtract(end, start),
        "TraceId": record.array("trace_id"),
        "SpanId": record.array("span_id"),
        "ParentSpanId": record.array("parent_span_id"),
        "TraceState": record.array("trace_state"),
        "Flags": record.array("flags"),
        "SpanName": record.array("name"),
        "SpanKind": _names(record.array("kind"), SPAN_KINDS),
        "StatusCode": _names(record.array("status.code"), STATUS_CODES),
        "StatusMessage": record.array("status.message"),
        "SpanAttributes": record.array("attributes"),
        "SpanAttributeTypes": record.array("attributes_types"),
        "DroppedAttributesCount": record.array("dropped_attributes_count"),
        "DroppedEventsCount": record.array("dropped_events_count"),
        "DroppedLinksCount": record.array("dropped_links_count"),
        "Events": _structs(record.items("events"), EVENT, form),
        "Links": _structs(record.items("links"), LINK, form),
    }


def _metric_table(table: TelemetryTable, levels: Mapping[str, Level], kind: str, origin: Origin, form: Form) -> Parts:
    paths = ("resource_metrics", "scope_metrics", "metrics", kind, "data_points")
    return _spread(table, levels, paths, _point(_leaf(levels, paths), form), origin, form)


# Columns of a point with the protocol's value under another name.
_POINT = {
    "ValueInt": "as_int",
    "Count": "count",
    "Sum": "sum",
    "Min": "min",
    "Max": "max",
    "BucketCounts": "bucket_counts",
    "ExplicitBounds": "explicit_bounds",
    "Scale": "scale",
    "ZeroCount": "zero_count",
    "ZeroThreshold": "zero_threshold",
    "PositiveOffset": "positive.offset",
    "PositiveBucketCounts": "positive.bucket_counts",
    "NegativeOffset": "negative.offset",
    "NegativeBucketCounts": "negative.bucket_counts",
}


def _point(record: Level, form: Form) -> Parts:
    start, time = record.array("start_time_unix_nano"), record.array("time_unix_nano")
    parts = {
        "Timestamp": _time(time),
        "StartTimestamp": _known_time(start),
        "StartTimeUnixNano": start,
        "TimeUnixNano": time,
        "Attributes": record.array("attributes"),
        "AttributeTypes": record.array("attributes_types"),
        "Flags": record.array("flags"),
    }
    parts |= {column: record.array(field) for column, field in _POINT.items() if field in record.columns}
    if "as_double" in record.columns:
        # The exact integer is in ValueInt. Beyond 2^53 the double beside it is the nearest one.
        whole = record.array("as_int").cast(pa.float64(), safe=False)
        parts["Value"] = pc.coalesce(record.array("as_double"), whole)
    if "exemplars" in record.columns:
        parts["Exemplars"] = _structs(record.items("exemplars"), EXEMPLAR, form)
    if "quantile_values" in record.columns:
        quantiles = record.items("quantile_values")
        parts["QuantileValues"] = quantiles.of(quantiles.columns["value"])
        parts["QuantileQuantiles"] = quantiles.of(quantiles.columns["quantile"])
    return parts


# Members of events, links and exemplars.
_MEMBERS = {
    "TimeUnixNano": "time_unix_nano",
    "Name": "name",
    "Attributes": "attributes",
    "AttributeTypes": "attributes_types",
    "DroppedAttributesCount": "dropped_attributes_count",
    "TraceId": "trace_id",
    "SpanId": "span_id",
    "TraceState": "trace_state",
    "Flags": "flags",
    "ValueDouble": "as_double",
    "ValueInt": "as_int",
    "FilteredAttributes": "filtered_attributes",
    "FilteredAttributeTypes": "filtered_attributes_types",
}


def _structs(items: Items, type_: pa.StructType, form: Form) -> pa.Array:
    columns = {name: items.columns[field] for name, field in _MEMBERS.items() if field in items.columns}
    if "TimeUnixNano" in columns:
        columns["Timestamp"] = _known_time(columns["TimeUnixNano"])
    columns = formed(columns, form.profile)
    fields = in_profile(type_, form.profile)
    return items.of(pa.StructArray.from_arrays([columns[field.name] for field in fields], fields=fields))


# ---- forms of values ----


def _time(nanoseconds: pa.Array) -> pa.Array:
    return pc.divide(nanoseconds, 1000).cast(TIME)


def _known_time(nanoseconds: pa.Array) -> pa.Array:
    """Null for 0, with which the protocol says that a time is unknown."""
    return pc.if_else(pc.equal(nanoseconds, 0), pa.scalar(None, TIME), _time(nanoseconds))


def _names(numbers: pa.Array, members: tuple[tuple[str, int], ...]) -> pa.Array:
    """The names of enum members; a number without a name as its digits."""
    names = pa.array([name for name, _ in members])
    known = pc.and_(pc.greater_equal(numbers, 0), pc.less(numbers, len(members)))
    found = names.take(pc.if_else(known, numbers, pa.scalar(None, pa.int32())))
    return found if found.null_count == numbers.null_count else pc.coalesce(found, numbers.cast(pa.string()))
