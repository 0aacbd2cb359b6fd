"""The columns of a native scan: what Spark is asked for, and how each of the table's columns comes out of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as spark

from esker.arrow.file_columns import FileColumn, by_field_id
from esker.model.types import Field, ListType, MapType, StructType, Type, UnknownType
from esker.spark.literals import default_sql, stored_literal
from esker.spark.protected_columns import protect
from esker.spark.scan_names import HIDDEN, scan_names
from esker.spark.survey import Layout
from esker.spark.types import FIELD_ID, stored_field, stored_primitive, stored_type
from esker.tree.table_metadata import TableMetadata

if TYPE_CHECKING:
    from pyspark.sql import Column


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StoredColumns:
    """A schema for Spark's reader, and the table's columns by id as expressions over it."""

    schema: spark.StructType
    fields: Mapping[int, Field]
    names: Mapping[int, str]  # of those that are columns of the schema as they are
    made: Mapping[int, Column] = dataclasses.field(default_factory=dict)  # the others
    protected: frozenset[int] = frozenset()  # of columns at any depth: no filter may be pushed to them

    def column(self, field_id: int) -> Column:
        """A column of the table, to be shown."""
        return protect(self._raw(field_id), self.fields[field_id], self.protected)

    def _raw(self, field_id: int) -> Column:
        name = self.names.get(field_id)
        return self.made[field_id] if name is None else F.col(quoted(name))

    def at(self, path: Sequence[Field], *, pushes: bool = False) -> Column:
        """A column at any depth, null where a struct on the way is. ``pushes``: filters on it may be pushed down."""
        column, field = self._raw(path[0].id), self.fields[path[0].id]
        for part in path[1:]:
            assert isinstance(field.type, StructType)
            field = next(inner for inner in field.type if inner.id == part.id)
            column = column.getField(field.name)
        return column if pushes else protect(column, field, self.protected)


def columns_by_id(metadata: TableMetadata, fields: Sequence[Field]) -> StoredColumns:
    """Columns to be found by their ids; Spark fills in the default of one that a file lacks."""
    names = scan_names(metadata, fields)
    return StoredColumns(
        schema=spark.StructType([_with_default(stored_field(f, names[f.id]), f) for f in fields]),
        fields={f.id: f for f in fields},
        names={f.id: names[f.id] for f in fields},
    )


def columns_by_name(layout: Layout, fields: Sequence[Field], fixed: Mapping[int, Column]) -> StoredColumns:
    """Columns under the names that files of this layout have; ``fixed`` are those that the partition decides."""
    found = by_field_id(layout.columns)
    schema, names, made = [], {}, {}
    for field in fields:
        held = found.get(field.id)
        if held is None:
            made[field.id] = fixed.get(field.id, stored_literal(field.type, field.initial_default))
            continue
        asked = _as_found(field.type, held, field.name)
        schema.append(spark.StructField(held.name, asked, True))
        meant = _without_ids(stored_type(field.type, field.name))
        if asked == meant:
            names[field.id] = held.name
        else:
            made[field.id] = F.col(quoted(held.name)).cast(meant)
    return StoredColumns(schema=spark.StructType(schema), fields={f.id: f for f in fields}, names=names, made=made)


def quoted(name: str) -> str:
    """A name as ``F.col`` takes it whole, dots and all."""
    return "`" + name.replace("`", "``") + "`"


def _with_default(stored: spark.StructField, field: Field) -> spark.StructField:
    if field.initial_default is None:
        return stored
    text = default_sql(field.type, field.initial_default)
    if text is None:  # the plan has sent files that lack it elsewhere
        return stored
    return spark.StructField(
        stored.name, stored.dataType, True, {**stored.metadata, "EXISTS_DEFAULT": text, "CURRENT_DEFAULT": text}
    )


def _as_found(type_: Type, column: FileColumn, name: str) -> spark.DataType:
    """The table's type with the names that the file has."""
    match type_:
        case StructType(fields):
            held = by_field_id(column.children)
            members = [
                spark.StructField(held[f.id].name, _as_found(f.type, held[f.id], name), True)
                if f.id in held
                else spark.StructField(f"{HIDDEN}{f.id}", _without_ids(stored_type(f.type, name)), True)
                for f in fields
                if not isinstance(f.type, UnknownType)
            ]
            return spark.StructType(members)
        case ListType():
            return spark.ArrayType(_as_found(type_.element, column.children[0], name), True)
        case MapType():
            key, value = column.children
            return spark.MapType(_as_found(type_.key, key, name), _as_found(type_.value, value, name), True)
        case _:
            return stored_primitive(type_, name)


def _without_ids(type_: spark.DataType) -> spark.DataType:
    match type_:
        case spark.StructType(fields=fields):
            return spark.StructType(
                [
                    spark.StructField(
                        f.name, _without_ids(f.dataType), True, {k: v for k, v in f.metadata.items() if k != FIELD_ID}
                    )
                    for f in fields
                ]
            )
        case spark.ArrayType():
            return spark.ArrayType(_without_ids(type_.elementType), True)
        case spark.MapType():
            return spark.MapType(_without_ids(type_.keyType), _without_ids(type_.valueType), True)
        case _:
            return type_
