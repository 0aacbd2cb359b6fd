"""The record of a tour: each step with its result and its time."""

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
    """A step that was done."""

    what: str
    found: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of the streaming query, from its progress."""

    number: int
    received: int
    committed: int
    dead: int
    waiting: int  # files that were left for the next batches
    driver: int  # 1: the first, 2: the one after the kill

    def text(self) -> str:
        """One line."""
        return (
            f"batch {self.number:>2}   received {self.received:>6,}   committed {self.committed:>6,}   "
            f"dead {self.dead}   waiting {self.waiting} files"
        )


@dataclass(frozen=True, slots=True)
class Identity:
    """The sum of the tour: every record that was sent is in the tables, among the dead letters or pending, once."""

    sent: int
    resent: int  # of the records sent, those that were sent twice, as senders may
    in_tables: int
    dead_letters: int
    pending: int  # as the pipeline reported at its end
    distinct_spans: int
    spans: int  # of the records sent, spans; those sent twice count once

    @property
    def lost(self) -> int:
        """Records that are missing."""
        missing = max(0, self.spans - self.distinct_spans - self.pending)
        return max(0, self.sent - self._found) + missing

    @property
    def duplicated(self) -> int:
        """Records that are in the tables more often than they were sent."""
        return max(0, self._found - self.sent)

    @property
    def _found(self) -> int:
        return self.in_tables + self.dead_letters + self.pending

    @property
    def holds(self) -> bool:
        """Nothing is lost and nothing is duplicated."""
        return not self.lost and not self.duplicated

    def text(self) -> str:
        """The sum as text."""
        return (
            f"sent {self.sent:,} {'=' if self.holds else '≠'} tables {self.in_tables:,} + "
            f"dead letter {self.dead_letters:,} + pending {self.pending:,}      "
            f"lost {self.lost:,}   duplicated {self.duplicated:,}"
        )

    def resent_text(self) -> str:
        """Why records that were sent twice are in the table twice, and still none is duplicated."""
        return (
            f"{self.resent:,} spans were sent twice, as a sender does that has missed an answer. OTLP allows that, so "
            "both copies were received, and both are in the table. "
            f"Duplicated counts what the pipeline itself would have doubled: {self.duplicated:,}."
        )


@dataclass(slots=True)
class Story:
    """The steps in order, and the figures of the report."""

    console: Console
    steps: list[Step] = field(default_factory=list)
    killed: list[str] = field(default_factory=list)  # programs, by SIGKILL
    batches: list[Batch] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)  # of the software that was used
    identity: Identity | None = None
    rows_by_day: list[tuple[str, int]] = field(default_factory=list)
    funnel: list[tuple[str, int, int]] = field(default_factory=list)  # level, kept, of how many
    counted_by: dict[str, int] = field(default_factory=dict)  # engine, rows of one table
    services: list[tuple[str, int, int]] = field(default_factory=list)  # name, requests, errors
    slowest: list[tuple[str, str, float]] = field(default_factory=list)  # service, operation, 99th percentile in ms
    explained: str = ""
    parts: list[tuple[str, str]] = field(default_factory=list)  # of a deployment: name, address

    @contextmanager
    def step(self, what: str) -> Iterator[list[str]]:
        """Run one step. The text that the block appends to the list is its result."""
        found: list[str] = []
        began = time.perf_counter()
        with self.console.status(f"{what} …"):
            yield found
        done = Step(what, "; ".join(found), time.perf_counter() - began)
        self.steps.append(done)
        self.console.print(
            f"  [green]✓[/] {what}  [cyan]{done.found}[/]  [dim]{done.seconds:,.1f} s[/]", highlight=False
        )

    def note(self, batch: Batch) -> None:
        """Record a committed batch of the query."""
        self.batches.append(batch)
        self.console.print(f"      [dim]{batch.text()}[/]", highlight=False)

    def headline(self) -> str:
        """The tour in one sentence."""
        times = {1: "once", 2: "twice", 3: "three times"}.get(len(self.killed), f"{len(self.killed)} times")
        assert self.identity is not None  # the tour is over
        if not self.holds:
            return f"Killed {times}: {self.identity.lost:,} lost, {self.identity.duplicated:,} duplicated"
        return f"Killed {times}, nothing lost"

    @property
    def seconds(self) -> float:
        """The time of all steps."""
        return sum(step.seconds for step in self.steps)

    @property
    def holds(self) -> bool:
        """Whether the sums are right: nothing lost or duplicated, and every engine counts the same rows."""
        return self.identity is not None and self.identity.holds and len(set(self.counted_by.values())) == 1
