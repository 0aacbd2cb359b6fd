"""Keeping ``schema.name-mapping.default`` up with the columns, for files that carry no field ids.

A renamed column is found under its new name too, and a new one under its own. A name that once meant another column
still means that one: files from before have its values, which must not come back as someone else's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from esker.errors import InvalidInput
from esker.model.types import Field, children
from esker.tree.table_metadata import TableMetadata

PROPERTY = "schema.name-mapping.default"


def first_mapping(fields: tuple[Field, ...]) -> str:
    """The mapping of a table that has none: every column under its present name."""
    return json.dumps(_merged([], fields))


def with_mapping(metadata: TableMetadata, text: str) -> TableMetadata:
    """The table with this mapping, and in it what columns are called by now; as it is where it has one already."""
    if PROPERTY in metadata.properties:
        return metadata
    named = with_names({**metadata.properties, PROPERTY: text}, metadata.schema.fields)
    return replace(metadata, properties=named)


def with_names(properties: Mapping[str, str], fields: tuple[Field, ...]) -> Mapping[str, str]:
    """The properties with every column in the table's name mapping; as they are where it has none."""
    text = properties.get(PROPERTY)
    if text is None:
        return properties
    try:
        mapped = json.loads(text)
        merged = _merged(mapped, fields)
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise InvalidInput(f"cannot change columns: {PROPERTY} is not a name mapping", property=PROPERTY) from None
    return properties if merged == mapped else {**properties, PROPERTY: json.dumps(merged)}


def _merged(mapped: list[dict[str, Any]], fields: tuple[Field, ...]) -> list[dict[str, Any]]:
    found = [dict(entry) for entry in mapped]
    by_id = {entry.get("field-id"): entry for entry in found}
    taken = {name for entry in found for name in entry["names"]}
    for field in fields:
        entry = by_id.get(field.id)
        if entry is None:
            if field.name in taken:
                continue
            entry = {"field-id": field.id, "names": []}
            found.append(entry)
        if field.name not in taken:
            entry["names"] = [*entry["names"], field.name]
            taken.add(field.name)
        if inner := _merged(entry.get("fields") or [], children(field.type)):
            entry["fields"] = inner
    return found
