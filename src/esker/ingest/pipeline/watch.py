"""What a pipeline's source looks at, and what it needs to know of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from esker.ingest.checkpoint import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What a source looks at, and for which driver it plans. It is an option of the source, as JSON."""

    checkpoint: str
    kind: str
    term: str  # of the driver
    since: int  # the first batch that the driver may finish
    paths: tuple[str, ...] = ()
    topics: bytes | None = None  # in place of paths: a pickled Source
    pattern: str = "*"
    most_files: int  # of a batch
    most_bytes: int
    most_rows: int | None  # about so many, where that is less
    most_offsets: int | None = None
    tasks: int  # of a batch, at most
    settle_s: float
    half_line_s: float
    keep_segments: bool


class Look(Protocol):
    """Directories or topics, as a source of batches."""

    def plan(self) -> Plan | None:
        """The next batch, on disk; None where nothing is new. ``StorageFailed`` where it cannot be said now."""
        ...

    def stop_at_now(self) -> None:
        """Leave out what comes later."""
        ...

    def waiting(self) -> dict[str, Any]:
        """What the last look left for later batches."""
        ...

    def shares(self, plan: Plan) -> int:
        """How many tasks a batch is worth."""
        ...

    def close(self) -> None:
        """Let go of what is looked at."""
        ...
