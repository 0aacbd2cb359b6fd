"""The last step up: one compare-and-swap, tried again on a fresh base for as long as the table's properties allow.

A lost race rebuilds from intent: data files and their manifests are kept, the list and the metadata are built again.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from esker.errors import Conflict, EskerError, NotFound, OutcomeUnknown
from esker.model.table_names import TableName
from esker.ports.catalog import Accepted, Catalog, Rejected, TableState, Unanswered
from esker.tree.table_metadata import TableMetadata
from esker.write.properties import whole_number

# ---------------------------------------------------------------- retry
#
# How long a commit keeps trying, as the table's ``commit.retry.*`` properties say.


DEFAULT_RETRIES = 16
"""More than Iceberg's 4: a retry here rewrites a list and a metadata file, no data, so patience is cheap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Exponential back-off with full jitter, bounded in number and in time."""

    retries: int = DEFAULT_RETRIES
    min_wait_ms: int = 20
    max_wait_ms: int = 60_000
    total_ms: int = 1_800_000
    checks: int = 3
    min_check_wait_ms: int = 1_000
    max_check_wait_ms: int = 60_000
    total_check_ms: int = 1_800_000

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> RetryPolicy:
        """The policy that a table's properties ask for."""
        return cls(
            retries=whole_number(properties, "commit.retry.num-retries", DEFAULT_RETRIES),
            min_wait_ms=whole_number(properties, "commit.retry.min-wait-ms", 20),
            max_wait_ms=whole_number(properties, "commit.retry.max-wait-ms", 60_000),
            total_ms=whole_number(properties, "commit.retry.total-timeout-ms", 1_800_000),
            checks=whole_number(properties, "commit.status-check.num-retries", 3),
            min_check_wait_ms=whole_number(properties, "commit.status-check.min-wait-ms", 1_000),
            max_check_wait_ms=whole_number(properties, "commit.status-check.max-wait-ms", 60_000),
            total_check_ms=whole_number(properties, "commit.status-check.total-timeout-ms", 1_800_000),
        )

    def attempts(self) -> Iterator[int]:
        """Numbers of attempts from 1, with a wait before each but the first, until the policy is spent."""
        waits = (
            random.uniform(0, max(min(self.max_wait_ms, self.min_wait_ms * 2 ** min(retry, 20)), 1))
            for retry in range(self.retries)
        )
        return _numbered(waits, self.total_ms)

    def status_checks(self) -> Iterator[int]:
        """The same for asking whether a commit that nobody answered is there: once at once, then ever later."""
        waits = (
            min(self.max_check_wait_ms, self.min_check_wait_ms * 2 ** min(check, 20)) for check in range(self.checks)
        )
        return _numbered(waits, self.total_check_ms)


def _numbered(waits_ms: Iterable[float], total_ms: int) -> Iterator[int]:
    began = time.monotonic()
    yield 1
    for number, wait_ms in enumerate(waits_ms, 2):
        if (time.monotonic() - began) * 1000 + wait_ms > total_ms:
            return
        time.sleep(wait_ms / 1000)
        yield number


# ---------------------------------------------------------------- commit
#
# The last step up: one compare-and-swap, tried again on a fresh base for as long as the table allows.
#
# A lost race rebuilds from intent: data files and their manifests are kept, the list and the metadata are made
# anew. When nobody answers, every file is kept and the catalog is asked whether the commit is there.


