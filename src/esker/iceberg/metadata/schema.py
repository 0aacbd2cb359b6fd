"""Schemas, fields, types and name mappings to and from the JSON of table metadata."""

from __future__ import annotations

import re
from typing import Any

from esker.errors import Corrupt, Unsupported
from esker.iceberg.json_document import JsonObject, decode_json
from esker.iceberg.metadata.single_values import decode_single_value, encode_single_value
from esker.model.schema import MAX_FIELD_ID, MappedField, Schema, walk
from esker.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    UNKNOWN,
    UUID,
    VARIANT,
    DecimalType,
    Field,
    FixedType,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    PrimitiveType,
    StructType,
    Type,
    UnknownType,
    VariantType,
)

# ---------------------------------------------------------------- Primitive types: ``decimal(9, 2)``
#
# Case and spaces are ignored, because writers differ (checklist D11, E12).


DEFAULT_CRS = "OGC:CRS84"
DEFAULT_EDGE_ALGORITHM = "spherical"
LARGEST_FIXED = (1 << 31) - 1

PLAIN: dict[str, PrimitiveType] = {
    str(type_): type_
    for type_ in (
        BOOLEAN,
        INT,
        LONG,
        FLOAT,
        DOUBLE,
        DATE,
        TIME,
        TIMESTAMP,
        TIMESTAMPTZ,
        TIMESTAMP_NS,
        TIMESTAMPTZ_NS,
        STRING,
        UUID,
        BINARY,
        UNKNOWN,
        VARIANT,
    )
}
_DECIMAL = re.compile(r"decimal\s*\(\s*(\d{1,9})\s*,\s*(-?\d{1,9})\s*\)", re.IGNORECASE)
_FIXED = re.compile(r"fixed\s*\[\s*(\d{1,10})\s*\]", re.IGNORECASE)
_GEOMETRY = re.compile(r"geometry\s*(?:\(([^()]*)\))?", re.IGNORECASE)
_GEOGRAPHY = re.compile(r"geography\s*(?:\(([^(),]*)(?:,([^(),]*))?\))?", re.IGNORECASE)


def parse_primitive(file: str, text: str) -> PrimitiveType:
    """The type with that name. Raises `Unsupported` for a type that no version up to 3 has."""
    spelled = text.strip()
    if plain := PLAIN.get(spelled.lower()):
        return plain
    if match := _DECIMAL.fullmatch(spelled):
        return _decimal(file, int(match[1]), int(match[2]))
    if match := _FIXED.fullmatch(spelled):
        length = int(match[1])
        if length > LARGEST_FIXED:
            raise Corrupt(file, f"type {text!r} is longer than {LARGEST_FIXED:,} bytes")
        return FixedType(length)
    if match := _GEOMETRY.fullmatch(spelled):
        return GeometryType(_unless_default(match[1], DEFAULT_CRS))
    if match := _GEOGRAPHY.fullmatch(spelled):
        crs, algorithm = match.groups()
        return GeographyType(_unless_default(crs, DEFAULT_CRS), _unless_default(algorithm, DEFAULT_EDGE_ALGORITHM))
    shown = text if len(text) <= 60 else text[:60] + "…"
    raise Unsupported(
        f"cannot read {file}: it has a column of unknown type {shown!r}", feature=f"type {shown}", file=file
    )


def _decimal(file: str, precision: int, scale: int) -> DecimalType:
    if not 1 <= precision <= 38:
        raise Corrupt(file, f"a decimal has 1 to 38 digits, not {precision}")
    if abs(scale) > 38:
        raise Corrupt(file, f"the scale of a decimal is at most 38, not {scale}")
    return DecimalType(precision, scale)


def _unless_default(text: str | None, default: str) -> str | None:
    stripped = (text or "").strip()
    return None if not stripped or stripped.lower() == default.lower() else stripped


# ---------------------------------------------------------------- Types and fields


DEEPEST = 100  # deeper than any table needs; limits the stack of a walk over a type
_ONLY_NULL_DEFAULTS = (UnknownType, VariantType, GeometryType, GeographyType)


def decode_type(owner: JsonObject, name: str, *, depth: int = 0) -> Type:
    """The type in the field ``name`` of ``owner``."""
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
            return parse_primitive(owner.file, other)  # {"type": "long"}: unusual, but clear


def decode_fields(owner: JsonObject, *, depth: int = 0) -> tuple[Field, ...]:
    """The fields of a struct or the columns of a schema."""
    owner.required("fields")
    return tuple(_field(field, depth) for field in owner.objects("fields", "field"))


def decode_field_id(owner: JsonObject, name: str) -> int:
    """The id of a column. Ids above the limit are reserved for metadata columns (E3)."""
    field_id = owner.integer(name, at_least=0)
    if field_id > MAX_FIELD_ID:
        raise owner.corrupt(f"{name!r} is {field_id}, above {MAX_FIELD_ID} where reserved ids begin")
    return field_id


