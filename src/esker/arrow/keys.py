"""The columns that identify a row in an upsert or a delete by key."""

from __future__ import annotations

from collections.abc import Sequence

from esker.errors import InvalidInput
from esker.model.schema import Schema
from esker.model.types import PrimitiveType, VariantType, is_floating


def key_schema(schema: Schema, on: Sequence[str]) -> Schema:
    """The key's columns, in the table's order; ``InvalidInput`` says why one cannot be part of a key."""
    if isinstance(on, str) or not on:
        raise InvalidInput(f'on is a list of the columns that make the key: ["id"], not {on!r}', on=on)
    wanted = [schema.find(name).id for name in on]
    fields = tuple(field for field in schema if field.id in wanted)
    if len(fields) < len(set(wanted)):
        nested = next(name for name in on if schema.find(name).id not in {field.id for field in fields})
        raise InvalidInput(f"cannot use {nested!r} as part of a key: it lies inside another column", column=nested)
    for field in fields:
        if not isinstance(field.type, PrimitiveType) or isinstance(field.type, VariantType) or is_floating(field.type):
            raise InvalidInput(
                f"cannot use {field.name!r} as part of a key: values of type {field.type} are not compared for "
                "equality",
                column=field.name,
            )
    return Schema(fields=fields, schema_id=schema.schema_id)
