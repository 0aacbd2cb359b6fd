"""Do what the health of a table recommends, in a useful order and within a budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from esker.errors import Conflict
from esker.maintain.table_health import Health
from esker.maintain.tended_table import log
from esker.model.display_text import card, show_bytes

# Rewriting comes first: it makes manifests and snapshots, which the later steps tidy.
ORDER = ("compact", "rewrite_position_deletes", "rewrite_manifests", "expire_snapshots", "remove_orphans")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One verb: why it is called, and what came of it."""

    verb: str
    arguments: Mapping[str, Any]
    why: str
    effect: str
    plan: Any = field(repr=False)  # what the verb returned for dry_run=True
    report: Any = field(default=None, repr=False)  # what it returned; None: it did not run
    skipped: str | None = None  # why it did not run

    def __str__(self) -> str:
        said = self.skipped or (repr(self.report) if self.report is not None else f"would: {self.effect}")
        return f"{self.verb}: {said}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """What ``maintain`` would do (``done`` is False) or did, with the health before and after."""

    name: str
    done: bool
    steps: tuple[Step, ...]
    before: Health
    after: Health | None = None

    def __repr__(self) -> str:
        return f"<Maintenance of {self.name}: {len(self.steps)} steps, {self._scores()}>"

    def __str__(self) -> str:
        return "\n".join([f"{self.name}: {self._scores()}", *map(str, self.steps)])

    def _repr_html_(self) -> str:
        steps = "\n".join(map(str, self.steps))
        return card(f"Maintenance of {self.name}", [("health", self._scores()), ("steps", steps or "none")])

    def _scores(self) -> str:
        after = "" if self.after is None else f", after {self.after.score}"
        return f"health {self.before.score} of 100{after}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a maintenance may use. A step that would need more is left out; none is begun after the time."""

    max_bytes: int | None = None  # that compact() may rewrite
    until_ms: int | None = None

    def refusal(self, plan: Any, now_ms: int) -> str | None:
        """Why a step may not run; None if it may."""
        if self.until_ms is not None and now_ms >= self.until_ms:
            return "skipped: the time is used up"
        size = getattr(plan, "bytes", None)
        if self.max_bytes is not None and isinstance(size, int) and size > self.max_bytes:
            return f"skipped: it would rewrite {show_bytes(size)}, the budget is {show_bytes(self.max_bytes)}"
        return None


def maintain(
    before: Health,
    verb_of: Callable[[str], Callable[..., Any]],
    measure: Callable[[], Health],
    *,
    budget: Budget,
    clock_ms: Callable[[], int],
    dry_run: bool,
) -> Maintenance:
    """Run the verbs that the findings name, each once. ``verb_of`` gives the verb of a name.

    A step that loses against other writers is reported and does not stop the others.
    """
    steps: list[Step] = []
    for name in ORDER:
        found = [finding for finding in before.findings if finding.action == name]
        if not found:
            continue
        arguments = {key: value for finding in found for key, value in finding.arguments.items()}
        plan = verb_of(name)(dry_run=True, **arguments)
        report, skipped = None, None
        if not dry_run:
            skipped = budget.refusal(plan, clock_ms())
            if skipped is None:
                log.info("%s…", name)
                try:
                    report = verb_of(name)(**arguments)
                except Conflict as error:
                    skipped = f"failed: {error.message}"
        steps.append(
            Step(
                verb=name,
                arguments=arguments,
                why="; ".join(f"{finding.name} {finding.score}: {finding.said}" for finding in found),
                effect="; ".join(finding.effect or "" for finding in found),
                plan=plan,
                report=report,
                skipped=skipped,
            )
        )
    return Maintenance(
        name=before.name,
        done=not dry_run,
        steps=tuple(steps),
        before=before,
        after=None if dry_run else measure(),
    )
