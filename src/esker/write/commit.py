"""The last step of a commit: one compare-and-swap, repeated on a fresh base as long as the table's properties allow.

After a lost race, data files and their manifests are reused; the manifest list and the metadata are built again. If the
catalog does not answer, every file is kept and the catalog is asked whether the commit succeeded.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from esker.errors import Conflict, EskerError, NotFound, OutcomeUnknown
from esker.model.table_names import TableName
from esker.ports.catalog import Accepted, Catalog, Rejected, SyncsNames, TableState, Unanswered, WritesAhead
from esker.ports.storage import names_together
from esker.tree.table_metadata import TableMetadata
from esker.write.properties import whole_number

# ---------------------------------------------------------------- retries


DEFAULT_RETRIES = 16
"""More than Iceberg's 4: a retry here rewrites a list and a metadata file, no data, so patience is cheap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Exponential back-off with full jitter, limited in number and time."""

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
        """The policy in a table's properties. Raises ``InvalidInput`` for a value that is not a number."""
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
        """Numbers of attempts from 1, with a wait before each except the first, until the limits are reached."""
        waits = (
            random.uniform(0, max(min(self.max_wait_ms, self.min_wait_ms * 2 ** min(retry, 20)), 1))
            for retry in range(self.retries)
        )
        return _numbered(waits, self.total_ms)

    def status_checks(self) -> Iterator[int]:
        """The same for asking whether an unanswered commit succeeded: once immediately, then after growing waits."""
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


# ---------------------------------------------------------------- the commit


log = logging.getLogger("esker.commit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The next version of a table, and how to delete what only this attempt wrote."""

    metadata: TableMetadata
    discard: Callable[[], None] = lambda: None
    settle: Callable[[], None] = lambda: None  # after the commit: delete what earlier attempts wrote


class Change(Protocol):
    """A change that can be proposed on any base."""

    def propose(self, base: TableState, attempt: int) -> Proposal | None:
        """Return the next version, or None if nothing is left to do. Existing files are not changed."""
        ...

    def abandon(self) -> None:
        """Delete what was written: none of it is or will be visible."""
        ...


def commit(catalog: Catalog, name: TableName, known: TableState, change: Change) -> TableState:
    """Make the change the table's newest version and return it.

    Raises ``Conflict`` if other writers committed first too often or in contradiction, ``OutcomeUnknown`` if the
    catalog does not answer.
    """
    why = "no attempt is allowed"
    may_be_visible = False
    try:
        policy = RetryPolicy.of(known.metadata.properties)
        for attempt in policy.attempts():
            base = refreshed(catalog, name, known)
            # After a lost race, others commit at the same time, and what is written ahead would often be in vain.
            ahead = catalog.writing_ahead(base) if attempt == 1 and isinstance(catalog, WritesAhead) else nullcontext()
            with ahead, names_together() as names:
                proposal = change.propose(base, attempt)
                if proposal is None:
                    change.abandon()
                    return base
                if not isinstance(catalog, SyncsNames):
                    names.end()
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
        # An error of Esker means that nothing was changed. Anything else, such as Ctrl-C, means nothing: files are
        # kept.
        if not may_be_visible or isinstance(error, EskerError):
            change.abandon()
        raise
    change.abandon()
    raise Conflict(
        f"cannot commit to {name}: other writers committed first {attempt} times in a row ({why}); "
        "nothing was changed; try again, or raise commit.retry.num-retries",
        table=str(name),
        attempts=attempt,
    )


def refreshed(catalog: Catalog, name: TableName, known: TableState) -> TableState:
    """The newest version of the same table. Raises ``Conflict`` if the table was dropped and recreated."""
    base = catalog.load(name, known)
    if known.metadata.uuid is not None and base.metadata.uuid != known.metadata.uuid:
        raise Conflict(
            f"cannot commit to {name}: the table was dropped and another table has its name; open it again",
            table=str(name),
        )
    return base


def _swapped(
    catalog: Catalog, name: TableName, base: TableState, proposal: Proposal, policy: RetryPolicy
) -> TableState | Rejected:
    """Return the table with the new version, or why it was rejected. Raises ``OutcomeUnknown`` if that cannot be found
    out."""
    try:
        answer = catalog.swap(name, base, proposal.metadata)
    except EskerError:
        raise
    except Exception as error:  # the catalog failed, and it is unknown whether before or after the swap
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
    except Exception as error:  # the commit succeeded, even if cleaning up fails
        log.warning("cannot clean up after a commit: %s", error)


def _reconciled(
    catalog: Catalog,
    name: TableName,
    base: TableState,
    proposal: Proposal,
    unanswered: Unanswered,
    policy: RetryPolicy,
) -> TableState | Rejected:
    """Ask the table whether an unanswered swap happened, until it is certain or the limits are reached."""
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
        f"cannot find out whether the commit to {name} succeeded: {unanswered.why}; "
        "every file was kept; check the table's newest snapshots before you try again",
        table=str(name),
        snapshot_id=new_snapshot_id(base.metadata, proposal.metadata),
        metadata_location=unanswered.metadata_location,
    )


def is_in(now: TableState, base: TableState, ours: TableMetadata, location: str | None) -> bool | None:
    """Whether the new version is in the table or its history; None if that is uncertain.

    A swap compares with ``base``, so the version that followed ``base`` decides: if another writer made it, this swap
    can never apply. While ``base`` is current, a late swap still can. If the log no longer has ``base`` and the new
    snapshot is missing, it may have been committed and expired.
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
    """The id of the snapshot that the change adds; None if it adds none."""
    newest = ours.snapshots[-1].snapshot_id if ours.snapshots else None
    return None if newest is None or base.snapshot(newest) is not None else newest
