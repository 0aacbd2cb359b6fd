"""``View``, the object through which users see a view: a query under a name, and its earlier versions.

``ViewVerbs`` has the methods of a lake that list, open, create, drop and rename views.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from esker.errors import AlreadyExists, InvalidInput, NoSuchNamespace, NoSuchView, Unsupported
from esker.model.display_text import card, first_of, shortened
from esker.model.schema import Schema
from esker.model.table_names import Namespace, TableName, parse_namespace
from esker.ports.catalog import Catalog, RegistersViews, ViewCatalog, ViewState
from esker.tree.view_metadata import SPARK, SqlRepresentation, VersionLogEntry, ViewMetadata, ViewVersion
from esker.write.views.view_versions import COMMENT, QUERY_COLUMNS

if TYPE_CHECKING:
    from esker.write.definition.new_table import FromArrow

# the columns of a view's query, given the view's name and its default namespace
Analyse = Callable[[TableName, str, Namespace], object]
# raises an error if a view's query has something that views may not contain
CheckView = Callable[[TableName, str, Namespace], None]


class View:
    """A view of a lake, in the version that was current when it was opened. ``lake.view(name)`` opens it again.

    lake.view("sales.big").sql
    """

    def __init__(self, *, name: str, state: ViewState, catalog: ViewCatalog) -> None:
        self._name = name
        self._state = state
        self._catalog = catalog

    @property
    def name(self) -> str:
        """The full name in the catalog."""
        return self._name

    @property
    def metadata(self) -> ViewMetadata:
        """The content of the metadata file."""
        return self._state.metadata

    @property
    def metadata_location(self) -> str:
        """The metadata file of this version."""
        return self._state.metadata_location

    @property
    def uuid(self) -> str:
        """The view's identity, which survives renames."""
        return self.metadata.uuid

    @property
    def location(self) -> str:
        """Where the view's metadata files are located."""
        return self.metadata.location

    @property
    def sql(self) -> str:
        """The view's SQL text. Prefers the Spark dialect; falls back to the first one stored."""
        current = self.current_version
        found = current.sql(SPARK)
        if found is not None:
            return found
        return next((one.sql for one in current.representations if isinstance(one, SqlRepresentation)), "")

    @property
    def dialects(self) -> tuple[str, ...]:
        """The dialects in which the query is stored."""
        return self.current_version.dialects

    @property
    def schema(self) -> Schema:
        """The columns, as they were when this version was created."""
        return self.metadata.schema

    @property
    def current_version(self) -> ViewVersion:
        """The version that a query reads."""
        return self.metadata.current_version

    @property
    def versions(self) -> tuple[ViewVersion, ...]:
        """The stored versions, the oldest first."""
        return tuple(sorted(self.metadata.versions, key=lambda version: version.version_id))

    @property
    def history(self) -> tuple[VersionLogEntry, ...]:
        """Which version was current from which time."""
        return self.metadata.version_log

    @property
    def properties(self) -> Mapping[str, str]:
        """The view's properties."""
        return self.metadata.properties

    @property
    def comment(self) -> str | None:
        """The comment that was given when the view was created; None without one."""
        return self.properties.get(COMMENT)

    @property
    def query_columns(self) -> tuple[str, ...]:
        """The names that the query itself gives its columns, if they are recorded and distinct; else empty."""
        names = tuple(self.properties.get(QUERY_COLUMNS, "").split(","))
        distinct = len({name.lower() for name in names}) == len(names) == len(self.schema.fields)
        return names if distinct and all(names) else ()

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Set properties; other properties stay. Raises ``Conflict`` if another writer keeps changing the view."""
        self._change(dict(properties), ())

    def remove_properties(self, *keys: str) -> None:
        """Remove properties. Keys that the view does not have are ignored."""
        self._change({}, keys)

    def _change(self, changes: dict[str, str], removed: tuple[str, ...]) -> None:
        from esker.write.views.view_versions import commit_view, with_properties

        name = TableName.parse(self._name)
        self._state = commit_view(self._catalog, name, lambda base: with_properties(base, changes, removed))

    def __repr__(self) -> str:
        return f"<esker.View {self._name}>"

    def _repr_html_(self) -> str:
        facts = [("columns", first_of(map(str, self.schema), 20, "\n")), ("query", shortened(self.sql, 2000))]
        return card(self._name, facts)


class ViewVerbs(ABC):
    """The views of a lake. ``Lake`` inherits these methods."""

    _catalog: Catalog
    _schema_from_arrow: FromArrow | None

    @abstractmethod
    def _helped(self, namespace: Namespace, name: TableName | None = None) -> AbstractContextManager[None]:
        """Add the names that exist to errors about a missing table, view or namespace."""

    @abstractmethod
    def _check_view(self, name: TableName, sql: str, namespace: Namespace) -> None:
        """Raise ``InvalidInput`` if the query has something that views may not contain."""

    @abstractmethod
    def _columns_of(self, name: TableName, sql: str, namespace: Namespace) -> object:
        """The columns of a view's query, determined by Spark. Raises ``Unsupported`` without Spark."""

    def views(self, namespace: str | None = None) -> list[str]:
        """Return the full names of the views in a namespace; in all namespaces if none is given."""
        catalog = self._catalog.view_catalog()
        if namespace is None:
            return [str(name) for there in self._catalog.namespaces() for name in catalog.views(there)]
        parsed = parse_namespace(namespace)
        with self._helped(parsed):
            return [str(name) for name in catalog.views(parsed)]

    def view(self, name: str) -> View:
        """Return the view in its current version. Raises ``NoSuchView``."""
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
        if_not_exists: bool = False,
        default_namespace: str | None = None,
    ) -> View:
        """Create a view of a query in Spark's dialect, or with ``replace`` give an existing view another query. Returns
        it. With ``if_not_exists`` an existing view is returned unchanged.

        ``schema`` is what ``create_table`` takes; without it Spark determines the columns. Tables that the query names
        by one part are looked up in ``default_namespace``; without it, in the view's own namespace. Raises
        ``InvalidInput`` for a query with something that views may not contain (``docs/views.md``) or if both
        ``replace`` and ``if_not_exists`` are set, and ``AlreadyExists`` if the name is in use.

            lake.create_view("sales.big", "SELECT * FROM orders WHERE amount > 100")
        """
        from esker.write.views.make_view import checked_query, make_view

        if replace and if_not_exists:
            raise InvalidInput(f"cannot create view {name}: give either replace or if_not_exists, not both")
        parsed, sql = TableName.parse(name), checked_query(sql)
        if if_not_exists and (found := self._view_there(parsed)) is not None:
            return found
        namespace = parsed.namespace if default_namespace is None else parse_namespace(default_namespace)
        with self._helped(parsed.namespace):
            self._catalog.namespace_properties(parsed.namespace)
            self._check_view(parsed, sql, namespace)
            try:
                state = make_view(
                    self._catalog,
                    parsed,
                    sql,
                    columns=self._columns_of(parsed, sql, namespace) if schema is None else schema,
                    is_analysed=schema is None,
                    namespace=namespace,
                    properties={**(properties or {}), **({} if comment is None else {"comment": comment})},
                    replaces=replace,
                    schema_from_arrow=self._schema_from_arrow,
                )
            except AlreadyExists:  # another writer created it meanwhile
                if not if_not_exists or (found := self._view_there(parsed)) is None:
                    raise
                return found
        return self._opened_view(parsed, state)

    def _view_there(self, name: TableName) -> View | None:
        try:
            return self._opened_view(name, self._catalog.view_catalog().load_view(name))
        except (NoSuchView, NoSuchNamespace):
            return None

    def drop_view(self, name: str) -> None:
        """Remove a view from the catalog. Its metadata files stay."""
        parsed = TableName.parse(name)
        with self._helped(parsed.namespace, parsed):
            self._catalog.view_catalog().drop_view(parsed)

    def rename_view(self, old: str, new: str) -> View:
        """Give a view another name and return it. Raises ``AlreadyExists`` if that name is in use."""
        source, target = TableName.parse(old), TableName.parse(new)
        with self._helped(target.namespace, source):
            state = self._catalog.view_catalog().load_view(source)
            self._catalog.view_catalog().rename_view(source, target)
        return self._opened_view(target, state)

    def register_view(self, name: str, metadata_location: str) -> View:
        """Add an existing view to the catalog by its newest metadata file, and return it. Raises ``AlreadyExists`` if
        the name is in use, and ``Unsupported`` for a catalog that cannot have views."""
        parsed = TableName.parse(name)
        views = self._catalog.view_catalog()
        if not isinstance(views, RegistersViews):
            raise Unsupported(
                f"cannot register view {parsed}: this catalog cannot add a view by its file; use create_view",
                feature="register view",
            )
        with self._helped(parsed.namespace):
            return self._opened_view(parsed, views.register_view(parsed, metadata_location))

    def _opened_view(self, name: TableName, state: ViewState) -> View:
        return View(name=str(name), state=state, catalog=self._catalog.view_catalog())
