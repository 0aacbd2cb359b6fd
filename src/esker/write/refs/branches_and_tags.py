"""Creates, moves and removes branches and tags. No data is written or removed.

A ref without a snapshot id means the snapshot that is current in the user's ``Table`` object, even if others commit in
the meantime. Moving ``main`` back is refused if others have moved it since: their rows would be lost unread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from esker.errors import AlreadyExists, Conflict, InvalidInput, NoSuchSnapshot
from esker.model.table_names import TableName
from esker.ports.catalog import Catalog, TableState
from esker.read.resolve_snapshot import AsOf, resolve_snapshot
from esker.tree.snapshot import RefKind, Snapshot, SnapshotRef
from esker.tree.table_metadata import TableMetadata
from esker.write.commit import Proposal, commit
from esker.write.context import MetadataNames, Scratch, Tools
from esker.write.table_changes import MAIN, is_ancestor, next_ms, with_ref, with_ref_at, without_ref

if TYPE_CHECKING:
    from esker.write.build_snapshot import SnapshotChange

# The modules that write files are imported when a file is written: creating a tag must not wait for Arrow.

LONGEST_NAME = 200  # bytes


@dataclass(frozen=True, slots=True)
class MetadataChange:
    """A change of metadata alone, which can be applied to any version."""

    apply: Callable[[TableMetadata], TableMetadata]

    def propose(self, base: TableState, attempt: int) -> Proposal | None:
        """The next version; None if it would be the same."""
        changed = self.apply(base.metadata)
        return None if changed is base.metadata else Proposal(metadata=changed)

    def abandon(self) -> None:
        """Nothing was written, so nothing is deleted."""


def tag(
    catalog: Catalog,
    name: TableName,
    base: TableState,
    ref: str,
    snapshot_id: int | None = None,
    *,
    max_ref_age_ms: int | None = None,
    replace: bool = False,
) -> TableState:
    """Create a tag, which stays at one snapshot."""
    if ref == MAIN:
        raise InvalidInput("cannot make main a tag: it is the branch that the table is read from", ref=ref)
    target = _target(base.metadata, f"tag {ref!r}", snapshot_id)
    new = SnapshotRef(snapshot_id=target, kind=RefKind.TAG, max_ref_age_ms=_positive("max_ref_age_ms", max_ref_age_ms))
    return commit(catalog, name, base, _setting(ref, new, replaces=replace))


def branch(
    catalog: Catalog,
    name: TableName,
    base: TableState,
    tools: Tools,
    ref: str,
    snapshot_id: int | None = None,
    *,
    min_snapshots_to_keep: int | None = None,
    max_snapshot_age_ms: int | None = None,
    max_ref_age_ms: int | None = None,
    replace: bool = False,
) -> TableState:
    """Create a branch, which moves with every commit to it. On an empty table it begins with an empty snapshot."""
    new = SnapshotRef(
        snapshot_id=0,
        kind=RefKind.BRANCH,
        min_snapshots_to_keep=_positive("min_snapshots_to_keep", min_snapshots_to_keep),
        max_snapshot_age_ms=_positive("max_snapshot_age_ms", max_snapshot_age_ms),
        max_ref_age_ms=_positive("max_ref_age_ms", max_ref_age_ms),
    )
    if ref == MAIN and max_ref_age_ms is not None:
        raise InvalidInput("cannot let main expire: give it no max_ref_age_ms", ref=ref)
    if snapshot_id is None and base.metadata.current_snapshot_id is None and ref != MAIN:
        return commit(catalog, name, base, EmptyBranch(tools=tools, ref=ref, new=new))
    target = _target(base.metadata, f"branch {ref!r}", snapshot_id)
    return commit(catalog, name, base, _setting(ref, at_snapshot(new, target), replaces=replace))


def drop_ref(
    catalog: Catalog, name: TableName, base: TableState, ref: str, *, kind: RefKind | None = None
) -> TableState:
    """Remove a tag or branch. Its snapshots stay until they expire."""
    if ref == MAIN:
        raise InvalidInput("cannot drop main: it is the branch that the table is read from", ref=ref)

    def apply(metadata: TableMetadata) -> TableMetadata:
        found = _named(metadata, ref)
        if kind is not None and found.kind is not kind:
            raise InvalidInput(f"cannot drop {kind.value} {ref!r}: it is a {found.kind.value}", ref=ref)
        return without_ref(metadata, ref)

    return commit(catalog, name, base, MetadataChange(apply))


def rollback(
    catalog: Catalog,
    name: TableName,
    base: TableState,
    *,
    snapshot_id: int | None = None,
    as_of: AsOf | None = None,
) -> TableState:
    """Move main back to one of its earlier snapshots, by id or by a time at which it was current."""
    target = rollback_target(base.metadata, snapshot_id=snapshot_id, as_of=as_of)
    return set_current(catalog, name, base, target.snapshot_id)


def rollback_target(metadata: TableMetadata, *, snapshot_id: int | None = None, as_of: AsOf | None = None) -> Snapshot:
    """The snapshot that main would go back to. Raises ``InvalidInput`` if it is not in the history of main."""
    if (snapshot_id is None) == (as_of is None):
        raise InvalidInput("cannot roll back without a target: give one of snapshot_id and as_of")
    found = resolve_snapshot(metadata, snapshot_id=snapshot_id, as_of=as_of).snapshot
    assert found is not None  # by id or time, it exists or an error was raised
    if not is_ancestor(metadata, found.snapshot_id, metadata.current_snapshot_id):
        raise InvalidInput(
            f"cannot roll back to snapshot {found.snapshot_id}: it is not in the history of main; "
            f"create a branch at it with branch(name, snapshot_id={found.snapshot_id}), or apply its change with "
            f"cherry_pick({found.snapshot_id})",
            snapshot_id=found.snapshot_id,
        )
    return found


def set_current(catalog: Catalog, name: TableName, base: TableState, snapshot_id: int) -> TableState:
    """Set main to any snapshot of the table."""
    seen = base.metadata.current_snapshot_id

    def apply(metadata: TableMetadata) -> TableMetadata:
        _existing(metadata, snapshot_id)
        if metadata.current_snapshot_id == snapshot_id:
            return metadata
        if metadata.current_snapshot_id != seen:
            raise Conflict(
                f"cannot move {name} to snapshot {snapshot_id}: another writer has committed "
                f"{metadata.current_snapshot_id}, which would be lost; refresh and try again",
                table=str(name),
                snapshot_id=metadata.current_snapshot_id,
            )
        return with_ref_at(metadata, MAIN, snapshot_id, at_ms=next_ms(metadata))

    return commit(catalog, name, base, MetadataChange(apply))


def fast_forward(catalog: Catalog, name: TableName, base: TableState, branch: str, to: str | int) -> TableState:
    """Move a branch forward to another ref or snapshot, which must be its descendant. Raises ``InvalidInput``."""
    from esker.write.build_snapshot import head_of

    def apply(metadata: TableMetadata) -> TableMetadata:
        head = head_of(metadata, branch)
        target = _named(metadata, to).snapshot_id if isinstance(to, str) else _existing(metadata, to).snapshot_id
        if head is not None and head.snapshot_id == target:
            return metadata
        if head is not None and not is_ancestor(metadata, head.snapshot_id, target):
            raise InvalidInput(
                f"cannot fast-forward {branch!r} to {to!r}: {to!r} is no descendant, so snapshots would be lost; "
                "apply the changes with cherry_pick()",
                ref=branch,
            )
        return with_ref_at(metadata, branch, target, at_ms=next_ms(metadata))

    return commit(catalog, name, base, MetadataChange(apply))


def _setting(ref: str, new: SnapshotRef, *, replaces: bool) -> MetadataChange:
    def apply(metadata: TableMetadata) -> TableMetadata:
        check_settable(metadata, ref, new, replaces=replaces)
        _existing(metadata, new.snapshot_id)
        return with_ref(metadata, ref, _keeping(new, metadata.refs.get(ref)), at_ms=next_ms(metadata))

    return MetadataChange(apply)


def _keeping(new: SnapshotRef, old: SnapshotRef | None) -> SnapshotRef:
    """The new ref, with the retention of the replaced one if it has none itself."""
    if old is None:
        return new
    return replace(
        new,
        min_snapshots_to_keep=new.min_snapshots_to_keep or old.min_snapshots_to_keep,
        max_snapshot_age_ms=new.max_snapshot_age_ms or old.max_snapshot_age_ms,
        max_ref_age_ms=new.max_ref_age_ms or old.max_ref_age_ms,
    )


def check_settable(metadata: TableMetadata, ref: str, new: SnapshotRef, *, replaces: bool) -> None:
    """Raise an error if the name is in use, unless the new ref replaces one of its own kind."""
    check_ref_name(ref)
    old = metadata.refs.get(ref)
    if old is None and not (ref == MAIN and metadata.current_snapshot_id is not None):
        return
    kind = RefKind.BRANCH if old is None else old.kind
    if not replaces:
        raise AlreadyExists(f"cannot create {new.kind.value} {ref!r}: a {kind.value} has that name", ref=ref)
    if kind is not new.kind:
        raise InvalidInput(f"cannot make {ref!r} a {new.kind.value}: it is a {kind.value}; drop it first", ref=ref)
    if ref == MAIN and new.snapshot_id != metadata.current_snapshot_id:
        raise InvalidInput("cannot move main by branch(): use rollback(), fast_forward() or cherry_pick()", ref=ref)


def check_ref_name(ref: str) -> None:
    """Raise ``InvalidInput`` for text that cannot be the name of a tag or branch."""
    if not isinstance(ref, str) or not ref.strip() or ref != ref.strip():
        raise InvalidInput(f"{ref!r} is not a name for a ref: it is empty, or begins or ends with a space", ref=ref)
    if not ref.isprintable() or len(ref.encode(errors="replace")) > LONGEST_NAME:
        raise InvalidInput(
            f"{ref[:60]!r} is not a name for a ref: it has control characters or more than {LONGEST_NAME} bytes",
            ref=ref,
        )


def _target(metadata: TableMetadata, what: str, snapshot_id: int | None) -> int:
    if snapshot_id is not None:
        return _existing(metadata, snapshot_id).snapshot_id
    if metadata.current_snapshot_id is None:
        raise InvalidInput(f"cannot create {what}: the table has no snapshot yet")
    return metadata.current_snapshot_id


def _existing(metadata: TableMetadata, snapshot_id: int) -> Snapshot:
    found = resolve_snapshot(metadata, snapshot_id=snapshot_id).snapshot
    assert found is not None
    return found


def _named(metadata: TableMetadata, ref: str) -> SnapshotRef:
    if ref == MAIN and MAIN not in metadata.refs and metadata.current_snapshot_id is not None:
        return SnapshotRef(snapshot_id=metadata.current_snapshot_id, kind=RefKind.BRANCH)
    if ref not in metadata.refs:
        known = ", ".join(sorted({MAIN, *metadata.refs}))
        raise NoSuchSnapshot(f"no branch or tag {ref!r}; refs: {known}", ref=ref)
    return metadata.refs[ref]


def _positive(what: str, number: int | None) -> int | None:
    if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
        raise InvalidInput(f"cannot use {what} = {number!r}: it takes a whole number from 1")
    return number


def at_snapshot(ref: SnapshotRef, snapshot_id: int) -> SnapshotRef:
    """The ref at another snapshot."""
    return replace(ref, snapshot_id=snapshot_id)


# ---------------------------------------------------------------- a branch of a table without snapshots


@dataclass(slots=True, kw_only=True)
class EmptyBranch:
    """A branch of a table without snapshots: an empty snapshot is created for it, and main stays empty."""

    tools: Tools
    ref: str
    new: SnapshotRef
    _inner: SnapshotChange | None = None

    def propose(self, base: TableState, attempt: int) -> Proposal | None:
        """The empty snapshot and the branch that points to it."""
        check_settable(base.metadata, self.ref, self.new, replaces=False)
        if base.metadata.current_snapshot_id is not None:
            raise Conflict(
                f"cannot branch {self.ref!r} off the empty table: another writer has committed", ref=self.ref
            )
        if self._inner is None:
            from esker.write.build_snapshot import SnapshotChange

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
        """Delete the empty snapshot's list."""
        if self._inner is not None:
            self._inner.abandon()
