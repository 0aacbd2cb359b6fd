"""The schema that a data file of a table is written with: every node with its field id, Parquet's types as the
spec wants them (checklist T14), and no column for what has no place in a file (E11)."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pyarrow as pa

from esker.arrow.types import to_arrow_field
from esker.errors import Unsupported
from esker.model.types import (
    Field,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    StructType,
    Type,
    UnknownType,
)


class WellKnownBinary(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types of its own
    """What makes pyarrow annotate a binary column as geometry or geography."""

    def __init__(self, facts: str = "{}") -> None:
        self._facts = facts
        super().__init__(pa.binary(), "geoarrow.wkb")

    def __arrow_ext_serialize__(self) -> bytes:
        return self._facts.encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> WellKnownBinary:
        return cls(serialized.decode())


def file_fields(fields: Iterable[Field]) -> tuple[Field, ...]:
    """The columns that a file has: all but unknown ones, at every depth."""
    return tuple(_kept(field, nested=False) for field in fields if not isinstance(field.type, UnknownType))


def parquet_schema(fields: Iterable[Field]) -> pa.Schema:
    """The Arrow schema to give to pyarrow's writer, for fields of ``file_fields``."""
    return pa.schema([_annotated(to_arrow_field(field), field.type) for field in fields])


def parquet_paths(fields: Iterable[Field], above: tuple[str, ...] = ()) -> dict[int, tuple[str, ...]]:
    """The path of every column without parts of its own in the Parquet schema, by field id, in the file's order."""
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
    """The Arrow type that becomes Parquet's annotation."""
    facts: dict[str, str] = {}
    if type_.crs is not None:
        facts["crs"] = type_.crs
    if isinstance(type_, GeographyType):
        facts["edges"] = type_.algorithm or "spherical"
    return WellKnownBinary(json.dumps(facts))
