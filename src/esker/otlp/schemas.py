"""The tables: their columns, how they are partitioned and sorted. Types are Arrow's; ids come with the table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

NAMESPACE = "otel"
TIME = pa.timestamp("us", "UTC")
TEXT, LONG, INT, DOUBLE, BINARY, BOOLEAN = (
    pa.string(),
    pa.int64(),
    pa.int32(),
    pa.float64(),
    pa.binary(),
    pa.bool_(),
)
TEXTS = pa.map_(TEXT, TEXT)


def _attributes(name: str, types: str = "") -> tuple[tuple[str, pa.DataType], ...]:
    return (name, TEXTS), (types or f"{name.removesuffix('s')}Types", TEXTS)


ENTITY_REF = pa.struct(
    [("SchemaUrl", TEXT), ("Type", TEXT), ("IdKeys", pa.list_(TEXT)), ("DescriptionKeys", pa.list_(TEXT))]
)
EVENT = pa.struct(
    [
        ("Timestamp", TIME),
        ("TimeUnixNano", LONG),
        ("Name", TEXT),
        *_attributes("Attributes"),
        ("DroppedAttributesCount", LONG),
    ]
)
LINK = pa.struct(
    [
        ("TraceId", BINARY),
        ("SpanId", BINARY),
        ("TraceState", TEXT),
        ("Flags", LONG),
        *_attributes("Attributes"),
        ("DroppedAttributesCount", LONG),
    ]
)
EXEMPLAR = pa.struct(
    [
        ("Timestamp", TIME),
        ("TimeUnixNano", LONG),
        ("ValueDouble", DOUBLE),
        ("ValueInt", LONG),
        ("TraceId", BINARY),
        ("SpanId", BINARY),
        *_attributes("FilteredAttributes"),
    ]
)

_SHARED = (
    ("Timestamp", TIME),
    ("ServiceName", TEXT),
    ("ServiceNamespace", TEXT),
    ("ServiceInstanceId", TEXT),
    *_attributes("ResourceAttributes"),
    ("ResourceDroppedAttributesCount", LONG),
    ("ResourceEntityRefs", pa.list_(ENTITY_REF)),
    ("ResourceSchemaUrl", TEXT),
    ("ScopeName", TEXT),
    ("ScopeVersion", TEXT),
    *_attributes("ScopeAttributes"),
    ("ScopeDroppedAttributesCount", LONG),
    ("ScopeSchemaUrl", TEXT),
)
_ORIGIN = (("_source", TEXT), ("_batch_id", TEXT), ("_ingested_at", TIME))
_LOGS = (
    ("TimestampTime", TIME),
    ("TimeUnixNano", LONG),
    ("ObservedTimestamp", TIME),
    ("ObservedTimeUnixNano", LONG),
    ("TraceId", BINARY),
    ("SpanId", BINARY),
    ("TraceFlags", LONG),
    ("SeverityText", TEXT),
    ("SeverityNumber", INT),
    ("EventName", TEXT),
    ("Body", TEXT),
    ("BodyType", TEXT),
    *_attributes("LogAttributes"),
    ("DroppedAttributesCount", LONG),
)
_SPANS = (
    ("StartTimeUnixNano", LONG),
    ("EndTimeUnixNano", LONG),
    ("Duration", LONG),
    ("TraceId", BINARY),
    ("SpanId", BINARY),
    ("ParentSpanId", BINARY),
    ("TraceState", TEXT),
    ("Flags", LONG),
    ("SpanName", TEXT),
    ("SpanKind", TEXT),
    ("StatusCode", TEXT),
    ("StatusMessage", TEXT),
    *_attributes("SpanAttributes"),
    ("DroppedAttributesCount", LONG),
    ("DroppedEventsCount", LONG),
    ("DroppedLinksCount", LONG),
    ("Events", pa.list_(EVENT)),
    ("Links", pa.list_(LINK)),
)
_METRIC = (
    ("MetricName", TEXT),
    ("MetricDescription", TEXT),
    ("MetricUnit", TEXT),
    *_attributes("MetricMetadata", "MetricMetadataTypes"),
    *_attributes("Attributes"),
    ("StartTimestamp", TIME),
    ("StartTimeUnixNano", LONG),
    ("TimeUnixNano", LONG),
    ("Flags", LONG),
)
_EXEMPLARS = ("Exemplars", pa.list_(EXEMPLAR))
_NUMBER = (("Value", DOUBLE), ("ValueInt", LONG))
_TEMPORALITY = ("AggregationTemporality", INT)
_TOTAL = (("Count", LONG), ("Sum", DOUBLE))
_RANGE = (("Min", DOUBLE), ("Max", DOUBLE))
_KINDS = {
    "gauge": (_EXEMPLARS, *_NUMBER),
    "sum": (_EXEMPLARS, *_NUMBER, _TEMPORALITY, ("IsMonotonic", BOOLEAN)),
    "histogram": (
        _EXEMPLARS,
        *_TOTAL,
        ("BucketCounts", pa.list_(LONG)),
        ("ExplicitBounds", pa.list_(DOUBLE)),
        *_RANGE,
        _TEMPORALITY,
    ),
    "exponential_histogram": (
        _EXEMPLARS,
        *_TOTAL,
        ("Scale", INT),
        ("ZeroCount", LONG),
        ("ZeroThreshold", DOUBLE),
        ("PositiveOffset", INT),
        ("PositiveBucketCounts", pa.list_(LONG)),
        ("NegativeOffset", INT),
        ("NegativeBucketCounts", pa.list_(LONG)),
        *_RANGE,
        _TEMPORALITY,
    ),
    "summary": (*_TOTAL, ("QuantileValues", pa.list_(DOUBLE)), ("QuantileQuantiles", pa.list_(DOUBLE))),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryTable:
    """One of the tables, as ``create_table`` wants it."""

    name: str
    schema: pa.Schema
    partition_by: tuple[str, ...] = ("day(Timestamp)",)
    sort_by: tuple[str, ...] = ("ServiceName", "Timestamp")
    attributes: str = "Attributes"  # the map that promoted columns are taken from

    @property
    def properties(self) -> dict[str, str]:
        """Ids and times hardly ever repeat: a dictionary of them only adds to the file, and differences shorten it."""
        plain = {f"write.parquet.dict-encoding-enabled.column.{path}": "false" for path in _unique(self.schema)}
        return {"write.parquet.compression-level": "6", **plain}


_UNIQUE = ("TraceId", "SpanId", "ParentSpanId", "Duration")


def _unique(fields: Iterable[pa.Field], above: str = "") -> Iterator[str]:
    """The paths of ids and times, at any depth."""
    for field in fields:
        path = f"{above}{field.name}"
        if field.name in _UNIQUE or field.name.endswith("UnixNano") or field.type == TIME:
            yield path
        elif pa.types.is_list(field.type) and pa.types.is_struct(field.type.value_type):
            yield from _unique(field.type.value_type, f"{path}.element.")


def _schema(*parts: tuple[tuple[str, pa.DataType], ...]) -> pa.Schema:
    def fields() -> Iterator[pa.Field]:
        for part in (_SHARED, *parts, _ORIGIN):
            yield from (pa.field(name, type_, nullable=name != "Timestamp") for name, type_ in part)

    return pa.schema(list(fields()))


LOGS = TelemetryTable(name="logs", schema=_schema(_LOGS), attributes="LogAttributes")
SPANS = TelemetryTable(name="spans", schema=_schema(_SPANS), attributes="SpanAttributes")
METRICS = {
    kind: TelemetryTable(
        name=f"metrics_{kind}", schema=_schema(_METRIC, columns), sort_by=("ServiceName", "MetricName", "Timestamp")
    )
    for kind, columns in _KINDS.items()
}
DEAD_LETTER = TelemetryTable(
    name="dead_letter",
    schema=pa.schema(
        [
            ("raw", BINARY),
            ("source", TEXT),
            ("offset", LONG),
            ("signal", TEXT),
            ("error_class", TEXT),
            ("error", TEXT),
            ("batch", TEXT),
            ("at", TIME),
        ]
    ),
    partition_by=("day(at)",),
    sort_by=(),
)
TABLES = {table.name: table for table in (LOGS, SPANS, *METRICS.values(), DEAD_LETTER)}
