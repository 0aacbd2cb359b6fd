"""A branch of a table that has no snapshot yet."""

from __future__ import annotations

from dataclasses import dataclass

from esker.errors import Conflict
from esker.ports.catalog import TableState
from esker.tree.snapshot import SnapshotRef
from esker.write.build_snapshot import SnapshotChange
from esker.write.commit import Proposal
from esker.write.layout import MetadataNames
from esker.write.table_changes import with_ref
from esker.write.versions import at_snapshot, check_settable
from esker.write.workbench import Scratch, Tools


@dataclass(slots=True, kw_only=True)
class EmptyBranch:
    """A branch of a table that has no snapshot yet: one without files is made for it, and main stays empty."""

    tools: Tools
    ref: str
    new: SnapshotRef
    _inner: SnapshotChange | None = None

    def propose(self, base: TableState, attempt: int) -> Proposal | None:
        """The empty snapshot and the branch that points at it."""
        check_settable(base.metadata, self.ref, self.new, replaces=False)
        if base.metadata.current_snapshot_id is not None:
            raise Conflict(
                f"cannot branch {self.ref!r} off the empty table: another writer has committed", ref=self.ref
            )
        if self._inner is None:
            scratch = Scratch(self.tools.storage)
            self._inner = SnapshotChange(
                tools=self.tools, steps=(), scratch=scratch, names=MetadataNames(), stage=True, operation="append"
            )
        proposal = self._inner.propose(base, attempt)
        made = self._inner.snapshot
        if proposal is None or made is None:
            raise AssertionError("an empty append is a snapshot")
        metadata = with_ref(
            proposal.metadata, self.ref, at_snapshot(self.new, made.snapshot_id), at_ms=made.timestamp_ms
        )
        return Proposal(metadata=metadata, discard=proposal.discard)

    def abandon(self) -> None:
        """Take back the empty snapshot's list."""
        if self._inner is not None:
            self._inner.abandon()
