"""A lake, as a user holds it: namespaces, tables and views of one catalog. It delegates and never decides."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from esker.create_with_rows import create_with, replace_with
from esker.errors import AlreadyExists, EskerError, InvalidInput, NoSuchNamespace, NoSuchTable, NoSuchView, Unsupported
from esker.model.display_text import card
from esker.model.table_names import Namespace, TableName, parse_namespace
from esker.ports.catalog import Catalog, TableState, ViewState
from esker.ports.outer_names import find
from esker.table import Table
from esker.view import View

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from esker.tree.table_metadata import TableMetadata
    from esker.write.definition.new_table import FromArrow

OpenTable = Callable[[TableName, TableState], Table]
RunSql = Callable[..., "DataFrame"]  # a statement and its parameters
Analyse = Callable[[TableName, str, Namespace], object]  # what a view, its query and a namespace come to, as a schema
CheckView = Callable[[TableName, str, Namespace], None]  # refuses what the query of a view may not contain


def open_lake(uri: str | None = None, **how: Any) -> Lake:
    """What ``esker.connect`` opens, for modules that the composition root is built upon."""
    opened: Lake = find("esker.lake", "connect")(uri, **how)
    return opened


def open_table_at(path: str, **how: Any) -> Table:
    """What ``esker.open_table`` opens, for modules that the composition root is built upon."""
    opened: Table = find("esker.lake", "open_table")(path, **how)
    return opened


class Lake:
    """The tables of one catalog. Names are dotted: ``sales.orders``, or ``a.b.orders`` in a nested namespace."""

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
        self._open_table = open_table
        self._schema_from_arrow = schema_from_arrow

    @property
    def catalog(self) -> Catalog:
        """What holds the pointers."""
        return self._catalog

    @property
    def address(self) -> Mapping[str, Any] | None:
        """What ``esker.connect`` takes to open this lake in another process, wherever that runs on this machine;
        None for one that no other process can see."""
        return self._address

    @property
    def trusted_views(self) -> bool | Sequence[str]:
        """What views of this lake may do beyond what every view may: names of functions and tables, or all."""
        return self._trusted_views

    @property
    def spark(self) -> SparkSession:
        """The session that moves data in Spark: the one given to ``connect``, else the running one, else a quiet
        local one, started now."""
        if self._get_spark is None:
            raise Unsupported("cannot use Spark: this lake was opened without it", feature="spark")
        return self._get_spark()

    def sql(self, text: str, args: Mapping[str, Any] | Sequence[Any] | None = None, **frames: Any) -> DataFrame:
        """Do one statement of Spark SQL, tables of this lake and Spark's own side by side; ``docs/sql.md`` says what
        is taken. ``USE`` holds for this lake object.

        Parameters are those of ``spark.sql``: a mapping for ``:name``, a sequence for ``?``, and ``{name}`` for
        DataFrames and values by keyword.

            lake.sql("SELECT * FROM sales.orders WHERE id = :id", {"id": 5})
        """
        if self._run_sql is None:
            if self._make_sql is None:
                raise Unsupported("cannot use SQL: this lake was opened without Spark", feature="spark")
            self._run_sql = self._make_sql(self)
        return self._run_sql(text, args, **frames)

    def namespaces(self) -> list[str]:
        """Every namespace, nested ones too."""
        return [".".join(namespace) for namespace in self._catalog.namespaces()]

    def create_namespace(
        self, name: str, properties: Mapping[str, str] | None = None, *, exist_ok: bool = False
    ) -> None:
        """Make a namespace, and those above it where they are missing.

        Raises ``AlreadyExists`` for one that is there. With ``exist_ok`` that one stays as it is, its properties too.
        """
        namespace = parse_namespace(name)
        try:
            self._catalog.create_namespace(namespace, dict(properties or {}))
        except AlreadyExists:
            if not exist_ok or namespace not in self._catalog.namespaces():
                raise

    def namespace_properties(self, name: str) -> dict[str, str]:
        """A namespace's settings."""
        namespace = parse_namespace(name)
        with self._helped(namespace):
            return dict(self._catalog.namespace_properties(namespace))

    def set_namespace_properties(
        self, name: str, updates: Mapping[str, str] | None = None, removals: Iterable[str] = ()
    ) -> None:
        """Set settings of a namespace and remove others, in one step. One to be removed need not be there.

        Raises ``NoSuchNamespace`` where there is none, ``InvalidInput`` for a setting that is both set and removed,
        and ``Unsupported`` where the catalog keeps no settings, as a directory does not.

            lake.set_namespace_properties("sales", {"comment": "what we sell"}, removals=["owner"])
        """
        namespace = parse_namespace(name)
        given, gone = _settings(updates or {}, removals)
        with self._helped(namespace):
            self._catalog.update_namespace_properties(namespace, given, gone)

    def drop_namespace(self, name: str) -> None:
        """Remove a namespace that holds nothing."""
        namespace = parse_namespace(name)
        with self._helped(namespace):
            self._catalog.drop_namespace(namespace)

    def tables(self, namespace: str | None = None) -> list[str]:
        """The tables of a namespace by their full names; of every namespace when none is named."""
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
        """Make a table. ``schema`` is DDL (``"id bigint not null, ts timestamp"``), a pyarrow schema or a Spark
        ``StructType``; ``partition_by`` and ``sort_by`` take terms: ``"day(ts)"``, ``"bucket(16, id)"``, ``"region"``.

        Raises ``AlreadyExists`` for a name that is taken. With ``if_not_exists`` the table of that name comes back as
        it is; ``AlreadyExists`` then names a column of ``schema`` that it does not have, or has with a type that
        ``schema``'s cannot be widened to. More columns, other partitions, order or properties are no error.
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
            except AlreadyExists:  # another made it meanwhile, or the name is a view's
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
                f"cannot take the table {table.name} that is there for the one described: {why}; "
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
        """Make a table together with its first rows: it appears with them, or not at all."""
        parsed = TableName.parse(name)
        with self._helped(parsed.namespace):
            self._catalog.namespace_properties(parsed.namespace)  # a namespace that is not there is said before writing
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
        return table  # as it was committed: what is there must not be reported as a failure to read it again

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
        """Give a table that is there new columns, layout and rows, in one commit; without ``data`` it is empty.

        It stays the same table: older snapshots, tags and branches other than ``main`` stay readable, and properties
        that are not named stay. Raises ``NoSuchTable`` where there is none, and ``Conflict`` where another writer
        changes the table meanwhile.
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
        """The table as it is now."""
        parsed = TableName.parse(name)
        with self._helped(parsed.namespace, parsed):
            return self._open_table(parsed, self._catalog.load(parsed))

    def drop_table(self, name: str, purge: bool = False, *, if_exists: bool = False) -> None:
        """Forget a table. Its files stay, unless ``purge`` asks to delete those that are its own.

        Raises ``NoSuchTable`` where there is none; with ``if_exists`` nothing is done then.
        """
        parsed = TableName.parse(name)
        if if_exists and self._there(parsed) is None:
            return
        with self._helped(parsed.namespace, parsed):
            if not purge:
                self._catalog.drop(parsed)
                return
            from esker.maintain.purge import own_files, remove

            state = self._catalog.load(parsed)
            files = own_files(state, self._open_table(parsed, state).inspect)
            self._catalog.drop(parsed)  # only then: a table must never point at what was deleted
            remove(self._catalog.storage(), state, files)

    def rename_table(self, old: str, new: str) -> Table:
        """Give a table another name; its files stay where they are."""
        source, target = TableName.parse(old), TableName.parse(new)
        with self._helped(target.namespace, source):
            state = self._catalog.load(source)  # before: a failure of storage means that nothing was changed
            self._catalog.rename(source, target)
        return self._open_table(target, state)

    def register_table(self, name: str, metadata_location: str) -> Table:
        """Take in a table that lies there already, by its newest metadata file."""
        parsed = TableName.parse(name)
        with self._helped(parsed.namespace):
            return self._open_table(parsed, self._catalog.register(parsed, metadata_location))

    # ------------------------------------------------------------ views

    def views(self, namespace: str | None = None) -> list[str]:
        """The views of a namespace by their full names; of every namespace when none is named."""
        catalog = self._catalog.view_catalog()
        if namespace is None:
            return [str(name) for there in self._catalog.namespaces() for name in catalog.views(there)]
        parsed = parse_namespace(namespace)
        with self._helped(parsed):
            return [str(name) for name in catalog.views(parsed)]

    def view(self, name: str) -> View:
        """The view as it is now."""
        parsed = TableName.parse(name)
        with self._helped(parsed.namespace, parsed):
            return self._opened_view(parsed, self._catalog.view_catalog().load_view(parsed))

    def create_view(
        self,
        name: str,
        sql: str,
        *,
        schema: object = None,
        comment: str | None = None,
        properties: Mapping[str, str] | None = None,
        replace: bool = False,
        default_namespace: str | None = None,
    ) -> View:
        """Make a view of a query in Spark's dialect, or give one that is there another query. ``schema`` is what
        ``create_table`` takes; without it Spark says what columns the query has. Tables that the query names by one
        part are those of ``default_namespace``, the view's own without it. ``InvalidInput`` names what a view may not
        contain (``docs/views.md``)."""
        from esker.write.make_view import checked_query, make_view

        parsed, sql = TableName.parse(name), checked_query(sql)
        namespace = parsed.namespace if default_namespace is None else parse_namespace(default_namespace)
        with self._helped(parsed.namespace):
            self._catalog.namespace_properties(parsed.namespace)
            if self._make_check is not None:
                self._make_check(self)(parsed, sql, namespace)
            state = make_view(
                self._catalog,
                parsed,
                sql,
                columns=self._analysed(parsed, sql, namespace) if schema is None else schema,
                is_analysed=schema is None,
                namespace=namespace,
                properties={**(properties or {}), **({} if comment is None else {"comment": comment})},
                replaces=replace,
                schema_from_arrow=self._schema_from_arrow,
            )
        return self._opened_view(parsed, state)

    def drop_view(self, name: str) -> None:
        """Forget a view; its metadata files stay."""
        parsed = TableName.parse(name)
        with self._helped(parsed.namespace, parsed):
            self._catalog.view_catalog().drop_view(parsed)

    def rename_view(self, old: str, new: str) -> View:
        """Give a view another name."""
        source, target = TableName.parse(old), TableName.parse(new)
        with self._helped(target.namespace, source):
            state = self._catalog.view_catalog().load_view(source)
            self._catalog.view_catalog().rename_view(source, target)
        return self._opened_view(target, state)

    def _analysed(self, name: TableName, sql: str, namespace: Namespace) -> object:
        if self._make_analysis is None:
            raise Unsupported(
                f"cannot tell the columns of view {name}: this lake was opened without Spark; give schema",
                feature="spark",
            )
        return self._make_analysis(self)(name, sql, namespace)

    def _opened_view(self, name: TableName, state: ViewState) -> View:
        return View(name=str(name), state=state, catalog=self._catalog.view_catalog())

    def __repr__(self) -> str:
        return f"<esker.Lake {self._place()}>"

    def _repr_html_(self) -> str:
        return card("Lake", [("catalog", self._place())])

    def _place(self) -> str:
        """Where the catalog is, by its address; no table is listed to say it."""
        return "in memory" if self._address is None else str(self._address["uri"])

    @contextmanager
    def _helped(self, namespace: Namespace, name: TableName | None = None) -> Iterator[None]:
        """Errors about what is missing say what is there."""
        try:
            yield
        except NoSuchNamespace as error:
            raise _with_names(error, ".".join(namespace), self.namespaces(), "the catalog has") from error
        except (NoSuchTable, NoSuchView) as error:
            about = (error.facts.get("table"), error.facts.get("view"))
            if name is None or str(name) not in about or "there" in error.facts:
                raise
            raise self._instead(error, name) from error

    def _instead(self, error: NoSuchTable | NoSuchView, name: TableName) -> EskerError:
        namespace = ".".join(name.namespace)
        if name.namespace in self._catalog.namespaces():
            there = self.tables if isinstance(error, NoSuchTable) else self.views
            return _with_names(error, str(name), there(namespace), f"{namespace} has")
        if same := self._in_another_case(name, type(error)):
            return type(error)(f"{error.message}; did you mean {same}?", **error.facts, available=[same])
        return _with_names(error, namespace, self.namespaces(), "there is no such namespace either; the catalog has")

    def _in_another_case(self, name: TableName, missing: type[EskerError]) -> str | None:
        """The table or view whose whole name differs from this one in case alone."""
        wanted, namespace = str(name).casefold(), ".".join(name.namespace).casefold()
        there = self.tables if missing is NoSuchTable else self.views
        near = (found for found in self.namespaces() if found.casefold() == namespace)
        return next((found for place in near for found in there(place) if found.casefold() == wanted), None)


