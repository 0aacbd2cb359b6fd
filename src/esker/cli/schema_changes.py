"""How columns and properties differ between two snapshots of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from esker.model.schema import Schema
    from esker.table import Table
    from esker.tree.snapshot import Snapshot
    from esker.tree.table_metadata import TableMetadata


def schema_changes(table: Table, before: Snapshot | None, after: Snapshot | None) -> dict[str, Any]:
    """Columns added, removed and changed, told apart by id: a rename is no new column."""
    old, new = _schema_of(table, before), _schema_of(table, after)
    both = [id_ for id_ in new.by_id if id_ in old.by_id]
    changed = [{"id": id_, "name": old.name_by_id[id_], "changes": _differences(old, new, id_)} for id_ in both]
    return {
        "from_schema_id": old.schema_id,
        "to_schema_id": new.schema_id,
        "added": [_column(new, id_) for id_ in new.by_id if id_ not in old.by_id],
        "removed": [_column(old, id_) for id_ in old.by_id if id_ not in new.by_id],
        "changed": [column for column in changed if column["changes"]],
    }


def _schema_of(table: Table, snapshot: Snapshot | None) -> Schema:
    known = table.metadata.schema_by_id
    if snapshot is None or snapshot.schema_id is None:
        return table.schema
    return known.get(snapshot.schema_id, table.schema)


def _column(schema: Schema, id_: int) -> dict[str, Any]:
    return {"id": id_, "name": schema.name_by_id[id_], "type": str(schema.by_id[id_].type)}


def _differences(old: Schema, new: Schema, id_: int) -> list[str]:
    from esker.model.types import is_nested

    was, now = old.by_id[id_], new.by_id[id_]
    said = []
    if was.name != now.name:
        said.append(f"renamed to {now.name}")
    if not is_nested(now.type) and was.type != now.type:
        said.append(f"{was.type} became {now.type}")
    if was.required != now.required:
        said.append("became not null" if now.required else "may now be null")
    if was.doc != now.doc:
        said.append("comment changed")
    return said


def property_changes(table: Table, before: Snapshot | None, after: Snapshot | None) -> dict[str, Any] | None:
    """Properties set, removed and changed; None where the metadata file of either time can no longer be read."""
    then, now = _metadata_of(table, before), _metadata_of(table, after)
    if then is None or now is None:
        return None
    old, new = then.properties, now.properties
    return {
        "added": {key: new[key] for key in sorted(new) if key not in old},
        "removed": {key: old[key] for key in sorted(old) if key not in new},
        "changed": {key: [old[key], new[key]] for key in sorted(new) if key in old and old[key] != new[key]},
    }


def _metadata_of(table: Table, snapshot: Snapshot | None) -> TableMetadata | None:
    """The metadata file that a snapshot was committed with: the first one written at its time or later."""
    from esker.errors import EskerError
    from esker.wiring import open_table

    metadata = table.metadata
    if snapshot is None:
        return None
    if snapshot.snapshot_id == metadata.current_snapshot_id:
        return metadata
    later = [entry for entry in metadata.metadata_log if entry.timestamp_ms >= snapshot.timestamp_ms]
    if not later:
        return metadata
    first = min(later, key=lambda entry: entry.timestamp_ms)
    # the log records where files were written; they lie beside the present one wherever the table is now
    folder, slash, _ = table.metadata_location.rpartition("/")
    try:
        found = open_table(f"{folder}{slash}{first.metadata_file.rpartition('/')[2]}").metadata
    except (EskerError, OSError):
        return None
    return found if found.snapshot(snapshot.snapshot_id) is not None else None
