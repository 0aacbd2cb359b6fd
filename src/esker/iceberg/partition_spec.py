"""Partition specs to and from JSON (checklist F1, F9)."""

from __future__ import annotations

from typing import Any

from esker.errors import Corrupt
from esker.iceberg.json_object import JsonObject
from esker.model.partition import FIRST_PARTITION_FIELD_ID, PartitionField, PartitionSpec
from esker.model.transform import parse_transform


def decode_partition_spec(file: str, value: Any, *, where: str = "the partition spec") -> PartitionSpec:
    """The spec that a JSON object describes."""
    document = JsonObject(file, where, value)
    return PartitionSpec(
        spec_id=document.integer("spec-id"),
        fields=decode_partition_fields(file, document.items("fields"), where=where),
    )


def decode_partition_specs(file: str, values: list[Any]) -> tuple[PartitionSpec, ...]:
    """Every spec of a table; two under one id must say the same."""
    by_id: dict[int, PartitionSpec] = {}
    for number, value in enumerate(values):
        spec = decode_partition_spec(file, value, where=f"partition spec {number}")
        if by_id.setdefault(spec.spec_id, spec) != spec:
            raise Corrupt(file, f"two different partition specs have the id {spec.spec_id}")
    return tuple(by_id.values())


def decode_partition_fields(
    file: str, values: list[Any], *, where: str = "the partition spec"
) -> tuple[PartitionField, ...]:
    """The bare array of fields, as v1 metadata and manifest headers hold it.

    v1 did not record field ids: they are then counted from 1000 by position (F1).
    """
    documents = [JsonObject(file, f"field {number} of {where}", value) for number, value in enumerate(values)]
    without_id = sum("field-id" not in document for document in documents)
    if without_id and without_id != len(documents):
        raise Corrupt(file, f"{where}: {without_id} of its {len(documents)} fields have no 'field-id'")
    fields = tuple(_field(document, at) for at, document in enumerate(documents))
    if len({field.field_id for field in fields}) != len(fields):
        raise Corrupt(file, f"{where}: two of its fields have the same 'field-id'")
    return fields


def encode_partition_spec(spec: PartitionSpec) -> dict[str, Any]:
    """A spec as metadata writes it."""
    return {"spec-id": spec.spec_id, "fields": encode_partition_fields(spec)}


def encode_partition_fields(spec: PartitionSpec) -> list[dict[str, Any]]:
    """The bare array of fields."""
    return [
        {
            **encode_sources(field.source_id, field.other_sources),
            "field-id": field.field_id,
            "name": field.name,
            "transform": str(field.transform),
        }
        for field in spec.fields
    ]


def decode_sources(document: JsonObject) -> tuple[int, tuple[int, ...]]:
    """The source column, and the further ones of a multi-argument transform (v3)."""
    several = document.integers("source-ids")
    if several and "source-id" not in document:
        return several[0], several[1:]
    return document.integer("source-id"), several[1:]


def encode_sources(source_id: int, others: tuple[int, ...]) -> dict[str, Any]:
    """``source-id`` for one column, ``source-ids`` for several."""
    return {"source-ids": [source_id, *others]} if others else {"source-id": source_id}


def _field(document: JsonObject, at: int) -> PartitionField:
    source_id, others = decode_sources(document)
    field_id = document.integer_or_none("field-id", at_least=0)
    return PartitionField(
        source_id=source_id,
        field_id=FIRST_PARTITION_FIELD_ID + at if field_id is None else field_id,
        name=document.string("name"),
        transform=parse_transform(document.string("transform")),
        other_sources=others,
    )
