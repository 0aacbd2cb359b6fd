"""Steps three to five of a commit: the manifest list, the snapshot, the next version of the metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from esker.errors import InvalidInput, NoSuchSnapshot
from esker.ports.catalog import TableState
from esker.ports.storage import NewNames, join_names, names_in
from esker.ports.table_format import NewSnapshot
from esker.tree.data_file import DataFile
from esker.tree.manifest_list import ManifestFile
from esker.tree.snapshot import RefKind, Snapshot
from esker.tree.table_metadata import TableMetadata
from esker.version import VERSION
from esker.write.build_manifests import ManifestBuilder, MergePolicy
from esker.write.commit import Proposal
from esker.write.context import MetadataNames, Scratch, Tools, new_snapshot_id
from esker.write.definition.draft import with_mapping
from esker.write.detect_conflicts import check_columns, check_new_files, detect_conflicts
from esker.write.exactly_once import Batch, is_applied, with_batch
from esker.write.remove import apply_steps
from esker.write.rows.rewrite_file import Rewriter
from esker.write.rows.settle_deletes import DeleteSettler
from esker.write.steps import AddFiles, Outcome, Step
from esker.write.summary import build_summary, row_counts
from esker.write.table_changes import MAIN, next_ms, with_snapshot


@dataclass(frozen=True, slots=True)
class _Made:
    """What one attempt wrote: manifests created, kept and replaced, and the row ids it assigned (v3)."""

    outcome: Outcome
    new: tuple[ManifestFile, ...]
    kept: int
    replaced: int
    row_ids: int

    @property
    def files(self) -> set[str]:
        """The files of this operation that the snapshot needs."""
        return {manifest.path for manifest in self.new} | {file.path for file in self.outcome.added}


@dataclass(slots=True, kw_only=True)
class SnapshotChange:
    """Steps that become one snapshot at the head of a branch. With ``stage``, no branch is moved."""

    tools: Tools
    steps: Sequence[Step]
    scratch: Scratch
    names: MetadataNames
    ref: str = MAIN
    start: Snapshot | None = None  # the branch's head when the change began
    stage: bool = False
    # None: derived from what was added and removed; if that is nothing, there is no commit
    operation: str | None = None
    extra: Mapping[str, str] = field(default_factory=dict)
    batch: Batch | None = None  # is applied once, even if it is committed again
    redefine: Callable[[TableMetadata], TableMetadata] | None = None  # adds the columns that come with the rows
    new_names: NewNames = field(default_factory=NewNames)  # of files that were written before the commit
    snapshot: Snapshot | None = None  # the last one that was proposed
    _snapshot_id: int | None = None
    _builder: ManifestBuilder | None = None
    rewriter: Rewriter | None = None  # of the transaction, which may have used it already
    _settler: DeleteSettler | None = None
    _proposals: int = 0

    @property
    def is_append(self) -> bool:
        """Whether it adds files to a branch and does nothing else."""
        return bool(self.steps) and self._only_adds and self.redefine is None and not self.stage

    @property
    def _only_adds(self) -> bool:
        return all(isinstance(step, AddFiles) and not step.are_given for step in self.steps)

    @property
    def _added(self) -> list[DataFile]:
        return [file for step in self.steps if isinstance(step, AddFiles) for file in step.files]

    def write_ahead(self, base: TableState) -> None:
        """Write the manifests of an append while other threads commit. A later proposal uses them."""
        metadata = base.metadata
        if MergePolicy.of(metadata.properties) is None:
            new = self._identity(metadata, head_of(metadata, self.ref))
            with names_in(self.new_names):
                self._get_builder().build(metadata, new, (), self._added, {})

    def propose(self, base: TableState, attempt: int) -> Proposal | None:
        """Return the snapshot on this base. Data and manifests of earlier attempts are reused."""
        self._proposals += 1
        join_names(self.new_names)
        metadata = base.metadata if self.redefine is None else self.redefine(base.metadata)
        parent = head_of(metadata, self.ref)
        if self._is_applied(metadata, parent):
            self.snapshot = None
            return None
        new = self._identity(metadata, parent)
        # Numbered by this change: it may have been proposed before as part of a group.
        location = self.names.manifest_list(metadata, new.snapshot_id, self._proposals)
        made = None
        if self.steps or self.operation is not None:
            made = self._append(metadata, parent, new, location) or self._rebuild(metadata, parent, new, location)
        if made is None:
            self.snapshot = None
            return None if metadata is base.metadata else self._without_rows(metadata)
        self.snapshot = self._snapshot(metadata, parent, new, made, location)
        grown = with_snapshot(self._named(metadata), self.snapshot, ref=None if self.stage else self.ref)
        return Proposal(
            metadata=grown if self.batch is None else with_batch(grown, self.ref, self.batch),
            discard=lambda: self.scratch.discard([location]),
            settle=lambda: self.scratch.discard(self.scratch.locations - made.files - {location}),
        )

    def _without_rows(self, metadata: TableMetadata) -> Proposal:
        """Propose new columns alone, without a snapshot."""
        return Proposal(metadata=metadata, settle=self.scratch.discard)

    def _append(
        self, metadata: TableMetadata, parent: Snapshot | None, new: NewSnapshot, location: str
    ) -> _Made | None:
        """Append without reading: if files are only added, the parent's manifest list is copied."""
        if parent is None or not self._only_adds or MergePolicy.of(metadata.properties) is not None:
            return None
        added = self._added
        built = self._get_builder().build(metadata, new, (), added, {})
        with self.scratch.writing(location):
            extended = self.tools.manifests.extend_manifest_list(metadata, location, new, parent=parent, new=built.new)
        if extended is None:
            return None
        return _Made(Outcome(added=added), built.new, extended.carried, 0, extended.row_ids)

    def _rebuild(
        self, metadata: TableMetadata, parent: Snapshot | None, new: NewSnapshot, location: str
    ) -> _Made | None:
        check_columns(metadata, self.steps)
        manifests = () if parent is None else self.tools.format.manifests(metadata, parent)
        if parent != self.start:
            detect_conflicts(self.tools.format, metadata, self.start, parent, manifests, self.steps)
        given = [file for step in self.steps if isinstance(step, AddFiles) and step.are_given for file in step.files]
        if given:
            check_new_files(self.tools.format, metadata, manifests, given)
        outcome = apply_steps(self.tools, self._get_rewriter(), metadata, manifests, self.steps)
        self._get_settler().settle(metadata, manifests, outcome)
        if not outcome.added and not outcome.removed_files and self.operation is None:
            return None
        built = self._get_builder().build(
            metadata, new, manifests, outcome.added, outcome.removed, outcome.numbers, outcome.clustered
        )
        with self.scratch.writing(location):
            row_ids = self.tools.manifests.write_manifest_list(
                metadata, location, new, new=built.new, carried=built.carried
            )
        return _Made(outcome, built.new, len(built.carried), built.replaced, row_ids)

    def _named(self, metadata: TableMetadata) -> TableMetadata:
        """The table with the name mapping that new files without field ids need."""
        for step in self.steps:
            if isinstance(step, AddFiles) and step.name_mapping is not None:
                metadata = with_mapping(metadata, step.name_mapping)
        return metadata

    def abandon(self) -> None:
        """Delete every file of this operation: none is visible."""
        self.scratch.discard()

    def _is_applied(self, metadata: TableMetadata, parent: Snapshot | None) -> bool:
        head = None if parent is None else parent.snapshot_id
        return self.batch is not None and is_applied(metadata, self.ref, head, self.batch)

    def _identity(self, metadata: TableMetadata, parent: Snapshot | None) -> NewSnapshot:
        """The snapshot's id stays the same in all attempts, because manifests contain it; its numbers belong to the
        attempt."""
        if self._snapshot_id is None:
            self._snapshot_id = new_snapshot_id(metadata)
        return NewSnapshot(
            snapshot_id=self._snapshot_id,
            parent_snapshot_id=None if parent is None else parent.snapshot_id,
            sequence_number=metadata.last_sequence_number + 1 if metadata.format_version > 1 else 0,
            first_row_id=metadata.next_row_id or 0 if metadata.format_version > 2 else None,
        )

    def _snapshot(
        self,
        metadata: TableMetadata,
        parent: Snapshot | None,
        new: NewSnapshot,
        made: _Made,
        manifest_list: str,
    ) -> Snapshot:
        counts = {
            "manifests-created": len(made.new),
            "manifests-kept": made.kept,
            "manifests-replaced": made.replaced,
        }
        return Snapshot(
            snapshot_id=new.snapshot_id,
            parent_snapshot_id=new.parent_snapshot_id,
            sequence_number=new.sequence_number,
            timestamp_ms=next_ms(metadata),
            manifest_list=manifest_list,
            schema_id=metadata.current_schema_id,
            first_row_id=new.first_row_id,
            added_rows=made.row_ids if metadata.format_version > 2 else None,
            summary=build_summary(
                self.operation or made.outcome.operation,
                parent=parent,
                added=made.outcome.added,
                removed=made.outcome.removed_files,
                manifests=counts,
                extra={
                    "engine-name": "esker",
                    "engine-version": VERSION,
                    **row_counts(made.outcome),
                    **self.extra,
                    **({} if self.batch is None else self.batch.summary),
                },
            ),
        )

    def _get_builder(self) -> ManifestBuilder:
        if self._builder is None:
            self._builder = ManifestBuilder(self.tools, self.scratch, self.names)
        return self._builder

    def _get_rewriter(self) -> Rewriter:
        if self.rewriter is None:
            self.rewriter = Rewriter(self.tools, self.scratch, self.names.operation_id)
        return self.rewriter

    def _get_settler(self) -> DeleteSettler:
        if self._settler is None:
            self._settler = DeleteSettler(self.tools, self.scratch, self.names.operation_id)
        return self._settler


def head_of(metadata: TableMetadata, ref: str) -> Snapshot | None:
    """The snapshot that a branch points to; None for main of an empty table. Raises ``NoSuchSnapshot`` or
    ``InvalidInput``."""
    if ref == MAIN:
        return metadata.current_snapshot
    named = metadata.refs.get(ref)
    if named is None:
        known = ", ".join(sorted({MAIN, *metadata.refs}))
        raise NoSuchSnapshot(
            f"cannot write to branch {ref!r}: it does not exist; create it with branch({ref!r}); refs: {known}", ref=ref
        )
    if named.kind is RefKind.TAG:
        raise InvalidInput(f"cannot write to {ref!r}: it is a tag, and a tag does not move; write to a branch", ref=ref)
    return metadata.snapshot(named.snapshot_id)
