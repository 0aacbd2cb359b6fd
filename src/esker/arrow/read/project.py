"""From the file's columns to the table's columns: by id, at every depth.

A field that the file does not have gets the first of these that exists (checklist E1): the value of an identity
partition, the column of the name mapping (the file's columns have their mapped ids here), the field's
``initial-default``, null.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from esker.arrow.arrow_types import to_arrow
from esker.arrow.convert import convert, plain
from esker.arrow.read.file_columns import FileColumn
from esker.arrow.read.shredded_variants import rebuilt
from esker.arrow.value_arrays import repeated, struct_array
from esker.arrow.variant_arrays import variant_array
from esker.errors import Corrupt, Unsupported
from esker.model.types import Field, ListType, MapType, StructType, Type, UnknownType, VariantType

Held = tuple[FileColumn, pa.Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What is known about a file's rows besides its columns: the file, and the values that all rows share."""

    file: str
    constants: Mapping[int, Any] = field(default_factory=dict)  # held identity partition values by source field id


def project(wanted: Field, held: Held | None, length: int, origin: Origin) -> pa.Array:
    """The field's values for ``length`` rows, in the table's type."""
    if held is None:
        return missing(wanted, length, origin)
    return _typed(wanted.type, held[0], held[1], wanted.name, origin)


def missing(wanted: Field, length: int, origin: Origin) -> pa.Array:
    """The values of a field that the file does not have."""
    if wanted.id in origin.constants:
        return repeated(wanted.type, origin.constants[wanted.id], length)
    if wanted.initial_default is None and wanted.required and length:
        raise Corrupt(origin.file, f"it does not have the required column {wanted.name!r}, which has no default")
    return repeated(wanted.type, wanted.initial_default, length)


def _typed(type_: Type, column: FileColumn, array: pa.Array, name: str, origin: Origin) -> pa.Array:
    if pa.types.is_null(array.type) or isinstance(type_, UnknownType):
        return pa.nulls(len(array), to_arrow(type_))
    match type_:
        case StructType():
            return _struct(type_, column, _nested(array, "struct", type_, name, origin), origin)
        case ListType():
            lists = _nested(array, "list", type_, name, origin)
            inner = _typed(type_.element, column.children[0], lists.values, f"{name}.element", origin)
            return _rebuilt(lists, type_, inner)
        case MapType():
            maps = _nested(array, "map", type_, name, origin)
            keys = _typed(type_.key, column.children[0], maps.keys, f"{name}.key", origin)
            items = _typed(type_.value, column.children[1], maps.items, f"{name}.value", origin)
            entries = pa.StructArray.from_arrays([keys, items], fields=list(to_arrow(type_).field(0).type))
            return _rebuilt(maps, type_, entries)
        case VariantType():
            return _variant(_nested(array, "struct", type_, name, origin), column, name, origin)
        case _:
            return convert(array, type_, file=origin.file, column=name)


def _struct(type_: StructType, column: FileColumn, array: pa.StructArray, origin: Origin) -> pa.Array:
    at: dict[int, int] = {}
    for index, child in enumerate(column.children):
        if child.field_id is not None:
            at.setdefault(child.field_id, index)
    members = [
        project(f, (column.children[at[f.id]], array.field(at[f.id])) if f.id in at else None, len(array), origin)
        for f in type_
    ]
    is_null = array.is_null() if array.null_count or not members else None
    return struct_array(type_, members, is_null)


def _variant(array: pa.StructArray, column: FileColumn, name: str, origin: Origin) -> pa.Array:
    at = {child.name: index for index, child in enumerate(column.children)}
    if "metadata" not in at or at.keys().isdisjoint(("value", "typed_value")):
        raise Corrupt(origin.file, f"the variant column {name!r} has no metadata and value, but {', '.join(at)}")
    if "typed_value" not in at:
        metadata, value = (plain(array.field(at[part])) for part in ("metadata", "value"))
        return variant_array(metadata, value, array.is_null() if array.null_count else None)
    try:
        return rebuilt(array)
    except Unsupported as error:
        why = f"cannot read {origin.file}: the variant column {name!r} is shredded: {error.message}"
        raise Unsupported(why, feature=error.feature) from None
    except (ValueError, OverflowError, pa.ArrowException) as error:
        raise Corrupt(origin.file, f"the shredded variants of column {name!r} make no sense: {error}") from error


def _nested(array: pa.Array, kind: str, type_: Type, name: str, origin: Origin) -> pa.Array:
    """The array in the plain form of its kind, from position 0. Raises ``Corrupt`` if it is of another kind."""
    array = plain(array)
    kinds, held = pa.types, array.type
    is_kind = {"struct": kinds.is_struct, "list": kinds.is_list, "map": kinds.is_map}[kind]
    if kind == "list" and not is_kind(held) and kinds.is_nested(held) and hasattr(held, "value_field"):
        array = array.cast(pa.list_(held.value_field))
    elif not is_kind(held):
        raise Corrupt(origin.file, f"column {name!r} is {held}, which cannot be read as {type_}")
    if kind != "struct" and array.offset:
        array = pa.concat_arrays([array])  # a copy of only this slice, because its offsets are used directly
    return array


def _rebuilt(lists: pa.Array, type_: Type, inner: pa.Array) -> pa.Array:
    """Lists or maps of the same lengths with other values."""
    buffers = lists.buffers()[:2]
    return pa.Array.from_buffers(to_arrow(type_), len(lists), buffers, lists.null_count, children=[inner])
