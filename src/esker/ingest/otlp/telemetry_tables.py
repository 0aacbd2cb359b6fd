"""The tables of telemetry in a lake, created on first need with the promoted columns that were asked for.

Also the view ``otel.otel_traces``: spans under the names and in the shapes of ClickHouse's exporter and otlp2parquet.
Ids are hex text; events and links are lists side by side, one for each of their columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from esker.arrow.arrow_types import to_arrow
from esker.errors import AlreadyExists, EskerError, InvalidInput, NoSuchNamespace, NoSuchTable
from esker.lake import Lake
from esker.model.types import MapType, StringType, VariantType
from esker.otlp.decoding.promote import Promotion, promotions
from esker.otlp.schemas import DEAD_LETTER, NAMESPACE, TABLES, Profile, TelemetryTable
from esker.table import Table
from esker.write.views.view_versions import QUERY_COLUMNS

# ---------------------------------------------------------------- views
#
# ``otel.otel_traces``. The query is in Spark's dialect. It is the same for every form of attributes; only the types of
# the columns differ.


_ATTRIBUTES = {Profile.MAP: "map<string, string>", Profile.FLAT: "string", Profile.VARIANT: "variant"}


@dataclass(frozen=True, slots=True)
class TelemetryView:
    """The definition of a view, for ``create_view``."""

    name: str
    over: str  # the table it reads, without the namespace
    columns: tuple[tuple[str, str, str], ...]  # a name, its type, and its expression over the table
    comment: str

    @property
    def sql(self) -> str:
        """The query, in Spark's dialect. The table is in the view's own namespace."""
        shown = (name if name == of else f"{of} AS {name}" for name, _, of in self.columns)
        return "SELECT\n  {}\nFROM {}".format(",\n  ".join(shown), self.over)

    @property
    def query_columns(self) -> str:
        """The names of the query's columns."""
        return ",".join(name for name, _, _ in self.columns)

    def schema(self, profile: Profile) -> str:
        """The columns as DDL."""
        return ", ".join(f"{name} {type_.format(attributes=_ATTRIBUTES[profile])}" for name, type_, _ in self.columns)


def _as_is(*names: str, type_: str = "string") -> tuple[tuple[str, str, str], ...]:
    return tuple((name, type_, name) for name in names)


def _hex(*names: str) -> tuple[tuple[str, str, str], ...]:
    return tuple((name, "string", f"lower(hex({name}))") for name in names)


def _each(name: str, list_: str, value: str, type_: str = "string") -> tuple[str, str, str]:
    """One column of a list of structs as a list; empty, not null, if there are none."""
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


# ---------------------------------------------------------------- telemetry views
#
# The view of spans for queries of older layouts. It is created just before the table that it reads.


def make_traces_view(lake: Lake, profile: Profile) -> None:
    """Create ``otel.otel_traces`` if the catalog can have views and the name is free; otherwise do nothing.

    The view is created before its table. If an ingest ends between the two, the next one creates the table; a view that
    came second would never be created. An error about the view is ignored, because telemetry does not need it.
    """
    with suppress(EskerError):
        lake.create_view(
            TRACES.name,
            TRACES.sql,
            schema=TRACES.schema(profile),
            comment=TRACES.comment,
            properties={QUERY_COLUMNS: TRACES.query_columns},
            default_namespace=NAMESPACE,
        )


# ---------------------------------------------------------------- telemetry tables
#
# The tables of telemetry in a lake.


PERIODS = ("day", "hour")


def promotions_by_table(asked: Mapping[str, str]) -> dict[str, tuple[Promotion, ...]]:
    """The promotions for each table of telemetry. Raises ``InvalidInput`` for one that is not possible."""
    if not asked:
        return {}
    return {name: promotions(asked, schema=table.schema) for name, table in TABLES.items() if name != DEAD_LETTER.name}


def full_name(name: str) -> str:
    """A table's name in the lake."""
    return f"{NAMESPACE}.{name}"


