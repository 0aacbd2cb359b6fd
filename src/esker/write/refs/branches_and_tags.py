"""Create, move and remove branches and tags; a branch may start empty."""

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

# ---------------------------------------------------------------- versions
#
# The verbs of versions: tags and branches, and moving a branch back or forward. No data is written or removed.
#
# A ref without a snapshot means the one that is current in the table as the user holds it, whatever others commit
# meanwhile. Moving ``main`` back is refused once others have moved it on: their rows would vanish unread.


# Whatever writes files is loaded where one is written: naming a snapshot must not wait for Arrow.

LONGEST_NAME = 200  # bytes


@dataclass(frozen=True, slots=True)
class MetadataChange:
    """A change of metadata alone, applied to whatever version is newest."""

    apply: Callable[[TableMetadata], TableMetadata]

    def propose(self, base: TableState, attempt: int) -> Proposal | None:
        """The next version; None where it would be the same."""
        changed = self.apply(base.metadata)
        return None if changed is base.metadata else Proposal(metadata=changed)

    def abandon(self) -> None:
        """Nothing was written."""


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
    """A name that stays with one snapshot."""
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
    """A name that moves on with every commit to it. On an empty table it begins with an empty snapshot."""
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
    """Forget a tag or branch; its snapshots stay until they expire."""
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
    """Take main back to a snapshot it came from, by id or by the time it was current."""
    target = rollback_target(base.metadata, snapshot_id=snapshot_id, as_of=as_of)
    return set_current(catalog, name, base, target.snapshot_id)


def rollback_target(metadata: TableMetadata, *, snapshot_id: int | None = None, as_of: AsOf | None = None) -> Snapshot:
    """The snapshot that main would go back to; refused where main did not come from it."""
    if (snapshot_id is None) == (as_of is None):
        raise InvalidInput("cannot tell where to roll back to: give one of snapshot_id and as_of")
    found = resolve_snapshot(metadata, snapshot_id=snapshot_id, as_of=as_of).snapshot
    assert found is not None  # asked for by id or time, it is there or was refused
    if not is_ancestor(metadata, found.snapshot_id, metadata.current_snapshot_id):
        raise InvalidInput(
            f"cannot roll back to snapshot {found.snapshot_id}: main did not come from it; "
            f"make a branch of it with branch(name, snapshot_id={found.snapshot_id}), or take over what it added with "
            f"cherry_pick({found.snapshot_id})",
            snapshot_id=found.snapshot_id,
        )
    return found


def set_current(catalog: Catalog, name: TableName, base: TableState, snapshot_id: int) -> TableState:
    """Put main at any snapshot of the table, whether it came from it or not."""
    seen = base.metadata.current_snapshot_id

    def apply(metadata: TableMetadata) -> TableMetadata:
        _existing(metadata, snapshot_id)
        if metadata.current_snapshot_id == snapshot_id:
            return metadata
        if metadata.current_snapshot_id != seen:
            raise Conflict(
                f"cannot move {name} to snapshot {snapshot_id}: another writer has committed "
                f"{metadata.current_snapshot_id}, which would be lost; refresh and look again",
                table=str(name),
                snapshot_id=metadata.current_snapshot_id,
            )
        return with_ref_at(metadata, MAIN, snapshot_id, at_ms=next_ms(metadata))

    return commit(catalog, name, base, MetadataChange(apply))


def fast_forward(catalog: Catalog, name: TableName, base: TableState, branch: str, to: str | int) -> TableState:
    """Move a branch on to where another ref or snapshot is, which must have come from it."""
    from esker.write.build_snapshot import head_of

    def apply(metadata: TableMetadata) -> TableMetadata:
        head = head_of(metadata, branch)
        target = _named(metadata, to).snapshot_id if isinstance(to, str) else _existing(metadata, to).snapshot_id
        if head is not None and head.snapshot_id == target:
            return metadata
        if head is not None and not is_ancestor(metadata, head.snapshot_id, target):
            raise InvalidInput(
                f"cannot fast-forward {branch!r} to {to!r}: {to!r} did not come from it, so snapshots would be lost; "
                "take over what was added with cherry_pick()",
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
    """The new ref, with the retention of the one that it replaces where it names none."""
    if old is None:
        return new
    return replace(
        new,
        min_snapshots_to_keep=new.min_snapshots_to_keep or old.min_snapshots_to_keep,
        max_snapshot_age_ms=new.max_snapshot_age_ms or old.max_snapshot_age_ms,
        max_ref_age_ms=new.max_ref_age_ms or old.max_ref_age_ms,
    )


def check_settable(metadata: TableMetadata, ref: str, new: SnapshotRef, *, replaces: bool) -> None:
    """Refuse a ref whose name is taken, unless it replaces one of its own kind."""
    check_ref_name(ref)
    old = metadata.refs.get(ref)
    if old is None and not (ref == MAIN and metadata.current_snapshot_id is not None):
        return
    kind = RefKind.BRANCH if old is None else old.kind
    if not replaces:
        raise AlreadyExists(f"cannot make {new.kind.value} {ref!r}: there is a {kind.value} of that name", ref=ref)
    if kind is not new.kind:
        raise InvalidInput(f"cannot make {ref!r} a {new.kind.value}: it is a {kind.value}; drop it first", ref=ref)
    if ref == MAIN and new.snapshot_id != metadata.current_snapshot_id:
        raise InvalidInput("cannot move main by branch(): use rollback(), fast_forward() or cherry_pick()", ref=ref)


def check_ref_name(ref: str) -> None:
    """Refuse what no tag or branch can be called."""
    if not isinstance(ref, str) or not ref.strip() or ref != ref.strip():
        raise InvalidInput(f"{ref!r} is no name for a ref: it is empty or begins or ends with a blank", ref=ref)
    if not ref.isprintable() or len(ref.encode(errors="replace")) > LONGEST_NAME:
        raise InvalidInput(
            f"{ref[:60]!r} is no name for a ref: control characters and over {LONGEST_NAME} bytes are out", ref=ref
        )


def _target(metadata: TableMetadata, what: str, snapshot_id: int | None) -> int:
    if snapshot_id is not None:
        return _existing(metadata, snapshot_id).snapshot_id
    if metadata.current_snapshot_id is None:
        raise InvalidInput(f"cannot make {what}: the table has no snapshot yet")
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
    """The ref, pointing there."""
    return replace(ref, snapshot_id=snapshot_id)


# ---------------------------------------------------------------- A branch of a table that has no snapshot yet


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
        """Take back the empty snapshot's list."""
        if self._inner is not None:
            self._inner.abandon()
