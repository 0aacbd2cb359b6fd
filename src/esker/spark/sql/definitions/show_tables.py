"""Executes SHOW and DESCRIBE of namespaces, tables and their properties. The answers have Spark's columns."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from esker.errors import InvalidInput
from esker.model.evolution.nested_fields import locate, parts_of
from esker.spark.expressions.ddl_text import column_text, partition_terms, sort_terms, string_text, type_text
from esker.spark.sql.definitions import view_statements
from esker.spark.sql.definitions.define_tables import FORMAT_VERSION
from esker.spark.sql.grammar.statements import (
    DescribeNamespace,
    DescribeTable,
    ShowColumns,
    ShowCreateTable,
    ShowCurrentNamespace,
    ShowNamespaces,
    ShowPartitions,
    ShowProperties,
    ShowTables,
    ShowViews,
)
from esker.spark.sql.grammar.words import Named
from esker.spark.sql.lake_names import LakeNames
from esker.spark.sql.queries.query_frames import Answer
from esker.table import Table
from esker.view import View

Looking = (
    ShowNamespaces
    | ShowCurrentNamespace
    | ShowTables
    | ShowViews
    | ShowCreateTable
    | ShowProperties
    | ShowColumns
    | ShowPartitions
    | DescribeTable
    | DescribeNamespace
)
Told = tuple[str, list[tuple[Any, ...]]]  # columns as DDL, and rows


def look(names: LakeNames, statement: Looking) -> Answer:
    """Return the answer to a statement that changes nothing."""
    return Answer(*_told(names, statement))


def _told(names: LakeNames, statement: Looking) -> Told:
    if (told := _told_of_view(names, statement)) is not None:
        return told
    match statement:
        case ShowViews():
            return _views(names, statement)
        case ShowNamespaces(inside, like):
            return "namespace string", [(name,) for name in _namespaces(names, inside, like)]
        case ShowCurrentNamespace():
            return "catalog string, namespace string", [(names.catalog, ".".join(names.current))]
        case ShowTables(inside, like):
            return _tables(names, statement, like)
        case ShowCreateTable(table):
            return "createtab_stmt string", [(create_text(names.must_find(table).table),)]
        case ShowProperties(table, key):
            return _properties(names.must_find(table).table, key)
        case ShowColumns(table):
            return "col_name string", [(field.name,) for field in names.must_find(table).table.schema.fields]
        case ShowPartitions(table):
            return _partitions(names.must_find(table).table)
        case DescribeTable(table, extended, column):
            return _described(names.must_find(table).table, extended, column)
        case DescribeNamespace(name, extended):
            return _described_namespace(names, names.namespace_named(name), extended)


def _told_of_view(names: LakeNames, statement: Looking) -> Told | None:
    """Return the answer if the name is a view. Returns None if it is a table, or neither."""
    if not isinstance(statement, ShowCreateTable | ShowProperties | ShowColumns | DescribeTable):
        return None
    view = names.find_view(statement.table.parts) if names.find(statement.table.parts) is None else None
    if view is None:
        return None
    match statement:
        case ShowCreateTable():
            return "createtab_stmt string", [(view_statements.create_text(view, _before(names, view)),)]
        case ShowProperties(_, key):
            held = view_statements.properties(view)
            said = f"View {names.catalog}.{view.name} does not have property: {key}"
            return "key string, value string", [*held.items()] if key is None else [(key, held.get(key, said))]
        case ShowColumns():
            return "col_name string", [(field.name,) for field in view.schema.fields]
        case DescribeTable(_, extended, column):
            return view_statements.described(view, extended, column, names.catalog)


def _before(names: LakeNames, view: View) -> str:
    """Return the lake's own name with a dot, if a view's name can have it as a prefix."""
    return f"{names.catalog}." if names.is_called((names.catalog, *view.name.split("."))) else ""


def _views(names: LakeNames, statement: ShowViews) -> Told:
    found = [] if _is_root(names, statement.inside) else names.lake.views(_looked_in(names, statement.inside))
    rows = [(full.rpartition(".")[0], full.rpartition(".")[2], False) for full in found]
    rows += [("", name, True) for name in names.spark.temp_views()]
    columns = "namespace string, viewName string, isTemporary boolean"
    return columns, [row for row in rows if _is_like(row[1], statement.like)]


def create_text(table: Table) -> str:
    """Return the statement that creates the same table, without rows."""
    lines = [
        f"CREATE TABLE {table.name} (",
        ",\n".join(f"  {column_text(field)}" for field in table.schema.fields) + ")",
    ]
    lines.append("USING iceberg")
    terms = partition_terms(table)
    if terms:
        lines.append(f"PARTITIONED BY ({', '.join(terms)})")
    comment = table.properties.get("comment")
    if comment is not None:
        lines.append(f"COMMENT {string_text(comment)}")
    lines.append(f"LOCATION {string_text(table.location)}")
    held = {FORMAT_VERSION: str(table.format_version), **_without(table.properties, "comment")}
    pairs = ",\n".join(f"  {string_text(key)} = {string_text(value)}" for key, value in sorted(held.items()))
    return "\n".join([*lines, f"TBLPROPERTIES (\n{pairs})"])


def _without(properties: Any, key: str) -> dict[str, str]:
    return {name: value for name, value in properties.items() if name != key}


def _namespaces(names: LakeNames, inside: Named | None, like: str | None) -> list[str]:
    every = names.lake.namespaces()
    if inside is not None and not names.is_lake(inside):
        prefix = names.namespace_named(inside)
        names.lake.tables(prefix)  # raises if the namespace does not exist
        every = [name for name in every if name.startswith(prefix + ".")]
    return [name for name in every if _is_like(name, like)]


def _tables(names: LakeNames, statement: ShowTables, like: str | None) -> Told:
    found = [] if _is_root(names, statement.inside) else names.lake.tables(_looked_in(names, statement.inside))
    rows = [(full.rpartition(".")[0], full.rpartition(".")[2], False) for full in found]
    return "namespace string, tableName string, isTemporary boolean", [row for row in rows if _is_like(row[1], like)]


def _looked_in(names: LakeNames, inside: Named | None) -> str | None:
    """Return the namespace to list, or None for all."""
    if inside is None:
        return ".".join(names.current) or None
    return names.namespace_named(inside)


def _is_root(names: LakeNames, inside: Named | None) -> bool:
    """Return whether the lake itself is listed. It has no tables or views outside namespaces."""
    return inside is not None and names.is_lake(inside)


def _is_like(name: str, pattern: str | None) -> bool:
    """Return whether a name matches Spark's pattern of SHOW: ``*`` for anything, ``|`` between choices, in any case."""
    if pattern is None:
        return True
    choices = (".*".join(map(re.escape, choice.strip().split("*"))) for choice in pattern.split("|"))
    return any(re.fullmatch(choice, name, re.IGNORECASE) for choice in choices)


