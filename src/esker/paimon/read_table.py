"""The metadata of a Paimon table in the model's form: schemas, snapshots, tags and branches.

Branches number their schemas and snapshots by themselves. In one table metadata, numbers of other branches than main
get the branch's own number in their upper bits (``number_on``).
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from esker.errors import Corrupt, NoSuchFile, NoSuchTable
from esker.model.partition_and_sort import FIRST_PARTITION_FIELD_ID, PartitionField, PartitionSpec
from esker.model.schema import Schema
from esker.model.transform import IdentityTransform
from esker.paimon.metadata.layout import MAIN, Layout, branches, latest_snapshot, named, numbered
from esker.paimon.metadata.snapshot import PaimonSnapshot, decode_snapshot
from esker.paimon.metadata.table_schema import TableSchema, decode_schema
from esker.ports.storage import Storage
from esker.tree.snapshot import (
    ROWS_DELETED,
    ROWS_INSERTED,
    ROWS_UPDATED,
    UNKNOWN,
    LazySequence,
    RefKind,
    Snapshot,
    SnapshotRef,
)
from esker.tree.table_metadata import SnapshotLogEntry, TableMetadata

_BITS = 40  # of a number on its branch
_OPERATIONS = {"APPEND": "append", "COMPACT": "replace", "OVERWRITE": "overwrite", "ANALYZE": "replace"}

_HIDE_CHANGES = ("deletion-vectors.enabled", "data-evolution.enabled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """What the codec knows besides the model: the schemas with their options, by their numbers in the metadata."""

    layout: Layout
    schemas: Mapping[int, TableSchema]
    latest: TableSchema

    def latest_beside(self, number: int) -> TableSchema:
        """The newest schema of the branch that a snapshot or schema of this number belongs to."""
        return self.schemas[max(id_ for id_ in self.schemas if id_ >> _BITS == number >> _BITS)]

    def schemas_beside(self, number: int) -> Mapping[int, TableSchema]:
        """The schemas of that branch, by their numbers on it."""
        return {schema.id: schema for id_, schema in self.schemas.items() if id_ >> _BITS == number >> _BITS}


def definition_of(metadata: TableMetadata) -> Definition:
    """The definition that the metadata was made from."""
    found = metadata.origin
    assert isinstance(found, Definition)  # made below
    return found


def number_on(branch: str, number: int) -> int:
    """The number of a branch's snapshot or schema in the table metadata."""
    return number if branch == MAIN else (zlib.crc32(branch.encode()) & 0x7FFFFF | 1) << _BITS | number


def number_beside(number: int, schema_id: int) -> int:
    """The number of a schema on the branch that the first number belongs to."""
    return number >> _BITS << _BITS | schema_id


def is_paimon_table(storage: Storage, root: str) -> bool:
    """Whether a directory has the layout of a Paimon table: its first schema."""
    return storage.exists(Layout(root).schema(0)) or bool(numbered(storage, f"{root}/schema", "schema-"))


def load_metadata(storage: Storage, root: str) -> TableMetadata:
    """The table at a directory as it is now. Raises ``NoSuchTable`` if there is none."""
    layout = Layout(root.rstrip("/"))
    schemas = read_schemas(storage, layout)
    if not schemas:
        raise NoSuchTable(f"no table at {root}: it has no schema/schema-0", path=root)
    latest = schemas[max(schemas)]
    newest = latest_snapshot(storage, layout)
    ids = numbered(storage, f"{layout.own}/snapshot", "snapshot-") if newest is not None else []
    read = partial(_read_snapshot, storage, layout, latest)
    refs, others, more = _refs(storage, layout, latest, frozenset(ids))
    snapshots = LazySequence([*others, *ids], partial(_snapshot_of, read))
    return TableMetadata(
        format_version=2,
        uuid=None,
        location=layout.root,
        last_updated_ms=latest.time_ms,
        last_column_id=max(schema.highest_field_id for schema in schemas.values()),
        schemas=tuple(_model(number, schema) for number, schema in (schemas | more).items()),
        current_schema_id=latest.id,
        specs=(_spec(latest),),
        properties=dict(latest.options),
        current_snapshot_id=newest,
        snapshots=snapshots,
        snapshot_log=LazySequence(ids, partial(_log_entry, read)),
        refs=refs,
        origin=Definition(layout=layout, schemas=schemas | more, latest=latest),
    )


def read_schemas(storage: Storage, layout: Layout) -> dict[int, TableSchema]:
    """Every schema of a branch, by its number in the table metadata."""
    found = {}
    for id_ in numbered(storage, f"{layout.own}/schema", "schema-"):
        file = layout.schema(id_)
        schema = decode_schema(file, storage.read(file))
        if schema.id != id_:
            raise Corrupt(file, f"it has the id {schema.id}")
        found[number_on(layout.branch, id_)] = schema
    return found


def _model(number: int, schema: TableSchema) -> Schema:
    return replace(
        schema.model,
        schema_id=number,
        identifier_field_ids=frozenset(schema.by_name[name].id for name in schema.primary_keys),
    )


