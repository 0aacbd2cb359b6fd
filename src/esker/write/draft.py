"""A table's definition in the making: what an alteration has changed so far, and how that becomes new metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self
from uuid import uuid4

from esker.errors import InvalidInput, Unsupported
from esker.model.partition import PartitionField, PartitionSpec
from esker.model.partition_change import Partitioning, same_layout
from esker.model.schema import Schema
from esker.model.sort_order import UNSORTED, SortField, SortOrder
from esker.model.transform import VoidTransform
from esker.tree.table_metadata import TableMetadata
from esker.write.name_mapping import with_names
from esker.write.new_table import check_format_version
from esker.write.table_changes import next_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The parts of a table's definition; each step of an alteration gives the next draft."""

    base: TableMetadata
    location: str
    format_version: int
    schema: Schema
    last_column_id: int
    partition: tuple[PartitionField, ...]
    last_partition_id: int
    sort: tuple[SortField, ...]
    properties: Mapping[str, str]

    @classmethod
    def of(cls, base: TableMetadata) -> Self:
        """The definition as it is."""
        return cls(
            base=base,
            location=base.location,
            format_version=base.format_version,
            schema=base.schema,
            last_column_id=max(base.last_column_id, *(schema.highest_id for schema in base.schemas)),
            partition=base.spec.fields,
            last_partition_id=max(
                base.last_partition_id, *(field.field_id for spec in base.specs for field in spec.fields), 0
            ),
            sort=base.sort_order.fields,
            properties=base.properties,
        )

    @property
    def partitioning(self) -> Partitioning:
        """The spec in the making."""
        return Partitioning(fields=self.partition, last_id=self.last_partition_id)

    def with_partitioning(self, now: Partitioning) -> Draft:
        """The draft with another spec."""
        return replace(self, partition=now.fields, last_partition_id=now.last_id)

    def uses(self) -> dict[int, str]:
        """What needs a column still to be there, by the column's id."""
        found: dict[int, str] = {}
        for key in self.sort:
            found |= dict.fromkeys((key.source_id, *key.other_sources), "the sort order")
        for field in self.partition:
            if not isinstance(field.transform, VoidTransform):
                found |= dict.fromkeys((field.source_id, *field.other_sources), f"the partition field {field.name!r}")
        return found

    def upgraded(self, version: int) -> Draft:
        """The draft in a later format version; there is no way back."""
        check_format_version(version)
        if version < self.format_version:
            raise InvalidInput(
                f"cannot go from format version {self.format_version} to {version}: versions only go forward"
            )
        if self.format_version == 1 < version:
            _check_lists(self.base)
        return replace(self, format_version=version)

    def finished(self) -> TableMetadata:
        """The metadata of the new definition; the base itself where nothing is different."""
        if not self.schema.fields:
            raise InvalidInput("cannot drop the last column: a table has at least one")
        changed = self._with_schema(self._upgraded_base())
        changed = self._with_order(self._with_spec(changed))
        columns_changed = changed.schema.fields != self.base.schema.fields
        properties = with_names(self.properties, self.schema.fields) if columns_changed else self.properties
        if dict(changed.properties) != dict(properties):
            changed = replace(changed, properties=dict(properties))
        if changed.location != self.location:
            changed = replace(changed, location=self.location)
        if changed is self.base:
            return self.base
        return replace(changed, last_updated_ms=next_ms(self.base))

    def _upgraded_base(self) -> TableMetadata:
        """Old snapshots stay as they are: the first commit of v3 gives row ids to all manifests (I6)."""
        base = self.base
        if self.format_version == base.format_version:
            return base
        return replace(
            base,
            format_version=self.format_version,
            uuid=base.uuid or str(uuid4()),  # required from v2 on
            next_row_id=0 if base.format_version < 3 <= self.format_version else base.next_row_id,
        )

    def _with_schema(self, metadata: TableMetadata) -> TableMetadata:
        if _same_columns(self.schema, metadata.schema):
            return metadata
        for known in metadata.schemas:
            if _same_columns(known, self.schema):
                return replace(metadata, current_schema_id=known.schema_id, last_column_id=self.last_column_id)
        new_id = max(known.schema_id for known in metadata.schemas) + 1
        schema = Schema(
            fields=self.schema.fields, schema_id=new_id, identifier_field_ids=self.schema.identifier_field_ids
        )
        return replace(
            metadata,
            schemas=(*metadata.schemas, schema),
            current_schema_id=new_id,
            last_column_id=self.last_column_id,
        )

    def _with_spec(self, metadata: TableMetadata) -> TableMetadata:
        if same_layout(self.partition, metadata.spec.fields):
            return metadata
        for known in metadata.specs:
            if same_layout(known.fields, self.partition):
                return replace(metadata, default_spec_id=known.spec_id, last_partition_id=self.last_partition_id)
        new_id = max(known.spec_id for known in metadata.specs) + 1
        return replace(
            metadata,
            specs=(*metadata.specs, PartitionSpec(spec_id=new_id, fields=self.partition)),
            default_spec_id=new_id,
            last_partition_id=self.last_partition_id,
        )

    def _with_order(self, metadata: TableMetadata) -> TableMetadata:
        if self.sort == metadata.sort_order.fields:
            return metadata
        for known in metadata.sort_orders:
            if known.fields == self.sort:
                return replace(metadata, default_sort_order_id=known.order_id)
        new_id = max((known.order_id for known in metadata.sort_orders), default=0) + 1
        order = SortOrder(order_id=new_id, fields=self.sort) if self.sort else UNSORTED
        return replace(metadata, sort_orders=(*metadata.sort_orders, order), default_sort_order_id=order.order_id)


def _same_columns(one: Schema, other: Schema) -> bool:
    return one.fields == other.fields and one.identifier_field_ids == other.identifier_field_ids


def _check_lists(metadata: TableMetadata) -> None:
    """From v2 on every snapshot has a manifest list; some of v1 name their manifests themselves."""
    for snapshot in metadata.snapshots:
        if snapshot.manifest_list is None:
            raise Unsupported(
                f"cannot upgrade the table: snapshot {snapshot.snapshot_id} has no manifest list; expire it first",
                feature="snapshots without a manifest list",
                snapshot_id=snapshot.snapshot_id,
            )
