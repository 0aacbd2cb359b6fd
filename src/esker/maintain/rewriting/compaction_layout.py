"""The settings of a compaction, checked against the table: its options, and the order of the rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from esker.errors import InvalidInput
from esker.maintain.rewriting.plan_groups import CompactionOptions
from esker.model.parsing.partition_and_sort_terms import parse_sort_term, sort_field
from esker.model.partition_and_sort import UNSORTED, SortOrder
from esker.model.schema import Schema
from esker.model.types import (
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    StructType,
    UnknownType,
    VariantType,
)
from esker.ports.file_rewriting import RowLayout
from esker.tree.table_metadata import TableMetadata

_WITHOUT_ORDER = (StructType, ListType, MapType, UnknownType, VariantType, GeometryType, GeographyType)


def compaction_settings(metadata: TableMetadata, given: Mapping[str, Any]) -> tuple[CompactionOptions, RowLayout]:
    """The options and the layout that a user asked for. Raises ``InvalidInput`` with the argument that is wrong."""
    asked = dict(given)
    if asked.get("rewrite_all") is None:
        asked["rewrite_all"] = asked.get("strategy", "bin-pack") != "bin-pack"
    options = CompactionOptions.of(metadata.properties, asked)
    match options.strategy:
        case "sort":
            return options, RowLayout(sort=_sort_order(metadata, options.sort_by))
        case "z-order":
            return options, RowLayout(z_order=tuple(_z_column(metadata.schema, name) for name in options.sort_by))
        case _:
            return options, RowLayout()


def _sort_order(metadata: TableMetadata, terms: tuple[str, ...]) -> SortOrder:
    """The order to sort by. If it is one of the table's, it has its id, so that files record it."""
    if not terms:
        if metadata.sort_order.is_unsorted:
            raise InvalidInput(
                'cannot compact with strategy="sort": the table has no sort order; give sort_by=["column"]'
            )
        return metadata.sort_order
    fields = tuple(sort_field(parse_sort_term(term), metadata.schema) for term in terms)
    known = [order for order in metadata.sort_orders if order.fields == fields]
    return known[0] if known else SortOrder(order_id=UNSORTED.order_id, fields=fields)


def _z_column(schema: Schema, name: str) -> int:
    field = schema.find(name)
    if isinstance(field.type, _WITHOUT_ORDER) or schema.in_repeated(field.id):
        raise InvalidInput(f"cannot compact by z-order of {name!r}: it is a {field.type}", column=name)
    return field.id
