"""Partition specs and sort orders: how a table's rows are divided into partitions, and sorted in files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from esker.model.schema import Schema
from esker.model.transform import Transform, UnknownTransform, VoidTransform, result_type
from esker.model.types import UNKNOWN, Field, StructType, Type

FIRST_PARTITION_FIELD_ID = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionField:
    """One field of the partition values: a transform of a column."""

    source_id: int
    field_id: int
    name: str
    transform: Transform
    other_sources: tuple[int, ...] = ()  # the other columns of a multi-argument transform (v3)

    def __str__(self) -> str:
        return f"{self.field_id}: {self.name}: {self.transform}({self.source_id})"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSpec:
    """The partition fields in order. Empty for an unpartitioned table."""

    spec_id: int = 0
    fields: tuple[PartitionField, ...] = ()

    @property
    def is_unpartitioned(self) -> bool:
        """Whether there are no fields, or only dropped ones. Deletes under such a spec apply to all partitions."""
        return all(isinstance(field.transform, VoidTransform) for field in self.fields)

    @property
    def is_writable(self) -> bool:
        """Whether Esker can compute every transform."""
        return not any(isinstance(field.transform, UnknownTransform) for field in self.fields)

    def partition_type(self, schemas: Mapping[int, Field]) -> StructType:
        """The type of the partition values. ``schemas`` has the source fields by id, of all schemas of the table."""
        return StructType(
            tuple(Field(id=f.field_id, name=f.name, type=partition_value_type(f, schemas)) for f in self.fields)
        )


def partition_value_type(field: PartitionField, sources: Mapping[int, Field]) -> Type:
    """The type of one partition field. Unknown if no schema has the source column any more."""
    source = sources.get(field.source_id)
    if source is None:
        return UNKNOWN if not _fixed_result(field.transform) else result_type(field.transform, UNKNOWN)
    return result_type(field.transform, source.type)


def _fixed_result(transform: Transform) -> bool:
    return result_type(transform, UNKNOWN) != UNKNOWN


def fields_of_all(schemas: tuple[Schema, ...]) -> dict[int, Field]:
    """The fields of all schemas of a table by id. The newest version of a field is used."""
    found: dict[int, Field] = {}
    for schema in schemas:
        found.update(schema.by_id)
    return found


# ---------------------------------------------------------------- Sort orders


@dataclass(frozen=True, slots=True, kw_only=True)
class SortField:
    """One sort key: a transform of a column, ascending or descending, nulls first or last."""

    source_id: int
    transform: Transform
    descending: bool = False
    nulls_last: bool = False
    other_sources: tuple[int, ...] = ()

    def __str__(self) -> str:
        way = "desc" if self.descending else "asc"
        nulls = "nulls-last" if self.nulls_last else "nulls-first"
        return f"{self.transform}({self.source_id}) {way} {nulls}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SortOrder:
    """The sort keys, the most significant first. Order 0 is unsorted."""

    order_id: int = 0
    fields: tuple[SortField, ...] = ()

    @property
    def is_unsorted(self) -> bool:
        """Whether rows may be in any order."""
        return not self.fields


UNSORTED = SortOrder()
