"""Pointers in a SQL database, in the two tables that PyIceberg's SqlCatalog and Java's JDBC catalog use.

All three may use one database at the same time. The statements are plain SQL with ``?`` for values. The differences
between databases (connections, locks, errors) are behind `Database`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from esker.catalogs.pointer_catalog import Move, PendingPlaces, folder_of, pending_places
from esker.catalogs.refusals import (
    Kind,
    dotted,
    missing,
    namespace_exists,
    namespace_in_use,
    no_such_namespace,
    table_exists,
)
from esker.errors import Conflict, Corrupt, EskerError, InvalidInput, OutcomeUnknown, Unsupported
from esker.model.table_names import Namespace, TableName
from esker.ports.catalog import Folder, Rejected, Unanswered

log = logging.getLogger("esker.catalogs")

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

_CREATE_PLACES = (  # folders of tables that their metadata files do not show; a catalog without them does not get it
    "CREATE TABLE IF NOT EXISTS esker_places ("
    " catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL,"
    " place TEXT NOT NULL)"
)
_THIS_TABLE = "catalog_name = ? AND table_namespace = ? AND table_name = ?"
_EXISTS = "exists"  # the row that marks a namespace: Java writes it for each namespace and hides it, Esker too
_SETTLING = 2  # further attempts if the outcome of the first is unknown
_TYPE = "iceberg_type"  # databases that were created before views existed do not have this column


class Session(Protocol):
    """The statements of one transaction, or of one read."""

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """The rows of a query, by lower-case column name."""
        ...

    def columns(self, table: str) -> frozenset[str]:
        """The lower-case names of a table's columns."""
        ...

    def has_table(self, table: str) -> bool:
        """Whether the database has a table of that name."""
        ...

    def change(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Execute a statement. Returns how many rows it changed."""
        ...


class Database(Protocol):
    """One database, safe to use from any thread."""

    def read(self, act: str, work: Callable[[Session], T], *, nothing: T) -> T:
        """The result of ``work``, or ``nothing`` if the tables of the catalog do not exist yet."""
        ...

    def read_at_once(self, work: Callable[[Session], T]) -> T | None:
        """The result of ``work``. None if the database cannot be read without a wait, or at all."""
        ...

    def write(self, act: str, work: Callable[[Session], T], *, compares: bool = False) -> T:
        """Run ``work`` in one transaction. Creates the tables of the catalog if they do not exist.

        ``work`` may be run several times. With ``compares``, each of its statements checks by itself what it changes;
        otherwise what it has read still holds when it writes. Raises `Conflict` if the database stayed locked or other
        writers came first, another Esker error if it refused. In both cases nothing changed. Raises `OutcomeUnknown` if
        the commit was sent and no answer came.
        """
        ...


class SqlPointers:
    """Pointers as rows of ``iceberg_tables``, for one of the catalog names in the database."""

    def __init__(self, database: Database, catalog_name: str) -> None:
        self._database = database
        self._catalog = catalog_name

    @property
    def database(self) -> Database:
        """The database that has the pointers."""
        return self._database

    @property
    def catalog_name(self) -> str:
        """The name of the catalog in that database."""
        return self._catalog

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
            self._insert_properties(session, namespace, rows)

        self._database.write(f"create namespace {dotted(namespace)}", work)

    def update_properties(self, namespace: Namespace, updates: Mapping[str, str], removals: Sequence[str]) -> None:
        self.properties(namespace)  # read first: a missing namespace is refused without creating a database
        _checked(dict.fromkeys(removals, ""))
        # A namespace that is known only from its children has no row yet. It must not disappear with its last property.
        rows = {_EXISTS: "true", **_checked(updates)}

        def work(session: Session) -> None:
            if not self._at_or_below(session, namespace):
                raise no_such_namespace(namespace)
            for key in {*removals, *rows}:
                session.change(
                    "DELETE FROM iceberg_namespace_properties"
                    " WHERE catalog_name = ? AND namespace = ? AND property_key = ?",
                    (self._catalog, dotted(namespace), key),
                )
            self._insert_properties(session, namespace, rows)

        self._database.write(f"set properties of namespace {dotted(namespace)}", work)

    def _insert_properties(self, session: Session, namespace: Namespace, rows: Mapping[str, str]) -> None:
        for key, value in rows.items():
            session.change(
                "INSERT INTO iceberg_namespace_properties (catalog_name, namespace, property_key, property_value)"
                " VALUES (?, ?, ?, ?)",
                (self._catalog, dotted(namespace), key, value),
            )

    def drop_namespace(self, namespace: Namespace) -> None:
        self.properties(namespace)  # read first: a missing namespace is refused without creating a database

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

    def tables(self, namespace: Namespace, kind: Kind = Kind.TABLE) -> tuple[TableName, ...]:
        def work(session: Session) -> list[Row] | None:
            if not self._at_or_below(session, namespace):
                return None
            return session.rows(
                "SELECT * FROM iceberg_tables WHERE catalog_name = ? AND table_namespace = ?",
                (self._catalog, dotted(namespace)),
            )

        found = self._database.read(f"list {kind.word}s of {dotted(namespace)}", work, nothing=None)
        if found is None:
            raise no_such_namespace(namespace)
        return tuple(sorted(TableName(namespace, row["table_name"]) for row in found if _kind(row) is kind))

    def get(self, name: TableName, kind: Kind = Kind.TABLE) -> str | None:
        row = self._look(name, kind)
        if row is None or _kind(row) is not kind:
            return None
        if not row["metadata_location"]:
            raise Corrupt("iceberg_tables", f"the row of {kind.word} {name} has no metadata file", table=str(name))
        return str(row["metadata_location"])

    def get_at_once(self, name: TableName) -> str | None:
        row = self._database.read_at_once(lambda session: self._row(session, name))
        return row["metadata_location"] if row is not None and _kind(row) is Kind.TABLE else None

    def put_new(self, name: TableName, location: str, kind: Kind = Kind.TABLE) -> None:
        def work(session: Session, *, may_be_there: bool = False) -> None:
            there = self._row(session, name) if may_be_there else None
            if there is not None and there["metadata_location"] == location:
                return  # no two files share a name: the first attempt was committed after all
            self.insert_row(session, name, location, kind)

        act = f"create {kind.word} {name}"
        try:
            self._database.write(act, work)
        except OutcomeUnknown as unknown:
            if not self._settled(unknown, lambda: self._database.write(act, partial(work, may_be_there=True))):
                raise

    def insert_row(self, session: Session, name: TableName, location: str, kind: Kind) -> None:
        """Add a name, as part of a transaction. Raises `AlreadyExists` and `NoSuchNamespace`."""
        self._check_place(session, name, kind)
        if (pending := pending_places()) is not None:
            self._check_and_record(session, pending)
        row = {
            "catalog_name": self._catalog,
            "table_namespace": dotted(name.namespace),
            "table_name": name.name,
            "metadata_location": location,
            _TYPE: kind.value,
        }
        # Databases of older writers do not have the column for the type. Their owner decides whether to add it.
        known = [column for column in row if column in session.columns("iceberg_tables")]
        if kind is Kind.VIEW and _TYPE not in known:
            raise _no_room_for_views(name)
        session.change(
            f"INSERT INTO iceberg_tables ({', '.join(known)}) VALUES ({', '.join('?' * len(known))})",
            [row[column] for column in known],
        )

    def move(self, moves: Sequence[Move], kind: Kind = Kind.TABLE) -> Rejected | Unanswered | None:
        # in one order for all writers, so that two of them never wait for each other
        ordered = sorted(moves, key=lambda move: move.name)
        act = f"commit to {', '.join(str(move.name) for move in ordered)}"

        pending = pending_places()
        # a name that must not exist, or a check of all names, cannot be compared by one statement
        compares = pending is None and all(move.old is not None for move in ordered)

        def work(session: Session) -> None:
            if pending is not None:
                self._check_and_record(session, pending)
            for move in ordered:
                if move.old is None:
                    self.insert_row(session, move.name, move.new, kind)
                elif not self._moved(session, move):
                    raise Conflict(f"another writer moved {move.name} first")

        try:
            self._database.write(act, work, compares=compares)
        except Conflict as error:
            return Rejected(error.message)
        except OutcomeUnknown as unknown:
            again = partial(self._moved_again, ordered, kind)
            done = self._settled(unknown, lambda: self._database.write(act, again, compares=compares))
            return None if done else Unanswered(unknown.message)
        return None

    def _moved(self, session: Session, move: Move) -> bool:
        changed = session.change(  # no two files have the same name, so the location identifies the kind too
            "UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = ?"
            f" WHERE {_THIS_TABLE} AND metadata_location = ?",
            (move.new, move.old, *self._key(move.name), move.old),
        )
        return changed == 1

    def _moved_again(self, ordered: Sequence[Move], kind: Kind, session: Session) -> None:
        """The same moves after an attempt whose outcome is unknown; `Conflict` where that stays unknown.

        The first attempt holds its rows until its own outcome is certain, and these statements wait for it. Then all
        pointers are where they were, or one is where only that attempt can have put it.
        """
        if (pending := pending_places()) is not None:
            self._check_and_record(session, pending)
        moved = [self._placed(session, move, kind) for move in ordered]
        if all(moved):
            return
        rows = [self._row(session, move.name) for move in ordered]
        there = [
            row is not None and row["metadata_location"] == move.new for row, move in zip(rows, ordered, strict=True)
        ]
        if any(moved) or not any(there):
            raise Conflict("other writers moved on meanwhile")

    def _placed(self, session: Session, move: Move, kind: Kind) -> bool:
        if move.old is not None:
            return self._moved(session, move)
        if self._row(session, move.name) is not None:
            return False
        self.insert_row(session, move.name, move.new, kind)
        return True

    def folders(self) -> tuple[Folder, ...]:
        nothing: tuple[Folder, ...] = ()
        return self._database.read("list the folders of all tables", self._folders, nothing=nothing)

    def _folders(self, session: Session) -> tuple[Folder, ...]:
        shown = [
            Folder(_name(row), folder_of(str(row["metadata_location"] or "")), is_dropped=table == "esker_dropped")
            for table in ("iceberg_tables", "esker_dropped")
            for row in self._all(session, table)
        ]
        is_dropped = {folder.name: folder.is_dropped for folder in reversed(shown)}  # a name in use comes first
        recorded = [
            Folder(name, row["place"], is_dropped[name])
            for row in self._all(session, "esker_places")
            if (name := _name(row)) in is_dropped
        ]
        return (*shown, *recorded)

    def _all(self, session: Session, table: str) -> list[Row]:
        """The rows of this catalog in a table, which only some databases have."""
        if not session.has_table(table):
            return []
        return session.rows(f"SELECT * FROM {table} WHERE catalog_name = ?", (self._catalog,))

    def _check_and_record(self, session: Session, pending: PendingPlaces) -> None:
        pending.check(self._folders(session))
        for name, gained in pending.gains.items():
            session.change(_CREATE_PLACES)
            there = session.rows(f"SELECT place FROM esker_places WHERE {_THIS_TABLE}", self._key(name))
            for place in set(gained).difference(row["place"] for row in there):
                session.change(
                    "INSERT INTO esker_places (catalog_name, table_namespace, table_name, place) VALUES (?, ?, ?, ?)",
                    (*self._key(name), place),
                )

    def forget_places(self, session: Session, name: TableName) -> None:
        """Forget the folders that are recorded for a name, as part of a transaction."""
        if session.has_table("esker_places"):
            session.change(f"DELETE FROM esker_places WHERE {_THIS_TABLE}", self._key(name))

    def rename_places(self, session: Session, old: TableName, new: TableName) -> None:
        """Give the folders that are recorded for a name to another one, as part of a transaction."""
        if session.has_table("esker_places"):
            session.change(
                f"UPDATE esker_places SET table_namespace = ?, table_name = ? WHERE {_THIS_TABLE}",
                (dotted(new.namespace), new.name, *self._key(old)),
            )

    def _settled(self, unknown: OutcomeUnknown, again: Callable[[], None]) -> bool:
        """Whether a second attempt has shown that a change was made, after a first one with an unknown outcome."""
        for _ in range(_SETTLING):
            try:
                again()
            except OutcomeUnknown:
                continue
            except EskerError as error:
                log.info("a change with an unknown outcome stays unknown (%s): %s", unknown.message, error.message)
                return False
            return True
        return False

    def remove(self, name: TableName, kind: Kind = Kind.TABLE) -> str:
        _check_held(name, self._look(name, kind), kind)  # read first: this creates no database

        def work(session: Session) -> str:
            self.forget_places(session, name)
            return self.delete_row(session, name, kind)

        return self._database.write(f"drop {kind.word} {name}", work)

    def delete_row(self, session: Session, name: TableName, kind: Kind) -> str:
        """Remove a name, as part of a transaction. Returns where it pointed at. Raises `NoSuchTable`."""
        row = self._row(session, name)
        _check_held(name, row, kind)
        session.change(f"DELETE FROM iceberg_tables WHERE {_THIS_TABLE}", self._key(name))
        return str(row["metadata_location"] or "") if row is not None else ""

    def rename(self, old: TableName, new: TableName, kind: Kind = Kind.TABLE) -> None:
        _check_held(old, self._look(old, kind), kind)

        def work(session: Session) -> None:
            _check_held(old, self._row(session, old), kind)
            self._check_place(session, new, kind)
            session.change(
                f"UPDATE iceberg_tables SET table_namespace = ?, table_name = ? WHERE {_THIS_TABLE}",
                (dotted(new.namespace), new.name, *self._key(old)),
            )
            self.rename_places(session, old, new)

        self._database.write(f"rename {kind.word} {old}", work)

    def _look(self, name: TableName, kind: Kind) -> Row | None:
        act = f"load {kind.word} {name}"
        return self._database.read(act, lambda session: self._row(session, name), nothing=None)

    def _key(self, name: TableName) -> tuple[str, str, str]:
        return self._catalog, dotted(name.namespace), name.name

    def _row(self, session: Session, name: TableName) -> Row | None:
        found = session.rows(f"SELECT * FROM iceberg_tables WHERE {_THIS_TABLE}", self._key(name))
        return found[0] if found else None

    def _check_place(self, session: Session, name: TableName, new: Kind) -> None:
        """Raise if the name exists or its namespace does not. Tables and views have one set of names."""
        if not self._at_or_below(session, name.namespace):
            raise no_such_namespace(name.namespace)
        row = self._row(session, name)
        if row is not None:
            raise table_exists(name, _kind(row), new=new)

    def _at_or_below(self, session: Session, namespace: Namespace) -> set[str]:
        """The namespaces of that name or below it. A namespace exists if any row names it."""
        name = dotted(namespace)
        escaped = name.replace("!", "!!").replace("_", "!_").replace("%", "!%")
        found = session.rows(
            "SELECT table_namespace AS namespace FROM iceberg_tables"
            " WHERE catalog_name = ? AND (table_namespace = ? OR table_namespace LIKE ? ESCAPE '!')"
            " UNION SELECT namespace FROM iceberg_namespace_properties"
            " WHERE catalog_name = ? AND (namespace = ? OR namespace LIKE ? ESCAPE '!')",
            (self._catalog, name, f"{escaped}.%") * 2,
        )
        # In some databases LIKE ignores case.
        return {row["namespace"] for row in found if f"{row['namespace']}.".startswith(f"{name}.")}


def _name(row: Row) -> TableName:
    return TableName(tuple(row["table_namespace"].split(".")), row["table_name"])


def _kind(row: Row) -> Kind:
    return Kind.VIEW if row.get(_TYPE) == Kind.VIEW.value else Kind.TABLE


def _check_held(name: TableName, row: Row | None, kind: Kind) -> None:
    there = None if row is None else _kind(row)
    if there is not kind:
        raise missing(name, kind, there)


def _no_room_for_views(name: TableName) -> Unsupported:
    return Unsupported(
        f"cannot create view {name}: the database is from before catalogs had views and has no column for them, "
        "so older readers would read a view as a table; add the column: "
        f"ALTER TABLE iceberg_tables ADD COLUMN {_TYPE} VARCHAR(5)",
        feature="views",
    )


def _checked(properties: Mapping[str, str]) -> Mapping[str, str]:
    for key, value in properties.items():
        if key == _EXISTS:
            raise InvalidInput(
                f"cannot set the property {key!r}: the catalog uses it itself; choose another name", property=key
            )
        if len(key) > 255 or len(value) > 1000:
            raise InvalidInput(
                f"cannot set the property {key[:40]!r}: a key may have up to 255 characters, a value 1000", property=key
            )
    return properties
