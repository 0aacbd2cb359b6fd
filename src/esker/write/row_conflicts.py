"""Whether a change of rows still stands on a newer base.

It was computed on files as they were. It falls if one of them is gone, has been rewritten or has got deletes since,
under every isolation level; under serializable, the default, also if rows arrived where it looked (L1). Only what was
committed since it began is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from esker.errors import Conflict
from esker.model.predicate import field_ids
from esker.ports.table_format import EntryColumns, TableFormat
from esker.read.attach_deletes import DELETE_FILE_PATH_ID, DeleteIndex
from esker.read.prune_manifest import examine_entries
from esker.tree.manifest import EntryStatus
from esker.tree.manifest_list import ManifestContent, ManifestFile
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata
from esker.write.modes import is_serializable, isolation_property
from esker.write.since import arrivals, made_by, own_manifests
from esker.write.steps import ChangeRows


def check_row_changes(
    table_format: TableFormat,
    metadata: TableMetadata,
    since: Mapping[int, Snapshot],
    manifests: Sequence[ManifestFile],
    steps: Sequence[ChangeRows],
) -> None:
    """Raise ``Conflict`` where one of the changes no longer stands; it names the file and the snapshot."""
    for snapshot in since.values():
        if snapshot.operation != "append":
            own = own_manifests(table_format, metadata, snapshot)
            for step in steps:
                _check_removed(table_format, metadata, snapshot, own, step)
                _check_deletes(table_format, metadata, snapshot, own, step)
    for step in steps:
        if is_serializable(metadata, step.verb):
            _check_added(table_format, metadata, since, manifests, step)


def _check_removed(
    table_format: TableFormat,
    metadata: TableMetadata,
    snapshot: Snapshot,
    own: Sequence[ManifestFile],
    step: ChangeRows,
) -> None:
    paths = {planned.data_file.path for planned in step.files}
    lost = [m for m in own if m.content is ManifestContent.DATA and m.deleted_files != 0]
    for entries in table_format.entries(metadata, lost, EntryColumns(rest=False)) if paths else ():
        gone = entries.take(~entries.is_live & made_by(entries, {snapshot.snapshot_id}))
        for path in gone.path.to_pylist():
            if path in paths:
                raise _conflict(step, "removed", path, snapshot.snapshot_id)


def _check_deletes(
    table_format: TableFormat,
    metadata: TableMetadata,
    snapshot: Snapshot,
    own: Sequence[ManifestFile],
    step: ChangeRows,
) -> None:
    """Deletes that reach a file the change refers to: by name, by position or by key, whatever rows they are of."""
    added = [m for m in own if m.content is ManifestContent.DELETES and m.added_files != 0]
    if not added or not step.files:
        return
    batches = table_format.entries(metadata, added, EntryColumns(metrics=(DELETE_FILE_PATH_ID,)))
    index = DeleteIndex(metadata, (entries.take(entries.status == EntryStatus.ADDED) for entries in batches))
    for planned in step.files:
        if index and index.applying_to(planned.data_file):
            raise _conflict(step, "deleted rows of", planned.data_file.path, snapshot.snapshot_id)


def _check_added(
    table_format: TableFormat,
    metadata: TableMetadata,
    since: Mapping[int, Snapshot],
    manifests: Sequence[ManifestFile],
    step: ChangeRows,
) -> None:
    columns = EntryColumns(metrics=frozenset(field_ids(step.predicate)))
    for fresh in arrivals(table_format, metadata, since, manifests, columns):
        hits = np.flatnonzero(examine_entries(step.predicate, metadata.schema, fresh).verdict.some)
        if len(hits):
            at = int(hits[0])
            way_out = f", or set {isolation_property(step.verb)} = snapshot"
            raise _conflict(step, "added", fresh.path[at].as_py(), fresh.snapshot_id[at].as_py(), way_out)


def _conflict(step: ChangeRows, did: str, path: str, snapshot_id: int | None, way_out: str = "") -> Conflict:
    return Conflict(
        f"cannot {step.verb} rows: snapshot {snapshot_id} has {did} {path} meanwhile, which the change has not seen; "
        f"refresh and try again{way_out}",
        file=path,
        snapshot_id=snapshot_id,
    )
