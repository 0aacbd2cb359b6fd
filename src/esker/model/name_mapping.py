"""Column ids for files that carry none: by name, as the table's ``schema.name-mapping.default`` says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from esker.model.types import Field, children


@dataclass(frozen=True, kw_only=True)
class MappedField:
    """Names that stand for one field id. A dot in a name is part of it; nested fields have mappings of their own."""

    names: tuple[str, ...]
    field_id: int | None = None
    fields: tuple[MappedField, ...] = ()

    @cached_property
    def by_name(self) -> Mapping[str, MappedField]:
        """The nested mappings, by each of their names."""
        return {name: field for field in self.fields for name in field.names}


def mapping_of(fields: tuple[Field, ...]) -> tuple[MappedField, ...]:
    """The mapping a schema implies: every field under its present name."""
    return tuple(MappedField(names=(f.name,), field_id=f.id, fields=mapping_of(children(f.type))) for f in fields)
