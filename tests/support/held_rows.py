"""Rows of held values to Arrow and back, apart from the code under test."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from predicate_strategies import arrow_array

from esker.model.schema import Schema
from esker.model.types import Field, ListType, MapType, StructType, Type


def arrow_table(schema: Schema, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows by column name as a table whose fields carry their ids; a struct's value is a dict by name or None."""
    arrays = [_array(f.type, [row.get(f.name) for row in rows]) for f in schema]
    fields = [_field(f, array.type) for f, array in zip(schema, arrays, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _field(f: Field, type_: pa.DataType) -> pa.Field:
    return pa.field(f.name, type_, metadata={"PARQUET:field_id": str(f.id)})


def _array(type_: Type, values: list[Any]) -> pa.Array:
    match type_:
        case StructType(fields):
            members = [_array(f.type, [None if v is None else v.get(f.name) for v in values]) for f in fields]
            parts = [_field(f, member.type) for f, member in zip(fields, members, strict=True)]
            return pa.StructArray.from_arrays(
                members, fields=parts, mask=pa.array([v is None for v in values], pa.bool_())
            )
        case ListType():
            inner = _array(type_.element, [item for value in values for item in value or ()])
            kind = pa.list_(_field(type_.element_field, inner.type))
            return _lists(kind, values, inner)
        case MapType():
            keys = _array(type_.key, [key for value in values for key, _ in value or ()])
            items = _array(type_.value, [item for value in values for _, item in value or ()])
            kind = pa.map_(
                _field(type_.key_field, keys.type).with_nullable(False), _field(type_.value_field, items.type)
            )
            entries = pa.StructArray.from_arrays([keys, items], fields=list(kind.field(0).type))
            return _lists(kind, values, entries)
        case _:
            return arrow_array(type_, values)


def _lists(kind: pa.DataType, values: list[Any], inner: pa.Array) -> pa.Array:
    ends = [0]
    for value in values:
        ends.append(ends[-1] + len(value or ()))
    valid = pa.array([value is not None for value in values], pa.bool_())
    offsets = pa.array(ends, pa.int32())
    return pa.Array.from_buffers(kind, len(values), [valid.buffers()[1], offsets.buffers()[1]], children=[inner])


def held_rows(schema: Schema, table: pa.Table) -> list[dict[int, Any]]:
    """An answer's rows by field id in held form; a struct's value is a dict by id or None."""
    columns = [
        [held for part in table.column(at).chunks for held in _held(f.type, part)] for at, f in enumerate(schema)
    ]
    return [{f.id: column[row] for f, column in zip(schema, columns, strict=True)} for row in range(table.num_rows)]


def _held(type_: Type, array: pa.Array) -> list[Any]:
    match type_:
        case StructType(fields):
            members = [_held(f.type, pc.struct_field(array, [at])) for at, f in enumerate(fields)]
            valid = array.is_valid().to_pylist()
            return [
                {f.id: member[row] for f, member in zip(fields, members, strict=True)} if valid[row] else None
                for row in range(len(array))
            ]
        case ListType():
            return [None if item is None else _held(type_.element, item) for item in _items(array)]
        case _:
            return _leaf(array).to_pylist()


def _items(array: pa.Array) -> list[pa.Array | None]:
    return [array[row].values if array[row].is_valid else None for row in range(len(array))]


def _leaf(array: pa.Array) -> pa.Array:
    """Times as their numbers, since Python's own reach less far; uuids as bytes."""
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if pa.types.is_date32(array.type):
        return array.view(pa.int32())
    if pa.types.is_timestamp(array.type) or pa.types.is_time64(array.type):
        return array.view(pa.int64())
    return array


def telling(value: Any) -> Any:
    """A value in a form that compares as a person would: NaN is NaN, and the two zeros differ."""
    match value:
        case float():
            return "NaN" if math.isnan(value) else value.hex()
        case dict():
            return tuple((key, telling(part)) for key, part in sorted(value.items()))
        case list() | tuple():
            return tuple(map(telling, value))
        case _:
            return value
