"""View metadata: what a view is by Iceberg's view spec, one immutable version of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from esker.model.schema import Schema
from esker.model.table_names import Namespace

SPARK = "spark"  # the dialect that this engine speaks


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlRepresentation:
    """The view's query, in one dialect of SQL."""

    sql: str
    dialect: str
    rest: Mapping[str, Any] = field(default_factory=dict)  # fields of a later spec, as they stood


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherRepresentation:
    """The view's definition in a form that is not known here, kept as it stood."""

    kind: str
    rest: Mapping[str, Any] = field(default_factory=dict)


Representation: TypeAlias = SqlRepresentation | OtherRepresentation


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewVersion:
    """A definition of the view; it never changes, a new definition is a new version."""

    version_id: int
    schema_id: int
    timestamp_ms: int
    representations: tuple[Representation, ...]
    default_namespace: Namespace  # where a name of one part is looked for
    default_catalog: str | None = None  # None: the catalog that holds the view
    summary: Mapping[str, str] = field(default_factory=dict)
    rest: Mapping[str, Any] = field(default_factory=dict)

    @property
    def dialects(self) -> tuple[str, ...]:
        """The dialects that the query is there in, in lower case."""
        return tuple(one.dialect.lower() for one in self.representations if isinstance(one, SqlRepresentation))

    def sql(self, dialect: str = SPARK) -> str | None:
        """The query in one dialect; None where it is not there in it."""
        for one in self.representations:
            if isinstance(one, SqlRepresentation) and one.dialect.lower() == dialect:
                return one.sql
        return None

    def says_the_same(self, other: ViewVersion) -> bool:
        """Whether both define the same view, whenever and under whichever number."""
        return (self.schema_id, self.representations, self.default_namespace, self.default_catalog, self.summary) == (
            other.schema_id,
            other.representations,
            other.default_namespace,
            other.default_catalog,
            other.summary,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionLogEntry:
    """When a version became the current one."""

    timestamp_ms: int
    version_id: int


@dataclass(frozen=True, kw_only=True)
class ViewMetadata:
    """Everything about a view: its versions, their columns, which one counts, and its properties."""

    uuid: str
    location: str
    schemas: tuple[Schema, ...]
    current_version_id: int
    versions: tuple[ViewVersion, ...]
    version_log: tuple[VersionLogEntry, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    format_version: int = 1
    rest: Mapping[str, Any] = field(default_factory=dict)
    origin: Any = None  # what the codec decoded the schemas from, so that it can write back what it did not understand

    @cached_property
    def current_version(self) -> ViewVersion:
        """The version that a query reads."""
        return next(one for one in self.versions if one.version_id == self.current_version_id)

    @cached_property
    def schema(self) -> Schema:
        """The columns of the current version."""
        return next(one for one in self.schemas if one.schema_id == self.current_version.schema_id)
