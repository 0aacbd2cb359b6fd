"""A table replaced as a whole: new columns, layout and rows, the same table. Its older snapshots stay readable."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from esker.errors import Conflict
from esker.model.naming import TableName
from esker.model.nested import Ids, with_fresh_ids
from esker.model.partition import PartitionField, PartitionSpec
from esker.model.schema import Schema, walk
from esker.model.sort_order import SortOrder
from esker.ports.catalog import Catalog, Rejected, Swap, TableState
from esker.tree.table_metadata import TableMetadata
from esker.write.table_changes import MAIN, next_ms

_BY_OLD_IDS = "schema.name-mapping.default"


def replaced(old: TableMetadata, new: TableMetadata) -> TableMetadata:
    """The old table as the definition ``new`` has it, without a current snapshot.

    Columns get ids that the table never had: a column of the same name may be of another type now. Properties of the
    old table stay unless the new definition names them. The format's version never goes down.
    """
    ids = Ids(old.last_column_id)
    fields = with_fresh_ids(new.schema.fields, ids)
    renumbered = {was.id: now.id for (was, _), (now, _) in zip(walk(new.schema.fields), walk(fields), strict=True)}
    schema = Schema(
        fields=fields,
        schema_id=max((one.schema_id for one in old.schemas), default=-1) + 1,
        identifier_field_ids=frozenset(renumbered[id_] for id_ in new.schema.identifier_field_ids),
    )
    spec, last_partition_id = _spec(old, new, renumbered)
    order = _order(old, new, renumbered)
    kept = {key: value for key, value in old.properties.items() if key != _BY_OLD_IDS}
    version = max(old.format_version, new.format_version)
    return replace(
        old,
        format_version=version,
        last_column_id=ids.last,
        schemas=(*old.schemas, schema),
        current_schema_id=schema.schema_id,
        specs=(*old.specs, spec),
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


def _spec(old: TableMetadata, new: TableMetadata, renumbered: dict[int, int]) -> tuple[PartitionSpec, int]:
    last = old.last_partition_id
    fields: list[PartitionField] = []
    for field in new.spec.fields:
        last += 1
        fields.append(replace(field, source_id=renumbered[field.source_id], field_id=last))
    spec_id = max((one.spec_id for one in old.specs), default=-1) + 1
    return PartitionSpec(spec_id=spec_id, fields=tuple(fields)), last


def _order(old: TableMetadata, new: TableMetadata, renumbered: dict[int, int]) -> SortOrder:
    fields = tuple(replace(field, source_id=renumbered[field.source_id]) for field in new.sort_order.fields)
    if not fields:
        return replace(new.sort_order, order_id=0)
    return replace(new.sort_order, order_id=max((o.order_id for o in old.sort_orders), default=0) + 1, fields=fields)


@dataclass(slots=True)
class ReplacingCommit:
    """A catalog seen by the writer of a replacement: the first swap puts it in the old table's place.

    ``Conflict`` where another writer has changed the table since.
    """

    catalog: Catalog
    old: TableState
    planned: TableState
    _is_tried: bool = False

    def load(self, name: TableName, known: TableState | None = None) -> TableState:
        """The table as it will begin, empty; once the swap was tried, the table as it is."""
        return self.catalog.load(name) if self._is_tried else self.planned

    def swap(self, name: TableName, base: TableState, new: TableMetadata) -> Swap:
        """Put the new definition and its rows in the place of the old."""
        self._is_tried = True
        answer = self.catalog.swap(name, self.old, new)
        if isinstance(answer, Rejected):
            raise Conflict(
                f"cannot replace {name}: another writer has changed it meanwhile; look at it and try again",
                table=str(name),
            )
        return answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.catalog, name)
