"""Schemas to and from JSON."""

from __future__ import annotations

from typing import Any

from esker.errors import Corrupt
from esker.iceberg.json_object import JsonObject
from esker.iceberg.types import decode_fields, encode_field
from esker.model.schema import Schema, walk


def decode_schema(file: str, value: Any, *, where: str = "the schema", default_id: int = 0) -> Schema:
    """The schema that a JSON object describes; early writers gave it no id."""
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
    """Every schema of a table; two under one id must say the same."""
    by_id: dict[int, Schema] = {}
    for number, value in enumerate(values):
        schema = decode_schema(file, value, where=f"schema {number}")
        if by_id.setdefault(schema.schema_id, schema) != schema:
            raise Corrupt(file, f"two different schemas have the id {schema.schema_id}")
    return tuple(by_id.values())


def encode_schema(schema: Schema, *, with_id: bool = True) -> dict[str, Any]:
    """A schema as metadata writes it."""
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
