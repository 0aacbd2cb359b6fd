"""A change of a view, made by compare-and-swap; tried again on what other writers made meanwhile."""

from __future__ import annotations

from collections.abc import Callable

from esker.errors import Conflict, OutcomeUnknown
from esker.model.naming import TableName
from esker.ports.catalog import Rejected, Unanswered
from esker.ports.view_catalog import ViewAccepted, ViewCatalog, ViewState
from esker.tree.view_metadata import ViewMetadata
from esker.write.retry import RetryPolicy

Change = Callable[[ViewMetadata], ViewMetadata]


def commit_view(catalog: ViewCatalog, name: TableName, change: Change) -> ViewState:
    """The view with the change in it; a change that changes nothing writes nothing."""
    attempts, why = 0, ""
    for attempts in RetryPolicy().attempts():  # noqa: B007  # told where none succeeds
        base = catalog.load_view(name)
        new = change(base.metadata)
        if new == base.metadata:
            return base
        match answer := catalog.swap_view(name, base, new):
            case ViewAccepted(state):
                return state
            case Rejected():
                why = answer.why
            case Unanswered():
                return _reconciled(catalog, name, base, answer)
    raise Conflict(
        f"cannot change view {name}: other writers won {attempts} times in a row ({why}); "
        "nothing was changed; try again",
        view=str(name),
        attempts=attempts,
    )


def _reconciled(catalog: ViewCatalog, name: TableName, base: ViewState, unanswered: Unanswered) -> ViewState:
    """Nobody said whether it happened, so the view itself is asked, once."""
    now = catalog.load_view(name)
    if now.metadata_location == unanswered.metadata_location:
        return now
    raise OutcomeUnknown(
        f"cannot tell whether the change of view {name} went through: {unanswered.why}; every file was kept; "
        "look at the view before you try again",
        view=str(name),
        metadata_location=unanswered.metadata_location,
    )
