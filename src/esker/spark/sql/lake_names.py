"""Resolves names of SQL in a lake: first with exact case, then in any case, as Spark does."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from esker.errors import InvalidInput, NoSuchNamespace, NoSuchTable, NoSuchView
from esker.ports.catalog import Catalog
from esker.spark.sql.grammar.words import Elsewhere, Named
from esker.spark.sql.guard.query_reader import Shape
from esker.spark.sql.guard.trust import Trust, trust_of
from esker.table import Table
from esker.view import View

SPARK_CATALOGS = ("spark_catalog", "global_temp", "session", "system")
CHANGES = "changes"
"""The table of a table's changes. ``inspect`` does not have it."""
_SIGN = "$"  # also between a table and a part of it, as in `t$snapshots`
_VERSION = re.compile(r"(branch|tag|snapshot_id|at_timestamp)_(.+)", re.IGNORECASE | re.DOTALL)


class LakeTables(Protocol):
    """The methods of a lake that SQL needs."""

    def namespaces(self) -> list[str]: ...
    def namespace_properties(self, name: str) -> dict[str, str]: ...
    def create_namespace(self, name: str, properties: Mapping[str, str] | None = None) -> None: ...
    def set_namespace_properties(
        self, name: str, updates: Mapping[str, str] | None = None, removals: Iterable[str] = ()
    ) -> None: ...
    def drop_namespace(self, name: str) -> None: ...
    def tables(self, namespace: str | None = None) -> list[str]: ...
    def table(self, name: str) -> Table: ...
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
    ) -> Table: ...
    def create_table_as(
        self,
        name: str,
        schema: object,
        data: object,
        *,
        partition_by: Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        format_version: int = 2,
        location: str | None = None,
    ) -> Table: ...
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
    ) -> Table: ...
    def drop_table(self, name: str, purge: bool = False) -> None: ...
    def rename_table(self, old: str, new: str) -> Table: ...
    def register_table(self, name: str, metadata_location: str) -> Table: ...
    def views(self, namespace: str | None = None) -> list[str]: ...
    def view(self, name: str) -> View: ...
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
    ) -> View: ...
    def drop_view(self, name: str) -> None: ...
    def rename_view(self, old: str, new: str) -> View: ...
    @property
    def catalog(self) -> Catalog: ...
    @property
    def trusted_views(self) -> bool | Sequence[str]: ...


class SparkNames(Protocol):
    """The questions about names that SQL asks Spark."""

    def has_database(self, name: str) -> bool:
        """Whether Spark's own catalog has such a database."""
        ...

    def has_temp_view(self, name: str) -> bool:
        """Whether the session has a temporary view of that name."""
        ...

    def temp_views(self) -> list[str]:
        """The names of the session's temporary views. Empty if no session is running."""
        ...

    def check_view(self, text: str, shape: Shape) -> None:
        """Raise ``InvalidInput`` if this session would read a view's text differently from its shape."""
        ...

    def setting(self, key: str) -> str | None:
        """Return a setting of the session. Returns None if it is not set, or if no session may be started."""
        ...


@dataclass(frozen=True, slots=True)
class Found:
    """A table of the lake, or a metadata table or version of it."""

    table: Table
    metadata_table: str | None = None
    snapshot_id: int | None = None
    ref: str | None = None
    as_of_ms: int | None = None