def encode_type(type_: Type) -> str | dict[str, Any]:
    """A type as JSON."""
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
    """A field as JSON."""
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
        raise document.corrupt(f"{name!r} is not a valid {type_}: {error}") from None


# ---------------------------------------------------------------- Name mappings
#
# A dot is part of a name; nested fields have their own mapping objects (checklist E2).


PROPERTY = "schema.name-mapping.default"


def decode_name_mapping(file: str, text: str) -> tuple[MappedField, ...]:
    """The name mapping in a table's property. ``file`` is the metadata file with the property."""
    try:
        content = text.encode()
    except UnicodeEncodeError:
        raise Corrupt(file, "the name mapping is not valid Unicode text") from None
    mapping = decode_json(file, content, "the name mapping")
    if isinstance(mapping, dict) and "fields" in mapping:  # some writers wrap the array into a struct
        mapping = mapping["fields"]
    return _mapped_fields(file, mapping, "the name mapping", depth=0)


def encode_name_mapping(mapping: tuple[MappedField, ...]) -> str:
    """The mapping as the text of the property."""
    import msgspec

    return msgspec.json.encode([_mapped_field_json(field) for field in mapping]).decode()


def _mapped_fields(file: str, values: Any, where: str, *, depth: int) -> tuple[MappedField, ...]:
    if not isinstance(values, list):
        raise Corrupt(file, f"{where} must be a JSON array")
    if depth > DEEPEST:
        raise Corrupt(file, f"{where} is nested more than {DEEPEST} levels deep")
    fields = tuple(_mapped_field(file, value, where, depth) for value in values)
    seen: set[str] = set()
    for name in (name for field in fields for name in field.names):
        if name in seen:
            raise Corrupt(file, f"{where} has the name {name!r} twice")
        seen.add(name)
    return fields


def _mapped_field(file: str, value: Any, where: str, depth: int) -> MappedField:
    document = JsonObject(file, f"a field of {where}", value)
    names = document.items("names")
    if not all(isinstance(name, str) for name in names):
        raise document.corrupt("'names' must be an array of strings")
    nested = document.raw("fields")
    return MappedField(
        names=tuple(names),
        field_id=document.integer_or_none("field-id"),
        fields=() if nested is None else _mapped_fields(file, nested, where, depth=depth + 1),
    )


def _mapped_field_json(field: MappedField) -> dict[str, Any]:
    document: dict[str, Any] = {} if field.field_id is None else {"field-id": field.field_id}
    document["names"] = list(field.names)
    if field.fields:
        document["fields"] = [_mapped_field_json(nested) for nested in field.fields]
    return document


# ---------------------------------------------------------------- Schemas


def decode_schema(file: str, value: Any, *, where: str = "the schema", default_id: int = 0) -> Schema:
    """The schema of a JSON object. Early writers gave it no id."""
    document = JsonObject(file, where, value)
    if (kind := document.string("type")) != "struct":
        raise document.corrupt(f"'type' must be 'struct', not {kind!r}")
    schema_id = document.integer_or_none("schema-id")
    schema = Schema(
        fields=decode_fields(document),
        schema_id=default_id if schema_id is None else schema_id,
        identifier_field_ids=frozenset(document.integers("identifier-field-ids")),
    )
    _check_ids_are_unique(document, schema)
    return schema


def decode_schemas(file: str, values: list[Any]) -> tuple[Schema, ...]:
    """Every schema of a table. Raises `Corrupt` if two schemas with one id differ."""
    by_id: dict[int, Schema] = {}
    for number, value in enumerate(values):
        schema = decode_schema(file, value, where=f"schema {number}")
        if by_id.setdefault(schema.schema_id, schema) != schema:
            raise Corrupt(file, f"two different schemas have the id {schema.schema_id}")
    return tuple(by_id.values())


def encode_schema(schema: Schema, *, with_id: bool = True) -> dict[str, Any]:
    """A schema as JSON."""
    document: dict[str, Any] = {"type": "struct"}
    if with_id:
        document["schema-id"] = schema.schema_id
    if schema.identifier_field_ids:
        document["identifier-field-ids"] = sorted(schema.identifier_field_ids)
    document["fields"] = [encode_field(field) for field in schema.fields]
    return document


def _check_ids_are_unique(document: JsonObject, schema: Schema) -> None:
    seen: dict[int, str] = {}
    for field, _ in walk(schema.fields):
        if field.id in seen:
            raise document.corrupt(f"fields {seen[field.id]!r} and {field.name!r} both have id {field.id}")
        seen[field.id] = field.name
