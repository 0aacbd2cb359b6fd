"""Asked at every rebase: did someone change what this change was about to replace?

An append never conflicts, and a delete by predicate can always be applied anew. An overwrite is different: rows
that arrive inside its filter while it runs would vanish unread. Under serializable isolation, the default, that is
a conflict; under snapshot isolation it is accepted. Rows that others removed inside the filter are a conflict under
both: the overwrite may be about to bring them back (L1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from esker.errors import Conflict
from esker.model.predicate import field_ids, terms
from esker.ports.table_format import EntryColumns, TableFormat
from esker.read.attach_deletes import partition_key
from esker.read.prune_manifest import examine_entries
from esker.tree.manifest import Entries, EntryStatus
from esker.tree.manifest_list import ManifestContent, ManifestFile
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata
from esker.write.modes import is_serializable, isolation_property
from esker.write.row_conflicts import check_row_changes
from esker.write.since import arrivals, made_by, own_manifests, snapshots_since
from esker.write.steps import ChangeRows, RemovePartitions, RemoveRows, Replacement, Step

_WAY_OUT = f", or set {isolation_property('delete')} = snapshot"


def detect_conflicts(
    table_format: TableFormat,
    metadata: TableMetadata,
    start: Snapshot | None,
    head: Snapshot | None,
    manifests: Sequence[ManifestFile],
    steps: Sequence[Step],
) -> None:
    """Raise ``Conflict`` if data that a step replaces was added or removed since ``start``, or if the rows that a
    change of rows saw are no longer what they were."""
    replacing = [step for step in steps if isinstance(step, RemoveRows | RemovePartitions) and step.replaces]
    changing = [step for step in steps if isinstance(step, ChangeRows)]
    if changing:
        since = snapshots_since(metadata, start, head, f"{changing[0].verb} rows")
        check_row_changes(table_format, metadata, since, manifests, changing)
    if replacing:
        since = snapshots_since(metadata, start, head, "overwrite")
        _check_replacing(table_format, metadata, since, manifests, replacing)


def _check_replacing(
    table_format: TableFormat,
    metadata: TableMetadata,
    since: Mapping[int, Snapshot],
    manifests: Sequence[ManifestFile],
    replacing: Sequence[Replacement],
) -> None:
    asked = {id_ for step in replacing if isinstance(step, RemoveRows) for id_ in field_ids(step.predicate)}
    columns = EntryColumns(metrics=frozenset(asked))
    if is_serializable(metadata, "delete"):
        for entries in arrivals(table_format, metadata, since, manifests, columns):
            _refuse(metadata, replacing, entries, "added", _WAY_OUT)
    for snapshot in since.values():
        if snapshot.operation != "append":
            _check_removed(table_format, metadata, snapshot, replacing, columns)


def check_columns(metadata: TableMetadata, steps: Sequence[Step]) -> None:
    """A filter was bound to columns as they were: one that is gone or of another type means something else now."""
    for step in steps:
        for term in terms(step.predicate) if isinstance(step, RemoveRows | ChangeRows) else ():
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
    own = own_manifests(table_format, metadata, snapshot)
    lost = [m for m in own if m.content is ManifestContent.DATA and m.deleted_files != 0]
    for entries in table_format.entries(metadata, lost, columns):
        _refuse(
            metadata, replacing, entries.take(~entries.is_live & made_by(entries, {snapshot.snapshot_id})), "removed"
        )
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


def _first_hit(metadata: TableMetadata, step: Replacement, entries: Entries) -> str | None:
    if isinstance(step, RemovePartitions):
        return next((file.path for file in entries.data_files() if partition_key(file) in step.keys), None)
    hits = np.flatnonzero(examine_entries(step.predicate, metadata.schema, entries).verdict.some)
    return entries.path[int(hits[0])].as_py() if len(hits) else None