@dataclass(slots=True)
class LakeNames:
    """The lake's names during one statement. Each table is loaded once, so the statement sees one version of it."""

    lake: LakeTables
    spark: SparkNames
    current: tuple[str, ...] = ()
    catalog: str = "lake"  # the lake's name in front of its namespaces
    in_view: bool = False  # the names are in a view's query, which sees no temporary views
    view_texts: dict[str, str] = field(default_factory=dict)  # the text of each view that was expanded so far
    _tables: dict[tuple[str, ...], Table | None] = field(default_factory=dict)
    _views: dict[tuple[str, ...], View | None] = field(default_factory=dict)
    _namespaces: list[tuple[str, ...]] | None = None

    def within(self, namespace: tuple[str, ...]) -> LakeNames:
        """Return the same names as the query of a view sees them. Loaded tables are shared."""
        return replace(self, current=namespace, in_view=True)

    def table(self, name: Named) -> Named:
        """Return the name if it is the lake's. Raises ``Elsewhere`` if it is Spark's."""
        if name.parts[0].lower() in SPARK_CATALOGS:
            raise Elsewhere
        if self.holds(name.parts) or self.is_called(name.parts):
            return name
        if len(name.parts) == 1:
            if self._in_current(name.parts[0]):
                return name
            raise Elsewhere
        return self._lake_or_spark(name, name.parts[:-1])

    def namespace(self, name: Named) -> Named:
        """Return the name if it is the lake's. Raises ``Elsewhere`` if it is Spark's."""
        if name.parts[0].lower() in SPARK_CATALOGS:
            raise Elsewhere
        return name if self.is_called(name.parts) else self._lake_or_spark(name, name.parts)

    def new(self, name: Named) -> Named:
        """Return the name of a new object.

        It is the lake's, unless Spark's catalog is named: then raises ``Elsewhere``.
        """
        if name.parts[0].lower() in SPARK_CATALOGS:
            raise Elsewhere
        return name

    def holds(self, parts: tuple[str, ...]) -> bool:
        """Return whether the lake has a table or view of this name."""
        return self.find(parts) is not None or self.find_view(parts) is not None

    def _lake_or_spark(self, name: Named, namespace: tuple[str, ...]) -> Named:
        if self._namespace(namespace) is None and self.spark.has_database(name.parts[0]):
            raise Elsewhere
        return name

    def own(self, parts: tuple[str, ...]) -> tuple[str, ...]:
        """Return the name without the lake's own name: ``lake.sales.orders`` is ``sales.orders``."""
        return parts[1:] if self.is_called(parts) else parts

    def is_called(self, parts: tuple[str, ...]) -> bool:
        """Return whether the name starts with the lake's own name, and this is not a namespace of the lake."""
        if len(parts) < 2 or parts[0].lower() != self.catalog.lower() or self.in_view:
            return False
        return self._namespace(parts[:1]) is None

    def find(self, parts: tuple[str, ...]) -> Found | None:
        """Return the table, metadata table, branch or tag of this name, or None."""
        parts = self.own(parts)
        if len(parts) == 1 and not self._in_current(parts[0]):
            return None
        for full in self._spellings(parts):
            if (table := self._table(full)) is not None:
                return Found(table)
        for full in self._spellings(parts):
            if len(full) > 2 and (found := self._part_of(full[:-1], full[-1])) is not None:
                return found
            whole, sign, last = full[-1].partition(_SIGN)
            if sign and whole and (found := self._part_of((*full[:-1], whole), last)) is not None:
                return found
        return None

    def find_view(self, parts: tuple[str, ...]) -> View | None:
        """Return the view of this name, or None."""
        parts = self.own(parts)
        if len(parts) == 1 and not self._in_current(parts[0]):
            return None
        return next((view for full in self._spellings(parts) if (view := self._view(full)) is not None), None)

    def must_find_view(self, name: Named) -> View:
        """Return the view of this name. Raises ``NoSuchView`` with similar names."""
        return self.find_view(name.parts) or self.lake.view(self.full(name))

    def must_find(self, name: Named) -> Found:
        """Return the table of this name. Raises ``NoSuchTable`` with similar names, and ``InvalidInput`` for a view."""
        found = self.find(name.parts)
        if found is None:
            if (view := self.find_view(name.parts)) is not None:
                raise InvalidInput(
                    f"cannot use {name} (at {name.place}) as a table: {view.name} is a view, whose rows are those "
                    "of its query; use CREATE OR REPLACE VIEW, ALTER VIEW or DROP VIEW to change it",
                    view=view.name,
                    place=name.place,
                )
            self.lake.table(self.full(name))  # raises with similar names
            raise NoSuchTable(f"there is no table {name} (at {name.place})", table=str(name))
        return found

    def session_has(self, name: str) -> bool:
        """Return whether Spark's session has a temporary view of that name."""
        return self.spark.has_temp_view(name)

    def trust(self) -> Trust:
        """Return what the reader allows views to use."""
        return trust_of(self.lake.trusted_views)

    def lake_name(self) -> str | None:
        """Return the name of the lake's catalog in other engines, if it is known."""
        return self.lake.catalog.view_catalog().catalog_name()

    def is_missing_from_lake(self, parts: tuple[str, ...]) -> bool:
        """Return whether a missing name is in a namespace of the lake, so that Spark need not be asked."""
        return self.is_called(parts) or (len(parts) > 1 and self._namespace(parts[:-1]) is not None)

    def full(self, name: Named) -> str:
        """Return the full name of a table, which need not exist.

        Raises ``InvalidInput`` if the namespace is not known.
        """
        parts = self.own(name.parts)
        if len(parts) > 1:
            namespace = self._namespace(parts[:-1]) or parts[:-1]
            return ".".join((*namespace, _checked(name)))
        if not self.current:
            raise InvalidInput(
                f"cannot tell the namespace of {name} (at {name.place}): write namespace.{name}, or USE a namespace",
                place=name.place,
            )
        return ".".join((*self.current, _checked(name)))

    def is_lake(self, name: Named) -> bool:
        """Return whether the name is the lake's own, and no namespace of the lake has it."""
        is_own = len(name.parts) == 1 and name.parts[0].lower() == self.catalog.lower()
        return is_own and self._namespace(name.parts) is None

    def namespace_named(self, name: Named) -> str:
        """Return a namespace in its exact case."""
        parts = self.own(name.parts)
        return ".".join(self._namespace(parts) or parts)

    def _in_current(self, name: str) -> bool:
        """Return whether a name of one part is resolved in the lake. Temporary views of the session have precedence."""
        return bool(self.current) and (self.in_view or not self.spark.has_temp_view(name))

    def _spellings(self, parts: tuple[str, ...]) -> Sequence[tuple[str, ...]]:
        inside = [(*self.current, *parts)] if self.current else []
        return [parts, *inside] if len(parts) > 1 else inside

    def _part_of(self, parts: tuple[str, ...], last: str) -> Found | None:
        version = _VERSION.fullmatch(last)
        table = self._table(parts)
        if table is None:
            return None
        if version is None:
            is_one = last.lower() in (*table.inspect.tables, CHANGES)
            return Found(table, metadata_table=last.lower()) if is_one else None
        kind, value = version[1].lower(), version[2]
        if kind in ("branch", "tag"):
            return Found(table, ref=value)
        if not (value.isascii() and value.isdecimal()):
            return None
        return Found(table, snapshot_id=int(value)) if kind == "snapshot_id" else Found(table, as_of_ms=int(value))

    def _table(self, parts: tuple[str, ...]) -> Table | None:
        if parts not in self._tables:
            self._tables[parts] = self._load(parts)
        return self._tables[parts]

    def _load(self, parts: tuple[str, ...]) -> Table | None:
        namespace = self._namespace(parts[:-1])
        if namespace is None or any("." in part for part in parts):
            return None
        prefix = ".".join(namespace)
        try:
            return self.lake.table(f"{prefix}.{parts[-1]}")
        except (NoSuchTable, InvalidInput):
            pass
        try:
            there = self.lake.tables(prefix)
        except NoSuchNamespace:
            return None
        fits = [name for name in there if name.lower() == f"{prefix}.{parts[-1]}".lower()]
        return self.lake.table(fits[0]) if len(fits) == 1 else None

    def _view(self, parts: tuple[str, ...]) -> View | None:
        if parts not in self._views:
            self._views[parts] = self._load_view(parts)
        return self._views[parts]

    def _load_view(self, parts: tuple[str, ...]) -> View | None:
        namespace = self._namespace(parts[:-1])
        if namespace is None or any("." in part for part in parts):
            return None
        prefix = ".".join(namespace)
        try:
            return self.lake.view(f"{prefix}.{parts[-1]}")
        except (NoSuchView, InvalidInput):
            pass
        try:
            there = self.lake.views(prefix)
        except NoSuchNamespace:
            return None
        fits = [name for name in there if name.lower() == f"{prefix}.{parts[-1]}".lower()]
        return self.lake.view(fits[0]) if len(fits) == 1 else None

    def _namespace(self, parts: tuple[str, ...]) -> tuple[str, ...] | None:
        if self._namespaces is None:
            self._namespaces = [tuple(name.split(".")) for name in self.lake.namespaces()]
        if parts in self._namespaces:
            return parts
        folded = tuple(part.lower() for part in parts)
        fits = [name for name in self._namespaces if tuple(part.lower() for part in name) == folded]
        return fits[0] if len(fits) == 1 else None


def _checked(name: Named) -> str:
    if any("." in part for part in name.parts):
        raise InvalidInput(f"cannot use the name {name} (at {name.place}): a part of it has a dot", place=name.place)
    return name.parts[-1]
