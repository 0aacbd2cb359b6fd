"""The tour as it is told: each step with what it found and the time it took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, slots=True)
class Step:
    """Something that was done."""

    what: str
    found: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Identity:
    """What was sent is in the tables, among the dead letters or waiting to be committed, once."""

    sent: int
    resent: int  # of those sent, what was sent a second time, as senders may
    in_tables: int
    dead_letters: int
    pending: int  # as the ingest told at its end
    distinct_spans: int
    spans: int  # of those sent, spans, the resent ones counted once

    @property
    def lost(self) -> int:
        """Records that are nowhere."""
        missing = max(0, self.spans - self.distinct_spans - self.pending)
        return max(0, self.sent - self._found) + missing

    @property
    def duplicated(self) -> int:
        """Records that are there more often than they were sent."""
        return max(0, self._found - self.sent)

    @property
    def _found(self) -> int:
        return self.in_tables + self.dead_letters + self.pending

    @property
    def holds(self) -> bool:
        """Nothing lost, nothing twice."""
        return not self.lost and not self.duplicated

    def text(self) -> str:
        """The sum, as people read it."""
        return (
            f"sent {self.sent:,} {'=' if self.holds else '≠'} tables {self.in_tables:,} + "
            f"dead letter {self.dead_letters:,} + pending {self.pending:,}      "
            f"lost {self.lost:,}   duplicated {self.duplicated:,}"
        )


@dataclass(slots=True)
class Story:
    """Steps in order, and the figures that a report shows."""

    console: Console
    steps: list[Step] = field(default_factory=list)
    identity: Identity | None = None
    rows_by_day: list[tuple[str, int]] = field(default_factory=list)
    funnel: list[tuple[str, int, int]] = field(default_factory=list)  # level, kept, of how many
    counted_by: dict[str, int] = field(default_factory=dict)  # engine, rows of one table
    slowest: list[tuple[str, str, float]] = field(default_factory=list)  # service, operation, 99th percentile in ms
    explained: str = ""

    @contextmanager
    def step(self, what: str) -> Iterator[list[str]]:
        """Run one step; what it appends to the list is the finding."""
        found: list[str] = []
        began = time.perf_counter()
        with self.console.status(f"{what} …"):
            yield found
        done = Step(what, "; ".join(found), time.perf_counter() - began)
        self.steps.append(done)
        self.console.print(
            f"  [green]✓[/] {what}  [cyan]{done.found}[/]  [dim]{done.seconds:,.1f} s[/]", highlight=False
        )

    @property
    def seconds(self) -> float:
        """All of it."""
        return sum(step.seconds for step in self.steps)

    @property
    def holds(self) -> bool:
        """Whether the sums came out: nothing lost or doubled, and every engine counts the same rows."""
        return self.identity is not None and self.identity.holds and len(set(self.counted_by.values())) == 1