def _properties(table: Table, key: str | None) -> Told:
    held = {FORMAT_VERSION: str(table.format_version), **table.properties}
    if key is not None:
        said = held.get(key, f"Table {table.name} does not have property: {key}")
        return "key string, value string", [(key, said)]
    return "key string, value string", sorted(held.items())


def _partitions(table: Table) -> Told:
    if table.spec.is_unpartitioned:
        raise InvalidInput(f"cannot show the partitions of {table.name}: it is not partitioned", table=table.name)
    rows = table.inspect.partitions().column("partition").to_pylist()
    return "partition string", [("/".join(f"{name}={_shown(value)}" for name, value in row.items()),) for row in rows]


def _shown(value: Any) -> str:
    return "null" if value is None else str(value)


def _described(table: Table, extended: bool, column: str | None) -> Told:
    if column is not None:
        field = locate(table.schema, parts_of(column))[-1]
        facts = [("col_name", field.name), ("data_type", type_text(field.type)), ("comment", field.doc)]
        return "info_name string, info_value string", facts
    rows: list[tuple[Any, ...]] = [(field.name, type_text(field.type), field.doc) for field in table.schema.fields]
    terms = partition_terms(table)
    if terms:
        rows += [("", "", ""), ("# Partitioning", "", "")]
        rows += [(f"Part {at}", term, "") for at, term in enumerate(terms)]
    if extended:
        rows += [("", "", ""), ("# Detailed Table Information", "", "")]
        rows += [(name, value, "") for name, value in _details(table)]
    return "col_name string, data_type string, comment string", rows


def _details(table: Table) -> Iterable[tuple[str, str]]:
    yield "Name", table.name
    yield "Type", "MANAGED"
    if "comment" in table.properties:
        yield "Comment", table.properties["comment"]
    yield "Location", table.location
    yield "Provider", "iceberg"
    yield "Format version", str(table.format_version)
    yield "UUID", str(table.uuid)
    snapshot = table.current_snapshot
    yield "Current snapshot", "none" if snapshot is None else str(snapshot.snapshot_id)
    if order := sort_terms(table):
        yield "Sort order", ", ".join(order)
    yield "Table Properties", "[" + ",".join(f"{key}={value}" for key, value in sorted(table.properties.items())) + "]"


def _described_namespace(names: LakeNames, name: str, extended: bool) -> Told:
    properties = names.lake.namespace_properties(name)
    rows = [("Namespace Name", name)]
    rows += [
        (label, properties[key])
        for label, key in (("Comment", "comment"), ("Location", "location"))
        if key in properties
    ]
    if extended:
        rest = {key: value for key, value in properties.items() if key not in ("comment", "location")}
        rows.append(("Properties", "(" + ", ".join(f"({key},{value})" for key, value in sorted(rest.items())) + ")"))
    return "info_name string, info_value string", list(rows)
