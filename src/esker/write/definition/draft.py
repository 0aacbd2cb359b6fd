"""A draft of new table metadata: schema, partition spec, sort order, properties and name mapping."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self
from uuid import uuid4

from esker.errors import Conflict, InvalidInput, Unsupported
from esker.model.evolution.partition_change import Partitioning, same_layout
from esker.model.partition_and_sort import UNSORTED, PartitionField, PartitionSpec, SortField, SortOrder
from esker.model.predicates.predicate_sql import quote_name
from esker.model.schema import Schema
from esker.model.table_names import TableName
from esker.model.transform import VoidTransform
from esker.model.types import Field, children
from esker.read.scan import scan
from esker.tree.snapshot import RefKind
from esker.tree.table_metadata import TableMetadata
from esker.write.context import Tools
from esker.write.definition.new_table import check_format_version
from esker.write.table_changes import MAIN, next_ms

# ---------------------------------------------------------------- name mapping, for files without field ids
#
# ``schema.name-mapping.default`` is updated with the columns. A renamed column is found under its new name too. A name
# that once meant another column still means that column: old files have its values under this name.


PROPERTY = "schema.name-mapping.default"


def first_mapping(fields: tuple[Field, ...]) -> str:
    """The mapping of a table that has none: every column under its current name."""
    return json.dumps(_merged([], fields))


def with_mapping(metadata: TableMetadata, text: str) -> TableMetadata:
    """The table with this mapping and the current names of its columns; unchanged if it has a mapping already."""
    if PROPERTY in metadata.properties:
        return metadata
    named = with_names({**metadata.properties, PROPERTY: text}, metadata.schema.fields)
    return replace(metadata, properties=named)


def with_names(properties: Mapping[str, str], fields: tuple[Field, ...]) -> Mapping[str, str]:
    """The properties with every column in the name mapping; unchanged if there is no mapping."""
    text = properties.get(PROPERTY)
    if text is None:
        return properties
    try:
        mapped = json.loads(text)
        merged = _merged(mapped, fields)
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise InvalidInput(f"cannot change columns: {PROPERTY} is not a name mapping", property=PROPERTY) from None
    return properties if merged == mapped else {**properties, PROPERTY: json.dumps(merged)}


def _merged(mapped: list[dict[str, Any]], fields: tuple[Field, ...]) -> list[dict[str, Any]]:
    found = [dict(entry) for entry in mapped]
    by_id = {entry.get("field-id"): entry for entry in found}
    taken = {name for entry in found for name in entry["names"]}
    for field in fields:
        entry = by_id.get(field.id)
        if entry is None:
            if field.name in taken:
                continue
            entry = {"field-id": field.id, "names": []}
            found.append(entry)
        if field.name not in taken:
            entry["names"] = [*entry["names"], field.name]
            taken.add(field.name)
        if inner := _merged(entry.get("fields") or [], children(field.type)):
            entry["fields"] = inner
    return found


# ---------------------------------------------------------------- checks of existing rows and files


GetTools = Callable[[], Tools] | None


def heads(metadata: TableMetadata) -> dict[str, int]:
    """The snapshot at the head of every branch. Tags are read with the columns of their own time."""
    found = {name: ref.snapshot_id for name, ref in metadata.refs.items() if ref.kind is RefKind.BRANCH}
    return found if metadata.current_snapshot_id is None else {**found, MAIN: metadata.current_snapshot_id}


def heads_without_null(get_tools: GetTools, metadata: TableMetadata, field_id: int, name: str) -> dict[str, int]:
    """Return the heads of all branches. Raises ``InvalidInput`` if a row of one has null in the column."""
    if field_id not in metadata.schema.by_id:
        raise InvalidInput(
            f"cannot make column {name!r} required in the alteration that adds it: alter the table twice", column=name
        )
    found = heads(metadata)
    test = ".".join(quote_name(part.name) for part in metadata.schema.path_by_id[field_id]) + " IS NULL"
    for branch in found:
        if get_tools is None or _has_row(get_tools(), metadata, branch, test):
            where = "" if branch == MAIN else f" on branch {branch!r}"
            raise InvalidInput(
                f"cannot make column {name!r} required: a row{where} has null in it; find such rows by "
                f"WHERE {test}, and update or delete them first",
                column=name,
                branch=branch,
            )
    return found


def check_heads(table: TableName, metadata: TableMetadata, seen: Mapping[str, int], name: str) -> None:
    """Raise ``Conflict`` if a branch has moved, or is new, since the heads were checked."""
    moved = sorted(branch for branch, head in heads(metadata).items() if seen.get(branch) != head)
    if moved:
        raise Conflict(
            f"cannot make column {name!r} of {table} required: another writer has changed branch {moved[0]!r} "
            "in the meantime; try again",
            table=str(table),
        )


def check_empty(get_tools: GetTools, location: str) -> None:
    """Raise ``InvalidInput`` if files are below the location."""
    there = None if get_tools is None else next(iter(get_tools().storage.list(location)), None)
    if there is not None:
        raise InvalidInput(
            f"cannot move the table to {location}: it has files, for example {there.location}; give an empty location",
            location=location,
        )


def _has_row(tools: Tools, metadata: TableMetadata, branch: str, test: str) -> bool:
    rows = scan(
        metadata=metadata,
        table_format=tools.format,
        engine=tools.engine,
        where=test,
        columns=[],
        snapshot_id=None,
        as_of=None,
        ref=branch,
        limit=1,
    )
    return any(batch.num_rows for batch in rows.to_batches())


# ---------------------------------------------------------------- the draft


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The parts of a table's definition. Each step of an alteration returns the next draft."""

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
        """The current definition."""
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
        """The partition spec of the draft."""
        return Partitioning(fields=self.partition, last_id=self.last_partition_id)

    def with_partitioning(self, now: Partitioning) -> Draft:
        """The draft with another spec."""
        return replace(self, partition=now.fields, last_partition_id=now.last_id)

    def uses(self) -> dict[int, str]:
        """What still uses a column, by the column's id."""
        found: dict[int, str] = {}
        for key in self.sort:
            found |= dict.fromkeys((key.source_id, *key.other_sources), "the sort order")
        for field in self.partition:
            if not isinstance(field.transform, VoidTransform):
                found |= dict.fromkeys((field.source_id, *field.other_sources), f"the partition field {field.name!r}")
        return found

    def upgraded(self, version: int) -> Draft:
        """The draft in a later format version. Raises ``InvalidInput`` for an earlier one."""
        check_format_version(version)
        if version < self.format_version:
            raise InvalidInput(
                f"cannot go from format version {self.format_version} to {version}: versions only go forward"
            )
        if self.format_version == 1 < version:
            _check_lists(self.base)
        return replace(self, format_version=version)

    def finished(self) -> TableMetadata:
        """The metadata of the new definition; the base itself if nothing differs."""
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
        """The base in the new version. Old snapshots stay as they are: the first v3 commit assigns row ids to all
        manifests (I6)."""
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
    """Raise ``Unsupported`` for a v1 snapshot without a manifest list: from v2 on every snapshot has one."""
    for snapshot in metadata.snapshots:
        if snapshot.manifest_list is None:
            raise Unsupported(
                f"cannot upgrade the table: snapshot {snapshot.snapshot_id} has no manifest list; expire it first",
                feature="snapshots without a manifest list",
                snapshot_id=snapshot.snapshot_id,
            )
