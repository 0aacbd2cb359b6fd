"""Last step down: the files to read, the deletes on each, and how few they are of all there were."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate
from typing import overload

from esker.model.predicate import Bound, conjuncts
from esker.model.schema import Schema
from esker.model.wording import show_bytes
from esker.ports.engine import ScanTask
from esker.read.attach_deletes import DeleteIndex
from esker.read.prune_manifest import KeptFiles, PrunedManifests
from esker.read.prune_manifest_list import PrunedList
from esker.tree.snapshot import Snapshot


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

    @property
    def said(self) -> str:
        """The files and bytes that are left, in a line."""
        return (
            f"{self.files_kept:,} of {self.files_total:,} files, at most {self.rows_kept:,} rows, "
            f"{show_bytes(self.bytes_kept)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TermEffect:
    """How much one conjunct of the filter prunes by itself."""

    term: Bound
    manifests: int
    files: int


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
        return ScanTask(
            data_file=data,
            deletes=deletes,
            residual=batch.residuals[int(batch.pattern[row])],
            odd_floats=None if batch.odd_floats is None else batch.odd_floats.at(row),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a scan will read."""

    snapshot: Snapshot | None
    schema: Schema  # what the filter is about
    tasks: Sequence[ScanTask]
    funnel: Funnel
    filter: Bound
    effects: tuple[TermEffect, ...] = ()

    def __repr__(self) -> str:
        return f"<esker.Plan: {self.funnel.said}>"

    def _repr_html_(self) -> str:
        from esker.read.explain import explain  # which tells of plans

        return f"<pre>{escape(explain(self))}</pre>"


def plan_tasks(
    snapshot: Snapshot | None,
    schema: Schema,
    listed: PrunedList,
    pruned: PrunedManifests,
    deletes: DeleteIndex,
    predicate: Bound,
) -> Plan:
    """Pair the surviving files with their deletes, and count what was left behind."""
    kept = pruned.kept
    return Plan(
        snapshot=snapshot,
        schema=schema,
        tasks=Tasks(kept, deletes),
        filter=predicate,
        funnel=Funnel(
            manifests_total=listed.total,
            manifests_read=len(listed.data) + (len(listed.deletes) if kept else 0),
            files_total=pruned.live_files + _unopened_files(snapshot, listed, pruned.live_files),
            files_kept=sum(len(batch.entries) for batch in kept),
            rows_kept=sum(int(batch.entries.record_count.sum()) for batch in kept),
            bytes_kept=sum(int(batch.entries.file_size.sum()) for batch in kept),
            deletes_kept=deletes.count,
        ),
        effects=tuple(
            TermEffect(term=part, manifests=listed.rejections[part], files=pruned.rejections[part])
            for part in conjuncts(predicate)
        ),
    )


def _unopened_files(snapshot: Snapshot | None, listed: PrunedList, opened: int) -> int:
    """Files in manifests left unread: by their counts, else by the snapshot's total, else none that we know of."""
    counts = [manifest.live_files for manifest in listed.dropped]
    known = [count for count in counts if count is not None]
    if len(known) == len(counts):
        return sum(known)
    total = (snapshot.summary if snapshot is not None else {}).get("total-data-files", "")
    return max(sum(known), int(total) - opened) if total.isdecimal() and total.isascii() else sum(known)
