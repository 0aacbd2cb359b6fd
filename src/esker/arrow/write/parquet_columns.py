"""The schema of a data file, and a table's columns in the form that Parquet's writer needs."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from esker.arrow.arrow_types import to_arrow_field
from esker.arrow.convert import over, values_inside
from esker.arrow.variant_arrays import whole
from esker.errors import InvalidInput, Unsupported
from esker.model.types import (
    Field,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    StructType,
    Type,
    UnknownType,
    VariantType,
    children,
    is_nested,
)

# ---------------------------------------------------------------- The schema
#
# Every node has its field id. Parquet's types are those of the spec (checklist T14). Columns that are not stored have
# no column (E11).


class WellKnownBinary(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types of its own
    """Makes pyarrow annotate a binary column as geometry or geography."""

    def __init__(self, facts: str = "{}") -> None:
        self._facts = facts
        super().__init__(pa.binary(), "geoarrow.wkb")

    def __arrow_ext_serialize__(self) -> bytes:
        return self._facts.encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> WellKnownBinary:
        return cls(serialized.decode())


def file_fields(fields: Iterable[Field]) -> tuple[Field, ...]:
    """The columns that a file has: all except unknown ones, at every depth."""
    return tuple(_kept(field, nested=False) for field in fields if not isinstance(field.type, UnknownType))


def parquet_schema(fields: Iterable[Field]) -> pa.Schema:
    """The Arrow schema for pyarrow's writer, for fields of ``file_fields``."""
    return pa.schema([_annotated(to_arrow_field(field), field.type) for field in fields])


def parquet_paths(fields: Iterable[Field], above: tuple[str, ...] = ()) -> dict[int, tuple[str, ...]]:
    """The path in the Parquet schema of every primitive column, by field id, in the file's order."""
    found: dict[int, tuple[str, ...]] = {}
    for field in fields:
        path = (*above, field.name)
        match field.type:
            case StructType(members):
                found.update(parquet_paths(members, path))
            case ListType():
                found.update(parquet_paths((field.type.element_field,), (*path, "list")))
            case MapType():
                found.update(parquet_paths((field.type.key_field, field.type.value_field), (*path, "key_value")))
            case _:
                found[field.id] = path
    return found


def _kept(field: Field, *, nested: bool = True) -> Field:
    match field.type:
        case StructType(members):
            inside = tuple(_kept(f) for f in members if not isinstance(f.type, UnknownType))
            kept: Type = StructType(inside)
            if not inside:
                raise _no_column(field, "a struct without members")
        case ListType(element=element):
            if isinstance(element, UnknownType):
                raise _no_column(field, "a list of unknown")
            inner = _kept(field.type.element_field)
            kept = ListType(element_id=inner.id, element=inner.type, element_required=inner.required)
        case MapType():
            if isinstance(field.type.value, UnknownType):
                raise _no_column(field, "a map of unknown")
            key, value = _kept(field.type.key_field), _kept(field.type.value_field)
            kept = MapType(
                key_id=key.id, key=key.type, value_id=value.id, value=value.type, value_required=value.required
            )
        case GeometryType() | GeographyType() if nested:
            raise _no_column(field, f"a {field.type} inside another column")
        case GeographyType(algorithm=algorithm) if algorithm not in (None, "spherical"):
            raise _no_column(field, f"{algorithm} edges")
        case _:
            return field
    return field if kept == field.type else Field(id=field.id, name=field.name, type=kept, required=field.required)


def _no_column(field: Field, what: str) -> Unsupported:
    return Unsupported(
        f"cannot write column {field.name!r}: pyarrow has no way to write {what} to Parquet",
        feature=what,
        column=field.name,
    )


def _annotated(arrow: pa.Field, type_: Type) -> pa.Field:
    if isinstance(type_, GeometryType | GeographyType):
        return arrow.with_type(geo_type(type_))
    return arrow


def geo_type(type_: GeometryType | GeographyType) -> WellKnownBinary:
    """The Arrow type for Parquet's annotation."""
    facts: dict[str, str] = {}
    if type_.crs is not None:
        facts["crs"] = type_.crs
    if isinstance(type_, GeographyType):
        facts["edges"] = type_.algorithm or "spherical"
    return WellKnownBinary(json.dumps(facts))


# ---------------------------------------------------------------- The columns
#
# Unknown fields are left out. Below a null struct, Arrow may have nulls in required fields, which Parquet's writer
# would refuse. These nulls have no meaning, so their marks are removed. Any other null in a required field is refused.


def column_for_file(array: pa.Array, kept: Field, full: Field) -> pa.Array:
    """A column of the table as the file stores it. ``kept`` is what ``file_fields`` keeps of ``full``."""
    return _shaped(array, kept, full, None, kept.name)


def _shaped(array: pa.Array, kept: Field, full: Field, hidden: pa.Array | None, name: str) -> pa.Array:
    """``hidden`` marks the rows where a struct above is null."""
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
        raise InvalidInput(f"cannot write null to column {name!r}: it is required and cannot be null", column=name)


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