def _settings(updates: Mapping[str, str], removals: Iterable[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    gone = (removals,) if isinstance(removals, str) else tuple(removals)
    if not all(isinstance(text, str) for text in (*updates, *updates.values(), *gone)):
        raise InvalidInput("cannot set properties of a namespace: names and values are text")
    if both := sorted(set(gone).intersection(updates)):
        raise InvalidInput(f"cannot both set and remove the property {both[0]!r}", property=both[0])
    return dict(updates), gone


def _with_names(error: EskerError, asked: str, there: Iterable[str], holder: str) -> EskerError:
    names = sorted(there)
    # Names in one namespace are alike by what they share; only their last part tells them apart.
    last = {name.rpartition(".")[2]: name for name in names}
    near = _near(asked.rpartition(".")[2], last)
    if near:
        more = f"did you mean {' or '.join(near)}?"
    elif names:
        more = f"{holder} {', '.join(names[:12])}" + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    else:
        more = f"{holder} none"
    return type(error)(f"{error.message}; {more}", **error.facts, available=names)


def _near(asked: str, names: Mapping[str, str]) -> list[str]:
    """The whole names whose last part is like the one asked for; in another case it is the same word."""
    by_case: dict[str, list[str]] = {}
    for part, whole in names.items():
        by_case.setdefault(part.casefold(), []).append(whole)
    return [name for part in difflib.get_close_matches(asked.casefold(), by_case, n=3) for name in by_case[part]][:3]
