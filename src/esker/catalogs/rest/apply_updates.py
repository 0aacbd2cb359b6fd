"""What updates of a REST commit make of a table, and whether requirements hold: what a server does with them.

The client asks this after an answer was lost: where applying its updates to the table changes nothing, they are in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from esker.catalogs.rest.metadata_updates import LAST_ADDED, MAIN, Document
from esker.errors import InvalidInput
from esker.iceberg.json_document import JsonObject
from esker.iceberg.metadata.partition_and_sort import decode_partition_spec, decode_sort_order
from esker.iceberg.metadata.schema import decode_schema
from esker.iceberg.metadata.snapshot import decode_partition_statistics, decode_ref, decode_snapshot, decode_statistics
from esker.tree.snapshot import extended
from esker.tree.table_metadata import SnapshotLogEntry, TableMetadata

_FILE = "the update"


def failed_requirement(metadata: TableMetadata | None, requirements: Iterable[Document]) -> Document | None:
    """The first requirement that the table does not meet; None where it meets them all."""
    return next((one for one in requirements if not _holds(metadata, one)), None)


def _holds(metadata: TableMetadata | None, requirement: Document) -> bool:
    kind = requirement["type"]
    if kind == "assert-create" or metadata is None:
        return kind == "assert-create" and metadata is None
    match kind:
        case "assert-table-uuid":
            return (metadata.uuid or "").lower() == str(requirement["uuid"]).lower()
        case "assert-ref-snapshot-id":
            ref = metadata.all_refs.get(requirement["ref"])
            return (None if ref is None else ref.snapshot_id) == requirement["snapshot-id"]
        case "assert-last-assigned-field-id":
            return bool(metadata.last_column_id == requirement["last-assigned-field-id"])
        case "assert-current-schema-id":
            return bool(metadata.current_schema_id == requirement["current-schema-id"])
        case "assert-last-assigned-partition-id":
            return bool(metadata.last_partition_id == requirement["last-assigned-partition-id"])
        case "assert-default-spec-id":
            return bool(metadata.default_spec_id == requirement["default-spec-id"])
        case "assert-default-sort-order-id":
            return bool(metadata.default_sort_order_id == requirement["default-sort-order-id"])
        case _:
            raise InvalidInput(f"cannot check the requirement {kind!r}: it is not known", requirement=kind)


def applied(base: TableMetadata, updates: Iterable[Document]) -> TableMetadata:
    """The table after the updates, in their order; ``InvalidInput`` names an update that is not known.

    Time stamps of the version and the log of metadata files are a server's own and stay as they are.
    """
    added: dict[str, int] = {}
    new_ids: set[int] = set()
    for update in updates:
        action = update["action"]
        if action not in _STEPS:
            raise InvalidInput(f"cannot apply the update {action!r}: it is not known", update=action)
        if action == "add-snapshot":
            new_ids.add(update["snapshot"]["snapshot-id"])
        base = apply_update(base, update, added)
    return with_clean_log(base, new_ids)


def apply_update(base: TableMetadata, update: Document, added: dict[str, int]) -> TableMetadata:
    """The table after one update of a known kind. ``added`` records the last schema, spec and sort order that a commit
    added."""
    return _STEPS[update["action"]](base, update, added)


def with_clean_log(metadata: TableMetadata, new_ids: set[int]) -> TableMetadata:
    """A log ends with the current snapshot; what was removed cuts off what was before it."""
    known = {snapshot.snapshot_id for snapshot in metadata.snapshots}
    log: list[SnapshotLogEntry] = []
    for entry in metadata.snapshot_log:
        if entry.snapshot_id in new_ids and entry.snapshot_id != metadata.current_snapshot_id:
            continue  # it was current only within this commit
        log = [*log, entry] if entry.snapshot_id in known else []
    return metadata if len(log) == len(metadata.snapshot_log) else replace(metadata, snapshot_log=tuple(log))


Added = dict[str, int]


def _assign_uuid(base: TableMetadata, update: Document, added: Added) -> TableMetadata:
    return replace(base, uuid=update["uuid"])


def _upgrade(base: TableMetadata, update: Document, added: Added) -> TableMetadata:
    version = update["format-version"]
    row_id = 0 if version >= 3 and base.next_row_id is None else base.next_row_id
    return replace(base, format_version=version, next_row_id=row_id)


def _add_schema(base: TableMetadata, update: Document, added: Added) -> TableMetadata:
    schema = decode_schema(_FILE, update["schema"])
    added["schema"] = schema.schema_id
    last = max(base.last_column_id, schema.highest_id, update.get("last-column-id", 0))
    return replace(base, schemas=_with(base.schemas, schema, "schema_id"), last_column_id=last)


def _set_schema(base: TableMetadata, update: Document, added: Added) -> TableMetadata:
    return replace(base, current_schema_id=_id(update["schema-id"], added, "schema"))


def _add_spec(base: TableMetadata, update: Document, added: Added) -> TableMetadata:
    spec = decode_partition_spec(_FILE, update["spec"])
    added["spec"] = spec.spec_id
    last = max([base.last_partition_id, *(field.field_id for field in spec.fields)])
    return replace(base, specs=_with(base.specs, spec, "spec_id"), last_partition_id=last)


def _set_spec(base: TableMetadata, update: Document, added: Added) -> TableMetadata:
    return replace(base, default_spec_id=_id(update["spec-id"], added, "spec"))


def _add_order(base: TableMetadata, update: Document, added: Added) -> TableMetadata:
    order = decode_sort_order(_FILE, update["sort-order"])
    added["order"] = order.order_id
    return replace(base, sort_orders=_with(base.sort_orders, order, "order_id"))


def _set_order(base: TableMetadata, update: Document, added: Added) -> TableMetadata:
    return replace(base, default_sort_order_id=_id(update["sort-order-id"], added, "order"))


def _set_location(base: TableMetadata, update: Document, added: Added) -> TableMetadata:
    return replace(base, location=update["location"])


def _set_properties(base: TableMetadata, update: Document, added: Added) -> TableMetadata:
    return replace(base, properties={**base.properties, **update["updates"]})


def _remove_properties(base: TableMetadata, update: Document, added: Added) -> TableMetadata:
    kept = {name: value for name, value in base.properties.items() if name not in update["removals"]}
    return replace(base, properties=kept)


def _add_snapshot(base: TableMetadata, update: Document, added: Added) -> TableMetadata:
    snapshot = decode_snapshot(_FILE, msgspec.json.encode(update["snapshot"]))
    if base.snapshot(snapshot.snapshot_id) is not None:
        raise InvalidInput(f"cannot add snapshot {snapshot.snapshot_id}: the table has it")
    row_id = base.next_row_id
    if base.format_version >= 3:
        first = max(base.next_row_id or 0, snapshot.first_row_id or 0)  # ids that a writer left out are not used later
        row_id = first + (snapshot.added_rows or 0)
    return replace(
        base,
        snapshots=extended(base.snapshots, snapshot),
        last_sequence_number=max(base.last_sequence_number, snapshot.sequence_number),
        next_row_id=row_id,
    )


def _set_ref(base: TableMetadata, update: Document, added: Added) -> TableMetadata:
    name = update["ref-name"]
    ref = decode_ref(JsonObject(_FILE, f"ref {name!r}", update))
    changed = replace(base, refs={**base.all_refs, name: ref})
    if name != MAIN:
        return changed
    snapshot = base.snapshot(ref.snapshot_id)
    if snapshot is None:
        raise InvalidInput(f"cannot set {name}: the table has no snapshot {ref.snapshot_id}")
    entry = SnapshotLogEntry(timestamp_ms=snapshot.timestamp_ms, snapshot_id=ref.snapshot_id)
    return replace(changed, current_snapshot_id=ref.snapshot_id, snapshot_log=extended(base.snapshot_log, entry))


def _remove_ref(base: TableMetadata, update: Document, added: Added) -> TableMetadata:
    name = update["ref-name"]
    refs = {one: ref for one, ref in base.all_refs.items() if one != name}
    return replace(base, refs=refs, current_snapshot_id=None if name == MAIN else base.current_snapshot_id)


def _remove_snapshots(base: TableMetadata, update: Document, added: Added) -> TableMetadata:
    gone = set(update["snapshot-ids"])
    kept = tuple(snapshot for snapshot in base.snapshots if snapshot.snapshot_id not in gone)
    return replace(
        base,
        snapshots=kept,
        refs={name: ref for name, ref in base.all_refs.items() if ref.snapshot_id not in gone},
        current_snapshot_id=None if base.current_snapshot_id in gone else base.current_snapshot_id,
        statistics=tuple(entry for entry in base.statistics if entry.snapshot_id not in gone),
        partition_statistics=tuple(e for e in base.partition_statistics if e.snapshot_id not in gone),
    )


def _set_statistics(base: TableMetadata, update: Document, added: Added) -> TableMetadata:
    (entry,) = decode_statistics(_FILE, msgspec.Raw(msgspec.json.encode([update["statistics"]])))
    return replace(base, statistics=_with(tuple(base.statistics), entry, "snapshot_id"))


def _remove_statistics(base: TableMetadata, update: Document, added: Added) -> TableMetadata:
    return replace(base, statistics=tuple(e for e in base.statistics if e.snapshot_id != update["snapshot-id"]))


def _set_partition_statistics(base: TableMetadata, update: Document, added: Added) -> TableMetadata:
    text = msgspec.Raw(msgspec.json.encode([update["partition-statistics"]]))
    (entry,) = decode_partition_statistics(_FILE, text)
    return replace(base, partition_statistics=_with(tuple(base.partition_statistics), entry, "snapshot_id"))


def _remove_partition_statistics(base: TableMetadata, update: Document, added: Added) -> TableMetadata:
    kept = tuple(entry for entry in base.partition_statistics if entry.snapshot_id != update["snapshot-id"])
    return replace(base, partition_statistics=kept)


def _remove_specs(base: TableMetadata, update: Document, added: Added) -> TableMetadata:
    return replace(base, specs=tuple(spec for spec in base.specs if spec.spec_id not in update["spec-ids"]))


def _remove_schemas(base: TableMetadata, update: Document, added: Added) -> TableMetadata:
    kept = tuple(schema for schema in base.schemas if schema.schema_id not in update["schema-ids"])
    return replace(base, schemas=kept)


def _add_key(base: TableMetadata, update: Document, added: Added) -> TableMetadata:
    key = update["encryption-key"]
    others = (one for one in base.encryption_keys if one["key-id"] != key["key-id"])
    return replace(base, encryption_keys=(*others, key))


def _remove_key(base: TableMetadata, update: Document, added: Added) -> TableMetadata:
    kept = tuple(key for key in base.encryption_keys if key["key-id"] != update["key-id"])
    return replace(base, encryption_keys=kept)


_STEPS: Mapping[str, Callable[[TableMetadata, Document, Added], TableMetadata]] = {
    "assign-uuid": _assign_uuid,
    "upgrade-format-version": _upgrade,
    "add-schema": _add_schema,
    "set-current-schema": _set_schema,
    "add-spec": _add_spec,
    "set-default-spec": _set_spec,
    "add-sort-order": _add_order,
    "set-default-sort-order": _set_order,
    "set-location": _set_location,
    "set-properties": _set_properties,
    "remove-properties": _remove_properties,
    "add-snapshot": _add_snapshot,
    "set-snapshot-ref": _set_ref,
    "remove-snapshot-ref": _remove_ref,
    "remove-snapshots": _remove_snapshots,
    "set-statistics": _set_statistics,
    "remove-statistics": _remove_statistics,
    "set-partition-statistics": _set_partition_statistics,
    "remove-partition-statistics": _remove_partition_statistics,
    "remove-partition-specs": _remove_specs,
    "remove-schemas": _remove_schemas,
    "add-encryption-key": _add_key,
    "remove-encryption-key": _remove_key,
}


def _id(id_: int, added: Added, what: str) -> int:
    if id_ != LAST_ADDED:
        return id_
    if what not in added:
        raise InvalidInput(f"cannot choose the last added {what}: none was added")
    return added[what]


def _with(items: tuple[Any, ...], item: Any, key: str) -> tuple[Any, ...]:
    """The items with one more, or with one that replaces the item of the same key."""
    return (*(one for one in items if getattr(one, key) != getattr(item, key)), item)
