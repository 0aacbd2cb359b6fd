"""Types, columns, partition terms and sort terms as DDL text that can be parsed again."""

from __future__ import annotations

from dataclasses import replace

from esker.model.predicates.predicate_sql import literal_sql, quote_name
from esker.model.schema import Schema
from esker.model.transform import BucketTransform, IdentityTransform, Transform, TruncateTransform
from esker.model.types import (
    Field,
    FixedType,
    ListType,
    LongType,
    MapType,
    StructType,
    TimestampType,
    Type,
    UuidType,
)
from esker.table import Table


def type_text(type_: Type) -> str:
    """Return the type in Spark's DDL. Types that Spark does not have are written as Iceberg names them."""
    match type_:
        case LongType():
            return "bigint"
        case TimestampType(zoned=zoned, nanos=False):
            return "timestamp" if zoned else "timestamp_ntz"
        case StructType():
            return f"struct<{', '.join(_member(field) for field in type_.fields)}>"
        case ListType():
            return f"array<{type_text(type_.element)}{' not null' if type_.element_required else ''}>"
        case MapType():
            required = " not null" if type_.value_required else ""
            return f"map<{type_text(type_.key)}, {type_text(type_.value)}{required}>"
        case FixedType():
            return f"fixed({type_.length})"
        case _:
            return str(type_).replace(", ", ",")


def cast_text(type_: Type) -> str | None:
    """Return the type in Spark's own words. Returns None if Spark has no such type and no cast helps."""
    match type_:
        case TimestampType(nanos=True):
            return None
        case TimestampType(zoned=True):
            return "timestamp_ltz"  # a session setting decides what TIMESTAMP means
        case UuidType():
            return "string"
        case FixedType():
            return "binary"
        case StructType():
            parts = [(quote_name(field.name), cast_text(field.type)) for field in type_.fields]
            return (
                None
                if any(text is None for _, text in parts)
                else f"struct<{', '.join(f'{n}: {t}' for n, t in parts)}>"
            )
        case ListType():
            element = cast_text(type_.element)
            return None if element is None else f"array<{element}>"
        case MapType():
            key, value = cast_text(type_.key), cast_text(type_.value)
            return None if key is None or value is None else f"map<{key}, {value}>"
        case _:
            return type_text(type_)


def column_text(field: Field) -> str:
    """Return a column as CREATE TABLE lists it."""
    return _member(field, " ")


def _member(field: Field, between: str = ": ") -> str:
    text = f"{quote_name(field.name)}{between}{type_text(field.type)}"
    text += " NOT NULL" if field.required else ""
    if field.write_default is not None:
        text += f" DEFAULT {literal_sql(field.type, field.write_default)}"
    return text + (f" COMMENT {string_text(field.doc)}" if field.doc else "")


def string_text(text: str) -> str:
    """Return the text in quotes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def term_text(transform: Transform, column: str) -> str:
    """Return a partition or sort term: ``day(ts)``, ``bucket(16, id)``, ``region``."""
    name = ".".join(map(quote_name, column.split(".")))
    match transform:
        case IdentityTransform():
            return name
        case BucketTransform(size) | TruncateTransform(size):
            return f"{'bucket' if isinstance(transform, BucketTransform) else 'truncate'}({size}, {name})"
        case _:
            return f"{transform}({name})"


def partition_terms(table: Table) -> list[str]:
    """Return the terms of PARTITIONED BY for a table with this partitioning."""
    names = table.schema.name_by_id
    fields = [field for field in table.spec.fields if str(field.transform) != "void" and field.source_id in names]
    return [term_text(field.transform, names[field.source_id]) for field in fields]


def sort_terms(table: Table) -> list[str]:
    """Return the terms of WRITE ORDERED BY for a table with this sort order."""
    return [
        f"{term_text(field.transform, table.schema.name_by_id[field.source_id])}"
        f"{' DESC' if field.descending else ' ASC'} NULLS {'LAST' if field.nulls_last else 'FIRST'}"
        for field in table.sort_order.fields
        if field.source_id in table.schema.name_by_id
    ]


def all_optional(schema: Schema) -> tuple[Field, ...]:
    """Return the columns, all nullable, as Spark creates them for a table from a query."""
    return tuple(_optional(field) for field in schema.fields)


def _optional(field: Field) -> Field:
    return replace(field, required=False, type=_optional_type(field.type))


def _optional_type(type_: Type) -> Type:
    match type_:
        case StructType():
            return StructType(tuple(_optional(field) for field in type_.fields))
        case ListType():
            return replace(type_, element=_optional_type(type_.element), element_required=False)
        case MapType():
            return replace(
                type_, key=_optional_type(type_.key), value=_optional_type(type_.value), value_required=False
            )
        case _:
            return type_
