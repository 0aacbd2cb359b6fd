"""The ``partition`` column: one struct for all the specs a table has had."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from esker.metadata_tables.held_columns import from_held
from esker.metadata_tables.subject import Subject
from esker.read.metadata_columns import unified_partition_fields
from esker.tree.manifest import Entries


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
