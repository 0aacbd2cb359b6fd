"""Fields below the top: the way down to one, and its values per row."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from esker.errors import Unsupported
from esker.model.schema import Schema
from esker.model.types import Field, StructType
from esker.tree.table_metadata import TableMetadata


def path_of(field_id: int, schema: Schema, metadata: TableMetadata | None = None) -> tuple[Field, ...] | None:
    """From the top-level column down to the field; of a dropped one as older schemas had it (checklist H4)."""
    if field_id in schema.path_by_id:
        return schema.path_by_id[field_id]
    if metadata is None:
        return None
    for known in (metadata.schema, *reversed(metadata.schemas)):
        if field_id in known.path_by_id:
            return known.path_by_id[field_id]
    return None


def branch(path: tuple[Field, ...]) -> Field:
    """The top-level column cut down to the one way that leads to the field."""
    field = path[-1]
    for above in reversed(path[:-1]):
        if not isinstance(above.type, StructType):
            name = ".".join(part.name for part in path)
            raise Unsupported(f"cannot compare {name!r}: a row has many values of it", feature="keys inside lists")
        field = replace(above, type=StructType((field,)))
    return field


def tip(array: pa.Array, path: tuple[Field, ...]) -> pa.Array:
    """The field's own values out of its branch; null where a struct above it is."""
    if len(path) == 1:
        return array
    import pyarrow.compute as pc

    return pc.struct_field(array, [0] * (len(path) - 1))
