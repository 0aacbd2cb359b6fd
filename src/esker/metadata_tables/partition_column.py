"""The ``partition`` column: one struct for all the specs a table has had."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from esker.metadata_tables.held_columns import from_held
from esker.metadata_tables.subject import Subject
from esker.model.partition import PartitionField, partition_value_type
from esker.model.transform import VoidTransform
from esker.model.types import Field
from esker.tree.manifest import Entries
from esker.tree.table_metadata import TableMetadata


def unified_partition_fields(metadata: TableMetadata) -> tuple[Field, ...]:
    """Every partition field of every spec, once, by ascending id.

    The newest spec gives the name. A field that a v1 table dropped lives on as ``void``, so the type is the one it
    had while it still held values.
    """
    named: dict[int, PartitionField] = {}
    typed: dict[int, PartitionField] = {}
    for spec in sorted(metadata.specs, key=lambda s: s.spec_id, reverse=True):
        for field in spec.fields:
            named.setdefault(field.field_id, field)
            kept = typed.setdefault(field.field_id, field)
            if isinstance(kept.transform, VoidTransform):
                typed[field.field_id] = field
    sources = metadata.any_field_by_id
    names = _distinct_names({id_: named[id_].name for id_ in sorted(named)})
    return tuple(
        Field(id=id_, name=name, type=partition_value_type(typed[id_], sources)) for id_, name in names.items()
    )


def _distinct_names(names: dict[int, str]) -> dict[int, str]:
    """Two specs may have used one name for two fields: the later field then carries its id."""
    taken: set[str] = set()
    distinct: dict[int, str] = {}
    for id_, name in names.items():
        distinct[id_] = name if name not in taken else f"{name}_{id_}"
        taken.add(distinct[id_])
    return distinct


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """The unified partition type of a table, ready to build columns of it."""

    ids: tuple[int, ...]
    arrow_fields: tuple[pa.Field, ...]

    @classmethod
    def of(cls, subject: Subject) -> PartitionColumn:
        """The column for that table."""
        fields = unified_partition_fields(subject.metadata)
        arrow = (pa.field(field.name, subject.arrow_type(field.type)) for field in fields)
        return cls(tuple(field.id for field in fields), tuple(arrow))

    def __bool__(self) -> bool:
        return bool(self.ids)

    @property
    def field(self) -> pa.Field:
        """The column's place in a schema."""
        return pa.field("partition", pa.struct(self.arrow_fields), nullable=False)

    def members(self, entries: Entries) -> list[pa.Array]:
        """One array per unified field; all null where the entries' own spec lacks it."""
        own = {field.field_id: column for field, column in zip(entries.spec.fields, entries.partition, strict=True)}
        nothing = pa.nulls(len(entries))
        return [from_held(own.get(id_, nothing), f.type) for id_, f in zip(self.ids, self.arrow_fields, strict=True)]

    def build(self, entries: Entries) -> pa.StructArray:
        """The column for these entries."""
        return pa.StructArray.from_arrays(self.members(entries), fields=list(self.arrow_fields))
