"""View metadata, as in Iceberg's view spec: one immutable version of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from esker.model.schema import Schema
from esker.model.table_names import Namespace

SPARK = "spark"  # the dialect of this engine


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlRepresentation:
    """The query of a view, in one SQL dialect."""

    sql: str
    dialect: str
    rest: Mapping[str, Any] = field(default_factory=dict)  # unknown fields, unchanged


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherRepresentation:
    """A definition of the view in an unknown form, unchanged."""

    kind: str
    rest: Mapping[str, Any] = field(default_factory=dict)


Representation: TypeAlias = SqlRepresentation | OtherRepresentation


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewVersion:
    """A definition of the view. It never changes; a new definition is a new version."""

    version_id: int
    schema_id: int
    timestamp_ms: int
    representations: tuple[Representation, ...]
    default_namespace: Namespace  # where a name of one part is looked up
    default_catalog: str | None = None  # None: the catalog of the view
    summary: Mapping[str, str] = field(default_factory=dict)
    rest: Mapping[str, Any] = field(default_factory=dict)

    @property
    def dialects(self) -> tuple[str, ...]:
        """The dialects of the query, in lower case."""
        return tuple(one.dialect.lower() for one in self.representations if isinstance(one, SqlRepresentation))

    def sql(self, dialect: str = SPARK) -> str | None:
        """The query in one dialect. None if it does not exist in this dialect."""
        for one in self.representations:
            if isinstance(one, SqlRepresentation) and one.dialect.lower() == dialect:
                return one.sql
        return None

    def says_the_same(self, other: ViewVersion) -> bool:
        """Whether both versions define the same view. Ids and times are not compared."""
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
    """Everything about a view: its versions, their columns, the current version, and the properties."""

    uuid: str
    location: str
    schemas: tuple[Schema, ...]
    current_version_id: int
    versions: tuple[ViewVersion, ...]
    version_log: tuple[VersionLogEntry, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    format_version: int = 1
    rest: Mapping[str, Any] = field(default_factory=dict)
    origin: Any = None  # what the codec decoded the schemas from, so that it can write unknown fields back

    @cached_property
    def current_version(self) -> ViewVersion:
        """The version that a query reads."""
        return next(one for one in self.versions if one.version_id == self.current_version_id)

    @cached_property
    def schema(self) -> Schema:
        """The columns of the current version."""
        return next(one for one in self.schemas if one.schema_id == self.current_version.schema_id)
