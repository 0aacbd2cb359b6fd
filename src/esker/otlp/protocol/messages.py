"""The protocol's messages, field by field, as in opentelemetry-proto. A test compares the two."""

from __future__ import annotations

from enum import StrEnum

from esker.otlp.protocol.walk import Field, Op, Program, compile_program


class Signal(StrEnum):
    """The kind of telemetry in a request."""

    LOGS = "logs"
    TRACES = "traces"
    METRICS = "metrics"


SPAN_KINDS = tuple(
    (f"SPAN_KIND_{name}", number)
    for number, name in enumerate(("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"))
)
STATUS_CODES = (("STATUS_CODE_UNSET", 0), ("STATUS_CODE_OK", 1), ("STATUS_CODE_ERROR", 2))
TEMPORALITIES = tuple(
    (f"AGGREGATION_TEMPORALITY_{name}", number) for number, name in enumerate(("UNSPECIFIED", "DELTA", "CUMULATIVE"))
)
SEVERITIES = (
    ("SEVERITY_NUMBER_UNSPECIFIED", 0),
    *(
        (f"SEVERITY_NUMBER_{name}{step or ''}", 4 * at + max(step, 1))
        for at, name in enumerate(("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"))
        for step in (0, 2, 3, 4)
    ),
)


def _attributes(number: int, name: str = "attributes") -> Field:
    return Field(number, name, Op.ATTRIBUTES)


def _dropped(number: int, what: str = "attributes") -> Field:
    return Field(number, f"dropped_{what}_count", Op.UINT32)


def _trace_id(number: int) -> Field:
    return Field(number, "trace_id", Op.ID, size=16)


def _span_id(number: int, name: str = "span_id") -> Field:
    return Field(number, name, Op.ID, size=8)


def _value(as_double: int, as_int: int) -> tuple[Field, Field]:
    return (
        Field(as_double, "as_double", Op.DOUBLE, optional=True, oneof=1),
        Field(as_int, "as_int", Op.SFIXED64, optional=True, oneof=1),
    )


# opentelemetry/proto/common/v1, resource/v1
ENTITY_REF = (
    Field(1, "schema_url", Op.STRING),
    Field(2, "type", Op.STRING),
    Field(3, "id_keys", Op.STRINGS),
    Field(4, "description_keys", Op.STRINGS),
)
RESOURCE = (_attributes(1), _dropped(2), Field(3, "entity_refs", Op.LIST, ENTITY_REF))
SCOPE = (Field(1, "name", Op.STRING), Field(2, "version", Op.STRING), _attributes(3), _dropped(4))
SCHEMA_URL = Field(3, "schema_url", Op.STRING)

# opentelemetry/proto/trace/v1
EVENT = (Field(1, "time_unix_nano", Op.FIXED64), Field(2, "name", Op.STRING), _attributes(3), _dropped(4))
LINK = (
    _trace_id(1),
    _span_id(2),
    Field(3, "trace_state", Op.STRING),
    _attributes(4),
    _dropped(5),
    Field(6, "flags", Op.FIXED32),
)
STATUS = (Field(2, "message", Op.STRING), Field(3, "code", Op.INT32, members=STATUS_CODES))
SPAN = (
    _trace_id(1),
    _span_id(2),
    Field(3, "trace_state", Op.STRING),
    _span_id(4, "parent_span_id"),
    Field(16, "flags", Op.FIXED32),
    Field(5, "name", Op.STRING),
    Field(6, "kind", Op.INT32, members=SPAN_KINDS),
    Field(7, "start_time_unix_nano", Op.FIXED64),
    Field(8, "end_time_unix_nano", Op.FIXED64),
    _attributes(9),
    _dropped(10),
    Field(11, "events", Op.LIST, EVENT),
    _dropped(12, "events"),
    Field(13, "links", Op.LIST, LINK),
    _dropped(14, "links"),
    Field(15, "status", Op.MESSAGE, STATUS),
)

# opentelemetry/proto/logs/v1
LOG_RECORD = (
    Field(1, "time_unix_nano", Op.FIXED64),
    Field(11, "observed_time_unix_nano", Op.FIXED64),
    Field(2, "severity_number", Op.INT32, members=SEVERITIES),
    Field(3, "severity_text", Op.STRING),
    Field(5, "body", Op.ANY),
    _attributes(6),
    _dropped(7),
    Field(8, "flags", Op.FIXED32),
    _trace_id(9),
    _span_id(10),
    Field(12, "event_name", Op.STRING),
)

