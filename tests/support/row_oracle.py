"""What a table's rows are and which of them a predicate selects, row by row, apart from the code under test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_oracle import Truth, truth

from esker.model.predicates.unbound_predicate import AllOf, AnyOf, Constant, Not, Unbound
from esker.model.schema import Schema
from esker.model.transform import Transform, TruncateTransform, apply_transform, result_type
from esker.model.types import DateType, Field, IntType, LongType, StructType, TimestampType, Type

Row = Mapping[int, Any]
"""Held values by field id as they were written; a struct's value is such a mapping, or None."""


def seen_as(fields: tuple[Field, ...], row: Row, written: Mapping[int, Field]) -> dict[int, Any]:
    """A row written long ago, as today's schema shows it: what it lacks takes the default (E4)."""
    return {f.id: _seen(f, row, written) for f in fields}


def _seen(f: Field, row: Row, written: Mapping[int, Field]) -> Any:
    if f.id not in row:
        return f.initial_default
    value = row[f.id]
    if isinstance(f.type, StructType):
        return None if value is None else seen_as(f.type.fields, value, written)
    return promoted(written[f.id].type, f.type, value)


def promoted(old: Type, new: Type, value: Any) -> Any:
    """A value after its column was widened; only a date that became a timestamp is held otherwise (T15)."""
    if value is not None and isinstance(old, DateType) and isinstance(new, TimestampType):
        return value * 86_400 * new.ticks_per_second
    return value


def value_of(row: Row, path: tuple[Field, ...]) -> Any:
    """The value at the end of a path; null where a struct on the way is."""
    value: Any = row
    for part in path:
        value = None if value is None else value.get(part.id)
    return value


def row_truth(node: Unbound, row: Row, schema: Schema) -> Truth:
    """TRUE, FALSE or NULL of a row of the schema."""
    match node:
        case Constant(value):
            return value
        case Not(part):
            inner = row_truth(part, row, schema)
            return None if inner is None else not inner
        case AllOf(parts):
            found = [row_truth(part, row, schema) for part in parts]
            return False if False in found else None if None in found else True
        case AnyOf(parts):
            found = [row_truth(part, row, schema) for part in parts]
            return True if True in found else None if None in found else False
        case _:
            path = path_of(schema, node.column.parts)
            type_, value, transform = path[-1].type, value_of(row, path), node.column.transform
            if transform is None:
                return truth(node, type_, value)
            return truth(node, result_type(transform, type_), in_java(transform, type_, value))


def in_java(transform: Transform, type_: Type, value: Any) -> Any:
    """The transform of a value. What falls below the least integer of a type wraps around, as it does in Java."""
    found = apply_transform(transform, type_, value)
    bits = 31 if isinstance(type_, IntType) else 63
    if isinstance(transform, TruncateTransform) and isinstance(type_, IntType | LongType) and found is not None:
        return (found + 2**bits) % 2 ** (bits + 1) - 2**bits
    return found


def path_of(schema: Schema, parts: tuple[str, ...]) -> tuple[Field, ...]:
    """The fields that the parts of a name lead through."""
    fields, path = schema.fields, []
    for part in parts:
        [found] = [f for f in fields if f.name == part]
        path.append(found)
        fields = found.type.fields if isinstance(found.type, StructType) else ()
    return tuple(path)
