"""``otel.otel_traces``: spans under the names and in the shapes that ClickHouse's exporter and otlp2parquet gave them.

Ids are hex text, and events and links lists side by side, one for each of their columns. The query is Spark's; it is
the same whatever form attributes are in, and only the columns' types differ.
"""

from __future__ import annotations

from dataclasses import dataclass

from esker.otlp.schemas import NAMESPACE, Profile

_ATTRIBUTES = {Profile.MAP: "map<string, string>", Profile.FLAT: "string", Profile.VARIANT: "variant"}


@dataclass(frozen=True, slots=True)
class TelemetryView:
    """A view as ``create_view`` wants it."""

    name: str
    over: str  # the table it reads, without the namespace
    columns: tuple[tuple[str, str, str], ...]  # a name, its type, and what of the table it is
    comment: str

    @property
    def sql(self) -> str:
        """The query, in Spark's dialect; the table is looked for in the view's own namespace."""
        shown = (name if name == of else f"{of} AS {name}" for name, _, of in self.columns)
        return "SELECT\n  {}\nFROM {}".format(",\n  ".join(shown), self.over)

    @property
    def query_columns(self) -> str:
        """What the query calls its columns."""
        return ",".join(name for name, _, _ in self.columns)

    def schema(self, profile: Profile) -> str:
        """The columns as DDL."""
        return ", ".join(f"{name} {type_.format(attributes=_ATTRIBUTES[profile])}" for name, type_, _ in self.columns)


def _as_is(*names: str, type_: str = "string") -> tuple[tuple[str, str, str], ...]:
    return tuple((name, type_, name) for name in names)


def _hex(*names: str) -> tuple[tuple[str, str, str], ...]:
    return tuple((name, "string", f"lower(hex({name}))") for name in names)


def _each(name: str, list_: str, value: str, type_: str = "string") -> tuple[str, str, str]:
    """One column of a list of structs as a list; empty, not null, where there are none."""
    return name, f"array<{type_}>", f"coalesce(transform({list_}, x -> {value}), array())"


TRACES = TelemetryView(
    name=f"{NAMESPACE}.otel_traces",
    over="spans",
    comment="spans with hex ids, and events and links as lists side by side",
    columns=(
        *_as_is("Timestamp", type_="timestamp"),
        *_hex("TraceId", "SpanId", "ParentSpanId"),
        *_as_is("TraceState", "SpanName", "SpanKind", "ServiceName"),
        *_as_is("ResourceAttributes", type_="{attributes}"),
        *_as_is("ScopeName", "ScopeVersion"),
        *_as_is("SpanAttributes", type_="{attributes}"),
        *_as_is("Duration", type_="bigint"),
        *_as_is("StatusCode", "StatusMessage"),
        _each("EventsTimestamp", "Events", "x.Timestamp", "timestamp"),
        _each("EventsName", "Events", "x.Name"),
        _each("EventsAttributes", "Events", "x.Attributes", "{attributes}"),
        _each("LinksTraceId", "Links", "lower(hex(x.TraceId))"),
        _each("LinksSpanId", "Links", "lower(hex(x.SpanId))"),
        _each("LinksTraceState", "Links", "x.TraceState"),
        _each("LinksAttributes", "Links", "x.Attributes", "{attributes}"),
    ),
)
