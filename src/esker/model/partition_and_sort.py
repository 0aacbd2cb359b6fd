"""Partition specs and sort orders: how a table's rows are divided into partitions, and sorted within files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from esker.model.schema import Schema
from esker.model.transform import Transform, UnknownTransform, VoidTransform, result_type
from esker.model.types import UNKNOWN, Field, StructType, Type

# ---------------------------------------------------------------- partition
#
# How a table's rows are divided into partitions, at one time of its life.


FIRST_PARTITION_FIELD_ID = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionField:
    """One member of the partition tuple: a column put through a transform."""

    source_id: int
    field_id: int
    name: str
    transform: Transform
    other_sources: tuple[int, ...] = ()  # a multi-argument transform's further columns (v3)

    def __str__(self) -> str:
        return f"{self.field_id}: {self.name}: {self.transform}({self.source_id})"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSpec:
    """The partition tuple's members in order; none for an unpartitioned table."""

    spec_id: int = 0
    fields: tuple[PartitionField, ...] = ()

    @property
    def is_unpartitioned(self) -> bool:
        """No fields, or only dropped ones: deletes written under such a spec are global."""
        return all(isinstance(field.transform, VoidTransform) for field in self.fields)

    @property
    def is_writable(self) -> bool:
        """Whether every transform can be computed here."""
        return not any(isinstance(field.transform, UnknownTransform) for field in self.fields)

    def partition_type(self, schemas: Mapping[int, Field]) -> StructType:
        """The tuple's type. ``schemas`` finds source fields by id, of any schema the table ever had."""
        return StructType(
            tuple(Field(id=f.field_id, name=f.name, type=partition_value_type(f, schemas)) for f in self.fields)
        )


def partition_value_type(field: PartitionField, sources: Mapping[int, Field]) -> Type:
    """The type of one member; unknown when no schema has the source any more."""
    source = sources.get(field.source_id)
    if source is None:
        return UNKNOWN if not _fixed_result(field.transform) else result_type(field.transform, UNKNOWN)
    return result_type(field.transform, source.type)


def _fixed_result(transform: Transform) -> bool:
    return result_type(transform, UNKNOWN) != UNKNOWN


def fields_of_all(schemas: tuple[Schema, ...]) -> dict[int, Field]:
    """Fields by id over every schema of a table; a later schema's version of a field wins."""
    found: dict[int, Field] = {}
    for schema in schemas:
        found.update(schema.by_id)
    return found


# ---------------------------------------------------------------- sort order
#
# The order in which a table asks its rows to be written.


@dataclass(frozen=True, slots=True, kw_only=True)
class SortField:
    """One key: a column put through a transform, ascending or not, nulls first or last."""

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
    """Keys from the most significant on; order 0 is unsorted."""

    order_id: int = 0
    fields: tuple[SortField, ...] = ()

    @property
    def is_unsorted(self) -> bool:
        """Whether rows may lie in any order."""
        return not self.fields


UNSORTED = SortOrder()
