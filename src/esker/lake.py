"""``Lake``, the object through which users reach the namespaces, tables and views of one catalog.

Its methods call the catalog and the writers; they contain no logic of the table format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

from esker.create_with_rows import create_with, replace_with
from esker.errors import (
    AlreadyExists,
    EskerError,
    NoSuchNamespace,
    NoSuchTable,
    NoSuchView,
    Unsupported,
    with_similar_names,
)
from esker.model.display_text import card
from esker.model.table_names import Namespace, TableName, namespace_changes, parse_namespace
from esker.ports.catalog import Catalog, TableState, UnregistersTables
from esker.ports.outer_names import find
from esker.table import Table
from esker.view import Analyse, CheckView, ViewVerbs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from esker.tree.table_metadata import TableMetadata
    from esker.write.definition.new_table import FromArrow
    from esker.write.lake_transaction import LakeTransaction

_MOST_TABLES = 64  # that a lake keeps
_MOST_SNAPSHOTS = 20_000  # of all of them

OpenTable = Callable[[TableName, TableState], Table]
RunSql = Callable[..., "DataFrame"]  # run a statement with its parameters


def open_lake(uri: str | None = None, **how: Any) -> Lake:
    """Return what ``esker.connect`` returns. For modules that ``esker.wiring`` itself imports."""
    opened: Lake = find("esker.lake", "connect")(uri, **how)
    return opened


def open_table_at(path: str, **how: Any) -> Table:
    """Return what ``esker.open_table`` returns. For modules that ``esker.wiring`` itself imports."""
    opened: Table = find("esker.lake", "open_table")(path, **how)
    return opened


class Lake(ViewVerbs):
    """The tables and views of one catalog. ``esker.connect`` returns it.

    Names are dotted: ``sales.orders``, or ``a.b.orders`` in a nested namespace. A method that gets the name of
    something that does not exist raises ``NoSuchTable``, ``NoSuchView`` or ``NoSuchNamespace``; the message suggests
    similar names.

        lake = esker.connect("sqlite:///lake/catalog.db")
        lake.tables("sales")
    """

    def __init__(
        self,
        *,
        catalog: Catalog,
        open_table: OpenTable,
        schema_from_arrow: FromArrow | None = None,
        get_spark: Callable[[], SparkSession] | None = None,
        make_sql: Callable[[Lake], RunSql] | None = None,
        make_analysis: Callable[[Lake], Analyse] | None = None,
        make_check: Callable[[Lake], CheckView] | None = None,
        trusted_views: bool | Sequence[str] = False,
        address: Mapping[str, Any] | None = None,
    ) -> None:
        self._catalog = catalog
        self._address = address
        self._get_spark = get_spark
        self._make_sql = make_sql
        self._make_analysis = make_analysis
        self._make_check = make_check
        self._trusted_views = trusted_views
        self._run_sql: RunSql | None = None
        self._kept: dict[TableName, TableState] = {}
        self._lock = Lock()
        self._open_table = open_table
        self._schema_from_arrow = schema_from_arrow

    @property
    def catalog(self) -> Catalog:
        """The object that stores which metadata file is each table's current one."""
        return self._catalog

    @property
    def address(self) -> Mapping[str, Any] | None:
        """The arguments with which ``esker.connect`` opens this lake in another process of this machine; None for a
        lake in memory."""
        return self._address

    @property
    def trusted_views(self) -> bool | Sequence[str]:
        """Names of functions and tables that the views of this lake may use in addition; True for all."""
        return self._trusted_views

    @property
    def spark(self) -> SparkSession:
        """The session for work in Spark: the one given to ``connect``, else the running one, else a quiet local
        session, which is started now. Raises ``Unsupported`` if the lake was opened without Spark."""
        if self._get_spark is None:
            raise Unsupported(
                "cannot use Spark: this lake was opened without it; open it with esker.connect", feature="spark"
            )
        return self._get_spark()

    def sql(self, text: str, args: Mapping[str, Any] | Sequence[Any] | None = None, **frames: Any) -> DataFrame:
        """Run one statement of Spark SQL and return a Spark DataFrame. See ``docs/sql.md`` for the statements.

        The statement may use this lake's tables and Spark's own. ``USE`` applies to this ``Lake`` object. ``args`` and
        ``frames`` are the parameters of ``spark.sql``: a mapping for ``:name``, a sequence for ``?``, and DataFrames
        and values by keyword for ``{name}``. Raises ``InvalidInput`` or ``Unsupported`` for a statement that cannot be
        run.

            lake.sql("SELECT * FROM sales.orders WHERE id = :id", {"id": 5})
        """
        if self._run_sql is None:
            if self._make_sql is None:
                raise Unsupported(
                    "cannot use SQL: this lake was opened without Spark; open it with esker.connect", feature="spark"
                )
            self._run_sql = self._make_sql(self)
        return self._run_sql(text, args, **frames)

    def namespaces(self) -> list[str]:
        """Return the names of all namespaces, including nested ones."""
        return [".".join(namespace) for namespace in self._catalog.namespaces()]

    def create_namespace(
        self,
        name: str,
        properties: Mapping[str, str] | None = None,
        *,
        if_not_exists: bool = False,
        exist_ok: bool = False,
    ) -> None:
        """Create a namespace, and its parents if they are missing: ``lake.create_namespace("sales")``. Raises
        ``AlreadyExists`` if it exists. With ``if_not_exists`` an existing namespace and its properties are not changed.
        ``exist_ok`` is an older name of the same option."""
        namespace = parse_namespace(name)
        try:
            self._catalog.create_namespace(namespace, dict(properties or {}))
        except AlreadyExists:
            if not (if_not_exists or exist_ok) or namespace not in self._catalog.namespaces():
                raise

    def namespace_properties(self, name: str) -> dict[str, str]:
        """Return the properties of a namespace. Raises ``NoSuchNamespace`` if it does not exist."""
        namespace = parse_namespace(name)
        with self._helped(namespace):
            return dict(self._catalog.namespace_properties(namespace))

    def set_namespace_properties(
        self, name: str, updates: Mapping[str, str] | None = None, removals: Iterable[str] = ()
    ) -> None:
        """Set some properties of a namespace and remove others, in one step. A property to remove may be missing.

        Raises ``NoSuchNamespace`` if the namespace does not exist, ``InvalidInput`` if a property is both set and
        removed, and ``Unsupported`` if the catalog stores no properties. A directory catalog stores none.

            lake.set_namespace_properties("sales", {"comment": "what we sell"}, removals=["owner"])
        """
        namespace = parse_namespace(name)
        given, gone = namespace_changes(updates or {}, removals)
        with self._helped(namespace):
            self._catalog.update_namespace_properties(namespace, given, gone)

    def drop_namespace(self, name: str) -> None:
        """Remove an empty namespace. Raises ``InvalidInput`` if it has tables, views or namespaces."""
        namespace = parse_namespace(name)
        with self._helped(namespace):
            self._catalog.drop_namespace(namespace)

    def tables(self, namespace: str | None = None) -> list[str]:
        """Return the full names of the tables in a namespace; in all namespaces if none is given."""
        if namespace is None:
            return [str(name) for there in self._catalog.namespaces() for name in self._catalog.tables(there)]
        parsed = parse_namespace(namespace)
        with self._helped(parsed):
            return [str(name) for name in self._catalog.tables(parsed)]

    def create_table(
        self,
        name: str,
        schema: object,
        *,
        partition_by: Iterable[str] = (),
        sort_by: Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        format_version: int = 2,
        location: str | None = None,
        identifier_fields: Iterable[str] = (),
        if_not_exists: bool = False,
    ) -> Table:
        """Create an empty table and return it.

        - ``schema`` is DDL (``"id bigint not null, ts timestamp"``), a pyarrow schema or a Spark ``StructType``.
        - ``partition_by`` and ``sort_by`` take terms: ``"day(ts)"``, ``"bucket(16, id)"``, ``"region"``, ``"ts desc"``.

        Raises ``AlreadyExists`` if the name is in use. With ``if_not_exists`` the existing table is returned unchanged;
        ``AlreadyExists`` then names a column of ``schema`` that the table does not have, or has with a type that it
        cannot be widened to. Additional columns, partitioning, order and properties are not compared.

            lake.create_table("sales.orders", "id bigint not null, ts timestamp", partition_by=["day(ts)"])
        """
        parsed = TableName.parse(name)
        with self._helped(parsed.namespace):
            metadata = self._defined(
                parsed,
                schema=schema,
                location=location,
                partition_by=partition_by,
                sort_by=sort_by,
                properties=properties,
                format_version=format_version,
                identifier_fields=identifier_fields,
            )
            if if_not_exists and (found := self._there(parsed)) is not None:
                return self._as_asked(found, metadata)
            try:
                return self._open_table(parsed, self._catalog.create(parsed, metadata))
            except AlreadyExists:  # another writer created it in the meantime, or a view has the name
                if not if_not_exists or (found := self._there(parsed)) is None:
                    raise
                return self._as_asked(found, metadata)

    def _there(self, name: TableName) -> Table | None:
        try:
            return self._open_table(name, self._catalog.load(name))
        except NoSuchTable:
            return None

    def _as_asked(self, table: Table, asked: TableMetadata) -> Table:
        from esker.model.evolution.schema_rules import misfit

        if (why := misfit(asked.schema, table.schema, table.format_version)) is not None:
            raise AlreadyExists(
                f"cannot use the existing table {table.name} with this schema: {why}; "
                "open it with lake.table, or choose another name",
                table=table.name,
            )
        return table

    def create_table_as(
        self,
        name: str,
        schema: object,
        data: object,
        *,
        partition_by: Iterable[str] = (),
        sort_by: Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        format_version: int = 2,
        location: str | None = None,
    ) -> Table:
        """Create a table with its first rows in one commit, and return it: both are visible, or neither.

        Raises ``AlreadyExists`` if the name is in use, and ``InvalidInput`` for rows that do not fit ``schema``.

            lake.create_table_as("sales.orders", data.schema, data)
        """
        parsed = TableName.parse(name)
        with self._helped(parsed.namespace):
            # raises an error about a missing namespace before files are written
            self._catalog.namespace_properties(parsed.namespace)
            metadata = self._defined(
                parsed,
                schema=schema,
                location=location,
                partition_by=partition_by,
                sort_by=sort_by,
                properties=properties,
                format_version=format_version,
            )
            self._catalog.check_place(parsed, metadata)  # before anything is written there
            table = self._open_table(parsed, TableState(metadata=metadata, metadata_location=""))
            create_with(table, data)
        return table  # as it was committed: a failure to read it again must not make a commit look failed

    def replace_table(
        self,
        name: str,
        schema: object,
        data: object = None,
        *,
        partition_by: Iterable[str] = (),
        sort_by: Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        format_version: int = 2,
    ) -> Table:
        """Give an existing table new columns, layout and rows in one commit; without ``data`` it is empty. Returns the
        table.

        It stays the same table: older snapshots, tags and other branches stay readable, and properties that are not
        given stay. Raises ``NoSuchTable`` if it does not exist, and ``Conflict`` if another writer changes it in the
        meantime.

            lake.replace_table("sales.orders", "id bigint, total double")
        """
        parsed = TableName.parse(name)
        with self._helped(parsed.namespace, parsed):
            old = self._catalog.load(parsed)
            new = self._defined(
                parsed,
                schema=schema,
                location=old.metadata.location,
                partition_by=partition_by,
                sort_by=sort_by,
                properties=properties,
                format_version=format_version,
            )
            table = self._open_table(parsed, old)
            replace_with(table, new, data)
        return table

    def _defined(self, name: TableName, *, location: str | None, **definition: Any) -> TableMetadata:
        from esker.write.definition.new_table import define_table

        return define_table(
            location=self._catalog.location_for(name) if location is None else location,
            schema_from_arrow=self._schema_from_arrow,
            **definition,
        )

    def table(self, name: str) -> Table:
        """Return the table in its current version: ``lake.table("sales.orders")``. Raises ``NoSuchTable``."""
        parsed = TableName.parse(name)
        with self._helped(parsed.namespace, parsed):
            state = self._catalog.load(parsed, self._kept.get(parsed))
            self._keep(parsed, state)
            return self._open_table(parsed, state)

    def _keep(self, name: TableName, state: TableState) -> None:
        """Keep what was read, so that a table is read again only when its pointer has moved."""
        with self._lock:
            self._kept.pop(name, None)
            self._kept[name] = state  # the last one
            snapshots = sum(len(kept.metadata.snapshots) for kept in self._kept.values())
            while len(self._kept) > _MOST_TABLES or snapshots > _MOST_SNAPSHOTS:
                snapshots -= len(self._kept.pop(next(iter(self._kept))).metadata.snapshots)

    def drop_table(self, name: str, purge: bool = False, *, if_exists: bool = False) -> None:
        """Remove a table from the catalog. Its files stay, unless ``purge`` is set: then the table's own files are
        deleted. Raises ``NoSuchTable`` if it does not exist; with ``if_exists`` nothing happens then. Raises
        ``InvalidInput`` if the files to purge may belong to another table, too, and then nothing is dropped."""
        parsed = TableName.parse(name)
        if if_exists and self._there(parsed) is None:
            return
        with self._helped(parsed.namespace, parsed):
            if not purge:
                self._catalog.drop(parsed)
                return
            from esker.maintain.purge import check_purge, own_files, remove

            state = self._catalog.load(parsed)
            check_purge(self._catalog, parsed, state)
            files = own_files(state, self._open_table(parsed, state).inspect)
            self._catalog.drop(parsed)  # before files are deleted: a catalog must never point to deleted files
            remove(self._catalog.storage(), state, files)

    def transaction(self) -> LakeTransaction:
        """Change several tables together at the end of a ``with`` block, or none of them. Raises ``Unsupported`` in a
        directory, ``Conflict``, and ``OutcomeUnknown`` if the catalog never answered.

            with lake.transaction() as tx: tx.table("sales.orders").append(orders)
        """
        from esker.write.lake_transaction import LakeTransaction

        return LakeTransaction(self._catalog, lambda name, **how: self.table(name).transaction(**how))

    def rename_table(self, old: str, new: str) -> Table:
        """Give a table another name and return it. Its files stay where they are. Raises ``AlreadyExists``."""
        source, target = TableName.parse(old), TableName.parse(new)
        with self._helped(target.namespace, source):
            state = self._catalog.load(source)  # first: if it cannot be read, nothing has been changed
            self._catalog.rename(source, target)
        return self._open_table(target, state)

    def register_table(self, name: str, metadata_location: str) -> Table:
        """Add an existing table to the catalog by its newest metadata file, and return it. Nothing is copied. Raises
        ``AlreadyExists`` if the name is in use, and ``InvalidInput`` for a file outside the allowed places."""
        parsed = TableName.parse(name)
        with self._helped(parsed.namespace):
            return self._open_table(parsed, self._catalog.register(parsed, metadata_location))

    def convert_table(self, name: str, source: str | Table, *, format_version: int = 2) -> Table:
        """Make a table of another format an Iceberg table of this lake over the same data files, and return it.

        ``source`` is the directory of a Paimon table, or the opened table. Nothing is copied and the source stays as it
        is. Before the table appears, the rows of every file are read in both ways and compared. The new table has
        ``gc.enabled = false``, because its files belong to the source. Raises ``Unsupported`` with the reason if the
        source has rows that are not exactly those of its files, ``InvalidInput`` if its files are outside the warehouse
        and ``allowed_roots``, and ``AlreadyExists`` if the name is in use.

            lake.convert_table("sales.orders", "warehouse/sales.db/orders")
        """
        parsed = TableName.parse(name)
        opened = open_table_at(source) if isinstance(source, str) else source
        with self._helped(parsed.namespace):
            self._catalog.namespace_properties(parsed.namespace)
            convert = find("esker.lake", "convert_table")
            made: Table = convert(
                opened, partial(self._open_table, parsed), self._catalog, parsed, format_version=format_version
            )
        return made

    def unregister_table(self, name: str) -> str:
        """Remove a table from the catalog and return its last metadata file. Its files stay: another catalog can
        take the table over with ``register_table``. Every commit that was made before is in that file, and every later
        one fails.

        Raises ``NoSuchTable``, and ``Unsupported`` for a catalog that cannot do this in one step, which is a directory
        or a REST server without it; there use ``drop_table``, which keeps the files, too.

            file = lake.unregister_table("sales.orders")
        """
        parsed = TableName.parse(name)
        if not isinstance(self._catalog, UnregistersTables):
            raise Unsupported(
                f"cannot unregister {parsed}: this catalog cannot remove a table and read its last version in one "
                "step; note table.metadata_location and use drop_table, which keeps the files",
                feature="unregister table",
            )
        with self._helped(parsed.namespace, parsed):
            return self._catalog.unregister(parsed).metadata_location

    def _check_view(self, name: TableName, sql: str, namespace: Namespace) -> None:
        if self._make_check is not None:
            self._make_check(self)(name, sql, namespace)

    def _columns_of(self, name: TableName, sql: str, namespace: Namespace) -> object:
        if self._make_analysis is None:
            raise Unsupported(
                f"cannot determine the columns of view {name}: this lake was opened without Spark; give schema",
                feature="spark",
            )
        return self._make_analysis(self)(name, sql, namespace)

    def __repr__(self) -> str:
        return f"<esker.Lake {self._place()}>"

    def _repr_html_(self) -> str:
        return card("Lake", [("catalog", self._place())])

    def _place(self) -> str:
        """The catalog's address. No table is listed for it."""
        return "in memory" if self._address is None else str(self._address["uri"])

    @contextmanager
    def _helped(self, namespace: Namespace, name: TableName | None = None) -> Iterator[None]:
        """Add the names that exist to errors about a missing table, view or namespace."""
        try:
            yield
        except NoSuchNamespace as error:
            raise with_similar_names(error, ".".join(namespace), self.namespaces(), "the catalog has") from error
        except (NoSuchTable, NoSuchView) as error:
            about = (error.facts.get("table"), error.facts.get("view"))
            if name is None or str(name) not in about or "there" in error.facts:
                raise
            raise self._instead(error, name) from error

    def _instead(self, error: NoSuchTable | NoSuchView, name: TableName) -> EskerError:
        namespace = ".".join(name.namespace)
        if name.namespace in self._catalog.namespaces():
            there = self.tables if isinstance(error, NoSuchTable) else self.views
            return with_similar_names(error, str(name), there(namespace), f"{namespace} has")
        if same := self._in_another_case(name, type(error)):
            return type(error)(f"{error.message}; did you mean {same}?", **error.facts, available=[same])
        return with_similar_names(
            error, namespace, self.namespaces(), "there is no such namespace either; the catalog has"
        )

    def _in_another_case(self, name: TableName, missing: type[EskerError]) -> str | None:
        """The table or view whose full name differs only in upper and lower case."""
        wanted, namespace = str(name).casefold(), ".".join(name.namespace).casefold()
        there = self.tables if missing is NoSuchTable else self.views
        near = (found for found in self.namespaces() if found.casefold() == namespace)
        return next((found for place in near for found in there(place) if found.casefold() == wanted), None)


def remove_dropped(lake: Lake, name: TableName, state: TableState) -> None:
    """Delete the own files of a table that the catalog does not name any more."""
    from esker.maintain.purge import own_files, remove

    remove(lake.catalog.storage(), state, own_files(state, lake._open_table(name, state).inspect))
