"""A table's columns as Parquet's writer takes them: unknown members left out, required ones without a null.

Below a null struct Arrow may have nulls in members that are required, and so may the reader of another file give
them; Parquet's writer would refuse them. They are nobody's values, so their marks are dropped. A null that is
somebody's is refused.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from esker.arrow.lists import over, values_inside
from esker.arrow.parquet_schema import geo_type
from esker.arrow.types import to_arrow_field
from esker.arrow.variant_arrays import whole
from esker.errors import InvalidInput
from esker.model.types import (
    Field,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    StructType,
    VariantType,
    children,
    is_nested,
)


def column_for_file(array: pa.Array, kept: Field, full: Field) -> pa.Array:
    """A column of the table as the file has it; ``kept`` is what ``file_fields`` leaves of ``full``."""
    return _shaped(array, kept, full, None, kept.name)


def _shaped(array: pa.Array, kept: Field, full: Field, hidden: pa.Array | None, name: str) -> pa.Array:
    """``hidden`` marks the rows where something above is null."""
    if kept.required and array.null_count:
        _check_nobodys(array, hidden, name)
    elif not is_nested(kept.type):
        return whole(array) if isinstance(kept.type, VariantType) else _leaf(array, kept)
    elif kept.type == full.type and not _has_to_be_made(kept):
        return array
    match kept.type, full.type:
        case StructType(), StructType():
            return _struct(array, kept, full, hidden, name)
        case ListType(), ListType():
            element, of = kept.type.element_field, full.type.element_field
            inner = _shaped(values_inside(array), element, of, None, f"{name}.element")
            return over(array, pa.list_(to_arrow_field(element)), inner, nulls=not kept.required)
        case MapType(), MapType():
            return _map(array, kept, full, name)
        case VariantType(), _:
            return whole(array, nulls=False)
        case _:
            return _unmarked(_leaf(array, kept))


def _has_to_be_made(field: Field) -> bool:
    """Whether something inside is required, as the two parts of a variant are."""
    return isinstance(field.type, VariantType) or any(
        inner.required or _has_to_be_made(inner) for inner in children(field.type)
    )


def _check_nobodys(array: pa.Array, hidden: pa.Array | None, name: str) -> None:
    seen = array.is_null() if hidden is None else pc.and_not(array.is_null(), hidden)
    if pc.any(seen).as_py():
        raise InvalidInput(f"column {name!r} is required and cannot be null", column=name)


def _leaf(array: pa.Array, kept: Field) -> pa.Array:
    if isinstance(kept.type, GeometryType | GeographyType):
        return pa.ExtensionArray.from_storage(geo_type(kept.type), array)
    return array


def _unmarked(array: pa.Array) -> pa.Array:
    if isinstance(array.type, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(array.type, _unmarked(array.storage))
    return pa.Array.from_buffers(array.type, len(array), [None, *array.buffers()[1:]], 0, array.offset)


def _struct(array: pa.Array, kept: Field, full: Field, hidden: pa.Array | None, name: str) -> pa.Array:
    assert isinstance(kept.type, StructType)
    assert isinstance(full.type, StructType)
    if array.null_count:
        hidden = array.is_null() if hidden is None else pc.or_(array.is_null(), hidden)
    places = {field.id: at for at, field in enumerate(full.type)}
    members = [
        _shaped(array.field(places[f.id]), f, full.type.fields[places[f.id]], hidden, f"{name}.{f.name}")
        for f in kept.type
    ]
    mask = array.is_null() if array.null_count and not kept.required else None
    return pa.StructArray.from_arrays(members, fields=[to_arrow_field(f) for f in kept.type], mask=mask)


def _map(array: pa.Array, kept: Field, full: Field, name: str) -> pa.Array:
    assert isinstance(kept.type, MapType)
    assert isinstance(full.type, MapType)
    entries = values_inside(array)
    key = _shaped(entries.field(0), kept.type.key_field, full.type.key_field, None, f"{name}.key")
    value = _shaped(entries.field(1), kept.type.value_field, full.type.value_field, None, f"{name}.value")
    type_ = pa.map_(to_arrow_field(kept.type.key_field), to_arrow_field(kept.type.value_field))
    inner = pa.StructArray.from_arrays([key, value], fields=list(type_.field(0).type))
    return over(array, type_, inner, nulls=not kept.required)
