"""The types of parsed statements. No name in them is resolved yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from esker.spark.sql.grammar.alter_statements import AlterTable, DropRef, SetRef
from esker.spark.sql.grammar.words import Named, Span


@dataclass(frozen=True, slots=True)
class Query:
    """A query: a part of the statement that Spark executes, with frames in place of lake tables."""

    text: str
    body: Span  # the query itself, without EXPLAIN or similar words before it


@dataclass(frozen=True, slots=True)
class Foreign:
    """A statement that is not about the lake. Spark executes it unchanged."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateView:
    """A temporary view in Spark over a query."""

    name: Named
    columns: tuple[str, ...]
    replaces: bool
    is_global: bool
    query: Query


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateNamespace:
    """CREATE NAMESPACE."""

    name: Named
    unless_there: bool
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DropNamespace:
    """DROP NAMESPACE."""

    name: Named
    if_there: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterNamespace:
    """ALTER NAMESPACE, and COMMENT ON NAMESPACE."""

    name: Named
    updates: Mapping[str, str] = field(default_factory=dict)
    removals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable:
    """CREATE TABLE. With a query, the table and its rows appear together or not at all."""

    name: Named
    unless_there: bool
    columns: str | None = None
    partition_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    location: str | None = None
    query: Query | None = None
    replaces: bool = False  # may replace an existing table
    must_be_there: bool = False  # REPLACE TABLE
    like: Named | None = None  # the table whose definition it gets


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTable:
    """DROP TABLE."""

    name: Named
    if_there: bool
    purge: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameTable:
    """ALTER TABLE … RENAME TO."""

    name: Named
    to: Named


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheTable:
    """CACHE TABLE. With a query, it also creates a temporary view of that name."""

    name: Named
    lazy: bool
    level: str | None = None  # a storage level in Spark
    query: Query | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UncacheTable:
    """UNCACHE TABLE."""

    name: Named
    if_there: bool


@dataclass(frozen=True, slots=True)
class ViewColumn:
    """A view's name for a column of its query."""

    name: str
    doc: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateLakeView:
    """CREATE VIEW, and ALTER VIEW … AS."""

    name: Named
    sql: str
    columns: tuple[ViewColumn, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    replaces: bool = False
    unless_there: bool = False
    must_be_there: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DropView:
    """DROP VIEW."""

    name: Named
    if_there: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameView:
    """ALTER VIEW … RENAME TO."""

    name: Named
    to: Named


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterView:
    """ALTER VIEW … SET or UNSET TBLPROPERTIES."""

    name: Named
    properties: Mapping[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    if_there: bool = False  # whether a removed property may be missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """INSERT INTO or OVERWRITE."""

    table: Named
    query: Query
    overwrite: bool = False
    columns: tuple[str, ...] | None = None
    by_name: bool = False
    partition: Mapping[str, str | None] = field(default_factory=dict)  # a value's text; None: from the query
    replace_where: str | None = None  # with blanks for the text before it
    evolves: bool = False  # WITH SCHEMA EVOLUTION


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """DELETE FROM. Without a predicate, all rows."""

    table: Named
    alias: str | None
    where: str | None
    ctes: str = ""  # WITH and its CTEs, before the statement
    partition: Mapping[str, str] | None = None  # for TRUNCATE: the text of each column's value


@dataclass(frozen=True, slots=True)
class Stretch:
    """An expression of a statement."""

    whole: str  # the whole statement; its expressions share it, and there may be thousands
    span: Span
    place: str

    @property
    def text(self) -> str:
        """The text of the expression."""
        return self.whole[self.span.start : self.span.end]


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """UPDATE … SET. Without a predicate, all rows."""

    table: Named
    alias: str | None
    values: tuple[tuple[str, Stretch], ...]
    where: Stretch | None
    ctes: str = ""


@dataclass(frozen=True, slots=True)
class MergeSource:
    """What follows USING: rows, and their name."""

    query: Query
    alias: str | None
    name: str | None  # of a table without an alias


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeClause:
    """WHEN … THEN. ``values`` is None for a delete and for ``*``."""

    matched: bool
    by_source: bool
    condition: Stretch | None
    kind: str  # update, delete or insert
    values: tuple[tuple[str, Stretch], ...] | None
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """MERGE INTO."""

    table: Named
    alias: str | None
    source: MergeSource
    on: Stretch
    clauses: tuple[MergeClause, ...]
    ctes: str = ""
    evolves: bool = False  # WITH SCHEMA EVOLUTION


Constant = str | int | bool | None


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a procedure: a constant, a map of constants, or an expression that Spark computes."""

    name: str | None  # None: by position
    text: str
    place: str
    is_constant: bool
    value: Constant | Mapping[Constant, Constant]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """CALL system.name(…)."""

    name: str
    arguments: tuple[Argument, ...]
    place: str


@dataclass(frozen=True, slots=True)
class ShowNamespaces:
    """SHOW NAMESPACES."""

    inside: Named | None
    like: str | None


@dataclass(frozen=True, slots=True)
class ShowCurrentNamespace:
    """SHOW CURRENT NAMESPACE."""


@dataclass(frozen=True, slots=True)
class ShowTables:
    """SHOW TABLES."""

    inside: Named | None
    like: str | None


@dataclass(frozen=True, slots=True)
class ShowViews:
    """SHOW VIEWS."""

    inside: Named | None
    like: str | None


@dataclass(frozen=True, slots=True)
class ShowCreateTable:
    """SHOW CREATE TABLE."""

    table: Named


@dataclass(frozen=True, slots=True)
class ShowProperties:
    """SHOW TBLPROPERTIES."""

    table: Named
    key: str | None


@dataclass(frozen=True, slots=True)
class ShowColumns:
    """SHOW COLUMNS."""

    table: Named


@dataclass(frozen=True, slots=True)
class ShowPartitions:
    """SHOW PARTITIONS."""

    table: Named


@dataclass(frozen=True, slots=True)
class DescribeTable:
    """DESCRIBE TABLE."""

    table: Named
    extended: bool
    column: str | None = None


@dataclass(frozen=True, slots=True)
class DescribeNamespace:
    """DESCRIBE NAMESPACE."""

    name: Named
    extended: bool


@dataclass(frozen=True, slots=True)
class UseNamespace:
    """USE: the namespace in which names of one part are resolved."""

    name: Named


@dataclass(frozen=True, slots=True)
class RefreshTable:
    """REFRESH TABLE. Nothing to do, because every statement reads the newest version."""

    table: Named


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN of a statement that writes rows."""

    statement: Insert | CreateTable | Delete | Update | Merge
    kind: str  # EXTENDED or a similar word, or empty


Statement: TypeAlias = (
    Query
    | Foreign
    | CreateView
    | CreateLakeView
    | DropView
    | RenameView
    | AlterView
    | CreateNamespace
    | DropNamespace
    | AlterNamespace
    | CreateTable
    | DropTable
    | RenameTable
    | AlterTable
    | SetRef
    | DropRef
    | Insert
    | Delete
    | Update
    | Merge
    | Call
    | ShowNamespaces
    | ShowCurrentNamespace
    | ShowTables
    | ShowViews
    | ShowCreateTable
    | ShowProperties
    | ShowColumns
    | ShowPartitions
    | DescribeTable
    | DescribeNamespace
    | UseNamespace
    | RefreshTable
    | CacheTable
    | UncacheTable
    | Explain
)
