"""Executes statements about stored views: CREATE, ALTER, RENAME, DROP, SHOW and DESCRIBE.

A view is created with the columns that Spark reports for its query. The answers have the columns of Iceberg's own
runtime.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from esker.errors import InvalidInput, NoSuchView
from esker.model.evolution.nested_fields import locate, parts_of
from esker.model.parsing.column_definitions import columns_from_spark
from esker.model.table_names import Namespace, TableName
from esker.model.types import Field
from esker.spark.expressions.ddl_text import string_text, type_text
from esker.spark.sql.grammar.statements import AlterView, CreateLakeView, DropView, RenameView, ViewColumn
from esker.spark.sql.lake_names import LakeNames
from esker.view import View
from esker.write.views.view_versions import COMMENT, QUERY_COLUMNS

_RESERVED = frozenset(("provider", "location", "format-version", QUERY_COLUMNS))
Analyse = Callable[[TableName, str, Namespace], object]


def create_view(names: LakeNames, statement: CreateLakeView, analyse: Analyse) -> None:
    """CREATE VIEW, and ALTER VIEW … AS. Names of one part are resolved in the current namespace."""
    if statement.unless_there and names.holds(statement.name.parts):
        return
    there = names.must_find_view(statement.name) if statement.must_be_there else names.find_view(statement.name.parts)
    name = TableName.parse(there.name if there is not None else names.full(statement.name))
    namespace = names.current or name.namespace
    fields = columns_from_spark(analyse(name, statement.sql, namespace))
    properties = {**statement.properties, QUERY_COLUMNS: ",".join(field.name for field in fields)}
    names.lake.create_view(
        str(name),
        statement.sql,
        schema=_called(fields, statement.columns),
        properties=properties,
        replace=statement.replaces,
        default_namespace=".".join(namespace),
    )


def drop_view(names: LakeNames, statement: DropView) -> None:
    """DROP VIEW."""
    found = names.find_view(statement.name.parts)
    if found is None:
        if statement.if_there and names.find(statement.name.parts) is None:
            return
        raise _no_view(names, statement)
    names.lake.drop_view(found.name)


def rename_view(names: LakeNames, statement: RenameView) -> None:
    """ALTER VIEW … RENAME TO. A new name of one part stays in the namespace."""
    old = names.must_find_view(statement.name).name
    to = statement.to
    new = names.full(to) if len(to.parts) > 1 else ".".join((old.rpartition(".")[0], to.parts[0]))
    names.lake.rename_view(old, new)


def alter_view(names: LakeNames, statement: AlterView) -> None:
    """ALTER VIEW … SET and UNSET TBLPROPERTIES."""
    view = names.must_find_view(statement.name)
    if reserved := sorted(_RESERVED.intersection((*statement.properties, *statement.removed))):
        raise InvalidInput(
            f"cannot change property {reserved[0]!r} of view {view.name}: it is reserved", property=reserved[0]
        )
    missing = [key for key in statement.removed if key not in view.properties]
    if missing and not statement.if_there:
        raise InvalidInput(
            f"cannot remove property {missing[0]!r} of view {view.name}: it is not set; UNSET TBLPROPERTIES IF EXISTS "
            "ignores that",
            property=missing[0],
        )
    if statement.removed:
        view.remove_properties(*statement.removed)
    else:
        view.set_properties(statement.properties)


def _no_view(names: LakeNames, statement: DropView) -> NoSuchView:
    try:
        names.lake.view(names.full(statement.name))
    except NoSuchView as error:
        return error
    return NoSuchView(f"there is no view {statement.name}", view=str(statement.name))


def _called(fields: tuple[Field, ...], columns: tuple[ViewColumn, ...]) -> tuple[Field, ...]:
    if not columns:
        return fields
    if len(columns) != len(fields):
        raise InvalidInput(f"cannot name {len(columns)} columns of {len(fields)} in the view")
    return tuple(
        replace(field, name=column.name, doc=column.doc) for field, column in zip(fields, columns, strict=True)
    )


_PLAIN = re.compile("[A-Za-z_][A-Za-z0-9_]*")

Told = tuple[str, list[tuple[Any, ...]]]  # columns as DDL, and rows


def described(view: View, extended: bool, column: str | None, catalog: str) -> Told:
    """DESCRIBE a view."""
    if column is not None:
        field = locate(view.schema, parts_of(column))[-1]
        facts = [("col_name", field.name), ("data_type", type_text(field.type)), ("comment", field.doc)]
        return "info_name string, info_value string", facts
    rows: list[tuple[Any, ...]] = [(field.name, type_text(field.type), field.doc or "") for field in view.schema.fields]
    if extended:
        rows += [("", "", ""), ("# Detailed View Information", "", "")]
        rows += [(name, value, "") for name, value in _details(view, catalog)]
    return "col_name string, data_type string, comment string", rows


def properties(view: View) -> dict[str, str]:
    """SHOW TBLPROPERTIES: the properties that were set, and those that every view has."""
    own = {key: value for key, value in view.properties.items() if key != QUERY_COLUMNS}
    held = {"provider": "iceberg", "location": view.location, "format-version": str(view.metadata.format_version)}
    return dict(sorted({**own, **held}.items()))


def create_text(view: View, before: str) -> str:
    """SHOW CREATE TABLE: the statement that creates the same view."""
    columns = ",\n".join(
        f"  {_name_text(field.name)}" + (f" COMMENT {string_text(field.doc)}" if field.doc else "")
        for field in view.schema.fields
    )
    lines = [f"CREATE VIEW {before}{'.'.join(map(_name_text, view.name.split('.')))} (\n{columns})"]
    if view.comment is not None:
        lines.append(f"COMMENT {string_text(view.comment)}")
    pairs = ",\n".join(f"  {pair}" for pair in _pairs(view))
    return "\n".join([*lines, f"TBLPROPERTIES (\n{pairs})", f"AS\n{view.sql}\n"])


def _pairs(view: View) -> list[str]:
    shown = properties(view)
    return [f"{string_text(key)} = {string_text(value)}" for key, value in shown.items() if key != COMMENT]


def _name_text(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def _details(view: View, catalog: str) -> Iterable[tuple[str, str]]:
    version = view.current_version
    yield "Name", view.name
    yield "Type", "VIEW"
    yield "Comment", view.comment or ""
    yield "View Catalog and Namespace", f"{catalog}.{view.name.rpartition('.')[0]}"
    yield "View Text", view.sql
    yield "View Query Output Columns", "[" + ", ".join(view.query_columns) + "]"
    yield "Default Namespace", ".".join(version.default_namespace)
    yield "Dialects", ", ".join(view.dialects)
    yield "Version", str(version.version_id)
    yield "Location", view.location
    yield "UUID", view.uuid
    yield "View Properties", "[" + ", ".join(_pairs(view)) + "]"
