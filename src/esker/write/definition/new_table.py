"""A new table's first metadata, checked before anything is created."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from uuid import uuid4

from esker.errors import InvalidInput, Unsupported
from esker.model.evolution.nested_fields import fresh_schema, locate, parts_of
from esker.model.evolution.partition_change import new_spec
from esker.model.evolution.schema_rules import NEWEST_VERSION, check_schema
from esker.model.parsing.column_definitions import (
    columns_from_spark,
    is_spark_type,
    parse_columns,
    parse_type,
    type_from_spark,
)
from esker.model.parsing.partition_and_sort_terms import parse_sort_term, sort_field
from esker.model.partition_and_sort import (
    FIRST_PARTITION_FIELD_ID,
    UNSORTED,
    PartitionField,
    PartitionSpec,
    SortField,
    SortOrder,
)
from esker.model.schema import Schema
from esker.model.transform import accepts
from esker.model.types import Field, StructType, Type
from esker.tree.table_metadata import TableMetadata
from esker.write.properties import checked_properties

FromArrow = Callable[[object], Schema]


def define_table(
    *,
    schema: object,
    location: str,
    partition_by: Iterable[str] = (),
    sort_by: Iterable[str] = (),
    properties: Mapping[str, str] | None = None,
    format_version: int = 2,
    identifier_fields: Iterable[str] = (),
    schema_from_arrow: FromArrow | None = None,
) -> TableMetadata:
    """Return the metadata of a table from what users give: DDL, a Spark or Arrow schema, terms as text.

    Raises ``InvalidInput`` for a definition that is wrong.
    """
    columns = read_schema(schema, schema_from_arrow)
    ids = [locate(columns, parts_of(name))[-1].id for name in _several(identifier_fields, "identifier_fields")]
    if ids:
        columns = Schema(fields=columns.fields, identifier_field_ids=frozenset(ids))
    return new_table_metadata(
        schema=columns,
        spec=new_spec(columns, _several(partition_by, "partition_by")),
        sort_order=new_sort_order(columns, _several(sort_by, "sort_by")),
        location=location,
        properties=properties,
        format_version=format_version,
    )


def new_table_metadata(
    *,
    schema: Schema,
    spec: PartitionSpec = PartitionSpec(),  # noqa: B008  # frozen
    sort_order: SortOrder = UNSORTED,
    location: str,
    properties: Mapping[str, str] | None = None,
    format_version: int = 2,
) -> TableMetadata:
    """Return the metadata of an empty table. Raises ``InvalidInput`` for a definition that is wrong."""
    check_format_version(format_version)
    if not schema.fields:
        raise InvalidInput("cannot create a table without columns")
    if not isinstance(location, str) or not location.strip():
        raise InvalidInput(f"cannot create a table at {location!r}: that is not a location")
    check_schema(schema, format_version)
    _check_sources(schema, spec, sort_order)
    return TableMetadata(
        format_version=format_version,
        uuid=str(uuid4()),
        location=location.rstrip("/") or location,
        last_updated_ms=time.time_ns() // 1_000_000,
        last_column_id=schema.highest_id,
        schemas=(schema,),
        current_schema_id=schema.schema_id,
        specs=(spec,),
        default_spec_id=spec.spec_id,
        last_partition_id=max((f.field_id for f in spec.fields), default=FIRST_PARTITION_FIELD_ID - 1),
        sort_orders=(sort_order,),
        default_sort_order_id=sort_order.order_id,
        properties=checked_properties(properties),
        next_row_id=0 if format_version >= 3 else None,
    )


def read_schema(given: object, from_arrow: FromArrow | None = None) -> Schema:
    """Columns with new ids, from DDL, an Esker schema, a Spark ``StructType``, or anything that Arrow reads as a
    schema."""
    if isinstance(given, str):
        return fresh_schema(Schema(fields=parse_columns(given)))
    if isinstance(given, Schema):
        return fresh_schema(given)
    if isinstance(given, StructType):
        return fresh_schema(Schema(fields=given.fields))
    if isinstance(given, tuple | list) and all(isinstance(field, Field) for field in given):
        return fresh_schema(Schema(fields=tuple(given)))
    if is_spark_type(given):
        return fresh_schema(Schema(fields=columns_from_spark(given)))
    if from_arrow is not None and hasattr(given, "__arrow_c_schema__"):
        return fresh_schema(from_arrow(given))
    raise InvalidInput(
        f"cannot make columns of a {type(given).__name__}: "
        "give DDL such as 'id bigint not null, ts timestamp', a pyarrow schema or a Spark StructType"
    )


def read_type(given: object, from_arrow: FromArrow | None = None) -> Type:
    """A column's type, from DDL or a type of Esker, Spark or Arrow. Parts have no ids yet."""
    if isinstance(given, str):
        return parse_type(given)
    if is_spark_type(given):
        return type_from_spark(given)
    if isinstance(given, Type):
        return given
    if from_arrow is not None and hasattr(given, "__arrow_c_schema__"):
        (column,) = from_arrow([("column", given)]).fields
        return column.type
    raise InvalidInput(f"cannot make a column of a {type(given).__name__}: give a type such as 'bigint'")


def new_sort_order(schema: Schema, terms: Iterable[str]) -> SortOrder:
    """The sort order of a new table; order 0 means unsorted."""
    fields = tuple(sort_field(parse_sort_term(text), schema) for text in terms)
    return SortOrder(order_id=1, fields=fields) if fields else UNSORTED


def check_format_version(version: int) -> None:
    """Raise an error for a version that does not exist, or that Esker does not support."""
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise InvalidInput(f"cannot use format version {version!r}: it is 1, 2 or 3")
    if version > NEWEST_VERSION:
        raise Unsupported(
            f"cannot use format version {version}: the newest known is {NEWEST_VERSION}",
            feature=f"format version {version}",
        )


def _check_sources(schema: Schema, spec: PartitionSpec, order: SortOrder) -> None:
    """Check that specs and orders, if given as objects and not as terms, refer to these columns."""
    used: list[PartitionField | SortField] = [*spec.fields, *order.fields]
    for field in used:
        source = schema.by_id.get(field.source_id)
        if source is None:
            raise InvalidInput(f"cannot create a table with {field}: no column has the id {field.source_id}")
        if not accepts(field.transform, source.type) or schema.in_repeated(source.id):
            name = schema.name_by_id[source.id]
            raise InvalidInput(f"cannot use {field.transform} on column {name!r} of type {source.type}", column=name)
    if not spec.is_writable:
        raise Unsupported("cannot create a table with an unknown partition transform", feature="unknown transform")


def _several(given: Iterable[str], what: str) -> tuple[str, ...]:
    """The terms; a single text such as ``partition_by="day(ts)"`` is one term."""
    if isinstance(given, str):
        return (given,)
    found = tuple(given)
    if not all(isinstance(term, str) for term in found):
        raise InvalidInput(f"cannot read {what} {given!r}: give text, such as ['day(ts)', 'region']")
    return found
