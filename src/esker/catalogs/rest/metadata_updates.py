"""The difference between two versions of a table, as the updates and requirements of a REST commit.

A REST server applies updates to the table as the server has it, and refuses them where a requirement is not met. The
updates come in an order that every server can apply: definitions before what names them, new snapshots before refs,
and removals last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from esker.errors import Unsupported
from esker.iceberg.metadata.partition_and_sort import encode_partition_spec, encode_sort_order
from esker.iceberg.metadata.schema import encode_schema
from esker.iceberg.metadata.snapshot import encode_partition_statistics, encode_ref, encode_snapshot, encode_statistics
from esker.tree.snapshot import RefKind, Snapshot
from esker.tree.table_metadata import PartitionStatisticsFile, StatisticsFile, TableMetadata

Document: TypeAlias = dict[str, Any]
LAST_ADDED = -1  # the schema, spec or sort order that this request added last
MAIN = "main"

T = TypeVar("T")


def updates_of(base: TableMetadata | None, new: TableMetadata) -> list[Document]:
    """The updates that make ``base`` into ``new``; all that a new table needs where there is no base.

    Time stamps, logs and counters are the server's own. Raises ``Unsupported`` for a difference that no update of the
    protocol expresses.
    """
    return [
        *_identity(base, new),
        *_schemas(base, new),
        *_specs(base, new),
        *_sort_orders(base, new),
        *_place_and_properties(base, new),
        *_keys(base, new, added=True),
        *_history(base, new),
        *_statistics(base, new),
        *_removed_definitions(base, new),
        *_keys(base, new, added=False),
    ]


def requirements_of(base: TableMetadata | None, updates: Iterable[Document]) -> list[Document]:
    """What must still hold on the server for these updates, as Iceberg's own clients require it.

    One requirement is Esker's own: a ref that is removed must be where it was, as a ref that is set must be.
    """
    if base is None:
        return [{"type": "assert-create"}]
    found = [] if base.uuid is None else [{"type": "assert-table-uuid", "uuid": base.uuid}]
    for update in updates:
        found += [one for one in _required(base, update) if one not in found]
    return found


def _required(base: TableMetadata, update: Document) -> list[Document]:
    match update["action"]:
        case "set-snapshot-ref" | "remove-snapshot-ref":
            ref = base.all_refs.get(update["ref-name"])
            return [_at(update["ref-name"], None if ref is None else ref.snapshot_id)]
        case "add-schema":
            return [{"type": "assert-last-assigned-field-id", "last-assigned-field-id": base.last_column_id}]
        case "set-current-schema":
            return [_current_schema(base)]
        case "add-spec":
            return [{"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": base.last_partition_id}]
        case "set-default-spec":
            return [_default_spec(base)]
        case "set-default-sort-order":
            return [{"type": "assert-default-sort-order-id", "default-sort-order-id": base.default_sort_order_id}]
        case "remove-partition-specs":  # no branch may have been written with them meanwhile
            return [_default_spec(base), *_branches(base)]
        case "remove-schemas":
            return [_current_schema(base), *_branches(base)]
        case _:
            return []


def _current_schema(base: TableMetadata) -> Document:
    return {"type": "assert-current-schema-id", "current-schema-id": base.current_schema_id}


def _default_spec(base: TableMetadata) -> Document:
    return {"type": "assert-default-spec-id", "default-spec-id": base.default_spec_id}


def _branches(base: TableMetadata) -> list[Document]:
    refs = base.all_refs.items()
    return [_at(name, ref.snapshot_id) for name, ref in refs if ref.kind is RefKind.BRANCH and name != MAIN]


def _at(ref: str, snapshot_id: int | None) -> Document:
    return {"type": "assert-ref-snapshot-id", "ref": ref, "snapshot-id": snapshot_id}


# ---------------------------------------------------------------- updates


def _identity(base: TableMetadata | None, new: TableMetadata) -> list[Document]:
    found: list[Document] = []
    if new.uuid is not None and (base is None or base.uuid is None):
        found.append({"action": "assign-uuid", "uuid": new.uuid})
    if base is None or new.format_version != base.format_version:
        found.append({"action": "upgrade-format-version", "format-version": new.format_version})
    return found


def _schemas(base: TableMetadata | None, new: TableMetadata) -> list[Document]:
    known = {} if base is None else {schema.schema_id: schema for schema in base.schemas}
    added = _added("schema", known, {schema.schema_id: schema for schema in new.schemas}, new.current_schema_id)
    found: list[Document] = [
        {"action": "add-schema", "schema": encode_schema(schema), "last-column-id": new.last_column_id}
        for schema in added.values()
    ]
    current = None if base is None else base.current_schema_id
    return found + _chosen("set-current-schema", "schema-id", current, new.current_schema_id, list(added))


def _specs(base: TableMetadata | None, new: TableMetadata) -> list[Document]:
    known = {} if base is None else {spec.spec_id: spec for spec in base.specs}
    added = _added("partition spec", known, {spec.spec_id: spec for spec in new.specs}, new.default_spec_id)
    found: list[Document] = [{"action": "add-spec", "spec": encode_partition_spec(spec)} for spec in added.values()]
    current = None if base is None else base.default_spec_id
    return found + _chosen("set-default-spec", "spec-id", current, new.default_spec_id, list(added))


def _sort_orders(base: TableMetadata | None, new: TableMetadata) -> list[Document]:
    known = {} if base is None else {order.order_id: order for order in base.sort_orders}
    orders = {order.order_id: order for order in (new.sort_orders or (new.sort_order,))}
    added = _added("sort order", known, orders, new.default_sort_order_id)
    found: list[Document] = [
        {"action": "add-sort-order", "sort-order": encode_sort_order(order)} for order in added.values()
    ]
    current = None if base is None else base.default_sort_order_id
    return found + _chosen("set-default-sort-order", "sort-order-id", current, new.default_sort_order_id, list(added))


def _added(what: str, known: Mapping[int, T], now: Mapping[int, T], current: int) -> dict[int, T]:
    """The definitions that are new, the current one last: it can then be chosen as the last one added."""
    for id_, definition in now.items():
        if id_ in known and known[id_] != definition:
            raise Unsupported(
                f"cannot commit: {what} {id_} of the table would change in place, and a REST catalog only adds one",
                feature=f"a {what} that changes in place",
            )
    fresh = {id_: definition for id_, definition in now.items() if id_ not in known}
    return {id_: fresh[id_] for id_ in sorted(fresh, key=lambda one: (one == current, one))}


def _chosen(action: str, field: str, old: int | None, now: int, added: Sequence[int]) -> list[Document]:
    if old == now:
        return []
    return [{"action": action, field: LAST_ADDED if added and added[-1] == now else now}]


def _place_and_properties(base: TableMetadata | None, new: TableMetadata) -> list[Document]:
    found: list[Document] = []
    if base is None or base.location != new.location:
        found.append({"action": "set-location", "location": new.location})
    old = {} if base is None else base.properties
    set_ = {name: value for name, value in new.properties.items() if old.get(name) != value}
    removed = [name for name in old if name not in new.properties]
    if set_:
        found.append({"action": "set-properties", "updates": set_})
    if removed:
        found.append({"action": "remove-properties", "removals": removed})
    return found


def _keys(base: TableMetadata | None, new: TableMetadata, *, added: bool) -> list[Document]:
    old = {} if base is None else {key["key-id"]: key for key in base.encryption_keys}
    now = {key["key-id"]: key for key in new.encryption_keys}
    if added:
        fresh = (key for id_, key in now.items() if id_ not in old)
        return [{"action": "add-encryption-key", "encryption-key": dict(key)} for key in fresh]
    return [{"action": "remove-encryption-key", "key-id": id_} for id_ in old if id_ not in now]


def _history(base: TableMetadata | None, new: TableMetadata) -> list[Document]:
    old = {} if base is None else base.all_refs
    added, removed = _snapshots(base, new)
    found: list[Document] = [
        {"action": "add-snapshot", "snapshot": encode_snapshot(snapshot, format_version=new.format_version)}
        for snapshot in added
    ]
    for name, ref in new.all_refs.items():
        if old.get(name) != ref:
            found.append({"action": "set-snapshot-ref", "ref-name": name, **encode_ref(ref)})
    found += [{"action": "remove-snapshot-ref", "ref-name": name} for name in old if name not in new.all_refs]
    if removed:
        found.append({"action": "remove-snapshots", "snapshot-ids": removed})
    return found


def _snapshots(base: TableMetadata | None, new: TableMetadata) -> tuple[list[Snapshot], list[int]]:
    """What was added, in its order, and the ids of what was removed.

    A history of thousands is compared by its newest entries first: a commit that appends shares the rest.
    """
    if base is None:
        return list(new.snapshots), []
    shared = len(base.snapshots)
    is_longer = len(new.snapshots) >= shared
    if is_longer and (shared == 0 or new.snapshots[shared - 1].snapshot_id == base.snapshots[-1].snapshot_id):
        return [new.snapshots[at] for at in range(shared, len(new.snapshots))], []
    old_ids = {snapshot.snapshot_id for snapshot in base.snapshots}
    new_ids = {snapshot.snapshot_id for snapshot in new.snapshots}
    added = [snapshot for snapshot in new.snapshots if snapshot.snapshot_id not in old_ids]
    return added, [snapshot.snapshot_id for snapshot in base.snapshots if snapshot.snapshot_id not in new_ids]


def _statistics(base: TableMetadata | None, new: TableMetadata) -> list[Document]:
    columns = () if base is None else base.statistics
    partitions = () if base is None else base.partition_statistics
    staying = {snapshot.snapshot_id for snapshot in new.snapshots} if columns or partitions else set()

    def column(entry: StatisticsFile) -> Document:
        return {
            "action": "set-statistics",
            "snapshot-id": entry.snapshot_id,  # older servers look for it here
            "statistics": encode_statistics(entry),
        }

    def partition(entry: PartitionStatisticsFile) -> Document:
        return {"action": "set-partition-statistics", "partition-statistics": encode_partition_statistics(entry)}

    return [
        *_files(columns, new.statistics, column, "remove-statistics", staying),
        *_files(partitions, new.partition_statistics, partition, "remove-partition-statistics", staying),
    ]


def _files(
    old: Sequence[Any], new: Sequence[Any], set_: Callable[[Any], Document], remove: str, staying: set[int]
) -> list[Document]:
    """A server drops the statistics of a removed snapshot itself."""
    before = {entry.snapshot_id: entry for entry in old}
    now = {entry.snapshot_id: entry for entry in new}
    found = [set_(entry) for id_, entry in now.items() if before.get(id_) != entry]
    gone = (id_ for id_ in before if id_ not in now and id_ in staying)
    return found + [{"action": remove, "snapshot-id": id_} for id_ in gone]


def _removed_definitions(base: TableMetadata | None, new: TableMetadata) -> list[Document]:
    if base is None:
        return []
    orders = {order.order_id for order in base.sort_orders} - {order.order_id for order in new.sort_orders}
    if orders - {0}:
        raise Unsupported(
            f"cannot commit: sort order {min(orders)} would be removed, and a REST catalog keeps every sort order",
            feature="removing a sort order",
        )
    specs = sorted({spec.spec_id for spec in base.specs} - {spec.spec_id for spec in new.specs})
    schemas = sorted({schema.schema_id for schema in base.schemas} - {schema.schema_id for schema in new.schemas})
    found: list[Document] = []
    if specs:
        found.append({"action": "remove-partition-specs", "spec-ids": specs})
    if schemas:
        found.append({"action": "remove-schemas", "schema-ids": schemas})
    return found
