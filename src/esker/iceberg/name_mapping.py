"""Name mappings to and from the JSON in the property ``schema.name-mapping.default``.

A dot in a name is part of the name; nested fields have mapping objects of their own (checklist E2).
"""

from __future__ import annotations

from typing import Any

from esker.errors import Corrupt
from esker.iceberg.json_object import JsonObject, decode_json
from esker.iceberg.types import DEEPEST
from esker.model.name_mapping import MappedField

PROPERTY = "schema.name-mapping.default"


def decode_name_mapping(file: str, text: str) -> tuple[MappedField, ...]:
    """The mapping that a table's property holds; ``file`` is the metadata the property stands in."""
    try:
        content = text.encode()
    except UnicodeEncodeError:
        raise Corrupt(file, "the name mapping is no Unicode text") from None
    mapping = decode_json(file, content, "the name mapping")
    if isinstance(mapping, dict) and "fields" in mapping:  # seen: the array wrapped into a struct
        mapping = mapping["fields"]
    return _fields(file, mapping, "the name mapping", depth=0)


def encode_name_mapping(mapping: tuple[MappedField, ...]) -> str:
    """The mapping as the property holds it."""
    import msgspec

    return msgspec.json.encode([_field_json(field) for field in mapping]).decode()


def _fields(file: str, values: Any, where: str, *, depth: int) -> tuple[MappedField, ...]:
    if not isinstance(values, list):
        raise Corrupt(file, f"{where} must be a JSON array")
    if depth > DEEPEST:
        raise Corrupt(file, f"{where} is nested more than {DEEPEST} levels deep")
    fields = tuple(_field(file, value, where, depth) for value in values)
    seen: set[str] = set()
    for name in (name for field in fields for name in field.names):
        if name in seen:
            raise Corrupt(file, f"{where} has the name {name!r} twice")
        seen.add(name)
    return fields


def _field(file: str, value: Any, where: str, depth: int) -> MappedField:
    document = JsonObject(file, f"a field of {where}", value)
    names = document.items("names")
    if not all(isinstance(name, str) for name in names):
        raise document.corrupt("'names' must be an array of strings")
    nested = document.raw("fields")
    return MappedField(
        names=tuple(names),
        field_id=document.integer_or_none("field-id"),
        fields=() if nested is None else _fields(file, nested, where, depth=depth + 1),
    )


def _field_json(field: MappedField) -> dict[str, Any]:
    document: dict[str, Any] = {} if field.field_id is None else {"field-id": field.field_id}
    document["names"] = list(field.names)
    if field.fields:
        document["fields"] = [_field_json(nested) for nested in field.fields]
    return document