# opentelemetry/proto/metrics/v1
EXEMPLAR = (
    _attributes(7, "filtered_attributes"),
    Field(2, "time_unix_nano", Op.FIXED64),
    *_value(3, 6),
    _span_id(4),
    _trace_id(5),
)
_TIMES = (Field(2, "start_time_unix_nano", Op.FIXED64), Field(3, "time_unix_nano", Op.FIXED64))
NUMBER_POINT = (
    _attributes(7),
    *_TIMES,
    *_value(4, 6),
    Field(5, "exemplars", Op.LIST, EXEMPLAR),
    Field(8, "flags", Op.UINT32),
)
_COUNT = Field(4, "count", Op.FIXED64)
_SUM = Field(5, "sum", Op.DOUBLE, optional=True)
HISTOGRAM_POINT = (
    _attributes(9),
    *_TIMES,
    _COUNT,
    _SUM,
    Field(6, "bucket_counts", Op.FIXED64S),
    Field(7, "explicit_bounds", Op.DOUBLES),
    Field(8, "exemplars", Op.LIST, EXEMPLAR),
    Field(10, "flags", Op.UINT32),
    Field(11, "min", Op.DOUBLE, optional=True),
    Field(12, "max", Op.DOUBLE, optional=True),
)
BUCKETS = (Field(1, "offset", Op.SINT32), Field(2, "bucket_counts", Op.UINT64S))
EXPONENTIAL_POINT = (
    _attributes(1),
    *_TIMES,
    _COUNT,
    _SUM,
    Field(6, "scale", Op.SINT32),
    Field(7, "zero_count", Op.FIXED64),
    Field(8, "positive", Op.MESSAGE, BUCKETS),
    Field(9, "negative", Op.MESSAGE, BUCKETS),
    Field(10, "flags", Op.UINT32),
    Field(11, "exemplars", Op.LIST, EXEMPLAR),
    Field(12, "min", Op.DOUBLE, optional=True),
    Field(13, "max", Op.DOUBLE, optional=True),
    Field(14, "zero_threshold", Op.DOUBLE),
)
QUANTILE = (Field(1, "quantile", Op.DOUBLE), Field(2, "value", Op.DOUBLE))
SUMMARY_POINT = (
    _attributes(7),
    *_TIMES,
    _COUNT,
    Field(5, "sum", Op.DOUBLE),
    Field(6, "quantile_values", Op.LIST, QUANTILE),
    Field(8, "flags", Op.UINT32),
)
_TEMPORALITY = Field(2, "aggregation_temporality", Op.INT32, members=TEMPORALITIES)


def _kind(number: int, name: str, point: tuple[Field, ...], *more: Field) -> Field:
    return Field(number, name, Op.LEVEL, (Field(1, "data_points", Op.LEVEL, point), *more), once=True, oneof=1)


METRIC = (
    Field(1, "name", Op.STRING),
    Field(2, "description", Op.STRING),
    Field(3, "unit", Op.STRING),
    _kind(5, "gauge", NUMBER_POINT),
    _kind(7, "sum", NUMBER_POINT, _TEMPORALITY, Field(3, "is_monotonic", Op.BOOL)),
    _kind(9, "histogram", HISTOGRAM_POINT, _TEMPORALITY),
    _kind(10, "exponential_histogram", EXPONENTIAL_POINT, _TEMPORALITY),
    _kind(11, "summary", SUMMARY_POINT),
    _attributes(12, "metadata"),
)


def _request(resources: str, scopes: str, records: Field) -> Program:
    scope = (Field(1, "scope", Op.MESSAGE, SCOPE), records, SCHEMA_URL)
    resource = (Field(1, "resource", Op.MESSAGE, RESOURCE), Field(2, scopes, Op.LEVEL, scope), SCHEMA_URL)
    return compile_program(Field(0, "request", Op.LEVEL, (Field(1, resources, Op.LEVEL, resource),)))


PROGRAMS = {
    Signal.LOGS: _request("resource_logs", "scope_logs", Field(2, "log_records", Op.LEVEL, LOG_RECORD)),
    Signal.TRACES: _request("resource_spans", "scope_spans", Field(2, "spans", Op.LEVEL, SPAN)),
    Signal.METRICS: _request("resource_metrics", "scope_metrics", Field(2, "metrics", Op.LEVEL, METRIC)),
}
