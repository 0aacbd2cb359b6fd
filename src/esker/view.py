"""``View``, the object through which users see a view: a query under a name, and its earlier versions."""

from __future__ import annotations

from collections.abc import Mapping

from esker.model.display_text import card, first_of, shortened
from esker.model.schema import Schema
from esker.model.table_names import TableName
from esker.ports.catalog import ViewCatalog, ViewState
from esker.tree.view_metadata import SPARK, SqlRepresentation, VersionLogEntry, ViewMetadata, ViewVersion
from esker.write.view_versions import COMMENT, QUERY_COLUMNS


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
        told_apart = len({name.lower() for name in names}) == len(names) == len(self.schema.fields)
        return names if told_apart and all(names) else ()

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Set properties; other properties stay. Raises ``Conflict`` if another writer keeps changing the view."""
        self._change(dict(properties), ())

    def remove_properties(self, *keys: str) -> None:
        """Remove properties. Keys that the view does not have are ignored."""
        self._change({}, keys)

    def _change(self, changes: dict[str, str], removed: tuple[str, ...]) -> None:
        from esker.write.view_versions import commit_view, with_properties

        name = TableName.parse(self._name)
        self._state = commit_view(self._catalog, name, lambda base: with_properties(base, changes, removed))

    def __repr__(self) -> str:
        return f"<esker.View {self._name}>"

    def _repr_html_(self) -> str:
        facts = [("columns", first_of(map(str, self.schema), 20, "\n")), ("query", shortened(self.sql, 2000))]
        return card(self._name, facts)