def _spec(schema: TableSchema) -> PartitionSpec:
    return PartitionSpec(
        fields=tuple(
            PartitionField(
                source_id=field.id,
                field_id=FIRST_PARTITION_FIELD_ID + at,
                name=field.name,
                transform=IdentityTransform(),
            )
            for at, field in enumerate(schema.partition_fields)
        )
    )


# ---------------------------------------------------------------- Snapshots


def snapshot_file(storage: Storage, location: str) -> PaimonSnapshot:
    """The snapshot in a file, which is a snapshot's or a tag's."""
    try:
        return decode_snapshot(location, storage.read(location))
    except NoSuchFile as error:
        raise NoSuchFile(
            f"cannot read the table: its snapshot {location} is missing; it may have expired", file=location
        ) from error


def _read_snapshot(storage: Storage, layout: Layout, schema: TableSchema, id_: int) -> Snapshot:
    location = layout.snapshot(id_)
    return tree_snapshot(snapshot_file(storage, location), location, layout.branch, schema)


def _snapshot_of(read: partial[Snapshot], given: int | Snapshot) -> Snapshot:
    return read(given) if isinstance(given, int) else given


def _log_entry(read: partial[Snapshot], id_: int) -> SnapshotLogEntry:
    found = read(id_)
    return SnapshotLogEntry(timestamp_ms=found.timestamp_ms, snapshot_id=found.snapshot_id)


def tree_snapshot(snapshot: PaimonSnapshot, location: str, branch: str, schema: TableSchema) -> Snapshot:
    """The snapshot in the model's form. ``location`` is its file, from which its manifests are found. ``schema`` is any
    of the branch: all have the same primary key."""
    counts = {
        "total-records": snapshot.total_record_count,
        "delta-records": snapshot.delta_record_count,
        "changelog-records": snapshot.changelog_record_count,
        "watermark": snapshot.watermark,
    }
    return Snapshot(
        snapshot_id=number_on(branch, snapshot.id),
        timestamp_ms=snapshot.time_millis,
        parent_snapshot_id=number_on(branch, snapshot.id - 1) if snapshot.id > 1 else None,
        sequence_number=snapshot.id,
        manifest_list=location,
        summary={
            "operation": _OPERATIONS.get(snapshot.commit_kind, snapshot.commit_kind.lower()),
            "commit-kind": snapshot.commit_kind,
            "commit-user": snapshot.commit_user,
            "commit-identifier": str(snapshot.commit_identifier),
            **({} if branch == MAIN else {"branch": branch}),
            **{name: str(count) for name, count in counts.items() if count is not None},
            **_changed_rows(snapshot, schema),
        },
        schema_id=number_on(branch, snapshot.schema_id),
    )


def _changed_rows(snapshot: PaimonSnapshot, schema: TableSchema) -> dict[str, str]:
    """How many rows a commit inserted, updated and deleted, as far as its kind and its number of new rows show it.

    In a table with a key, new rows are versions: they may insert, replace or delete. A vector deletes rows without a
    change of their number, and a file of ``data-evolution`` may have a few columns of old rows. Old versions of Paimon
    committed UPDATE and DELETE as APPEND too, with no more rows than before.
    """
    kind, new = snapshot.commit_kind, snapshot.delta_record_count or 0
    if kind in ("COMPACT", "ANALYZE"):
        return {ROWS_INSERTED: "0", ROWS_UPDATED: "0", ROWS_DELETED: "0"}
    if kind != "APPEND":
        return {}
    if new > 0 and not schema.primary_keys and not any(map(schema.is_set, _HIDE_CHANGES)):
        return {ROWS_INSERTED: str(new), ROWS_UPDATED: "0", ROWS_DELETED: "0"}
    return dict.fromkeys((ROWS_INSERTED, ROWS_UPDATED, ROWS_DELETED), UNKNOWN)


Refs = tuple[dict[str, SnapshotRef], list[Snapshot], dict[int, TableSchema]]


def _refs(storage: Storage, layout: Layout, latest: TableSchema, main: frozenset[int]) -> Refs:
    """Tags and branches, the snapshots that only they have, and the schemas of branches."""
    refs: dict[str, SnapshotRef] = {}
    snapshots: list[Snapshot] = []
    schemas: dict[int, TableSchema] = {}
    for branch in branches(storage, layout.root):
        own = layout.on(branch)
        of_branch = read_schemas(storage, own)
        schemas |= of_branch
        ids = numbered(storage, f"{own.own}/snapshot", "snapshot-")
        snapshots += [_read_snapshot(storage, own, of_branch[max(of_branch)], id_) for id_ in ids]
        if ids:
            refs[branch] = SnapshotRef(
                snapshot_id=number_on(branch, ids[-1]), kind=RefKind.BRANCH, schema_id=max(of_branch)
            )
    for tag in named(storage, f"{layout.own}/tag", "tag-"):
        location = layout.tag(tag)
        found = tree_snapshot(snapshot_file(storage, location), location, MAIN, latest)
        refs[tag] = SnapshotRef(snapshot_id=found.snapshot_id, kind=RefKind.TAG)
        if found.snapshot_id not in main and all(one.snapshot_id != found.snapshot_id for one in snapshots):
            snapshots.append(found)
    return refs, snapshots, schemas
