"""The tables of telemetry in a lake: made on first need, with the promoted columns that were asked for."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from esker.arrow.types import to_arrow
from esker.errors import AlreadyExists, InvalidInput, NoSuchNamespace, NoSuchTable
from esker.ingest.telemetry_views import make_traces_view
from esker.lake import Lake
from esker.model.types import MapType, StringType, VariantType
from esker.otlp.promote import Promotion, promotions
from esker.otlp.schemas import DEAD_LETTER, NAMESPACE, TABLES, Profile, TelemetryTable
from esker.otlp.views import TRACES
from esker.table import Table

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
