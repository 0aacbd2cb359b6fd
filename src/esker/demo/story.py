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
class Batch:
    """A batch of the streaming query, as its progress said."""

    number: int
    received: int
    committed: int
    dead: int
    waiting: int  # files that were left for the next ones
    driver: int  # the first, or the one after the kill

    def text(self) -> str:
        """One line."""
        return (
            f"batch {self.number:>2}   received {self.received:>6,}   committed {self.committed:>6,}   "
            f"dead {self.dead}   waiting {self.waiting} files"
        )


@dataclass(frozen=True, slots=True)
class Identity:
    """What was sent is in the tables, among the dead letters or waiting to be committed, once."""

    sent: int
    resent: int  # of those sent, what was sent a second time, as senders may
    in_tables: int
    dead_letters: int
    pending: int  # as the pipeline said at its end
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

    def resent_text(self) -> str:
        """Why records that were sent twice are there twice, and yet none is duplicated."""
        return (
            f"{self.resent:,} spans were sent twice, as a sender does that has missed an answer. OTLP allows that, so "
            "both copies were received, and both are in the table. "
            f"Duplicated counts what the pipeline itself would have doubled: {self.duplicated:,}."
        )


@dataclass(slots=True)
class Story:
    """Steps in order, and the figures that a report shows."""

    console: Console
    steps: list[Step] = field(default_factory=list)
    killed: list[str] = field(default_factory=list)  # programs, by SIGKILL
    batches: list[Batch] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)  # of what took part
    identity: Identity | None = None
    rows_by_day: list[tuple[str, int]] = field(default_factory=list)
    funnel: list[tuple[str, int, int]] = field(default_factory=list)  # level, kept, of how many
    counted_by: dict[str, int] = field(default_factory=dict)  # engine, rows of one table
    services: list[tuple[str, int, int]] = field(default_factory=list)  # name, requests, errors
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

    def note(self, batch: Batch) -> None:
        """A batch of the query is committed."""
        self.batches.append(batch)
        self.console.print(f"      [dim]{batch.text()}[/]", highlight=False)

    def headline(self) -> str:
        """The story in a sentence."""
        times = {1: "once", 2: "twice", 3: "three times"}.get(len(self.killed), f"{len(self.killed)} times")
        assert self.identity is not None  # the tour is over
        if not self.holds:
            return f"Killed {times}: {self.identity.lost:,} lost, {self.identity.duplicated:,} duplicated"
        return f"Killed {times}, nothing lost"

    @property
    def seconds(self) -> float:
        """All of it."""
        return sum(step.seconds for step in self.steps)

    @property
    def holds(self) -> bool:
        """Whether the sums came out: nothing lost or doubled, and every engine counts the same rows."""
        return self.identity is not None and self.identity.holds and len(set(self.counted_by.values())) == 1
