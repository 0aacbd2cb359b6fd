"""Sort orders to and from JSON."""

from __future__ import annotations

from typing import Any

from esker.errors import Corrupt
from esker.iceberg.json_object import JsonObject
from esker.iceberg.partition_spec import decode_sources, encode_sources
from esker.model.sort_order import SortField, SortOrder
from esker.model.transform import parse_transform


def decode_sort_order(file: str, value: Any, *, where: str = "the sort order") -> SortOrder:
    """The sort order that a JSON object describes."""
    document = JsonObject(file, where, value)
    document.required("fields")
    return SortOrder(
        order_id=document.integer("order-id"),
        fields=tuple(_field(field) for field in document.objects("fields", "field")),
    )


def decode_sort_orders(file: str, values: list[Any]) -> tuple[SortOrder, ...]:
    """Every sort order of a table; two under one id must say the same."""
    by_id: dict[int, SortOrder] = {}
    for number, value in enumerate(values):
        order = decode_sort_order(file, value, where=f"sort order {number}")
        if by_id.setdefault(order.order_id, order) != order:
            raise Corrupt(file, f"two different sort orders have the id {order.order_id}")
    return tuple(by_id.values())


def encode_sort_order(order: SortOrder) -> dict[str, Any]:
    """A sort order as metadata writes it."""
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


def _field(document: JsonObject) -> SortField:
    source_id, others = decode_sources(document)
    return SortField(
        source_id=source_id,
        transform=parse_transform(document.string("transform")),
        descending=_choice(document, "direction", "asc", "desc"),
        nulls_last=_choice(document, "null-order", "nulls-first", "nulls-last"),
        other_sources=others,
    )


def _choice(document: JsonObject, name: str, no: str, yes: str) -> bool:
    """Whether the field holds ``yes`` rather than ``no``, in any case."""
    text = document.string(name).lower()
    if text not in (no, yes):
        raise document.corrupt(f"{name!r} must be {no!r} or {yes!r}, not {text!r}")
    return text == yes
