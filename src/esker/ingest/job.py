"""What an ingest does with a batch: rows out of its sources, into data files of tables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from esker.errors import EskerError
from esker.ingest.checkpoint import Plan
from esker.ingest.counts import BatchCounts
from esker.ingest.receipts import Delivery
from esker.ingest.sources import SourceFile, is_compressed, trouble_with


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A batch whose files are written, and named by nobody yet."""

    deliveries: tuple[Delivery, ...]
    counts: BatchCounts


class Refused(EskerError):
    """One source of a batch cannot be read, and says why; the batch goes on without it. Given the way it was read, it
    is set aside: reading it again that way would fail again."""

    def __init__(self, source: SourceFile, reason: str, way: str | None = None) -> None:
        super().__init__(f"cannot ingest {source.path}: {reason}", source=source, reason=reason, way=way)

    def __reduce__(self) -> tuple[type[Refused], tuple[SourceFile, str, str | None]]:
        return type(self), (self.source, self.reason, self.way)


class Job(Protocol):
    """A kind of ingest."""

    def stage(self, plan: Plan, batch_id: str) -> Staged:
        """Write the batch's rows. What was written is deleted again where this fails; ``Refused`` names a source."""
        ...

    def release(self, plan: Plan) -> tuple[SourceFile, ...]:
        """After the batch is committed: let go of sources that are no longer needed; those that are gone for good."""
        ...


def check_sources(plan: Plan, *, may_grow: bool) -> None:
    """Refuse a source that is not what was planned, or whose new part cannot be told: nothing of it has been read."""
    for source in plan.files:
        trouble = trouble_with(source, may_grow=may_grow)
        if trouble is None and source.start and not (may_grow and _has_places(source)):
            trouble = "it has grown since it was ingested; give what is new in a file of its own"
        if trouble is not None:
            raise Refused(source, trouble)


def _has_places(source: SourceFile) -> bool:
    """Whether it is known where the new part of a file begins: in a compressed one, by its unpacked bytes."""
    return source.length is not None or not is_compressed(Path(source.path))
