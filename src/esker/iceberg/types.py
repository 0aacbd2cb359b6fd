"""Types and fields to and from the JSON of table metadata.

A primitive is a string, a nested type an object that carries the ids of its parts.
"""

from __future__ import annotations

from typing import Any

from esker.iceberg.json_object import JsonObject
from esker.iceberg.single_values import decode_single_value, encode_single_value
from esker.iceberg.type_names import parse_primitive
from esker.model.schema import MAX_FIELD_ID
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
)

DEEPEST = 100  # nesting that no table needs, so that no walk over a type can exhaust the stack
_ONLY_NULL_DEFAULTS = (UnknownType, VariantType, GeometryType, GeographyType)


def decode_type(owner: JsonObject, name: str, *, depth: int = 0) -> Type:
    """The type that stands in field ``name`` of ``owner``."""
    if depth > DEEPEST:
        raise owner.corrupt(f"types are nested more than {DEEPEST} levels deep")
    value = owner.required(name)
    if isinstance(value, str):
        return parse_primitive(owner.file, value)
    nested = owner.object(name)
    match nested.string("type"):
        case "struct":
            return StructType(decode_fields(nested, depth=depth + 1))
        case "list":
            return ListType(
                element_id=decode_field_id(nested, "element-id"),
                element=decode_type(nested, "element", depth=depth + 1),
                element_required=nested.boolean("element-required"),
            )
        case "map":
            return MapType(
                key_id=decode_field_id(nested, "key-id"),
                key=decode_type(nested, "key", depth=depth + 1),
                value_id=decode_field_id(nested, "value-id"),
                value=decode_type(nested, "value", depth=depth + 1),
                value_required=nested.boolean("value-required"),
            )
        case other:
            return parse_primitive(owner.file, other)  # {"type": "long"}: an odd but clear spelling


def decode_fields(owner: JsonObject, *, depth: int = 0) -> tuple[Field, ...]:
    """The members of a struct or the columns of a schema."""
    owner.required("fields")
    return tuple(_field(field, depth) for field in owner.objects("fields", "field"))


def decode_field_id(owner: JsonObject, name: str) -> int:
    """A column's id; those above the limit are reserved for metadata columns (E3)."""
    field_id = owner.integer(name, at_least=0)
    if field_id > MAX_FIELD_ID:
        raise owner.corrupt(f"{name!r} is {field_id}, above {MAX_FIELD_ID} where reserved ids begin")
    return field_id


def encode_type(type_: Type) -> str | dict[str, Any]:
    """A type as metadata writes it."""
    match type_:
        case StructType(fields):
            return {"type": "struct", "fields": [encode_field(field) for field in fields]}
        case ListType():
            return {
                "type": "list",
                "element-id": type_.element_id,
                "element": encode_type(type_.element),
                "element-required": type_.element_required,
            }
        case MapType():
            return {
                "type": "map",
                "key-id": type_.key_id,
                "key": encode_type(type_.key),
                "value-id": type_.value_id,
                "value": encode_type(type_.value),
                "value-required": type_.value_required,
            }
        case _:
            return str(type_)


def encode_field(field: Field) -> dict[str, Any]:
    """A field as metadata writes it."""
    document: dict[str, Any] = {
        "id": field.id,
        "name": field.name,
        "required": field.required,
        "type": encode_type(field.type),
    }
    if field.doc is not None:
        document["doc"] = field.doc
    if field.initial_default is not None:
        document["initial-default"] = encode_single_value(field.type, field.initial_default)
    if field.write_default is not None:
        document["write-default"] = encode_single_value(field.type, field.write_default)
    return document


def _field(document: JsonObject, depth: int) -> Field:
    field_id = decode_field_id(document, "id")
    name = document.string("name")
    document.where = f"field {name!r} (id {field_id})"
    type_ = decode_type(document, "type", depth=depth)
    required = document.boolean("required")
    if required and isinstance(type_, UnknownType):
        raise document.corrupt("a column of type unknown must be optional")
    return Field(
        id=field_id,
        name=name,
        type=type_,
        required=required,
        doc=document.string_or_none("doc"),
        initial_default=_default(document, "initial-default", type_),
        write_default=_default(document, "write-default", type_),
    )


def _default(document: JsonObject, name: str, type_: Type) -> Any:
    value = document.raw(name)
    if value is not None and isinstance(type_, _ONLY_NULL_DEFAULTS):
        raise document.corrupt(f"{name!r} of a column of type {type_} can only be null")
    try:
        return decode_single_value(type_, value)
    except ValueError as error:
        raise document.corrupt(f"{name!r} is no {type_}: {error}") from None
