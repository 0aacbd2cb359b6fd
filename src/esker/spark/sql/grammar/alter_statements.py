"""The parts of an ALTER TABLE statement: changes of columns, layout, properties, branches and tags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from esker.model.predicates.unbound_predicate import Literal
from esker.spark.sql.grammar.words import Named
from esker.tree.snapshot import RefKind


@dataclass(frozen=True, slots=True, kw_only=True)
class AddColumn:
    """ADD COLUMN."""

    name: str
    type: str
    required: bool = False
    default: Literal | None = None
    doc: str | None = None
    first: bool = False
    after: str | None = None
    unless_there: bool = False


@dataclass(frozen=True, slots=True)
class DropColumn:
    """DROP COLUMN."""

    name: str
    if_there: bool = False


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """RENAME COLUMN."""

    name: str
    to: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeColumn:
    """ALTER COLUMN. Every field that is not None is changed."""

    name: str
    type: str | None = None
    doc: str | None = None
    without_doc: bool = False
    optional: bool = False
    required: bool = False
    first: bool = False
    after: str | None = None
    default: Literal | None = None  # the null literal removes the default


@dataclass(frozen=True, slots=True)
class AddPartition:
    """ADD PARTITION FIELD."""

    term: str
    label: str | None = None


@dataclass(frozen=True, slots=True)
class DropPartition:
    """DROP PARTITION FIELD."""

    term: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOrder:
    """WRITE ORDERED BY and similar clauses. ``distribution`` is the new value of the table's property."""

    terms: tuple[str, ...] | None
    distribution: str | None


@dataclass(frozen=True, slots=True)
class SetProperties:
    """SET TBLPROPERTIES."""

    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SetLocation:
    """SET LOCATION."""

    location: str


@dataclass(frozen=True, slots=True)
class UnsetProperties:
    """UNSET TBLPROPERTIES."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IdentifierFields:
    """SET or DROP IDENTIFIER FIELDS."""

    names: tuple[str, ...]
    drop: bool


Change: TypeAlias = (
    AddColumn
    | DropColumn
    | RenameColumn
    | ChangeColumn
    | AddPartition
    | DropPartition
    | WriteOrder
    | SetProperties
    | SetLocation
    | UnsetProperties
    | IdentifierFields
)


@dataclass(frozen=True, slots=True)
class AlterTable:
    """ALTER TABLE: changes of the definition, in one commit."""

    name: Named
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRef:
    """CREATE or REPLACE BRANCH or TAG."""

    table: Named
    kind: RefKind
    ref: str
    creates: bool = True
    replaces: bool = False
    unless_there: bool = False
    snapshot_id: int | None = None
    max_ref_age_ms: int | None = None
    min_snapshots_to_keep: int | None = None
    max_snapshot_age_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DropRef:
    """DROP BRANCH or TAG."""

    table: Named
    kind: RefKind
    ref: str
    if_there: bool
