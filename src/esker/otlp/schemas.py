"""The tables of telemetry: their columns, partitioning and sort order. Types are Arrow's; the table assigns the field
ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

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
VARIANT = pa.struct([pa.field("metadata", BINARY, nullable=False), pa.field("value", BINARY, nullable=False)])


class Profile(StrEnum):
    """How attributes are stored. The values are the words of ``--profile``."""

    MAP = "map"  # maps of text, and beside each a map of kinds
    FLAT = "flat"  # JSON text
    VARIANT = "variant"  # needs format version 3

    @property
    def attributes(self) -> pa.DataType:
        """The type of a column of attributes."""
        return {Profile.MAP: TEXTS, Profile.FLAT: TEXT, Profile.VARIANT: VARIANT}[self]


def types_name(name: str) -> str:
    """In the map profile, the name of the column with the kinds of the attributes in this column."""
    return f"{name.removesuffix('s')}Types"


def _attributes(name: str) -> tuple[tuple[str, pa.DataType], ...]:
    return (name, TEXTS), (types_name(name), TEXTS)


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
    *_attributes("MetricMetadata"),
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
    """One of the tables, with what ``create_table`` needs."""

    name: str
    schema: pa.Schema
    partition_by: tuple[str, ...] = ("day(Timestamp)",)
    sort_by: tuple[str, ...] = ("ServiceName", "Timestamp")
    attributes: str = "Attributes"  # the map that promoted columns are taken from
    profile: Profile = Profile.MAP

    def of(self, profile: Profile) -> TelemetryTable:
        """The table with attributes in another profile."""
        return replace(self, schema=pa.schema(in_profile(self.schema, profile)), profile=profile)

    def by(self, period: str) -> TelemetryTable:
        """The table partitioned by the ``day`` or ``hour`` of its rows. Dead letters are always partitioned by day."""
        return self if self.name == "dead_letter" else replace(self, partition_by=(f"{period}(Timestamp)",))

    @property
    def definition(self) -> pa.Schema | str:
        """The columns for ``create_table``: DDL if there are variants, for which Arrow has no type."""
        if self.profile is not Profile.VARIANT:
            return self.schema
        return ", ".join(f"{_ddl(field, ' ')}{'' if field.nullable else ' NOT NULL'}" for field in self.schema)

    @property
    def format_version(self) -> int:
        """The lowest format version that has its types."""
        return 3 if self.profile is Profile.VARIANT else 2

    @property
    def properties(self) -> dict[str, str]:
        """Properties for new tables: no dictionary for ids and times, which rarely repeat, but an encoding by
        differences."""
        plain = {f"write.parquet.dict-encoding-enabled.column.{path}": "false" for path in _unique(self.schema)}
        # Iceberg's vectorized reader in Java fails on variants in lists, even if they are not selected.
        by_row = {"read.parquet.vectorization.enabled": "false"} if self.profile is Profile.VARIANT else {}
        return {"write.parquet.compression-level": "6", **plain, **by_row}


def in_profile(fields: Iterable[pa.Field], profile: Profile) -> list[pa.Field]:
    """Fields of the map profile converted to another. Only the map profile has columns of kinds."""
    fields = list(fields)
    if profile is Profile.MAP:
        return fields
    kinds = {types_name(field.name) for field in fields if field.type == TEXTS}
    return [field.with_type(_in_profile(field.type, profile)) for field in fields if field.name not in kinds]


def _in_profile(type_: pa.DataType, profile: Profile) -> pa.DataType:
    if type_ == TEXTS:
        return profile.attributes
    if pa.types.is_list(type_) and pa.types.is_struct(type_.value_type):
        return pa.list_(pa.struct(in_profile(type_.value_type, profile)))
    return type_


_WORDS = {
    VARIANT: "variant",
    TIME: "timestamp",
    TEXT: "string",
    LONG: "bigint",
    INT: "int",
    DOUBLE: "double",
    BINARY: "binary",
    BOOLEAN: "boolean",
}


def _ddl(field: pa.Field, sign: str) -> str:
    return f"`{field.name}`{sign}{_ddl_type(field.type)}"


def _ddl_type(type_: pa.DataType) -> str:
    if pa.types.is_list(type_):
        return f"array<{_ddl_type(type_.value_type)}>"
    if type_ in _WORDS:
        return _WORDS[type_]
    return f"struct<{', '.join(_ddl(field, ': ') for field in type_)}>"


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
