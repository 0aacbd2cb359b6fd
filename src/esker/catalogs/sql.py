"""Pointers in a SQL database, in the two tables that PyIceberg's SqlCatalog and Java's JDBC catalog share.

All three may work on one database at a time. The statements are plain SQL with ``?`` for values; what differs from
one database to the next (connections, locking, what an error means) is behind `Database`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from esker.catalogs.refusals import (
    dotted,
    namespace_exists,
    namespace_in_use,
    no_such_namespace,
    no_such_table,
    table_exists,
)
from esker.errors import Conflict, Corrupt, InvalidInput, OutcomeUnknown
from esker.model.naming import Namespace, TableName
from esker.ports.catalog import Rejected, Unanswered

T = TypeVar("T")
Row = Mapping[str, Any]

CREATE_TABLES = (
    "CREATE TABLE IF NOT EXISTS iceberg_tables ("
    " catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL,"
    " metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000), iceberg_type VARCHAR(5),"
    " PRIMARY KEY (catalog_name, table_namespace, table_name))",
    "CREATE TABLE IF NOT EXISTS iceberg_namespace_properties ("
    " catalog_name VARCHAR(255) NOT NULL, namespace VARCHAR(255) NOT NULL, property_key VARCHAR(255) NOT NULL,"
    " property_value VARCHAR(1000) NOT NULL,"
    " PRIMARY KEY (catalog_name, namespace, property_key))",
)

_THIS_TABLE = "catalog_name = ? AND table_namespace = ? AND table_name = ?"
_EXISTS = "exists"  # the row that says a namespace is there: Java writes and hides it for every one, so do we
_VIEW = "VIEW"


class Session(Protocol):
    """Statements of one transaction, or of one reading."""

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """What a query finds, by lower-case column name."""
        ...

    def columns(self, table: str) -> frozenset[str]:
        """The lower-case names of a table's columns."""
        ...

    def change(self, statement: str, values: Sequence[Any] = ()) -> int:
        """How many rows a statement changed."""
        ...


class Database(Protocol):
    """One database, safe to use from any thread."""

    def read(self, act: str, work: Callable[[Session], T], *, nothing: T) -> T:
        """What ``work`` finds; ``nothing`` where the catalog's tables have not been made yet."""
        ...

    def write(self, act: str, work: Callable[[Session], T]) -> T:
        """Do ``work`` in one transaction, making the catalog's tables at first need.

        `Conflict` when the database stayed locked, any other error of ours when it refused: nothing changed.
        `OutcomeUnknown` once the commit was sent and no answer came.
        """
        ...


