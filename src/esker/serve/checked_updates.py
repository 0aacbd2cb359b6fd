"""The updates of a commit, checked one by one against the table, and applied.

A server is the last that can refuse what would harm a table. Each update is checked against the table as the updates
before it left it; one fault refuses the whole commit. Ids of schemas, specs and sort orders are the server's: an equal
definition is used again, another one gets the next id.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from esker.catalogs.rest.apply_updates import apply_update, with_clean_log
from esker.catalogs.rest.metadata_updates import LAST_ADDED, MAIN, Document
from esker.errors import InvalidInput
from esker.iceberg.json_document import JsonObject
from esker.iceberg.metadata.partition_and_sort import (
    decode_partition_fields,
    decode_sort_order,
    encode_partition_spec,
    encode_sort_order,
)
from esker.iceberg.metadata.schema import decode_schema, encode_schema
from esker.iceberg.metadata.snapshot import (
    decode_partition_statistics,
    decode_ref,
    decode_snapshot,
    decode_statistics,
)
from esker.model.evolution.schema_rules import NEWEST_VERSION, check_schema
from esker.model.partition_and_sort import FIRST_PARTITION_FIELD_ID, PartitionField, PartitionSpec
from esker.model.schema import MAX_FIELD_ID, Schema
from esker.model.transform import UnknownTransform, VoidTransform, accepts
from esker.serve.call import REQUEST
from esker.serve.new_tables import LARGEST_ID, check_partition_fields
from esker.tree.snapshot import RefKind
from esker.tree.table_metadata import SnapshotLogEntry, TableMetadata

CheckLocation = Callable[[str, str], object]
"""Raises ``InvalidInput`` if a table of this catalog may not have a file at a location."""
_SKEW_MS = 60_000
_AHEAD_MS = 300_000  # a time far ahead would keep others from commits until then
_LARGEST_LONG = (1 << 63) - 1
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_OPERATIONS = ("append", "replace", "overwrite", "delete")


@dataclass(slots=True)
class _Progress:
    """A table between two updates."""

    table: TableMetadata
    now_ms: int
    check_location: CheckLocation
    added: dict[str, int] = field(default_factory=dict)  # the last id of each kind that was added
    new_snapshots: set[int] = field(default_factory=set)


def with_updates(
    base: TableMetadata, updates: Iterable[JsonObject], *, now_ms: int, check_location: CheckLocation
) -> TableMetadata:
    """The table after the updates, in their order.

    Raises ``InvalidInput`` for an update that is unknown or would harm the table, and ``Corrupt`` for one that is not
    as the protocol has it. The caller applies none of them then.
    """
    at = _Progress(base, max(now_ms, base.last_updated_ms + 1), check_location)
    for update in updates:
        action = update.string("action")
        check = _CHECKS.get(action)
        if check is None:
            raise InvalidInput(f"cannot apply the update {action!r}: it is not known", update=action)
        before = at.table
        at.table = apply_update(before, check(at, update), at.added)
        _log_at_now(at, before)
    _check_whole(at.table, base)
    added = (at.table.snapshot(id_) for id_ in at.new_snapshots)
    newest = max((snapshot.timestamp_ms for snapshot in added if snapshot is not None), default=0)
    finished = replace(at.table, last_updated_ms=max(at.now_ms, newest))
    is_plain = len(finished.snapshots) == len(base.snapshots) + len(at.new_snapshots)
    if is_plain and len(finished.snapshot_log) <= len(base.snapshot_log) + 1:
        return finished  # nothing was removed, and the log has at most one entry more: a long history is not walked
    return with_clean_log(finished, at.new_snapshots)


def _log_at_now(at: _Progress, before: TableMetadata) -> None:
    """A snapshot that was there before became current now, not when it was made."""
    log = at.table.snapshot_log
    if len(log) > len(before.snapshot_log) and log[-1].snapshot_id not in at.new_snapshots:
        entry = SnapshotLogEntry(timestamp_ms=at.now_ms, snapshot_id=log[-1].snapshot_id)
        at.table = replace(at.table, snapshot_log=(*log[:-1], entry))


def _check_whole(table: TableMetadata, base: TableMetadata) -> None:
    """What one update alone cannot show: that the table has all its parts, and that they fit."""
    if table.current_schema_id not in table.schema_by_id:
        raise InvalidInput("cannot commit: the table would have no current schema")
    if table.default_spec_id not in table.spec_by_id:
        raise InvalidInput("cannot commit: the table would have no partition spec")
    if all(order.order_id != table.default_sort_order_id for order in table.sort_orders):
        raise InvalidInput("cannot commit: the table would have no sort order")
    if not table.location:
        raise InvalidInput("cannot commit: the table would have no location")
    _check_sources(table.spec.fields, table.schema)
    if (fault := _order_fault(table)) is not None and _order_fault(base) is None:
        raise InvalidInput(f"cannot commit: {fault}")
    _check_named_schemas(table, base)


def _order_fault(table: TableMetadata) -> str | None:
    """Why other engines could not load the table with its sort order; None if they can."""
    if table.current_schema_id not in table.schema_by_id:
        return None
    order = next((one for one in table.sort_orders if one.order_id == table.default_sort_order_id), None)
    for key in () if order is None else order.fields:
        source = table.schema.by_id.get(key.source_id)
        if source is None:
            return f"the table is sorted by the column with id {key.source_id}, which the schema does not have"
        if not accepts(key.transform, source.type):
            return f"the table cannot be sorted by {key.transform} of {source.name!r}, which is of type {source.type}"
    return None


def _check_named_schemas(table: TableMetadata, base: TableMetadata) -> None:
    """Raise ``InvalidInput`` if a schema was removed that a snapshot names: it could not be read any more."""
    gone = {schema.schema_id for schema in base.schemas} - {schema.schema_id for schema in table.schemas}
    for snapshot in table.snapshots if gone else ():
        if snapshot.schema_id in gone:
            raise InvalidInput(
                f"cannot remove schema {snapshot.schema_id}: snapshot {snapshot.snapshot_id} has it; remove that "
                "snapshot first"
            )


def _check_sources(fields: Sequence[PartitionField], schema: Schema) -> None:
    for part in fields:
        if isinstance(part.transform, VoidTransform):
            continue
        source = schema.by_id.get(part.source_id)
        if source is None:
            raise InvalidInput(f"cannot partition by {part.name!r}: the schema has no column with id {part.source_id}")
        if not accepts(part.transform, source.type) or schema.in_repeated(source.id):
            raise InvalidInput(f"cannot partition by {part.name!r}: {part.transform} does not apply to {source.type}")


# ---------------------------------------------------------------- one check for each update


def _as_is(at: _Progress, update: JsonObject) -> Document:
    return update.fields


def _uuid(at: _Progress, update: JsonObject) -> Document:
    uuid = update.string("uuid")
    if at.table.location and at.table.uuid is not None and uuid.lower() != at.table.uuid.lower():
        raise InvalidInput(f"cannot give the table the uuid {uuid}: it has {at.table.uuid}, which never changes")
    if not _UUID.fullmatch(uuid):
        raise InvalidInput(f"cannot give the table the uuid {uuid[:40]!r}: it is no UUID, and other engines need one")
    return update.fields


def known_version(update: JsonObject) -> int:
    """The format version that an update asks for. Raises ``InvalidInput`` for one that is not known."""
    version = update.integer("format-version", at_least=1)
    if version > NEWEST_VERSION:
        raise InvalidInput(f"cannot upgrade to format version {version}: the newest known is {NEWEST_VERSION}")
    return version


def _version(at: _Progress, update: JsonObject) -> Document:
    version = known_version(update)
    if version < at.table.format_version:
        raise InvalidInput(f"cannot go back from format version {at.table.format_version} to {version}")
    return update.fields


def _new_schema(at: _Progress, update: JsonObject) -> Document:
    schema = decode_schema(REQUEST, update.required("schema"))
    check_schema(schema, at.table.format_version)
    last = update.integer_or_none("last-column-id", at_least=0)  # of this schema; the table's never goes back
    if (last or 0) > MAX_FIELD_ID:
        raise InvalidInput(f"cannot add the schema: last-column-id is at most {MAX_FIELD_ID}, and it is {last}")
    same = (one.schema_id for one in at.table.schemas if replace(schema, schema_id=one.schema_id) == one)
    ids = [one.schema_id for one in at.table.schemas]
    id_ = next((one for one in same if one >= 0), max(ids, default=-1) + 1)
    return {**update.fields, "schema": encode_schema(replace(schema, schema_id=id_))}


def _schema_id(at: _Progress, update: JsonObject) -> Document:
    _known(at, update.integer("schema-id"), "schema", at.table.schema_by_id)
    return update.fields


def _new_spec(at: _Progress, update: JsonObject) -> Document:
    table = at.table
    fields = decode_partition_fields(REQUEST, _with_ids(table, update.object("spec").items("fields")))
    schema = table.schema_by_id.get(table.current_schema_id, table.schemas[-1])
    _check_sources(fields, schema)
    check_partition_fields(fields, schema)
    if not PartitionSpec(fields=fields).is_writable:
        raise InvalidInput("cannot add the partition spec: one of its transforms is not known")
    _check_field_ids(table, fields)
    same = next((one.spec_id for one in table.specs if one.fields == fields), None)
    id_ = max((one.spec_id for one in table.specs), default=-1) + 1 if same is None else same
    return {**update.fields, "spec": encode_partition_spec(PartitionSpec(spec_id=id_, fields=fields))}


def _check_field_ids(table: TableMetadata, fields: Sequence[PartitionField]) -> None:
    """Raise ``InvalidInput`` for ids by which other engines would confuse two partition fields.

    In version 1 they number the fields of a spec by position. Later versions identify a field by its id in all specs.
    """
    if table.format_version == 1:
        if any(part.field_id != FIRST_PARTITION_FIELD_ID + at for at, part in enumerate(fields)):
            raise InvalidInput(
                "cannot add the partition spec: format version 1 numbers its fields from "
                f"{FIRST_PARTITION_FIELD_ID} by their position"
            )
        return
    known: dict[int, list[PartitionField]] = {}
    for part in (part for spec in table.specs for part in spec.fields):
        known.setdefault(part.field_id, []).append(part)
    for part in fields:
        others = known.get(part.field_id, ())
        if others and not any(_is_same_field(part, other) for other in others):
            raise InvalidInput(
                f"cannot partition by {part.name!r}: the id {part.field_id} belongs to {others[0].name!r} of another "
                "spec; leave out field-id, or give the next one"
            )


def _is_same_field(one: PartitionField, other: PartitionField) -> bool:
    """Whether two fields may share an id: a dropped field of version 1 is void in later specs."""
    is_void = isinstance(one.transform, VoidTransform) or isinstance(other.transform, VoidTransform)
    return one.source_id == other.source_id and (is_void or one.transform == other.transform)


def _with_ids(table: TableMetadata, fields: list[Any]) -> list[Any]:
    """Fields with the ids of equal fields of earlier specs, as the spec asks for; new ones follow the last."""
    known = {(part.source_id, str(part.transform)): part.field_id for spec in table.specs for part in spec.fields}
    next_id = table.last_partition_id
    found: list[Any] = []
    for at, one in enumerate(fields):
        document = JsonObject(REQUEST, "a field of the partition spec", one)
        if "field-id" in document:
            found.append(one)
            continue
        id_ = known.get((document.integer_or_none("source-id") or 0, document.string("transform")))
        if table.format_version == 1:
            id_ = FIRST_PARTITION_FIELD_ID + at
        if id_ is None:
            next_id += 1
            id_ = next_id
        found.append({**one, "field-id": id_})
    return found


def _spec_id(at: _Progress, update: JsonObject) -> Document:
    _known(at, update.integer("spec-id"), "spec", at.table.spec_by_id)
    return update.fields


def _new_order(at: _Progress, update: JsonObject) -> Document:
    order = decode_sort_order(REQUEST, update.required("sort-order"))
    schema = at.table.schema_by_id.get(at.table.current_schema_id, at.table.schemas[-1])
    for key in order.fields:
        if key.source_id not in schema.by_id:
            raise InvalidInput(f"cannot add the sort order: the schema has no column with id {key.source_id}")
        if isinstance(key.transform, UnknownTransform):
            raise InvalidInput(f"cannot add the sort order: the transform {key.transform} is not known")
    same = next((one.order_id for one in at.table.sort_orders if one.fields == order.fields), None)
    id_ = same
    if id_ is None:
        id_ = max((one.order_id for one in at.table.sort_orders), default=0) + 1 if order.fields else 0
    return {**update.fields, "sort-order": encode_sort_order(replace(order, order_id=id_))}


def _order_id(at: _Progress, update: JsonObject) -> Document:
    known = {order.order_id: order for order in at.table.sort_orders}
    _known(at, update.integer("sort-order-id"), "order", known)
    return update.fields


def _known(at: _Progress, id_: int, what: str, known: Mapping[int, Any]) -> None:
    if id_ == LAST_ADDED:
        if what not in at.added:
            raise InvalidInput(f"cannot choose the last added {what}: this commit adds none")
    elif id_ < 0 or id_ not in known:
        raise InvalidInput(f"cannot choose {what} {id_}: the table has none with this id")


def _location(at: _Progress, update: JsonObject) -> Document:
    location = update.string("location")
    at.check_location(location, "the table's location")
    return {**update.fields, "location": location.rstrip("/")}


def _properties(at: _Progress, update: JsonObject) -> Document:
    update.required("updates")
    return {**update.fields, "updates": update.strings("updates")}


def _removals(at: _Progress, update: JsonObject) -> Document:
    if not all(isinstance(name, str) for name in update.items("removals")):
        raise InvalidInput("cannot remove properties: their names must be text")
    return update.fields


def _snapshot(at: _Progress, update: JsonObject) -> Document:
    table = at.table
    snapshot = decode_snapshot(REQUEST, msgspec.json.encode(update.object("snapshot").fields))
    id_, number = snapshot.snapshot_id, snapshot.sequence_number
    refuse = f"cannot add snapshot {id_}"
    if not 0 <= id_ <= _LARGEST_LONG or table.snapshot(id_) is not None:
        raise InvalidInput(f"{refuse}: the id is in use or is not a positive number of 63 bits")
    parent = snapshot.parent_snapshot_id
    if parent is not None and (parent == id_ or (len(table.snapshots) and table.snapshot(parent) is None)):
        raise InvalidInput(f"{refuse}: its parent {parent} is not a snapshot of the table")
    if table.format_version == 1 and number != 0:
        raise InvalidInput(f"{refuse}: snapshots of format version 1 have no sequence number, and it has {number}")
    if table.format_version >= 2 and number <= table.last_sequence_number and (parent is not None or number < 1):
        raise InvalidInput(
            f"{refuse}: its sequence number {number} does not follow the table's last one, {table.last_sequence_number}"
        )
    if table.format_version >= 2 and number > table.last_sequence_number + 1:
        raise InvalidInput(
            f"{refuse}: its sequence number {number} is not the next one, {table.last_sequence_number + 1}"
        )
    if snapshot.timestamp_ms < table.last_updated_ms - _SKEW_MS:
        raise InvalidInput(f"{refuse}: its time is over a minute before the last change of the table")
    if snapshot.timestamp_ms > at.now_ms + _AHEAD_MS:
        raise InvalidInput(f"{refuse}: its time is over five minutes ahead; set the clock of the client")
    if snapshot.schema_id is not None and snapshot.schema_id not in table.schema_by_id:
        raise InvalidInput(f"{refuse}: the table has no schema {snapshot.schema_id}")
    if snapshot.manifest_list is None:
        raise InvalidInput(f"{refuse}: it has no manifest list")
    at.check_location(snapshot.manifest_list, "the place of the manifest list")
    _check_summary(update.object("snapshot"), refuse, is_required=table.format_version >= 2)
    if any(number is not None and number < 0 for number in (snapshot.first_row_id, snapshot.added_rows)):
        raise InvalidInput(f"{refuse}: first-row-id and added-rows are not negative")
    if table.format_version >= 3:
        first, added = snapshot.first_row_id, snapshot.added_rows
        if first is None or added is None or added < 0:
            raise InvalidInput(f"{refuse}: format version 3 requires first-row-id and added-rows")
        if first < (table.next_row_id or 0):
            raise InvalidInput(f"{refuse}: its first-row-id {first} is below the table's next-row-id")
        if first + added > _LARGEST_LONG >> 1:
            raise InvalidInput(f"{refuse}: its row ids would leave none for later snapshots")
    at.new_snapshots.add(id_)
    return update.fields


def _check_summary(snapshot: JsonObject, refuse: str, *, is_required: bool) -> None:
    """Raise for a summary with which other engines could not read the table."""
    operation = snapshot.strings("summary").get("operation")
    if (is_required or operation is not None) and operation not in _OPERATIONS:
        raise InvalidInput(f"{refuse}: the operation of its summary is {operation!r}, not {', '.join(_OPERATIONS)}")


def _ref(at: _Progress, update: JsonObject) -> Document:
    name = update.string("ref-name")
    ref = decode_ref(JsonObject(REQUEST, f"ref {name!r}", update.fields))
    refuse = f"cannot set {name!r}"
    if not name.strip():
        raise InvalidInput(f"{refuse}: a branch or tag needs a name")
    if at.table.snapshot(ref.snapshot_id) is None:
        raise InvalidInput(f"{refuse}: the table has no snapshot {ref.snapshot_id}")
    if name == MAIN and ref.kind is not RefKind.BRANCH:
        raise InvalidInput(f"{refuse}: main must be a branch")
    if ref.kind is RefKind.TAG and (ref.min_snapshots_to_keep is not None or ref.max_snapshot_age_ms is not None):
        raise InvalidInput(
            f"{refuse}: a tag keeps one snapshot, so it has no min-snapshots-to-keep and no snapshot age"
        )
    for limit in (ref.min_snapshots_to_keep, ref.max_snapshot_age_ms, ref.max_ref_age_ms):
        if limit is not None and limit < 1:
            raise InvalidInput(f"{refuse}: limits of its retention begin at 1")
    if (ref.min_snapshots_to_keep or 0) > LARGEST_ID:
        raise InvalidInput(f"{refuse}: min-snapshots-to-keep is at most {LARGEST_ID}")
    return update.fields


def _ref_name(at: _Progress, update: JsonObject) -> Document:
    update.string("ref-name")
    return update.fields


def _snapshot_ids(at: _Progress, update: JsonObject) -> Document:
    update.required("snapshot-ids")
    gone = set(update.integers("snapshot-ids"))
    if at.table.current_snapshot_id in gone:
        raise InvalidInput(f"cannot remove snapshot {at.table.current_snapshot_id}: it is the current one")
    return update.fields


def _statistics(at: _Progress, update: JsonObject) -> Document:
    name = update.string("action").removeprefix("set-")
    document = update.object(name)
    id_ = document.integer("snapshot-id")
    if at.table.snapshot(id_) is None:
        raise InvalidInput(f"cannot set statistics of snapshot {id_}: the table does not have it")
    at.check_location(document.string("statistics-path"), "the place of a statistics file")
    decode = decode_statistics if name == "statistics" else decode_partition_statistics
    tuple(decode(REQUEST, msgspec.Raw(msgspec.json.encode([document.fields]))))  # raises for a field that is missing
    return update.fields


def _of_snapshot(at: _Progress, update: JsonObject) -> Document:
    update.integer("snapshot-id")
    return update.fields


def _spec_ids(at: _Progress, update: JsonObject) -> Document:
    if at.table.default_spec_id in update.integers("spec-ids"):
        raise InvalidInput(f"cannot remove partition spec {at.table.default_spec_id}: it is the current one")
    return {**update.fields, "spec-ids": list(update.integers("spec-ids"))}


def _schema_ids(at: _Progress, update: JsonObject) -> Document:
    if at.table.current_schema_id in update.integers("schema-ids"):
        raise InvalidInput(f"cannot remove schema {at.table.current_schema_id}: it is the current one")
    return {**update.fields, "schema-ids": list(update.integers("schema-ids"))}


def _key(at: _Progress, update: JsonObject) -> Document:
    key = update.object("encryption-key")
    try:
        base64.b64decode(key.string("encrypted-key-metadata"), validate=True)
    except ValueError:
        raise InvalidInput("cannot add the encryption key: its encrypted-key-metadata is not base64") from None
    known = {name: key.string(name) for name in ("key-id", "encrypted-key-metadata")}
    by = key.string_or_none("encrypted-by-id")
    properties = key.strings("properties")
    return {
        **update.fields,
        "encryption-key": {
            **known,
            **({} if by is None else {"encrypted-by-id": by}),
            **({"properties": dict(properties)} if properties else {}),
        },
    }


def _key_id(at: _Progress, update: JsonObject) -> Document:
    update.string("key-id")
    return update.fields


_CHECKS: Mapping[str, Callable[[_Progress, JsonObject], Document]] = {
    "assign-uuid": _uuid,
    "upgrade-format-version": _version,
    "add-schema": _new_schema,
    "set-current-schema": _schema_id,
    "add-spec": _new_spec,
    "set-default-spec": _spec_id,
    "add-sort-order": _new_order,
    "set-default-sort-order": _order_id,
    "set-location": _location,
    "set-properties": _properties,
    "remove-properties": _removals,
    "add-snapshot": _snapshot,
    "set-snapshot-ref": _ref,
    "remove-snapshot-ref": _ref_name,
    "remove-snapshots": _snapshot_ids,
    "set-statistics": _statistics,
    "remove-statistics": _of_snapshot,
    "set-partition-statistics": _statistics,
    "remove-partition-statistics": _of_snapshot,
    "remove-partition-specs": _spec_ids,
    "remove-schemas": _schema_ids,
    "add-encryption-key": _key,
    "remove-encryption-key": _key_id,
}
