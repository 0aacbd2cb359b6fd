"""The methods of a table that name, move and copy its snapshots: branches, tags, rollback, cherry-pick."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from esker.ports.catalog import TableState

if TYPE_CHECKING:
    from esker.read.resolve_snapshot import AsOf
    from esker.tree.snapshot import Snapshot
    from esker.write.context import Home

MAIN = "main"


class RefVerbs(ABC):
    """Branches, tags and the current snapshot of a table. ``Table`` inherits these methods."""

    _state: TableState

    @abstractmethod
    def _at_home(self) -> Home:
        """The catalog and the tools with which the table is changed. Raises ``InvalidInput`` if it is read-only."""

    @abstractmethod
    def _move_to(self, state: TableState) -> None:
        """Let this object show a new version of the table."""

    def tag(
        self, name: str, snapshot_id: int | None = None, *, max_ref_age_ms: int | None = None, replace: bool = False
    ) -> None:
        """Give a snapshot a name, by default the current one: ``orders.tag("end-of-may")``. Raises ``AlreadyExists`` if
        the name is in use, unless ``replace`` is set."""
        from esker.write.refs.branches_and_tags import tag

        home = self._at_home()
        base = (home.catalog, home.name, self._state)
        self._move_to(tag(*base, name, snapshot_id, max_ref_age_ms=max_ref_age_ms, replace=replace))

    def branch(
        self,
        name: str,
        snapshot_id: int | None = None,
        *,
        min_snapshots_to_keep: int | None = None,
        max_snapshot_age_ms: int | None = None,
        max_ref_age_ms: int | None = None,
        replace: bool = False,
    ) -> None:
        """Create a branch at a snapshot, by default the current one. Write to it with ``ref=name``. Raises
        ``AlreadyExists`` if the name is in use, unless ``replace`` is set."""
        from esker.write.refs.branches_and_tags import branch

        home = self._at_home()
        self._move_to(
            branch(
                home.catalog,
                home.name,
                self._state,
                home.tools,
                name,
                snapshot_id,
                min_snapshots_to_keep=min_snapshots_to_keep,
                max_snapshot_age_ms=max_snapshot_age_ms,
                max_ref_age_ms=max_ref_age_ms,
                replace=replace,
            )
        )

    def drop_ref(self, name: str) -> None:
        """Remove a branch or tag. Its snapshots stay until they expire. An unknown name raises ``NoSuchSnapshot``."""
        from esker.write.refs.branches_and_tags import drop_ref

        home = self._at_home()
        self._move_to(drop_ref(home.catalog, home.name, self._state, name))

    def rollback(self, snapshot_id: int | None = None, *, as_of: AsOf | None = None) -> None:
        """Move ``main`` back to one of its earlier snapshots, by id or by a time at which it was current."""
        from esker.write.refs.branches_and_tags import rollback

        home = self._at_home()
        self._move_to(rollback(home.catalog, home.name, self._state, snapshot_id=snapshot_id, as_of=as_of))

    def set_current_snapshot(self, snapshot_id: int) -> None:
        """Set ``main`` to any snapshot of the table, also to one that is not in the history of ``main``. Raises
        ``NoSuchSnapshot`` for an unknown id, and ``Conflict`` if another writer has moved ``main``."""
        from esker.write.refs.branches_and_tags import set_current

        home = self._at_home()
        self._move_to(set_current(home.catalog, home.name, self._state, snapshot_id))

    def fast_forward(self, branch: str, to: str | int) -> None:
        """Move a branch forward to another ref or snapshot, which must be a descendant of the branch."""
        from esker.write.refs.branches_and_tags import fast_forward

        home = self._at_home()
        self._move_to(fast_forward(home.catalog, home.name, self._state, branch, to))

    def cherry_pick(self, snapshot_id: int, *, ref: str = MAIN) -> Snapshot | None:
        """Apply the change of a snapshot, for example of a staged one, to a branch. Returns the newest snapshot of the
        branch."""
        from esker.write.refs.cherry_pick import cherry_pick

        home = self._at_home()
        self._move_to(cherry_pick(home.catalog, home.name, self._state, home.tools, snapshot_id, ref=ref))
        metadata = self._state.metadata
        return metadata.current_snapshot if ref == MAIN else metadata.snapshot(metadata.refs[ref].snapshot_id)
