"""The commit that creates a table with its first rows, and the one that replaces a table as a whole.

A replaced table stays the same table, with new columns, layout and rows. Its older snapshots stay readable.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from esker.errors import Conflict
from esker.model.evolution.nested_fields import Ids, with_children
from esker.model.evolution.schema_rules import can_promote, changes_partition_values
from esker.model.partition_and_sort import PartitionField, PartitionSpec, SortOrder
from esker.model.schema import Schema, walk
from esker.model.table_names import TableName
from esker.model.types import Field, Type, children, is_nested
from esker.ports.catalog import Accepted, Catalog, Rejected, Swap, TableState
from esker.tree.table_metadata import TableMetadata
from esker.write.table_changes import MAIN, next_ms

# ---------------------------------------------------------------- creating a table with its first rows


@dataclass(frozen=True, slots=True)
class FirstCommit:
    """A catalog for the writer of a table that does not exist yet: the first swap creates the table.

    If the name is in use by then, ``AlreadyExists`` ends the commit, which deletes every file it wrote.
    """

    catalog: Catalog
    planned: TableState

    def load(self, name: TableName, known: TableState | None = None) -> TableState:
        """The new table, empty."""
        return self.planned

    def swap(self, name: TableName, base: TableState, new: TableMetadata) -> Swap:
        """Create the table with its rows."""
        return Accepted(self.catalog.create(name, new))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.catalog, name)


# ---------------------------------------------------------------- replacing a table


_BY_OLD_IDS = "schema.name-mapping.default"


def replaced(old: TableMetadata, new: TableMetadata) -> TableMetadata:
    """The old table with the definition ``new``, without a current snapshot.

    A column keeps the id of the old column of the same name, if the old type is the same or can be widened to the new
    one. Every other column gets an id that the table never had. Properties of the old table stay unless the new
    definition has them. The format version never decreases.
    """
    ids = Ids(old.last_column_id)
    version = max(old.format_version, new.format_version)
    fields = _numbered(new.schema.fields, old.schema.fields, ids, version)
    renumbered = {was.id: now.id for (was, _), (now, _) in zip(walk(new.schema.fields), walk(fields), strict=True)}
    schema = _schema(old, fields, frozenset(renumbered[id_] for id_ in new.schema.identifier_field_ids))
    spec, last_partition_id = _spec(old, new, renumbered, version)
    order = _order(old, new, renumbered)
    kept = {key: value for key, value in old.properties.items() if key != _BY_OLD_IDS}
    return replace(
        old,
        format_version=version,
        last_column_id=ids.last,
        schemas=(*(one for one in old.schemas if one.schema_id != schema.schema_id), schema),
        current_schema_id=schema.schema_id,
        specs=(*(one for one in old.specs if one.spec_id != spec.spec_id), spec),
        default_spec_id=spec.spec_id,
        last_partition_id=last_partition_id,
        sort_orders=(*(one for one in old.sort_orders if one.order_id != order.order_id), order),
        default_sort_order_id=order.order_id,
        properties={**kept, **new.properties},
        current_snapshot_id=None,
        refs={name: ref for name, ref in old.refs.items() if name != MAIN},
        last_updated_ms=next_ms(old),
        next_row_id=old.next_row_id if old.next_row_id is not None or version < 3 else 0,
    )


def _numbered(new: tuple[Field, ...], old: tuple[Field, ...], ids: Ids, version: int) -> tuple[Field, ...]:
    """The new fields, each with the id of the old field of its name if it fits. Other ids are assigned in Iceberg's
    order: all members of a struct, then what is inside each."""
    by_name = {field.name: field for field in old}
    found = [_fitting(field, by_name.get(field.name), version) for field in new]
    given = [was.id if was is not None else ids() for was in found]
    return tuple(
        replace(field, id=id_, type=_inside(field.type, was.type if was is not None else None, ids, version))
        for field, id_, was in zip(new, given, found, strict=True)
    )


def _fitting(new: Field, old: Field | None, version: int) -> Field | None:
    """The old field, if files that have it can be read as the new field."""
    if old is None:
        return None
    if is_nested(new.type) or is_nested(old.type):
        return old if type(new.type) is type(old.type) else None
    if changes_partition_values(old.type, new.type):
        return None
    return old if new.type == old.type or can_promote(old.type, new.type, version) else None


def _inside(new: Type, old: Type | None, ids: Ids, version: int) -> Type:
    if not is_nested(new):
        return new
    return with_children(new, _numbered(children(new), () if old is None else children(old), ids, version))


def _schema(old: TableMetadata, fields: tuple[Field, ...], identifiers: frozenset[int]) -> Schema:
    """The schema; an earlier schema of the table that is equal is used again."""
    for one in old.schemas:
        if (one.fields, one.identifier_field_ids) == (fields, identifiers):
            return one
    last = max((one.schema_id for one in old.schemas), default=-1)
    return Schema(fields=fields, schema_id=last + 1, identifier_field_ids=identifiers)


def _spec(
    old: TableMetadata, new: TableMetadata, renumbered: dict[int, int], version: int
) -> tuple[PartitionSpec, int]:
    """The partitioning. A field that an earlier spec had with the same transform and column keeps its id, except in v1,
    which identifies fields by position."""
    known = {(field.source_id, field.transform): field.field_id for one in old.specs for field in one.fields}
    last = old.last_partition_id
    fields: list[PartitionField] = []
    for field in new.spec.fields:
        source = renumbered[field.source_id]
        field_id = known.get((source, field.transform)) if version > 1 and old.format_version > 1 else None
        if field_id is None:
            field_id = last = last + 1
        fields.append(replace(field, source_id=source, field_id=field_id))
    for one in old.specs:
        if one.fields == tuple(fields):
            return one, last
    spec_id = max((one.spec_id for one in old.specs), default=-1) + 1
    return PartitionSpec(spec_id=spec_id, fields=tuple(fields)), last


def _order(old: TableMetadata, new: TableMetadata, renumbered: dict[int, int]) -> SortOrder:
    fields = tuple(replace(field, source_id=renumbered[field.source_id]) for field in new.sort_order.fields)
    if not fields:
        return replace(new.sort_order, order_id=0)
    for one in old.sort_orders:
        if one.fields == fields:
            return one
    return replace(new.sort_order, order_id=max((o.order_id for o in old.sort_orders), default=0) + 1, fields=fields)


@dataclass(slots=True)
class ReplacingCommit:
    """A catalog for the writer of a replacement: the first swap replaces the old table.

    Raises ``Conflict`` if another writer has changed the table since.
    """

    catalog: Catalog
    old: TableState
    planned: TableState
    _is_tried: bool = False

    def load(self, name: TableName, known: TableState | None = None) -> TableState:
        """The replaced table, empty; after the swap was tried, the table as it is."""
        return self.catalog.load(name) if self._is_tried else self.planned

    def swap(self, name: TableName, base: TableState, new: TableMetadata) -> Swap:
        """Replace the old definition and rows by the new ones."""
        self._is_tried = True
        answer = self.catalog.swap(name, self.old, new)
        if isinstance(answer, Rejected):
            raise Conflict(
                f"cannot replace {name}: another writer has changed it in the meantime; check it and try again",
                table=str(name),
            )
        return answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.catalog, name)
