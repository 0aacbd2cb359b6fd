"""Conflicts with other commits, checked at every attempt: overwrites, row changes, and files added twice.

An append never conflicts, and a delete by predicate can always be applied again. An overwrite conflicts with rows that
arrive inside its filter. A row change conflicts if one of its files is removed, rewritten or gets deletes.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from esker.errors import Conflict, InvalidInput
from esker.model.file_paths import same_file, split_location
from esker.model.predicates.predicate import field_ids, terms
from esker.ports.table_format import EntryColumns, TableFormat
from esker.read.attach_deletes import DELETE_FILE_PATH_ID, DeleteIndex, partition_key
from esker.read.prune_manifest import examine_entries
from esker.tree.data_file import DataFile, FileContent
from esker.tree.manifest import Entries, EntryStatus
from esker.tree.manifest_list import ManifestContent, ManifestFile
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata
from esker.write.rows.row_change_modes import is_serializable, isolation_property
from esker.write.steps import (
    ChangeRows,
    FileConflicts,
    RemovePartitions,
    RemoveRows,
    ReplaceFiles,
    Replacement,
    Step,
)
from esker.write.table_changes import ancestors

# ---------------------------------------------------------------- commits of others since a change began


def snapshots_since(
    metadata: TableMetadata, start: Snapshot | None, head: Snapshot | None, doing: str
) -> dict[int, Snapshot]:
    """The snapshots from the head back to the start, without it. Raises ``Conflict`` if the start is not an
    ancestor, and if the first snapshot of the past is missing: Nessie keeps the newest snapshot only, without its
    parent."""
    stop = None if start is None else start.snapshot_id
    found: dict[int, Snapshot] = {}
    for snapshot in ancestors(metadata, None if head is None else head.snapshot_id):
        if snapshot.snapshot_id == stop:
            return found
        found[snapshot.snapshot_id] = snapshot
    oldest = next(reversed(found.values()), None)
    if stop is not None or (oldest is not None and oldest.parent_snapshot_id is not None):
        raise Conflict(
            f"cannot {doing}: snapshot {stop}, which the change began from, is no longer in the table's past",
            snapshot_id=stop,
        )
    if oldest is not None and oldest.sequence_number > 1:
        raise Conflict(
            f"cannot {doing}: the table's past is not complete, so that commits of others since the change began are "
            "not known; nothing was changed; make the change again on the table as it is now",
            snapshot_id=oldest.snapshot_id,
        )
    return found


def own_manifests(table_format: TableFormat, metadata: TableMetadata, snapshot: Snapshot) -> list[ManifestFile]:
    """The manifests that a snapshot itself wrote. Later snapshots may have dropped them."""
    return [m for m in table_format.manifests(metadata, snapshot) if m.added_snapshot_id == snapshot.snapshot_id]


def arrivals(
    table_format: TableFormat,
    metadata: TableMetadata,
    since: Mapping[int, Snapshot],
    manifests: Sequence[ManifestFile],
    columns: EntryColumns,
) -> Iterator[Entries]:
    """Data files with rows that arrived since. Files of a compaction (operation "replace") have no new rows. The files
    that it removed may: they count if another of these snapshots added them."""
    coming = {id_ for id_, snapshot in since.items() if snapshot.operation != "replace"}
    # A writer that merged or rewrote a manifest since has the file in a new manifest, with the status "existing".
    newer = [m for m in manifests if m.content is ManifestContent.DATA and m.added_snapshot_id in since]
    for entries in table_format.entries(metadata, newer, columns):
        yield entries.take(entries.is_live & made_by(entries, coming))
    compacted = _removed_by_compaction(table_format, metadata, since)
    if not compacted:
        return
    for id_ in coming:
        own = [m for m in own_manifests(table_format, metadata, since[id_]) if m.content is ManifestContent.DATA]
        for entries in table_format.entries(metadata, own, columns):
            gone = np.array([path in compacted for path in entries.path.to_pylist()], dtype=bool)
            yield entries.take(entries.is_live & made_by(entries, {id_}) & gone)


def _removed_by_compaction(
    table_format: TableFormat, metadata: TableMetadata, since: Mapping[int, Snapshot]
) -> set[str]:
    found: set[str] = set()
    for id_, snapshot in since.items():
        if snapshot.operation == "replace":
            own = own_manifests(table_format, metadata, snapshot)
            lost = [m for m in own if m.content is ManifestContent.DATA and m.deleted_files != 0]
            for entries in table_format.entries(metadata, lost, EntryColumns(rest=False)):
                found.update(entries.take(~entries.is_live & made_by(entries, {id_})).path.to_pylist())
    return found


def made_by(entries: Entries, snapshots: Container[int]) -> npt.NDArray[np.bool_]:
    """Entries whose file one of these snapshots added, or for a removed file, removed."""
    return np.array([id_ in snapshots for id_ in entries.snapshot_id.to_pylist()], dtype=bool)


# ---------------------------------------------------------------- row changes
#
# A row change was computed on certain files. It conflicts if one of them was removed, rewritten or got deletes since,
# under every isolation level. Under serializable isolation, the default, it also conflicts if rows arrived that match
# its filter (L1). Only commits since it began are read.


def check_row_changes(
    table_format: TableFormat,
    metadata: TableMetadata,
    since: Mapping[int, Snapshot],
    manifests: Sequence[ManifestFile],
    steps: Sequence[ChangeRows],
) -> None:
    """Raise ``Conflict`` if one of the changes is no longer valid. It names the file and the snapshot."""
    for snapshot in since.values():
        if snapshot.operation != "append":
            own = own_manifests(table_format, metadata, snapshot)
            for step in steps:
                _check_row_files_removed(table_format, metadata, snapshot, own, step)
                _check_deletes(table_format, metadata, snapshot, own, step)
    for step in steps:
        if is_serializable(metadata, step.verb):
            _check_added(table_format, metadata, since, manifests, step)


def _check_row_files_removed(
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
    """Check deletes by name, by position or by key that apply to a file of the change, whichever rows they delete."""
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
        f"cannot {step.verb} rows: snapshot {snapshot_id} has {did} {path} since the change began; "
        f"refresh and try again{way_out}",
        file=path,
        snapshot_id=snapshot_id,
    )


# ---------------------------------------------------------------- compactions
#
# A deleted row must not come back. So a compaction conflicts with every new position delete or vector on one of its
# files. An equality delete applies to the new files as well if they keep the sequence number of the start.


def _check_compaction(
    table_format: TableFormat, metadata: TableMetadata, head: Snapshot | None, step: ReplaceFiles
) -> None:
    """Raise ``Conflict`` if rows of a replaced file were deleted since. ``apply_replacement`` checks that each file is
    still there."""
    if metadata.format_version != step.format_version:
        raise Conflict(
            f"cannot compact: the table was upgraded to format version {metadata.format_version} since the compaction "
            "began; try again"
        )
    for snapshot in snapshots_since(metadata, step.start, head, "compact").values():
        if snapshot.operation == "append":
            continue
        own = own_manifests(table_format, metadata, snapshot)
        added = [m for m in own if m.content is ManifestContent.DELETES and m.added_files != 0]
        batches = table_format.entries(metadata, added, EntryColumns(metrics=(DELETE_FILE_PATH_ID,)))
        index = DeleteIndex(metadata, (entries.take(_in_the_way(entries, step)) for entries in batches))
        for planned in step.files if index else ():
            if index.applying_to(planned.data_file):
                path = planned.data_file.path
                raise Conflict(
                    f"cannot compact {path}: snapshot {snapshot.snapshot_id} has deleted rows of it since the "
                    "compaction began; try again",
                    file=path,
                    snapshot_id=snapshot.snapshot_id,
                )


def _in_the_way(entries: Entries, step: ReplaceFiles) -> npt.NDArray[np.bool_]:
    added: npt.NDArray[np.bool_] = entries.status == EntryStatus.ADDED
    if step.sequence_number is None:
        return added
    return added & (entries.content != FileContent.EQUALITY_DELETES)


# ---------------------------------------------------------------- files that a user adds must be new to the table
#
# A file that is listed twice is read twice. A file that was removed before may be deleted with the old snapshot while
# the new one still needs it (B6).


def check_new_files(
    table_format: TableFormat, metadata: TableMetadata, manifests: Sequence[ManifestFile], files: Iterable[DataFile]
) -> None:
    """Raise ``InvalidInput`` for a file that is in the table, or in one of its earlier snapshots."""
    asked = {split_location(file.path)[2]: file.path for file in files}
    data = [m for m in manifests if m.content is ManifestContent.DATA]
    for path, is_live in _listed(table_format, metadata, data):
        _check(asked, path, "it is in the table already" if is_live else "the table has removed it before")
    for snapshot in metadata.snapshots:
        if snapshot.operation in ("append", None):
            continue
        own = (m for m in table_format.manifests(metadata, snapshot) if m.added_snapshot_id == snapshot.snapshot_id)
        lost = [m for m in own if m.content is ManifestContent.DATA and m.deleted_files != 0]
        for path, is_live in _listed(table_format, metadata, lost):
            if not is_live:
                _check(asked, path, f"the table has removed it in snapshot {snapshot.snapshot_id}")


def _listed(
    table_format: TableFormat, metadata: TableMetadata, manifests: Sequence[ManifestFile]
) -> Iterator[tuple[str, bool]]:
    for entries in table_format.entries(metadata, manifests, EntryColumns(rest=False)):
        yield from zip(entries.path.to_pylist(), entries.is_live.tolist(), strict=True)


def _check(asked: dict[str, str], path: str, why: str) -> None:
    known = asked.get(split_location(path)[2])
    if known is not None and same_file(known, path):
        raise InvalidInput(f"cannot add {known}: {why}; add a copy under another name", file=known)


# ---------------------------------------------------------------- overwrites
#
# Rows that arrive inside the filter of an overwrite while it runs would be removed unread. Under serializable
# isolation, the default, that is a conflict; under snapshot isolation it is accepted. Rows that others removed inside
# the filter are a conflict under both: the overwrite may insert them again (L1).


_WAY_OUT = f", or set {isolation_property('delete')} = snapshot"


def detect_conflicts(
    table_format: TableFormat,
    metadata: TableMetadata,
    start: Snapshot | None,
    head: Snapshot | None,
    manifests: Sequence[ManifestFile],
    steps: Sequence[Step],
) -> None:
    """Raise ``Conflict`` if data that a step replaces was added or removed since ``start``, or if rows that a row
    change used have changed."""
    replacing = [step for step in steps if isinstance(step, RemoveRows | RemovePartitions) and step.replaces]
    changing = [step for step in steps if isinstance(step, ChangeRows)]
    if changing:
        since = snapshots_since(metadata, start, head, f"{changing[0].verb} rows")
        check_row_changes(table_format, metadata, since, manifests, changing)
    conflicts = FileConflicts()
    for replacement in (step for step in steps if isinstance(step, ReplaceFiles)):
        with conflicts.collecting():
            _check_compaction(table_format, metadata, head, replacement)
    conflicts.raise_if_any()
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
    """Raise ``Conflict`` if a column of a filter was removed or has another type now."""
    for step in steps:
        for term in terms(step.predicate) if isinstance(step, RemoveRows | ChangeRows) else ():
            now = metadata.schema.by_id.get(term.field.id)
            if now is None or now.type != term.field.type:
                what = "dropped" if now is None else f"changed to {now.type}"
                raise Conflict(
                    f"cannot apply the filter: column {term.field.name!r} was {what} since; refresh and try again",
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
        # The statistics of a delete file describe its own rows, not the deleted ones: only its partition can be
        # compared.
        _refuse(metadata, replacing, entries.take(entries.status == EntryStatus.ADDED), "added deletes in")


def _refuse(
    metadata: TableMetadata, replacing: Sequence[Replacement], entries: Entries, did: str, way_out: str = ""
) -> None:
    for step in replacing:
        hit = _first_hit(metadata, step, entries)
        if hit is not None:
            raise Conflict(
                f"cannot overwrite: another commit has {did} {hit} since the overwrite began; "
                f"refresh and try again{way_out}",
                file=hit,
            )


def _first_hit(metadata: TableMetadata, step: Replacement, entries: Entries) -> str | None:
    if isinstance(step, RemovePartitions):
        return next((file.path for file in entries.data_files() if partition_key(file) in step.keys), None)
    hits = np.flatnonzero(examine_entries(step.predicate, metadata.schema, entries).verdict.some)
    return entries.path[int(hits[0])].as_py() if len(hits) else None
