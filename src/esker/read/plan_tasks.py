"""Last step down: the files to read, the deletes on each, and how few they are of all there were."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, overload

from esker.model.predicate import Bound
from esker.ports.engine import ScanTask
from esker.read.attach_deletes import DeleteIndex
from esker.tree.manifest import Entries
from esker.tree.snapshot import Snapshot

if TYPE_CHECKING:
    from esker.tree.manifest import Int64s


@dataclass(frozen=True, slots=True, kw_only=True)
class Funnel:
    """What each level of the tree dropped. Manifests count data and deletes alike, files only data."""

    manifests_total: int
    manifests_read: int
    files_total: int
    files_kept: int
    rows_kept: int
    bytes_kept: int
    deletes_kept: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TermEffect:
    """How much one conjunct of the filter prunes by itself."""

    term: str
    manifests: int
    files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFiles:
    """Surviving rows of one batch of entries, each with the number of its residual."""

    entries: Entries
    residuals: tuple[Bound, ...]
    pattern: Int64s


class Tasks(Sequence[ScanTask]):
    """The plan's tasks, made when they are asked for: a plan of a million files holds columns, not objects."""

    def __init__(self, kept: Sequence[KeptFiles], deletes: DeleteIndex) -> None:
        self._kept = kept
        self._deletes = deletes
        self._ends = list(accumulate(len(batch.entries) for batch in kept))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, index: int) -> ScanTask: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ScanTask]: ...
    def __getitem__(self, index: int | slice) -> ScanTask | Sequence[ScanTask]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(f"task {index} of {len(self)}")
        which = bisect_right(self._ends, at)
        batch = self._kept[which]
        row = at - (self._ends[which - 1] if which else 0)
        data = batch.entries.data_file(row)
        deletes = self._deletes.applying_to(data) if self._deletes else ()
        return ScanTask(data_file=data, deletes=deletes, residual=batch.residuals[int(batch.pattern[row])])


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a scan will read."""

    snapshot: Snapshot | None
    tasks: Sequence[ScanTask]
    funnel: Funnel
    filter: Bound
    effects: tuple[TermEffect, ...] = ()


def plan_tasks(kept: Sequence[KeptFiles], deletes: DeleteIndex) -> Tasks:
    """Pair the surviving files with their deletes."""
    return Tasks([batch for batch in kept if len(batch.entries)], deletes)
