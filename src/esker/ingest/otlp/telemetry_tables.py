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
from esker.write.view_versions import QUERY_COLUMNS

# ---------------------------------------------------------------- views
#
# ``otel.otel_traces``: spans under the names and in the shapes that ClickHouse's exporter and otlp2parquet gave them.
#
# Ids are hex text, and events and links lists side by side, one for each of their columns. The query is Spark's; it is
# the same whatever form attributes are in, and only the columns' types differ.


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


# ---------------------------------------------------------------- telemetry views
#
# The view of spans for queries of older layouts, made just before the table that it reads.


def make_traces_view(lake: Lake, profile: Profile) -> None:
    """Make ``otel.otel_traces`` where the catalog can have views and the name is free; quietly not otherwise.

    It comes before its table: an ingest that ends between the two is done again and makes the table, while a view
    that came second would be missing for good. No telemetry waits for a view, so no failure of it is told.
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
# The tables of telemetry in a lake: made on first need, with the promoted columns that were asked for.


PERIODS = ("day", "hour")


def promotions_by_table(asked: Mapping[str, str]) -> dict[str, tuple[Promotion, ...]]:
    """Promotions for each table of telemetry; refused before anything is read where one cannot be."""
    if not asked:
        return {}
    return {name: promotions(asked, schema=table.schema) for name, table in TABLES.items() if name != DEAD_LETTER.name}


def full_name(name: str) -> str:
    """A table's name in the lake."""
    return f"{NAMESPACE}.{name}"


def profile_of(lake: Lake, asked: str | None, *, promote: Mapping[str, tuple[Promotion, ...]] | None = None) -> Profile:
    """The profile to ingest in: as asked, else that of the tables, else maps. ``InvalidInput`` where a table has
    another than was asked for, or than the tables before it, or a column that a promotion would have to be."""
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
    """Opens tables, makes those that are missing, and adds columns before the first file that has them."""

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
        """The table as it is now, ready for the rows of a batch; the name is without the namespace."""
        table = self.existing(name) or self._made(name)
        _check_profile(table, TABLES[name], self._profile)
        return self._with_columns(table, self._promote.get(name, ()))

    def existing(self, name: str) -> Table | None:
        """The table as it is now; None where there is none yet."""
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
        except AlreadyExists:  # another ingest was quicker
            return self._lake.table(full_name(name))

    def _with_columns(self, table: Table, wanted: tuple[Promotion, ...]) -> Table:
        missing = [one for one in wanted if not _has(table, one)]
        if missing:
            with table.alter() as change:
                for one in missing:
                    change.add_column(f"`{one.column.replace('`', '``')}`", one.field.type)
        return table


def _has(table: Table, wanted: Promotion) -> bool:
    """Whether the column is there; ``InvalidInput`` where it is another."""
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
    """How a table holds attributes, told from the type of its first column of them; None where it has none."""
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