class SqlPointers:
    """Pointers as rows of ``iceberg_tables``, for one catalog name out of those a database may hold."""

    def __init__(self, database: Database, catalog_name: str) -> None:
        self._database = database
        self._catalog = catalog_name

    def namespaces(self) -> tuple[Namespace, ...]:
        nothing: list[Row] = []

        def work(session: Session) -> list[Row]:
            return session.rows(
                "SELECT table_namespace AS namespace FROM iceberg_tables WHERE catalog_name = ?"
                " UNION SELECT namespace FROM iceberg_namespace_properties WHERE catalog_name = ?",
                (self._catalog, self._catalog),
            )

        found = self._database.read("list namespaces", work, nothing=nothing)
        leaves = (tuple(row["namespace"].split(".")) for row in found if row["namespace"])
        return tuple(sorted({leaf[:depth] for leaf in leaves for depth in range(1, len(leaf) + 1)}))

    def properties(self, namespace: Namespace) -> Mapping[str, str]:
        def work(session: Session) -> dict[str, str] | None:
            if not self._at_or_below(session, namespace):
                return None
            found = session.rows(
                "SELECT property_key, property_value FROM iceberg_namespace_properties"
                " WHERE catalog_name = ? AND namespace = ?",
                (self._catalog, dotted(namespace)),
            )
            return {row["property_key"]: row["property_value"] for row in found if row["property_key"] != _EXISTS}

        properties = self._database.read(f"look at namespace {dotted(namespace)}", work, nothing=None)
        if properties is None:
            raise no_such_namespace(namespace)
        return properties

    def create_namespace(self, namespace: Namespace, properties: Mapping[str, str]) -> None:
        rows = {_EXISTS: "true", **_checked(properties)}

        def work(session: Session) -> None:
            if self._at_or_below(session, namespace):
                raise namespace_exists(namespace)
            for key, value in rows.items():
                session.change(
                    "INSERT INTO iceberg_namespace_properties (catalog_name, namespace, property_key, property_value)"
                    " VALUES (?, ?, ?, ?)",
                    (self._catalog, dotted(namespace), key, value),
                )

        self._database.write(f"create namespace {dotted(namespace)}", work)

    def drop_namespace(self, namespace: Namespace) -> None:
        self.properties(namespace)  # a look first: what is not there is refused without making a database

        def work(session: Session) -> None:
            below = self._at_or_below(session, namespace)
            if not below:
                raise no_such_namespace(namespace)
            here = session.rows(
                "SELECT table_name FROM iceberg_tables WHERE catalog_name = ? AND table_namespace = ?",
                (self._catalog, dotted(namespace)),
            )
            held = [f"{dotted(namespace)}.{row['table_name']}" for row in here]
            held += below - {dotted(namespace)}
            if held:
                raise namespace_in_use(namespace, held)
            session.change(
                "DELETE FROM iceberg_namespace_properties WHERE catalog_name = ? AND namespace = ?",
                (self._catalog, dotted(namespace)),
            )

        self._database.write(f"drop namespace {dotted(namespace)}", work)

    def tables(self, namespace: Namespace) -> tuple[TableName, ...]:
        def work(session: Session) -> list[Row] | None:
            if not self._at_or_below(session, namespace):
                return None
            return session.rows(
                "SELECT * FROM iceberg_tables WHERE catalog_name = ? AND table_namespace = ?",
                (self._catalog, dotted(namespace)),
            )

        found = self._database.read(f"list tables of {dotted(namespace)}", work, nothing=None)
        if found is None:
            raise no_such_namespace(namespace)
        return tuple(sorted(TableName(namespace, row["table_name"]) for row in found if not _is_view(row)))

    def get(self, name: TableName) -> str | None:
        row = self._database.read(f"load table {name}", lambda session: self._row(session, name), nothing=None)
        if row is None or _is_view(row):
            return None
        if not row["metadata_location"]:
            raise Corrupt("iceberg_tables", f"the row of table {name} names no metadata file", table=str(name))
        return str(row["metadata_location"])

    def put_new(self, name: TableName, location: str) -> None:
        def work(session: Session) -> None:
            self._check_place(session, name)
            row = {
                "catalog_name": self._catalog,
                "table_namespace": dotted(name.namespace),
                "table_name": name.name,
                "metadata_location": location,
                "iceberg_type": "TABLE",
            }
            # databases made by older writers lack the column for the type; upgrading them is their owner's choice
            known = [column for column in row if column in session.columns("iceberg_tables")]
            session.change(
                f"INSERT INTO iceberg_tables ({', '.join(known)}) VALUES ({', '.join('?' * len(known))})",
                [row[column] for column in known],
            )

        self._database.write(f"create table {name}", work)

    def move(self, name: TableName, old: str, new: str) -> Rejected | Unanswered | None:
        def work(session: Session) -> int:
            return session.change(
                "UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = ?"
                f" WHERE {_THIS_TABLE} AND metadata_location = ?",
                (new, old, *self._key(name), old),
            )

        try:
            moved = self._database.write(f"commit to {name}", work)
        except Conflict as error:
            return Rejected(error.message)
        except OutcomeUnknown as error:
            return Unanswered(error.message)
        return None if moved == 1 else Rejected(f"another writer moved {name} first")

    def remove(self, name: TableName) -> None:
        self._check_there(name)

        def work(session: Session) -> None:
            row = self._row(session, name)
            if row is None or _is_view(row):
                raise no_such_table(name)
            session.change(f"DELETE FROM iceberg_tables WHERE {_THIS_TABLE}", self._key(name))

        self._database.write(f"drop table {name}", work)

    def rename(self, old: TableName, new: TableName) -> None:
        self._check_there(old)

        def work(session: Session) -> None:
            row = self._row(session, old)
            if row is None or _is_view(row):
                raise no_such_table(old)
            self._check_place(session, new)
            session.change(
                f"UPDATE iceberg_tables SET table_namespace = ?, table_name = ? WHERE {_THIS_TABLE}",
                (dotted(new.namespace), new.name, *self._key(old)),
            )

        self._database.write(f"rename table {old}", work)

    def _check_there(self, name: TableName) -> None:
        if self.get(name) is None:
            raise no_such_table(name)

    def _key(self, name: TableName) -> tuple[str, str, str]:
        return self._catalog, dotted(name.namespace), name.name

    def _row(self, session: Session, name: TableName) -> Row | None:
        found = session.rows(f"SELECT * FROM iceberg_tables WHERE {_THIS_TABLE}", self._key(name))
        return found[0] if found else None

    def _check_place(self, session: Session, name: TableName) -> None:
        """Tables and views share one set of names, and the namespace must be there."""
        if not self._at_or_below(session, name.namespace):
            raise no_such_namespace(name.namespace)
        row = self._row(session, name)
        if row is not None:
            raise table_exists(name, "view" if _is_view(row) else "table")

    def _at_or_below(self, session: Session, namespace: Namespace) -> set[str]:
        """Namespaces of that name or below it; a namespace exists when any row carries one."""
        name = dotted(namespace)
        escaped = name.replace("!", "!!").replace("_", "!_").replace("%", "!%")
        found = session.rows(
            "SELECT table_namespace AS namespace FROM iceberg_tables"
            " WHERE catalog_name = ? AND (table_namespace = ? OR table_namespace LIKE ? ESCAPE '!')"
            " UNION SELECT namespace FROM iceberg_namespace_properties"
            " WHERE catalog_name = ? AND (namespace = ? OR namespace LIKE ? ESCAPE '!')",
            (self._catalog, name, f"{escaped}.%") * 2,
        )
        # LIKE folds case in some databases
        return {row["namespace"] for row in found if f"{row['namespace']}.".startswith(f"{name}.")}


def _is_view(row: Row) -> bool:
    return row.get("iceberg_type") == _VIEW


def _checked(properties: Mapping[str, str]) -> Mapping[str, str]:
    for key, value in properties.items():
        if key == _EXISTS:
            raise InvalidInput(f"cannot set the property {key!r}: the catalog keeps it for itself", property=key)
        if len(key) > 255 or len(value) > 1000:
            raise InvalidInput(
                f"cannot set the property {key[:40]!r}: a key may have 255 characters, a value 1000", property=key
            )
    return properties
