"""The metadata of a table that a client asks to create, or of which it sends the first updates."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

from esker.errors import InvalidInput
from esker.iceberg.json_document import JsonObject
from esker.iceberg.metadata.partition_and_sort import decode_partition_fields, decode_sort_order
from esker.iceberg.metadata.schema import decode_schema
from esker.model.evolution.nested_fields import fresh_schema
from esker.model.partition_and_sort import FIRST_PARTITION_FIELD_ID, UNSORTED, PartitionField, PartitionSpec, SortOrder
from esker.model.schema import Schema, walk
from esker.model.transform import UnknownTransform
from esker.serve.call import REQUEST
from esker.tree.table_metadata import TableMetadata
from esker.write.definition.new_table import new_table_metadata

_FORMAT_VERSION = "format-version"
DEFAULT_VERSION = 2
"""The format version of a table for which the client names none."""
LARGEST_ID = (1 << 31) - 1
"""Of numbers that other engines read as integers of 32 bits."""


def requested_table(document: JsonObject, location: str) -> TableMetadata:
    """The first metadata of the table in a create request.

    Columns and partition fields get new ids, as in every Iceberg catalog. Raises ``InvalidInput`` for a definition that
    is wrong, and ``Corrupt`` for a document that is not as the protocol has it.
    """
    asked = decode_schema(REQUEST, document.required("schema"))
    schema = fresh_schema(asked)
    pairs = zip(walk(asked.fields), walk(schema.fields), strict=True)
    renumbered = {old.id: new.id for (old, _), (new, _) in pairs}
    spec = _spec(document.object_or_none("partition-spec"), renumbered)
    check_partition_fields(spec.fields, schema)
    properties = dict(document.strings("properties"))
    version = _version(properties.pop(_FORMAT_VERSION, str(DEFAULT_VERSION)))
    return new_table_metadata(
        schema=schema,
        spec=spec,
        sort_order=_order(document.raw("write-order"), renumbered),
        location=location,
        properties=properties,
        format_version=version,
    )


def check_partition_fields(fields: Sequence[PartitionField], schema: Schema) -> None:
    """Check a new partition spec. Raises ``InvalidInput`` for names or ids with which other engines could not read the
    table: they resolve partition fields by name beside the columns, and by ids from 1000 up."""
    for part in fields:
        if not part.name:
            raise InvalidInput("cannot add the partition spec: one of its fields has no name")
        if not FIRST_PARTITION_FIELD_ID <= part.field_id <= LARGEST_ID:
            raise InvalidInput(
                f"cannot partition by {part.name!r}: the id {part.field_id} of the field is not between "
                f"{FIRST_PARTITION_FIELD_ID} and {LARGEST_ID}"
            )
        column = schema.id_by_name.get(part.name)
        if column is not None and column != part.source_id:
            raise InvalidInput(f"cannot partition by {part.name!r}: another column has this name")
    if len({part.name for part in fields}) != len(fields):
        raise InvalidInput("cannot add the partition spec: two of its fields have one name")
    if len({part.field_id for part in fields}) != len(fields):
        raise InvalidInput("cannot add the partition spec: two of its fields have one id")


def _version(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise InvalidInput(f"cannot use {_FORMAT_VERSION} = {text[:40]!r}: it takes 1, 2 or 3")
    return int(text)


def _spec(document: JsonObject | None, renumbered: dict[int, int]) -> PartitionSpec:
    if document is None:
        return PartitionSpec()
    fields = decode_partition_fields(REQUEST, document.items("fields"))
    return PartitionSpec(
        fields=tuple(
            replace(
                field,
                source_id=_renumbered(field.source_id, renumbered),
                other_sources=tuple(_renumbered(source, renumbered) for source in field.other_sources),
                field_id=FIRST_PARTITION_FIELD_ID + at,
            )
            for at, field in enumerate(fields)
        )
    )


def _order(value: Any, renumbered: dict[int, int]) -> SortOrder:
    if value is None:
        return UNSORTED
    asked = decode_sort_order(REQUEST, value)
    if unknown := next((one.transform for one in asked.fields if isinstance(one.transform, UnknownTransform)), None):
        raise InvalidInput(f"cannot create the table: the transform {unknown} of its sort order is not known")
    fields = tuple(
        replace(
            field,
            source_id=_renumbered(field.source_id, renumbered),
            other_sources=tuple(_renumbered(source, renumbered) for source in field.other_sources),
        )
        for field in asked.fields
    )
    return SortOrder(order_id=1, fields=fields) if fields else UNSORTED


def _renumbered(source_id: int, renumbered: dict[int, int]) -> int:
    if source_id not in renumbered:
        raise InvalidInput(f"cannot create the table: no column has the id {source_id}")
    return renumbered[source_id]


def blank_table(format_version: int) -> TableMetadata:
    """A table before its first update: what the updates of a staged create are applied to."""
    return TableMetadata(
        format_version=format_version,
        uuid=str(uuid4()),
        location="",
        last_updated_ms=time.time_ns() // 1_000_000,
        last_column_id=0,
        schemas=(Schema(fields=(), schema_id=-1),),
        current_schema_id=-1,
        specs=(),
        default_spec_id=-1,
        sort_orders=(),
        default_sort_order_id=-1,
        next_row_id=0 if format_version >= 3 else None,
    )
