"""Asked at every rebase: did someone change what this change was about to replace?

An append never conflicts, and a delete by predicate can always be applied anew. An overwrite is different: rows
that arrive inside its filter while it runs would vanish unread. Under serializable isolation, the default, that is
a conflict; under snapshot isolation it is accepted. Rows that others removed inside the filter are a conflict under
both: the overwrite may be about to bring them back (L1).
"""

from __future__ import annotations

from collections.abc import Container, Sequence

import numpy as np

from esker.errors import Conflict, InvalidInput
from esker.model.predicate import field_ids, terms
from esker.ports.table_format import EntryColumns, TableFormat
from esker.read.attach_deletes import partition_key
from esker.read.prune_manifest import examine_entries
from esker.tree.manifest import Entries, EntryStatus
from esker.tree.manifest_list import ManifestContent, ManifestFile
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata
from esker.write.ancestry import ancestors
from esker.write.steps import RemovePartitions, RemoveRows, Replacement, Step

ISOLATION = "write.delete.isolation-level"
_WAY_OUT = f", or set {ISOLATION} = snapshot"


def detect_conflicts(
    table_format: TableFormat,
    metadata: TableMetadata,
    start: Snapshot | None,
    head: Snapshot | None,
    manifests: Sequence[ManifestFile],
    steps: Sequence[Step],
) -> None:
    """Raise ``Conflict`` if data that a step replaces was added or removed since ``start``."""
    replacing = [step for step in steps if isinstance(step, RemoveRows | RemovePartitions) and step.replaces]
    if not replacing:
        return
    since = _snapshots_since(metadata, start, head)
    asked = {id_ for step in replacing if isinstance(step, RemoveRows) for id_ in field_ids(step.predicate)}
    columns = EntryColumns(metrics=frozenset(asked))
    if _is_serializable(metadata):
        # whoever folded or rewrote a manifest since has it in a new one, where the file is listed as existing
        newer = [m for m in manifests if m.content is ManifestContent.DATA and m.added_snapshot_id in since]
        for entries in table_format.entries(metadata, newer, columns):
            _refuse(metadata, replacing, entries.take(entries.is_live & _by(entries, since)), "added", _WAY_OUT)
    for snapshot in since.values():
        if snapshot.operation != "append":
            _check_removed(table_format, metadata, snapshot, replacing, columns)


def check_columns(metadata: TableMetadata, steps: Sequence[Step]) -> None:
    """A filter was bound to columns as they were: one that is gone or of another type means something else now."""
    for step in steps:
        for term in terms(step.predicate) if isinstance(step, RemoveRows) else ():
            now = metadata.schema.by_id.get(term.field.id)
            if now is None or now.type != term.field.type:
                what = "dropped" if now is None else f"changed to {now.type}"
                raise Conflict(
                    f"cannot apply the filter: column {term.field.name!r} was {what} meanwhile; refresh and try again",
                    column=term.field.name,
                )


def _check_removed(
    table_format: TableFormat,
    metadata: TableMetadata,
    snapshot: Snapshot,
    replacing: Sequence[Replacement],
    columns: EntryColumns,
) -> None:
    """What one snapshot removed is told by its own manifests alone: the next may have dropped them."""
    own = [m for m in table_format.manifests(metadata, snapshot) if m.added_snapshot_id == snapshot.snapshot_id]
    lost = [m for m in own if m.content is ManifestContent.DATA and m.deleted_files != 0]
    for entries in table_format.entries(metadata, lost, columns):
        _refuse(metadata, replacing, entries.take(~entries.is_live & _by(entries, {snapshot.snapshot_id})), "removed")
    deletes = [m for m in own if m.content is ManifestContent.DELETES and m.added_files != 0]
    for entries in table_format.entries(metadata, deletes, EntryColumns()):
        # the statistics of a delete file are of its own rows, not of those it deletes: only its partition can tell
        _refuse(metadata, replacing, entries.take(entries.status == EntryStatus.ADDED), "added deletes in")


def _refuse(
    metadata: TableMetadata, replacing: Sequence[Replacement], entries: Entries, did: str, way_out: str = ""
) -> None:
    for step in replacing:
        hit = _first_hit(metadata, step, entries)
        if hit is not None:
            raise Conflict(
                f"cannot overwrite: another commit has {did} {hit} meanwhile, which the overwrite has not seen; "
                f"refresh and try again{way_out}",
                file=hit,
            )


def _is_serializable(metadata: TableMetadata) -> bool:
    level = metadata.properties.get(ISOLATION, "serializable").lower()
    if level not in ("serializable", "snapshot"):
        raise InvalidInput(f"cannot use {ISOLATION} = {level!r}: it takes serializable or snapshot", property=ISOLATION)
    return level == "serializable"


def _snapshots_since(metadata: TableMetadata, start: Snapshot | None, head: Snapshot | None) -> dict[int, Snapshot]:
    """From the head back to the start, which is left out; a start that is not among the ancestors is a conflict."""
    stop = None if start is None else start.snapshot_id
    found: dict[int, Snapshot] = {}
    for snapshot in ancestors(metadata, None if head is None else head.snapshot_id):
        if snapshot.snapshot_id == stop:
            return found
        found[snapshot.snapshot_id] = snapshot
    oldest = next(reversed(found.values()), None)
    if stop is not None or (oldest is not None and oldest.parent_snapshot_id is not None):
        raise Conflict(
            f"cannot overwrite: snapshot {stop}, which the change began from, is no longer in the table's past",
            snapshot_id=stop,
        )
    return found


def _by(entries: Entries, snapshots: Container[int]) -> np.ndarray:
    """Entries whose file one of these snapshots added or, for one that is gone, removed."""
    return np.array([id_ in snapshots for id_ in entries.snapshot_id.to_pylist()], dtype=bool)


def _first_hit(metadata: TableMetadata, step: Replacement, entries: Entries) -> str | None:
    if isinstance(step, RemovePartitions):
        return next((file.path for file in entries.data_files() if partition_key(file) in step.keys), None)
    hits = np.flatnonzero(examine_entries(step.predicate, metadata.schema, entries).verdict.some)
    return entries.path[int(hits[0])].as_py() if len(hits) else None
