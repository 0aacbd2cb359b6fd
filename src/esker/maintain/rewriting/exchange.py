"""Commit steps of operation "replace". After a conflict, the steps are made again for the newest version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from esker.errors import Conflict, EskerError, OutcomeUnknown
from esker.ports.catalog import TableState
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata
from esker.write.build_snapshot import SnapshotChange
from esker.write.commit import commit, refreshed
from esker.write.context import Home, MetadataNames, Scratch
from esker.write.steps import Step


class MakeSteps(Protocol):
    """Makes the steps for a version of the table."""

    def __call__(self, metadata: TableMetadata) -> Sequence[Step]:
        """The steps; none if there is nothing to do."""
        ...

    def discard(self) -> None:
        """Delete what was written for the last steps: no commit has it."""
        ...


def exchange(
    home: Home, state: TableState, make: MakeSteps, *, ref: str, extra: Mapping[str, str], max_retries: int
) -> tuple[TableState, Snapshot | None]:
    """Commit the steps as one snapshot. Returns the table's version, and the snapshot; None if there were no steps.

    Raises ``Conflict`` after so many retries, with nothing changed.
    """
    for left in range(max_retries, -1, -1):
        steps = make(state.metadata)
        if not steps:
            return state, None
        change = SnapshotChange(
            tools=home.tools,
            steps=steps,
            scratch=Scratch(home.tools.storage),
            names=MetadataNames(),
            ref=ref,
            operation="replace",
            extra=extra,
        )
        try:
            state = commit(home.catalog, home.name, state, change)
        except Conflict as error:
            make.discard()
            if not left or "attempts" in error.facts:
                raise
            state = refreshed(home.catalog, home.name, state)
            continue
        except EskerError as error:
            if not isinstance(error, OutcomeUnknown):
                make.discard()
            raise
        return state, change.snapshot
    raise AssertionError("every attempt returns or raises")