def profile_of(lake: Lake, asked: str | None, *, promote: Mapping[str, tuple[Promotion, ...]] | None = None) -> Profile:
    """The profile of an ingest: the one that was asked for, or that of the tables, or maps. Raises ``InvalidInput`` if
    a table has another profile, or a column that contradicts a promotion."""
    if asked is not None and asked not in list(Profile):
        words = ", ".join(Profile)
        raise InvalidInput(f"cannot hold attributes as {asked!r}: the profiles are {words}", profile=asked)
    found = None if asked is None else Profile(asked)
    for name, wanted in TABLES.items():
        try:
            table = lake.table(full_name(name))
        except (NoSuchTable, NoSuchNamespace):
            continue
        found = found or _held_in(table, wanted)
        _check_profile(table, wanted, found or Profile.MAP)
        for one in (promote or {}).get(name, ()):
            _has(table, one)
    return found or Profile.MAP


class TelemetryTables:
    """Opens tables, creates missing ones, and adds columns before the first file that has them."""

    def __init__(
        self,
        lake: Lake,
        *,
        profile: Profile = Profile.MAP,
        promote: Mapping[str, tuple[Promotion, ...]] | None = None,
        partition_by: str = "day",
        properties: Mapping[str, str] | None = None,
    ) -> None:
        if partition_by not in PERIODS:
            raise InvalidInput(f"cannot partition telemetry by {partition_by!r}: use one of {', '.join(PERIODS)}")
        self._lake = lake
        self._profile = profile
        self._promote = promote or {}
        self._partition_by = partition_by
        self._properties = properties or {}

    def get(self, name: str) -> Table:
        """The table as it is now, ready for the rows of a batch. ``name`` is without the namespace."""
        table = self.existing(name) or self._made(name)
        _check_profile(table, TABLES[name], self._profile)
        return self._with_columns(table, self._promote.get(name, ()))

    def existing(self, name: str) -> Table | None:
        """The table as it is now; None if it does not exist."""
        try:
            return self._lake.table(full_name(name))
        except (NoSuchTable, NoSuchNamespace):
            return None

    def _made(self, name: str) -> Table:
        with suppress(AlreadyExists):
            self._lake.create_namespace(NAMESPACE)
        if name == TRACES.over:
            make_traces_view(self._lake, self._profile)
        wanted = TABLES[name].of(self._profile).by(self._partition_by)
        try:
            return self._lake.create_table(
                full_name(name),
                wanted.definition,
                partition_by=wanted.partition_by,
                sort_by=wanted.sort_by,
                properties={**wanted.properties, **self._properties},
                format_version=wanted.format_version,
            )
        except AlreadyExists:  # another ingest created it first
            return self._lake.table(full_name(name))

    def _with_columns(self, table: Table, wanted: tuple[Promotion, ...]) -> Table:
        missing = [one for one in wanted if not _has(table, one)]
        if missing:
            with table.alter() as change:
                for one in missing:
                    change.add_column(f"`{one.column.replace('`', '``')}`", one.field.type)
        return table


def _has(table: Table, wanted: Promotion) -> bool:
    """Whether the table has the column. Raises ``InvalidInput`` if it has one of another type."""
    field = next((field for field in table.schema.fields if field.name == wanted.column), None)
    if field is None:
        return False
    if to_arrow(field.type) != wanted.field.type:
        raise InvalidInput(
            f"cannot promote {wanted.key} as {wanted.kind.word}: {table.name} has a column of that name, and it is "
            f"{field.type}; promote it as that, or rename the column",
            column=wanted.column,
            table=table.name,
        )
    return True


def _held_in(table: Table, wanted: TelemetryTable) -> Profile | None:
    """How a table stores attributes, by the type of its first column of attributes; None if it has none."""
    field = next((field for field in table.schema.fields if field.name == "ResourceAttributes"), None)
    match None if field is None or wanted.name == DEAD_LETTER.name else field.type:
        case MapType():
            return Profile.MAP
        case StringType():
            return Profile.FLAT
        case VariantType():
            return Profile.VARIANT
        case _:
            return None


def _check_profile(table: Table, wanted: TelemetryTable, profile: Profile) -> None:
    held = _held_in(table, wanted)
    if held is not None and held is not profile:
        raise InvalidInput(
            f"cannot ingest attributes as {profile} into {table.name}: it has them as {held}; ingest with the profile "
            f"{held}, or into another lake",
            table=table.name,
            profile=str(held),
        )
