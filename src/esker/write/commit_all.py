"""One commit to several tables: all of them change, or none does.

Every table has a change of its own, proposed on the newest version of that table as for a commit to one. The catalog
swaps all pointers in one step. A lost race at any table is a lost race of the whole: every table is looked at again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from esker.errors import Conflict, EskerError, NotFound, OutcomeUnknown
from esker.model.table_names import TableName
from esker.ports.catalog import AllAccepted, AllUnanswered, Catalog, Rejected, TableState, TableSwap
from esker.write.commit import Change, Proposal, RetryPolicy, is_in, new_snapshot_id, refreshed, settle

log = logging.getLogger("esker.commit")


@dataclass(frozen=True, slots=True)
class Part:
    """The change of one table in a commit to several."""

    name: TableName
    known: TableState
    change: Change


@dataclass(frozen=True, slots=True)
class _Proposed:
    """What one attempt proposes for one table; no proposal where nothing is left to do."""

    part: Part
    base: TableState
    proposal: Proposal | None


def commit_all(catalog: Catalog, parts: Sequence[Part]) -> list[TableState]:
    """Make every change its table's newest version, in one step. The states are in the order of ``parts``.

    Raises ``Conflict`` if other writers committed first too often or a change no longer fits: no table was changed.
    Raises ``OutcomeUnknown`` if the catalog did not answer: every file is kept.
    """
    policy = _policy(parts)
    names = ", ".join(str(part.name) for part in parts)
    why = "no attempt was allowed"
    may_be_visible = False
    try:
        for attempt in policy.attempts():
            proposed = _proposed(catalog, parts, attempt)
            may_be_visible = True
            answer = _swapped(catalog, proposed, policy, names)
            if not isinstance(answer, Rejected):
                return _finished(proposed, answer)
            may_be_visible = False
            why = answer.why
            log.info("commit to %s lost the race (attempt %d): %s", names, attempt, why)
            _discard(proposed)
    except OutcomeUnknown:
        raise
    except BaseException as error:
        # An error of Esker's says that nothing was changed. Anything else, as Ctrl-C, says nothing: files stay.
        if not may_be_visible or isinstance(error, EskerError):
            _abandon(parts)
        raise
    _abandon(parts)
    raise Conflict(
        f"cannot commit to {names}: other writers committed first {attempt} times in a row ({why}); "
        "nothing was changed; try again, or raise commit.retry.num-retries",
        tables=[str(part.name) for part in parts],
        attempts=attempt,
    )


def _policy(parts: Sequence[Part]) -> RetryPolicy:
    """The policy of the table that allows the fewest retries."""
    return min((RetryPolicy.of(part.known.metadata.properties) for part in parts), key=lambda policy: policy.retries)


def _proposed(catalog: Catalog, parts: Sequence[Part], attempt: int) -> list[_Proposed]:
    """The change of each table on its newest version."""
    made: list[_Proposed] = []
    try:
        for part in parts:
            base = refreshed(catalog, part.name, part.known)
            made.append(_Proposed(part, base, part.change.propose(base, attempt)))
    except BaseException:
        _discard(made)
        raise
    return made


def _swapped(
    catalog: Catalog, proposed: Sequence[_Proposed], policy: RetryPolicy, names: str
) -> dict[TableName, TableState] | Rejected:
    """The tables that changed, by name, or why none did; ``OutcomeUnknown`` where that is not known."""
    swaps = [TableSwap(one.part.name, one.base, one.proposal.metadata) for one in proposed if one.proposal is not None]
    if not swaps:
        return {}
    try:
        answer = catalog.swap_all(swaps)
    except EskerError:
        raise
    except Exception as error:  # the catalog broke down before the swap or behind it
        answer = AllUnanswered(f"{type(error).__name__}: {error}")
    match answer:
        case AllAccepted(states):
            return {swap.name: state for swap, state in zip(swaps, states, strict=True)}
        case Rejected():
            return answer
        case AllUnanswered():
            return _reconciled(catalog, swaps, answer, policy, names)


def _reconciled(
    catalog: Catalog, swaps: Sequence[TableSwap], unanswered: AllUnanswered, policy: RetryPolicy, names: str
) -> dict[TableName, TableState] | Rejected:
    """Ask the tables whether an unanswered swap happened, until it is certain or the limits are reached."""
    enough = all if unanswered.verdicts else any
    for _ in policy.status_checks():
        try:
            answers = list(_asked(catalog, swaps, unanswered))
        except Exception as error:
            log.warning("cannot ask %s about an unanswered commit: %s", names, error)
            continue
        if enough(answer is True for _, _, answer in answers):
            return {swap.name: now or swap.base for swap, now, _ in answers}
        if enough(answer is False for _, _, answer in answers):
            return Rejected(f"the catalog did not answer ({unanswered.why}), and another writer's commit followed")
    raise OutcomeUnknown(
        f"cannot find out whether the commit to {names} succeeded: {unanswered.why}; "
        "every file was kept; look at the newest snapshots of the tables before you try again",
        tables=[str(swap.name) for swap in swaps],
        snapshot_ids=[new_snapshot_id(swap.base.metadata, swap.new) for swap in swaps],
    )


def _asked(
    catalog: Catalog, swaps: Sequence[TableSwap], unanswered: AllUnanswered
) -> Iterator[tuple[TableSwap, TableState | None, bool | None]]:
    """Each table as it is now, and whether its swap happened; None for a table that is gone."""
    for swap in swaps:
        try:
            now = catalog.load(swap.name)
        except NotFound:
            yield swap, None, None
            continue
        if (verdict := unanswered.verdicts.get(swap.name)) is not None:
            yield swap, now, verdict(now)
        else:
            yield swap, now, is_in(now, swap.base, swap.new, unanswered.metadata_locations.get(swap.name))


def _finished(proposed: Sequence[_Proposed], changed: dict[TableName, TableState]) -> list[TableState]:
    for one in proposed:
        if one.proposal is None:
            one.part.change.abandon()
        else:
            settle(one.proposal)
    return [changed.get(one.part.name, one.base) for one in proposed]


def _discard(proposed: Sequence[_Proposed]) -> None:
    for one in proposed:
        if one.proposal is not None:
            one.proposal.discard()


def _abandon(parts: Sequence[Part]) -> None:
    for part in parts:
        part.change.abandon()
