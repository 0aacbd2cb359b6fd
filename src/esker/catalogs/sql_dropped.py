"""Tables that were dropped and can still be brought back, in the database of the catalog.

A drop moves the pointer to a table of its own, in one transaction. The files stay. They are removed only when the time
for second thoughts is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from esker.catalogs.pointer_catalog import PointerCatalog
from esker.catalogs.refusals import Kind, checked_name, dotted, no_such_table
from esker.catalogs.sql_pointers import Row, Session, SqlPointers
from esker.model.table_names import TableName
from esker.ports.catalog import Catalog

_TABLE = (
    "CREATE TABLE IF NOT EXISTS esker_dropped ("
    " catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL,"
    " dropped_ms BIGINT NOT NULL, metadata_location VARCHAR(1000) NOT NULL, purges INTEGER NOT NULL,"
    " PRIMARY KEY (catalog_name, table_namespace, table_name, dropped_ms))"
)
_THIS = "catalog_name = ? AND table_namespace = ? AND table_name = ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedTable:
    """A table that was dropped: its name, its last metadata file, when, and whether its files are to be deleted."""

    name: TableName
    metadata_location: str
    dropped_ms: int
    purges: bool


class SqlDropped:
    """The dropped tables of one catalog."""

    def __init__(self, pointers: SqlPointers) -> None:
        self._pointers = pointers
        self._database = pointers.database
        self._catalog = pointers.catalog_name
        self._database.write("prepare the list of dropped tables", lambda session: session.change(_TABLE))

    def drop(self, name: TableName, *, purges: bool, now_ms: int) -> None:
        """Drop a table, and record where it was, in one step. Raises ``NoSuchTable``."""
        checked_name(name)

        def work(session: Session) -> None:
            location = self._pointers.delete_row(session, name, Kind.TABLE)
            session.change(
                "INSERT INTO esker_dropped (catalog_name, table_namespace, table_name, dropped_ms, metadata_location,"
                " purges) VALUES (?, ?, ?, ?, ?, ?)",
                (*self._key(name), now_ms, location, int(purges)),
            )

        self._database.write(f"drop table {name}", work)

    def listed(self) -> tuple[DroppedTable, ...]:
        """The tables that can be brought back, the last one first."""

        def work(session: Session) -> list[Row]:
            return session.rows("SELECT * FROM esker_dropped WHERE catalog_name = ?", (self._catalog,))

        nothing: list[Row] = []
        found = map(_dropped, self._database.read("list dropped tables", work, nothing=nothing))
        return tuple(sorted(found, key=lambda one: one.dropped_ms, reverse=True))

    def undrop(self, name: TableName, new_name: TableName | None = None) -> DroppedTable:
        """Bring the table back that had this name last, under that name or another one.

        Raises ``NoSuchTable`` if none was dropped, ``AlreadyExists`` if the name is in use, ``NoSuchNamespace``.
        """
        chosen = next((one for one in self.listed() if one.name == name), None)
        if chosen is None:
            raise no_such_table(name, "no table of that name was dropped, or its time is over")
        found = chosen

        def work(session: Session) -> None:
            if not self._forgotten(session, found):
                raise no_such_table(name, "another command has brought it back or removed it meanwhile")
            target = checked_name(new_name or name)
            self._pointers.insert_row(session, target, found.metadata_location, Kind.TABLE)
            if not self._is_named(session, name):  # another table of that name has its own folders there
                self._pointers.rename_places(session, name, target)

        self._database.write(f"bring back table {name}", work)
        return found

    def forget(self, dropped: DroppedTable) -> bool:
        """Remove the record; False if it was gone."""

        def work(session: Session) -> bool:
            is_gone = self._forgotten(session, dropped)
            if is_gone and not self._is_named(session, dropped.name):
                self._pointers.forget_places(session, dropped.name)
            return is_gone

        return self._database.write("forget a dropped table", work)

    def _is_named(self, session: Session, name: TableName) -> bool:
        """Whether a table, a view or a dropped table has a name."""
        tables = ("iceberg_tables", "esker_dropped")
        return any(session.rows(f"SELECT 1 AS one FROM {one} WHERE {_THIS}", self._key(name)) for one in tables)

    def _forgotten(self, session: Session, dropped: DroppedTable) -> bool:
        values: Sequence[object] = (*self._key(dropped.name), dropped.dropped_ms)
        return session.change(f"DELETE FROM esker_dropped WHERE {_THIS} AND dropped_ms = ?", values) == 1

    def _key(self, name: TableName) -> tuple[str, str, str]:
        return self._catalog, dotted(name.namespace), name.name


def _dropped(row: Row) -> DroppedTable:
    return DroppedTable(
        name=TableName(tuple(row["table_namespace"].split(".")), row["table_name"]),
        metadata_location=row["metadata_location"],
        dropped_ms=int(row["dropped_ms"]),
        purges=bool(row["purges"]),
    )


def dropped_tables(catalog: Catalog) -> SqlDropped | None:
    """The dropped tables of a catalog; None if it is not in a database."""
    pointers = catalog.pointers if isinstance(catalog, PointerCatalog) else None
    return SqlDropped(pointers) if isinstance(pointers, SqlPointers) else None
