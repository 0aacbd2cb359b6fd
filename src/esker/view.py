"""A view, as a user holds it: a query under a name, with the versions it has had. It delegates and never decides."""

from __future__ import annotations

from collections.abc import Mapping

from esker.model.display_text import card, first_of, shortened
from esker.model.schema import Schema
from esker.model.table_names import TableName
from esker.ports.catalog import ViewCatalog, ViewState
from esker.tree.view_metadata import SPARK, SqlRepresentation, VersionLogEntry, ViewMetadata, ViewVersion
from esker.write.view_versions import COMMENT, QUERY_COLUMNS


class View:
    """A view of a lake as it was when it was opened; ``lake.view(name)`` opens it anew."""

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
        """The whole metadata."""
        return self._state.metadata

    @property
    def metadata_location(self) -> str:
        """The file that holds the metadata."""
        return self._state.metadata_location

    @property
    def uuid(self) -> str:
        """What identifies the view, whatever it is called."""
        return self.metadata.uuid

    @property
    def location(self) -> str:
        """Where its metadata files lie."""
        return self.metadata.location

    @property
    def sql(self) -> str:
        """The query, in Spark's dialect where it is there in it, else in the first that it is in."""
        current = self.current_version
        found = current.sql(SPARK)
        if found is not None:
            return found
        return next((one.sql for one in current.representations if isinstance(one, SqlRepresentation)), "")

    @property
    def dialects(self) -> tuple[str, ...]:
        """The dialects that the query is there in."""
        return self.current_version.dialects

    @property
    def schema(self) -> Schema:
        """The columns, as they were when the version was made."""
        return self.metadata.schema

    @property
    def current_version(self) -> ViewVersion:
        """The version that a query reads."""
        return self.metadata.current_version

    @property
    def versions(self) -> tuple[ViewVersion, ...]:
        """The versions that are kept, the oldest first."""
        return tuple(sorted(self.metadata.versions, key=lambda version: version.version_id))

    @property
    def history(self) -> tuple[VersionLogEntry, ...]:
        """When each version became the current one."""
        return self.metadata.version_log

    @property
    def properties(self) -> Mapping[str, str]:
        """Its properties."""
        return self.metadata.properties

    @property
    def comment(self) -> str | None:
        """What its maker said of it."""
        return self.properties.get(COMMENT)

    @property
    def query_columns(self) -> tuple[str, ...]:
        """What the query calls its columns, where that was written down and tells them apart; else empty."""
        names = tuple(self.properties.get(QUERY_COLUMNS, "").split(","))
        told_apart = len({name.lower() for name in names}) == len(names) == len(self.schema.fields)
        return names if told_apart and all(names) else ()

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Set properties; the others stay."""
        self._change(dict(properties), ())

    def remove_properties(self, *keys: str) -> None:
        """Remove properties; those that are not there stay away."""
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
