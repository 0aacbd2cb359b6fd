"""Partition specs and sort orders to and from JSON, in table metadata and in the headers of manifests (F1, F9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from esker.errors import Corrupt
from esker.iceberg.json_document import JsonObject, decode_json
from esker.model.partition_and_sort import FIRST_PARTITION_FIELD_ID, PartitionField, PartitionSpec, SortField, SortOrder
from esker.model.transform import parse_transform
from esker.tree.manifest_list import ManifestFile

# ---------------------------------------------------------------- Partition specs


def decode_partition_spec(file: str, value: Any, *, where: str = "the partition spec") -> PartitionSpec:
    """The spec of a JSON object."""
    document = JsonObject(file, where, value)
    return PartitionSpec(
        spec_id=document.integer("spec-id"),
        fields=decode_partition_fields(file, document.items("fields"), where=where),
    )


def decode_partition_specs(file: str, values: list[Any]) -> tuple[PartitionSpec, ...]:
    """Every spec of a table. Raises `Corrupt` if two specs with one id differ."""
    by_id: dict[int, PartitionSpec] = {}
    for number, value in enumerate(values):
        spec = decode_partition_spec(file, value, where=f"partition spec {number}")
        if by_id.setdefault(spec.spec_id, spec) != spec:
            raise Corrupt(file, f"two different partition specs have the id {spec.spec_id}")
    return tuple(by_id.values())


def decode_partition_fields(
    file: str, values: list[Any], *, where: str = "the partition spec"
) -> tuple[PartitionField, ...]:
    """The fields of a plain array, as in v1 metadata and manifest headers.

    v1 did not record field ids. They are then counted from 1000 by position (F1).
    """
    documents = [JsonObject(file, f"field {number} of {where}", value) for number, value in enumerate(values)]
    without_id = sum("field-id" not in document for document in documents)
    if without_id and without_id != len(documents):
        raise Corrupt(file, f"{where}: {without_id} of its {len(documents)} fields have no 'field-id'")
    fields = tuple(_partition_field(document, at) for at, document in enumerate(documents))
    if len({field.field_id for field in fields}) != len(fields):
        raise Corrupt(file, f"{where}: two of its fields have the same 'field-id'")
    return fields


def encode_partition_spec(spec: PartitionSpec) -> dict[str, Any]:
    """A spec as JSON."""
    return {"spec-id": spec.spec_id, "fields": encode_partition_fields(spec)}


def encode_partition_fields(spec: PartitionSpec) -> list[dict[str, Any]]:
    """The plain array of fields."""
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
    """The source column, and the other source columns of a multi-argument transform (v3)."""
    several = document.integers("source-ids")
    if several and "source-id" not in document:
        return several[0], several[1:]
    return document.integer("source-id"), several[1:]


def encode_sources(source_id: int, others: tuple[int, ...]) -> dict[str, Any]:
    """``source-id`` for one column, ``source-ids`` for several."""
    return {"source-ids": [source_id, *others]} if others else {"source-id": source_id}


def _partition_field(document: JsonObject, at: int) -> PartitionField:
    source_id, others = decode_sources(document)
    field_id = document.integer_or_none("field-id", at_least=0)
    return PartitionField(
        source_id=source_id,
        field_id=FIRST_PARTITION_FIELD_ID + at if field_id is None else field_id,
        name=document.string("name"),
        transform=parse_transform(document.string("transform")),
        other_sources=others,
    )


# ---------------------------------------------------------------- The partition spec in a manifest's header, if the
# table's metadata does not have it


def spec_of_manifest(manifest: ManifestFile, header: Mapping[str, bytes]) -> PartitionSpec:
    """The header's spec with the id of the manifest list. Raises `Corrupt` if the header has no spec (C5)."""
    written = header.get("partition-spec")
    if written is None:
        raise Corrupt(
            manifest.path,
            f"its partition spec {manifest.spec_id} is not in the table's metadata, and its header has none",
        )
    value = decode_json(manifest.path, written, "its partition-spec")
    # Most writers write a plain array; some write the whole object (A5).
    fields = value.get("fields") if isinstance(value, dict) else value
    if not isinstance(fields, list):
        raise Corrupt(manifest.path, "its partition-spec is neither a list of fields nor an object that has one")
    return PartitionSpec(spec_id=manifest.spec_id, fields=decode_partition_fields(manifest.path, fields))


def spec_id_of_header(header: Mapping[str, bytes]) -> int:
    """The spec id of a header. 0 if it has no valid number."""
    word = header.get("partition-spec-id", b"").strip()
    return int(word) if word.isdigit() else 0


# ---------------------------------------------------------------- Sort orders


def decode_sort_order(file: str, value: Any, *, where: str = "the sort order") -> SortOrder:
    """The sort order of a JSON object."""
    document = JsonObject(file, where, value)
    document.required("fields")
    return SortOrder(
        order_id=document.integer("order-id"),
        fields=tuple(_sort_field(field) for field in document.objects("fields", "field")),
    )


def decode_sort_orders(file: str, values: list[Any]) -> tuple[SortOrder, ...]:
    """Every sort order of a table. Raises `Corrupt` if two orders with one id differ."""
    by_id: dict[int, SortOrder] = {}
    for number, value in enumerate(values):
        order = decode_sort_order(file, value, where=f"sort order {number}")
        if by_id.setdefault(order.order_id, order) != order:
            raise Corrupt(file, f"two different sort orders have the id {order.order_id}")
    return tuple(by_id.values())


def encode_sort_order(order: SortOrder) -> dict[str, Any]:
    """A sort order as JSON."""
    return {
        "order-id": order.order_id,
        "fields": [
            {
                "transform": str(field.transform),
                **encode_sources(field.source_id, field.other_sources),
                "direction": "desc" if field.descending else "asc",
                "null-order": "nulls-last" if field.nulls_last else "nulls-first",
            }
            for field in order.fields
        ],
    }


def _sort_field(document: JsonObject) -> SortField:
    source_id, others = decode_sources(document)
    return SortField(
        source_id=source_id,
        transform=parse_transform(document.string("transform")),
        descending=_choice(document, "direction", "asc", "desc"),
        nulls_last=_choice(document, "null-order", "nulls-first", "nulls-last"),
        other_sources=others,
    )


def _choice(document: JsonObject, name: str, no: str, yes: str) -> bool:
    """True if the field is ``yes``, False if it is ``no``, in upper or lower case."""
    text = document.string(name).lower()
    if text not in (no, yes):
        raise document.corrupt(f"{name!r} must be {no!r} or {yes!r}, not {text!r}")
    return text == yes
