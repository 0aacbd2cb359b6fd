"""The last step up: one compare-and-swap, tried again on a fresh base for as long as the table allows.

A lost race rebuilds from intent: data files and their manifests are kept, the list and the metadata are made
anew. When nobody answers, every file is kept and the catalog is asked whether the commit is there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from esker.errors import Conflict, EskerError, NotFound, OutcomeUnknown
from esker.model.naming import TableName
from esker.ports.catalog import Accepted, Catalog, Rejected, TableState, Unanswered
from esker.tree.table_metadata import TableMetadata
from esker.write.retry import RetryPolicy

log = logging.getLogger("esker.commit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The next version of a table, and how to take back what only this attempt wrote."""

    metadata: TableMetadata
    discard: Callable[[], None] = lambda: None


class Change(Protocol):
    """An intent that can be proposed on any base."""

    def propose(self, base: TableState, attempt: int) -> Proposal | None:
        """The next version, or None where nothing is left to do. Touches no file that exists."""
        ...

    def abandon(self) -> None:
        """Remove what was written: nothing of it is visible, nor ever will be."""
        ...


def commit(catalog: Catalog, name: TableName, known: TableState, change: Change) -> TableState:
    """Make the change the table's newest version; ``Conflict`` or ``OutcomeUnknown`` where that cannot be had."""
    why = "no attempt was allowed"
    try:
        policy = RetryPolicy.of(known.metadata.properties)
        for attempt in policy.attempts():
            base = _refreshed(catalog, name, known)
            proposal = change.propose(base, attempt)
            if proposal is None:
                change.abandon()
                return base
            match catalog.swap(name, base, proposal.metadata):
                case Accepted(state):
                    return state
                case Rejected(reason):
                    why = reason
                case Unanswered() as unanswered:
                    state_or_none = _reconcile(catalog, name, base, proposal, unanswered, policy)
                    if state_or_none is not None:
                        return state_or_none
                    why = "the catalog did not answer, and another writer's commit followed"
            log.info("commit to %s lost the race (attempt %d): %s", name, attempt, why)
            proposal.discard()
    except OutcomeUnknown:
        raise
    except BaseException:
        change.abandon()
        raise
    change.abandon()
    raise Conflict(
        f"cannot commit to {name}: other writers won {attempt} times in a row ({why}); "
        "nothing was changed; try again, or raise commit.retry.num-retries",
        table=str(name),
        attempts=attempt,
    )


def _refreshed(catalog: Catalog, name: TableName, known: TableState) -> TableState:
    """The newest version of the same table: one dropped and made again under the name is another."""
    base = catalog.load(name, known)
    if known.metadata.uuid is not None and base.metadata.uuid != known.metadata.uuid:
        raise Conflict(
            f"cannot commit to {name}: the table was dropped and another made under its name; open it again",
            table=str(name),
        )
    return base


def _reconcile(
    catalog: Catalog,
    name: TableName,
    base: TableState,
    proposal: Proposal,
    unanswered: Unanswered,
    policy: RetryPolicy,
) -> TableState | None:
    """Whether an unanswered swap happened: the state if it did, None if it cannot have; else ``OutcomeUnknown``.

    A swap compares with ``base``. Once the pointer is elsewhere and our version is not in the table's past, the
    comparison can never succeed any more.
    """
    for check in range(policy.status_checks + 1):
        if check:
            time.sleep(policy.status_wait_ms * 2 ** (check - 1) / 1000)
        try:
            now = catalog.load(name)
        except NotFound:
            break
        except EskerError as error:
            log.warning("cannot ask %s about an unanswered commit: %s", name, error)
            continue
        match _contains(now, base, proposal.metadata, unanswered.metadata_location):
            case True:
                return now
            case False if now.metadata_location != base.metadata_location:
                return None
    raise OutcomeUnknown(
        f"cannot tell whether the commit to {name} went through: {unanswered.why}; "
        "every file was kept; look at the table's newest snapshots before you try again",
        table=str(name),
        snapshot_id=proposal.metadata.current_snapshot_id,
        metadata_location=unanswered.metadata_location,
    )


def _contains(now: TableState, base: TableState, ours: TableMetadata, location: str | None) -> bool | None:
    """Whether our version is current or in the past; None where nothing of ours could be recognised."""
    if location is not None:
        return now.metadata_location == location or any(
            entry.metadata_file == location for entry in now.metadata.metadata_log
        )
    if len(ours.snapshots) <= len(base.metadata.snapshots):
        return None
    return now.metadata.snapshot(ours.snapshots[-1].snapshot_id) is not None
