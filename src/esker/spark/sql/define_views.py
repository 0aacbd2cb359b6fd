"""Statements about views that last: made with the columns that Spark says their query has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from esker.errors import InvalidInput, NoSuchView
from esker.model.naming import Namespace, TableName
from esker.model.spark_schema import columns_from_spark
from esker.model.types import Field
from esker.spark.sql.lake_names import LakeNames
from esker.spark.sql.statements import AlterView, CreateLakeView, DropView, RenameView, ViewColumn
from esker.write.view_versions import QUERY_COLUMNS

_RESERVED = frozenset(("provider", "location", "format-version", QUERY_COLUMNS))
Analyse = Callable[[TableName, str, Namespace], object]


def create_view(names: LakeNames, statement: CreateLakeView, analyse: Analyse) -> None:
    """CREATE VIEW, and ALTER VIEW … AS. Names of one part are looked for where they are now."""
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
    """ALTER VIEW … RENAME TO; a new name of one part stays in the namespace."""
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
