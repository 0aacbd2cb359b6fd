"""Last step of a scan: the files to read, the deletes on each, and how many files were skipped.

Also `explain`, the same plan as text, and `added_files`, the plan of the files that one snapshot added.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import accumulate
from typing import overload

from esker.model.display_text import show_bytes, show_ms
from esker.model.predicates.bind import to_sql
from esker.model.predicates.predicate import TRUE, Bound, conjuncts
from esker.model.pruning.evidence import Span
from esker.model.schema import Schema
from esker.ports.engine import ScanTask
from esker.ports.table_format import TableFormat, refuse_versions
from esker.read.attach_deletes import DeleteIndex
from esker.read.prune_manifest import KeptFiles, PrunedManifests, prune_manifests
from esker.read.prune_manifest_list import PrunedList, prune_manifest_list
from esker.tree.manifest_list import ManifestContent
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Funnel:
    """How much each level of the tree skips. Manifests are of data and deletes, files only of data."""

    manifests_total: int
    manifests_read: int
    files_total: int
    files_kept: int
    rows_kept: int
    bytes_kept: int
    deletes_kept: int = 0

    @property
    def counters(self) -> dict[str, int]:
        """The same under the names of Iceberg's scan reports."""
        found = {
            "result-data-files": self.files_kept,
            "skipped-data-files": self.files_total - self.files_kept,
            "total-file-size-in-bytes": self.bytes_kept,
            "indexed-delete-files": self.deletes_kept,
        }
        return found if self.deletes_kept else {**found, "result-delete-files": 0}

    @property
    def said(self) -> str:
        """The remaining files, rows and bytes in one line."""
        return (
            f"{self.files_kept:,} of {self.files_total:,} files, at most {self.rows_kept:,} rows, "
            f"{show_bytes(self.bytes_kept)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TermEffect:
    """How much one part of the filter skips by itself."""

    term: Bound
    manifests: int
    files: int


class Tasks(Sequence[ScanTask]):
    """The tasks of a plan, created when they are read: a plan of a million files stores columns, not objects."""

    def __init__(self, kept: Sequence[KeptFiles], deletes: DeleteIndex) -> None:
        self._kept = kept
        self._deletes = deletes
        self._ends = list(accumulate(len(batch.entries) for batch in kept))

    @property
    def spans(self) -> dict[int, Span]:
        """What was asked about the values of columns in each file, by column, one row per task."""
        ids = set[int].intersection(*(set(batch.spans) for batch in self._kept)) if self._kept else set[int]()
        return {id_: Span.joined([batch.spans[id_] for batch in self._kept]) for id_ in sorted(ids)}

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[ScanTask]:
        with_deletes = bool(self._deletes)
        for batch in self._kept:
            patterns = batch.pattern.tolist()
            for row, data in enumerate(batch.entries.data_files()):
                yield ScanTask(
                    data_file=data,
                    deletes=self._deletes.applying_to(data) if with_deletes else (),
                    residual=batch.residuals[patterns[row]],
                    odd_floats=None if batch.odd_floats is None else batch.odd_floats.at(row),
                )

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
    """What a scan will read: ``tasks`` are the files with their deletes, ``funnel`` counts what was skipped."""

    snapshot: Snapshot | None
    schema: Schema  # the filter is bound to it
    tasks: Sequence[ScanTask]
    funnel: Funnel
    filter: Bound
    effects: tuple[TermEffect, ...] = ()
    manifest_counters: Mapping[str, int] = field(default_factory=dict, repr=False)  # for reports
    planner: str | None = None  # who planned, if that is worth a word: the catalog, or why it did not

    def __repr__(self) -> str:
        return f"<esker.Plan: {self.funnel.said}>"

    def _repr_html_(self) -> str:

        return f"<pre>{escape(explain(self))}</pre>"


def plan_tasks(
    snapshot: Snapshot | None,
    schema: Schema,
    listed: PrunedList,
    pruned: PrunedManifests,
    deletes: DeleteIndex,
    predicate: Bound,
) -> Plan:
    """Combine the remaining files with their deletes, and count what was skipped."""
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
        manifest_counters={
            "total-data-manifests": len(listed.data) + listed.skipped,
            "scanned-data-manifests": len(listed.data),
            "skipped-data-manifests": listed.skipped,
            "scanned-delete-manifests": len(listed.deletes) if kept else 0,
        },
    )


def _unopened_files(snapshot: Snapshot | None, listed: PrunedList, opened: int) -> int:
    """How many files are in manifests that were not opened: by their counts, else by the snapshot's total, else 0."""
    known = listed.skipped_files
    if listed.counts_all:
        return known
    total = (snapshot.summary if snapshot is not None else {}).get("total-data-files", "")
    return max(known, int(total) - opened) if total.isdecimal() and total.isascii() else known


# ---------------------------------------------------------------- A plan as text


def explain(plan: Plan) -> str:
    """How many manifests, files and bytes are left, then each part of the filter with what it skips alone."""
    funnel = plan.funnel
    lines = [
        _snapshot_line(plan),
        f"filter     {'none' if plan.filter == TRUE else to_sql(plan.filter, dict(plan.schema.name_by_id))}",
        *([] if plan.planner is None else [f"planner    {plan.planner}"]),
        f"manifests  {funnel.manifests_read:,} of {funnel.manifests_total:,} opened"
        f"{_share(funnel.manifests_read, funnel.manifests_total)}",
        f"files      {funnel.files_kept:,} of {funnel.files_total:,} to read"
        f"{_share(funnel.files_kept, funnel.files_total)}",
        f"rows       at most {funnel.rows_kept:,} in {show_bytes(funnel.bytes_kept)}",
    ]
    if funnel.deletes_kept:
        lines.append(f"deletes    {funnel.deletes_kept:,} delete files considered")
    if plan.effects:
        lines.append("terms      each alone would drop")
        names = dict(plan.schema.name_by_id)
        shown = [(to_sql(effect.term, names), effect) for effect in plan.effects]
        width = min(60, max(len(text) for text, _ in shown))
        lines.extend(
            f"  {text:<{width}}  {effect.manifests:,} manifests by partition, {effect.files:,} files by statistics"
            for text, effect in shown
        )
    return "\n".join(lines)


def _snapshot_line(plan: Plan) -> str:
    if plan.snapshot is None:
        return "snapshot   none: the table is empty"
    return f"snapshot   {plan.snapshot.snapshot_id} of {show_ms(plan.snapshot.timestamp_ms)}"


def _share(part: int, whole: int) -> str:
    return f" ({100 * (whole - part) / whole:.1f} % left out)" if whole else ""


# ---------------------------------------------------------------- The files that one snapshot added


def added_files(
    metadata: TableMetadata, table_format: TableFormat, snapshot: Snapshot, schema: Schema, predicate: Bound
) -> list[ScanTask]:
    """The data files that a snapshot added and that may have a match, in the order of its manifests.

    The rows are those that were added. Later deletes are not applied.
    """
    refuse_versions(table_format, "read a table as a stream")
    new = [
        manifest
        for manifest in table_format.manifests(metadata, snapshot)
        if manifest.content is ManifestContent.DATA
        and manifest.added_files != 0
        and manifest.added_snapshot_id in (snapshot.snapshot_id, None)
    ]
    listed = prune_manifest_list(metadata, schema, new, predicate)
    pruned = prune_manifests(metadata, table_format, schema, listed, predicate)
    tasks = Tasks(pruned.kept, DeleteIndex(metadata, ()))
    # A manifest that was merged with older ones has their files too.
    return [task for task in tasks if task.data_file.snapshot_id == snapshot.snapshot_id]
