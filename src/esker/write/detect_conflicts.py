"""Asked at every rebase: did someone add what this change was about to replace?

An append never conflicts, and a delete by predicate can always be applied anew. An overwrite is different: rows
that arrive inside its filter while it runs would vanish unread. Under serializable isolation, the default, that is
a conflict; under snapshot isolation it is accepted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from esker.errors import Conflict, InvalidInput
from esker.model.predicate import field_ids
from esker.ports.table_format import EntryColumns, TableFormat
from esker.read.attach_deletes import partition_key
from esker.read.prune_manifest import examine_entries
from esker.tree.manifest import Entries, EntryStatus
from esker.tree.manifest_list import ManifestContent, ManifestFile
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata
from esker.write.steps import RemovePartitions, RemoveRows, Replacement, Step

ISOLATION = "write.delete.isolation-level"


def detect_conflicts(
    table_format: TableFormat,
    metadata: TableMetadata,
    start: Snapshot | None,
    head: Snapshot | None,
    manifests: Sequence[ManifestFile],
    steps: Sequence[Step],
) -> None:
    """Raise ``Conflict`` if data that a step replaces was added since ``start``."""
    replacing = [step for step in steps if isinstance(step, RemoveRows | RemovePartitions) and step.replaces]
    if not replacing or not _is_serializable(metadata):
        return
    since = _snapshots_since(metadata, start, head)
    newer = [m for m in manifests if m.content is ManifestContent.DATA and m.added_snapshot_id in since]
    asked = {id_ for step in replacing if isinstance(step, RemoveRows) for id_ in field_ids(step.predicate)}
    for entries in table_format.entries(metadata, newer, EntryColumns(metrics=frozenset(asked))):
        added = entries.take(_added_since(entries, since))
        for step in replacing:
            hit = _first_hit(metadata, step, added)
            if hit is not None:
                raise Conflict(
                    f"cannot overwrite: another commit has added {hit}, which the overwrite would remove unread; "
                    f"refresh and try again, or set {ISOLATION} = snapshot",
                    file=hit,
                )


def _is_serializable(metadata: TableMetadata) -> bool:
    level = metadata.properties.get(ISOLATION, "serializable").lower()
    if level not in ("serializable", "snapshot"):
        raise InvalidInput(f"cannot use {ISOLATION} = {level!r}: it takes serializable or snapshot", property=ISOLATION)
    return level == "serializable"


def _snapshots_since(metadata: TableMetadata, start: Snapshot | None, head: Snapshot | None) -> set[int]:
    """Ids from the head back to the start, which is left out; a start that is not among the ancestors is a conflict."""
    found: set[int] = set()
    stop = None if start is None else start.snapshot_id
    at = head
    while at is not None and at.snapshot_id != stop:
        if at.snapshot_id in found:
            break
        found.add(at.snapshot_id)
        at = None if at.parent_snapshot_id is None else metadata.snapshot(at.parent_snapshot_id)
    if (None if at is None else at.snapshot_id) != stop:
        raise Conflict(
            f"cannot overwrite: snapshot {stop}, which the change began from, is no longer in the table's past",
            snapshot_id=stop,
        )
    return found


def _added_since(entries: Entries, since: set[int]) -> np.ndarray:
    ids = np.array([id_ in since for id_ in entries.snapshot_id.to_pylist()], dtype=bool)
    return ids & (entries.status == EntryStatus.ADDED)


def _first_hit(metadata: TableMetadata, step: Replacement, added: Entries) -> str | None:
    if isinstance(step, RemovePartitions):
        return next((file.path for file in added.data_files() if partition_key(file) in step.keys), None)
    hits = np.flatnonzero(examine_entries(step.predicate, metadata.schema, added).verdict.some)
    return added.path[int(hits[0])].as_py() if len(hits) else None
