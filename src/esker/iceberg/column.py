"""The spec's tables of Avro fields as data: one row a field, read and written from the same table.

A reader resolves fields by id (checklist A7) and falls back on names only where a writer left the ids out; a
writer leaves out what its format version does not have. Both need the same row, so it is written once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

NEVER = 99
"""A format version nobody has reached: the field is never required, or never dropped."""

AvroType = str | dict[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One field of a record in the spec, with the format versions that write it."""

    id: int
    name: str
    avro: AvroType
    attribute: str  # what the model calls it
    since: int = 1  # the first version that writes it
    required_since: int = 1  # the first version that may not leave it null
    until: int = NEVER  # the last version that writes it

    def is_written_in(self, version: int) -> bool:
        """Whether a writer of that format version has the field."""
        return self.since <= version <= self.until


def list_of(element_id: int, items: AvroType) -> AvroType:
    """An array whose element has an id (checklist A1)."""
    return {"type": "array", "items": items, "element-id": element_id}


def int_map(key_id: int, value_id: int, value: AvroType) -> AvroType:
    """A map with int keys, which Avro has only as an array of pairs (checklist A2)."""
    pair = {
        "type": "record",
        "name": f"k{key_id}_v{value_id}",
        "fields": [
            {"name": "key", "type": "int", "field-id": key_id},
            {"name": "value", "type": value, "field-id": value_id},
        ],
    }
    return {"type": "array", "items": pair, "logicalType": "map"}


def optional(type_: AvroType) -> list[AvroType]:
    """A nullable node: null first, nothing else in the union (checklist A3)."""
    return ["null", type_]


def avro_field(column: Column, version: int, type_: AvroType | None = None) -> dict[str, Any]:
    """The field as a format version writes it; ``type_`` stands in where the type depends on the table."""
    avro = column.avro if type_ is None else type_
    if version >= column.required_since:
        return {"name": column.name, "type": avro, "field-id": column.id}
    return {"name": column.name, "type": optional(avro), "default": None, "field-id": column.id}


def record(name: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    """A record schema."""
    return {"type": "record", "name": name, "fields": fields}


def ids_by_name(columns: Iterable[Column], above: str = "") -> Mapping[str, int]:
    """Name to id, for files whose writer left the ids out; ``above`` stands before each name."""
    return {above + column.name: column.id for column in columns}
