"""Applies the change of another snapshot: a staged write that passed its audit, or a commit of another branch."""

from __future__ import annotations

from dataclasses import dataclass, replace

from esker.errors import Conflict, InvalidInput, NoSuchSnapshot
from esker.model.table_names import TableName
from esker.ports.catalog import Catalog, TableState
from esker.ports.table_format import EntryColumns
from esker.read.resolve_snapshot import resolve_snapshot
from esker.tree.data_file import DataFile
from esker.tree.manifest import EntryStatus
from esker.tree.manifest_list import ManifestContent
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata
from esker.write.build_snapshot import SnapshotChange, head_of
from esker.write.commit import Proposal, commit
from esker.write.context import MetadataNames, Scratch, Tools
from esker.write.steps import AddFiles
from esker.write.table_changes import MAIN, ancestors, next_ms, with_ref_at

WAP_ID = "wap.id"
PUBLISHED_WAP_ID = "published-wap-id"
SOURCE = "source-snapshot-id"


def cherry_pick(
    catalog: Catalog, name: TableName, base: TableState, tools: Tools, snapshot_id: int, *, ref: str = MAIN
) -> TableState:
    """Apply a snapshot's change to a branch: by moving the branch if the snapshot follows its head, else by adding its
    files."""
    return commit(catalog, name, base, CherryPick(tools=tools, snapshot_id=snapshot_id, ref=ref))


def publish(catalog: Catalog, name: TableName, base: TableState, tools: Tools, wap_id: str) -> TableState:
    """Cherry-pick the snapshot that was staged with a ``wap.id``. Raises ``NoSuchSnapshot``."""
    for snapshot in reversed(base.metadata.snapshots):
        if snapshot.summary.get(WAP_ID) == wap_id:
            return cherry_pick(catalog, name, base, tools, snapshot.snapshot_id)
    raise NoSuchSnapshot(f"no snapshot was staged with wap.id {wap_id!r}", wap_id=wap_id)


@dataclass(slots=True, kw_only=True)
class CherryPick:
    """The cherry-pick as a change; ``snapshot`` is the branch's new head."""

    tools: Tools
    snapshot_id: int
    ref: str = MAIN
    snapshot: Snapshot | None = None
    _again: SnapshotChange | None = None

    def propose(self, base: TableState, attempt: int) -> Proposal | None:
        """The branch moved to the snapshot, or a new snapshot that adds the same files."""
        metadata = base.metadata
        picked = resolve_snapshot(metadata, snapshot_id=self.snapshot_id).snapshot
        assert picked is not None
        head = head_of(metadata, self.ref)
        _check_not_picked(metadata, head, picked, self.ref)
        if picked.parent_snapshot_id == (None if head is None else head.snapshot_id):
            self.snapshot = picked
            moved = with_ref_at(metadata, self.ref, picked.snapshot_id, at_ms=next_ms(metadata))
            return Proposal(metadata=moved)
        if picked.operation != "append":
            raise Conflict(
                f"cannot cherry-pick snapshot {picked.snapshot_id}: {self.ref} has moved since, and what a snapshot "
                f"of operation {picked.operation!r} removed cannot be removed again; make the change again",
                snapshot_id=picked.snapshot_id,
            )
        added = _added_by(self.tools, metadata, picked)
        _check_not_there(self.tools, metadata, head, picked, self.ref, added)
        if self._again is None:
            self._again = self._appending(picked, added)
        proposal = self._again.propose(base, attempt)
        self.snapshot = self._again.snapshot
        return proposal

    def abandon(self) -> None:
        """Delete what the pick wrote: manifests and a list, never the picked data."""
        if self._again is not None:
            self._again.abandon()

    def _appending(self, picked: Snapshot, added: tuple[DataFile, ...]) -> SnapshotChange:
        extra = {SOURCE: str(picked.snapshot_id)}
        if WAP_ID in picked.summary:
            extra[PUBLISHED_WAP_ID] = picked.summary[WAP_ID]
        return SnapshotChange(
            tools=self.tools,
            steps=(AddFiles(added),),
            scratch=Scratch(self.tools.storage),
            names=MetadataNames(),
            ref=self.ref,
            operation="append",
            extra=extra,
        )


def _check_not_picked(metadata: TableMetadata, head: Snapshot | None, picked: Snapshot, ref: str) -> None:
    """Raise ``InvalidInput`` if the branch already has the change: its rows would be in the table twice."""
    wap_id = picked.summary.get(WAP_ID)
    for past in ancestors(metadata, None if head is None else head.snapshot_id):
        if past.snapshot_id == picked.snapshot_id:
            why = f"it is in the history of {ref}"
        elif past.summary.get(SOURCE) == str(picked.snapshot_id):
            why = f"snapshot {past.snapshot_id} has picked it already"
        elif wap_id is not None and wap_id in (past.summary.get(PUBLISHED_WAP_ID), past.summary.get(WAP_ID)):
            why = f"snapshot {past.snapshot_id} has published wap.id {wap_id!r} already"
        else:
            continue
        raise InvalidInput(
            f"cannot cherry-pick snapshot {picked.snapshot_id}: {why}", snapshot_id=picked.snapshot_id, ref=ref
        )


def _check_not_there(
    tools: Tools,
    metadata: TableMetadata,
    head: Snapshot | None,
    picked: Snapshot,
    ref: str,
    added: tuple[DataFile, ...],
) -> None:
    """Raise ``InvalidInput`` if the branch has one of the files. Its history does not say so if snapshots expired."""
    manifests = () if head is None else tools.format.manifests(metadata, head)
    data = [m for m in manifests if m.content is ManifestContent.DATA and m.may_hold_live_files]
    paths = {file.path for file in added}
    for entries in tools.format.entries(metadata, data, EntryColumns(rest=False)):
        there = paths.intersection(entries.take(entries.is_live).path.to_pylist())
        if there:
            raise InvalidInput(
                f"cannot cherry-pick snapshot {picked.snapshot_id}: {ref} has its file {min(there)} already",
                snapshot_id=picked.snapshot_id,
                ref=ref,
                file=min(there),
            )


def _added_by(tools: Tools, metadata: TableMetadata, picked: Snapshot) -> tuple[DataFile, ...]:
    """The data files a snapshot added, as new files: the commit assigns their sequence numbers and row ids."""
    manifests = [m for m in tools.format.manifests(metadata, picked) if m.added_snapshot_id == picked.snapshot_id]
    if any(m.content is ManifestContent.DELETES and m.added_files != 0 for m in manifests):
        raise Conflict(
            f"cannot cherry-pick snapshot {picked.snapshot_id}: it adds deletes, which are valid only for its own base",
            snapshot_id=picked.snapshot_id,
        )
    data = [m for m in manifests if m.content is ManifestContent.DATA]
    found: list[DataFile] = []
    for entries in tools.format.entries(metadata, data, EntryColumns(full_metrics=True)):
        added = entries.take(entries.status == EntryStatus.ADDED)
        found += (file for file in added.data_files() if file.snapshot_id == picked.snapshot_id)
    return tuple(
        replace(file, sequence_number=0, file_sequence_number=None, snapshot_id=None, first_row_id=None)
        for file in found
    )
