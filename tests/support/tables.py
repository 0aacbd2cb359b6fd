"""Small tables made by hand, for tests that need one and do not care what is in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from uuid import uuid4

from esker.model.schema import Schema
from esker.model.types import Field, LongType, StringType
from esker.tree.table_metadata import TableMetadata


def empty_table(location: str, **properties: str) -> TableMetadata:
    """A table of two columns and no snapshot."""
    columns = (Field(id=1, name="id", type=LongType(), required=True), Field(id=2, name="name", type=StringType()))
    return TableMetadata(
        format_version=2,
        uuid=str(uuid4()),
        location=location,
        last_updated_ms=1_700_000_000_000,
        last_column_id=2,
        schemas=(Schema(fields=columns),),
        current_schema_id=0,
        properties=properties,
    )


def with_properties(metadata: TableMetadata, changes: Mapping[str, str]) -> TableMetadata:
    """The same table a millisecond later, with some properties set."""
    return replace(
        metadata, properties={**metadata.properties, **changes}, last_updated_ms=metadata.last_updated_ms + 1
    )
