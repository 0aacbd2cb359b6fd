"""The tables of telemetry in a lake: made on first need, with the promoted columns that were asked for."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from esker.arrow.types import to_arrow
from esker.errors import AlreadyExists, InvalidInput, NoSuchNamespace, NoSuchTable
from esker.lake import Lake
from esker.otlp.promote import Promotion, promotions
from esker.otlp.schemas import DEAD_LETTER, NAMESPACE, TABLES
from esker.table import Table


def promotions_by_table(asked: Mapping[str, str]) -> dict[str, tuple[Promotion, ...]]:
    """Promotions for each table of telemetry; refused before anything is read where one cannot be."""
    if not asked:
        return {}
    return {name: promotions(asked, schema=table.schema) for name, table in TABLES.items() if name != DEAD_LETTER.name}


def full_name(name: str) -> str:
    """A table's name in the lake."""
    return f"{NAMESPACE}.{name}"


class TelemetryTables:
    """Opens tables, makes those that are missing, and adds columns before the first file that has them."""

    def __init__(
        self,
        lake: Lake,
        *,
        promote: Mapping[str, tuple[Promotion, ...]] | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self._lake = lake
        self._promote = promote or {}
        self._properties = properties or {}

    def get(self, name: str) -> Table:
        """The table as it is now, ready for the rows of a batch; the name is without the namespace."""
        try:
            table = self._lake.table(full_name(name))
        except (NoSuchTable, NoSuchNamespace):
            table = self._made(name)
        return self._with_columns(table, self._promote.get(name, ()))

    def _made(self, name: str) -> Table:
        with suppress(AlreadyExists):
            self._lake.create_namespace(NAMESPACE)
        wanted = TABLES[name]
        try:
            return self._lake.create_table(
                full_name(name),
                wanted.schema,
                partition_by=wanted.partition_by,
                sort_by=wanted.sort_by,
                properties={**wanted.properties, **self._properties},
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