log = logging.getLogger("esker.commit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The next version of a table, and how to take back what only this attempt wrote."""

    metadata: TableMetadata
    discard: Callable[[], None] = lambda: None
    settle: Callable[[], None] = lambda: None  # once it is the table: remove what earlier attempts wrote in vain


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
    may_be_visible = False
    try:
        policy = RetryPolicy.of(known.metadata.properties)
        for attempt in policy.attempts():
            base = refreshed(catalog, name, known)
            proposal = change.propose(base, attempt)
            if proposal is None:
                change.abandon()
                return base
            may_be_visible = True
            answer = _swapped(catalog, name, base, proposal, policy)
            if isinstance(answer, TableState):
                settle(proposal)
                return answer
            may_be_visible = False
            why = answer.why
            log.info("commit to %s lost the race (attempt %d): %s", name, attempt, why)
            proposal.discard()
    except OutcomeUnknown:
        raise
    except BaseException as error:
        # An error of ours says that nothing was changed. Anything else, be it Ctrl-C, says nothing: files stay.
        if not may_be_visible or isinstance(error, EskerError):
            change.abandon()
        raise
    change.abandon()
    raise Conflict(
        f"cannot commit to {name}: other writers won {attempt} times in a row ({why}); "
        "nothing was changed; try again, or raise commit.retry.num-retries",
        table=str(name),
        attempts=attempt,
    )


def refreshed(catalog: Catalog, name: TableName, known: TableState) -> TableState:
    """The newest version of the same table: one dropped and made again under the name is another."""
    base = catalog.load(name, known)
    if known.metadata.uuid is not None and base.metadata.uuid != known.metadata.uuid:
        raise Conflict(
            f"cannot commit to {name}: the table was dropped and another made under its name; open it again",
            table=str(name),
        )
    return base


def _swapped(
    catalog: Catalog, name: TableName, base: TableState, proposal: Proposal, policy: RetryPolicy
) -> TableState | Rejected:
    """The table with our version in it, or why it is not; ``OutcomeUnknown`` where nobody can say."""
    try:
        answer = catalog.swap(name, base, proposal.metadata)
    except EskerError:
        raise
    except Exception as error:  # the catalog broke down on the way: before or after the swap, who knows
        answer = Unanswered(f"{type(error).__name__}: {error}")
    match answer:
        case Accepted(state):
            return state
        case Rejected():
            return answer
        case Unanswered():
            return _reconciled(catalog, name, base, proposal, answer, policy)


def settle(proposal: Proposal) -> None:
    """Clean up after a commit. Never raises."""
    try:
        proposal.settle()
    except Exception as error:  # the commit is made, whatever becomes of the cleaning up
        log.warning("cannot clean up after a commit: %s", error)


def _reconciled(
    catalog: Catalog,
    name: TableName,
    base: TableState,
    proposal: Proposal,
    unanswered: Unanswered,
    policy: RetryPolicy,
) -> TableState | Rejected:
    """Ask the table itself whether an unanswered swap happened, until it tells or the policy is spent."""
    for _ in policy.status_checks():
        try:
            now = catalog.load(name)
        except NotFound:
            break
        except Exception as error:
            log.warning("cannot ask %s about an unanswered commit: %s", name, error)
            continue
        if unanswered.verdict is not None:
            found = unanswered.verdict(now)
        else:
            found = is_in(now, base, proposal.metadata, unanswered.metadata_location)
        match found:
            case True:
                return now
            case False:
                return Rejected(f"the catalog did not answer ({unanswered.why}), and another writer's commit followed")
    raise OutcomeUnknown(
        f"cannot tell whether the commit to {name} went through: {unanswered.why}; "
        "every file was kept; look at the table's newest snapshots before you try again",
        table=str(name),
        snapshot_id=new_snapshot_id(base.metadata, proposal.metadata),
        metadata_location=unanswered.metadata_location,
    )


def is_in(now: TableState, base: TableState, ours: TableMetadata, location: str | None) -> bool | None:
    """Whether our version is the table or in its past; None where that cannot be told.

    A swap compares with ``base``, so the version that followed ``base`` decides: if it is another's, ours can never
    apply any more. While ``base`` itself is current, a late swap still can. Where the log no longer reaches back to
    ``base`` and our snapshot is not there, it may have come and gone.
    """
    new = new_snapshot_id(base.metadata, ours)
    if new is not None and now.metadata.snapshot(new) is not None:
        return True
    versions = [(entry.metadata_file, entry.timestamp_ms) for entry in now.metadata.metadata_log]
    versions.append((now.metadata_location, now.metadata.last_updated_ms))
    if location is not None and any(file == location for file, _ in versions):
        return True
    for (file, _), (after, at_ms) in pairwise(versions):
        if file == base.metadata_location:
            return None if after == location or (location is None and at_ms == ours.last_updated_ms) else False
    return None


def new_snapshot_id(base: TableMetadata, ours: TableMetadata) -> int | None:
    """The snapshot that ours adds to the base; None for a change of something else."""
    newest = ours.snapshots[-1].snapshot_id if ours.snapshots else None
    return None if newest is None or base.snapshot(newest) is not None else newest
