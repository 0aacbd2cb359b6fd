"""Last step of a change feed: what each snapshot did to rows, as files to read.

A row is live in a snapshot if its file is live and no delete applies to the row. So an added file inserts its live
rows, and a removed file deletes its live rows. If the deletes of a file change, the rows that only the new deletes
remove are deleted, and the rows that only the old deletes removed are inserted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from esker.errors import Corrupt
from esker.model.display_text import card
from esker.model.predicates.predicate import Bound
from esker.model.schema import Schema
from esker.ports.engine import DELETE, INSERT, Change, ChangeGroup, Commit, ScanTask
from esker.ports.table_format import EntryColumns, TableFormat
from esker.read.attach_deletes import partition_key
from esker.read.changed_deletes import DELETE_COLUMNS, ApplyingDeletes, ChangedDeletes, ReachedFiles
from esker.read.compare_manifests import Compared, Differing, compare_manifests, differing
from esker.read.plan_tasks import Funnel
from esker.read.prune_manifest import PrunedManifests, columns_asked, prune_entries
from esker.read.prune_manifest_list import prune_manifest_list
from esker.read.snapshot_range import Step
from esker.tree.data_file import DataFile
from esker.tree.manifest import Entries
from esker.tree.manifest_list import ManifestContent, ManifestFile
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata

REPLACE = "replace"  # the operation of a snapshot that moves rows and changes none
File = tuple[DataFile, Bound]
"""A data file, and the part of the filter that its rows still have to pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePlan:
    """What a change feed will read, snapshot by snapshot, and how many manifests and files were skipped."""

    commits: tuple[Commit, ...]
    funnel: Funnel
    filter: Bound

    def __repr__(self) -> str:
        return f"<esker.ChangePlan of {len(self.commits):,} snapshots: {self.funnel.said}>"

    def _repr_html_(self) -> str:
        return card(f"Plan of the changes of {len(self.commits):,} snapshots", [("to read", self.funnel.said)])

    @property
    def tasks(self) -> tuple[ScanTask, ...]:
        """Every file to read, in the order of the feed. A file that several snapshots changed occurs several times."""
        return tuple(task for commit in self.commits for group in commit.groups for task in group.tasks)


@dataclass(slots=True)
class _Counted:
    """What planning has read, and the last manifest list: the next step starts with it."""

    last: dict[int, Sequence[ManifestFile]] = field(default_factory=dict)
    listed: set[str] = field(default_factory=set)
    opened: set[str] = field(default_factory=set)
    files: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePlanner:
    """Plans the steps of one feed. ``by_partition``: rows of different partitions are known to be different."""

    metadata: TableMetadata
    table_format: TableFormat
    schema: Schema
    predicate: Bound
    by_partition: bool = True

    def plan(self, steps: Sequence[Step]) -> ChangePlan:
        """The changes of each snapshot that changed rows."""
        counted = _Counted()
        changing = [step for step in steps if step.after.operation != REPLACE]
        for step in changing:
            _check(step.after)
        commits = tuple(self._commit(step, ordinal, counted) for ordinal, step in enumerate(changing))
        plan = ChangePlan(commits=commits, filter=self.predicate, funnel=_funnel((), counted))
        return replace(plan, funnel=_funnel(plan.tasks, counted))

    def _commit(self, step: Step, ordinal: int, counted: _Counted) -> Commit:
        before, after = self._manifests(step.before, counted), self._manifests(step.after, counted)
        counted.last = {step.after.snapshot_id: after}
        counted.listed.update(manifest.path for manifest in (*before, *after))
        lists = differing(before, after)
        data = self._compared_data(lists.of(ManifestContent.DATA), counted)
        deletes = self._compared(lists.of(ManifestContent.DELETES), DELETE_COLUMNS, counted)
        removed, added = self._kept(data.removed, counted), self._kept(data.added, counted)
        stayed = self._reached(lists.of(ManifestContent.DATA), data, deletes, counted) if deletes else []
        applying = ApplyingDeletes(self.metadata, self.table_format)
        old = applying.index(before, [file for file, _ in (*removed, *stayed)], counted.opened)
        new = applying.index(after, [file for file, _ in (*added, *stayed)], counted.opened)
        snapshot = step.after.snapshot_id
        gone, come = (Change(kind=kind, ordinal=ordinal, snapshot_id=snapshot) for kind in (DELETE, INSERT))
        tasks = [_task(file, old.applying_to(file[0]), gone) for file in removed]
        tasks += (_task(file, new.applying_to(file[0]), come) for file in added)
        for file in stayed:
            earlier, later = old.applying_to(file[0]), new.applying_to(file[0])
            tasks += _taken(file, earlier, _beyond(later, earlier), gone)
            tasks += _taken(file, later, _beyond(earlier, later), come)
        return Commit(snapshot_id=snapshot, ordinal=ordinal, groups=tuple(self._grouped(tasks)))

    def _manifests(self, snapshot: Snapshot | None, counted: _Counted) -> Sequence[ManifestFile]:
        if snapshot is None:
            return ()
        known = counted.last.get(snapshot.snapshot_id)
        return self.table_format.manifests(self.metadata, snapshot) if known is None else known

    def _compared_data(self, manifests: Differing, counted: _Counted) -> Compared:
        if not manifests.before:  # nothing was rewritten: each manifest can be judged and skipped by itself
            listed = prune_manifest_list(self.metadata, self.schema, manifests.after, self.predicate)
            manifests = replace(manifests, after=listed.data)
        columns = EntryColumns(metrics=columns_asked(self.schema, self.predicate))
        return self._compared(manifests, columns, counted)

    def _compared(self, manifests: Differing, columns: EntryColumns, counted: _Counted) -> Compared:
        counted.opened.update(manifest.path for manifest in manifests.opened)
        return compare_manifests(self.metadata, self.table_format, manifests, columns)

    def _kept(self, batches: Iterable[Entries], counted: _Counted) -> list[File]:
        """The files that may have a row of the result."""
        found = PrunedManifests()
        for entries in batches:
            prune_entries(found, self.schema, entries, self.predicate)
        counted.files += found.live_files
        return [
            (file, kept.residuals[int(number)])
            for kept in found.kept
            for file, number in zip(kept.entries.data_files(), kept.pattern, strict=True)
        ]

    def _reached(self, lists: Differing, data: Compared, deletes: Compared, counted: _Counted) -> list[File]:
        changed = ChangedDeletes(self.metadata, self.schema, deletes)
        near = [manifest for manifest in lists.shared if changed.may_reach(manifest)]
        listed = prune_manifest_list(self.metadata, self.schema, near, self.predicate)
        finder = ReachedFiles(self.metadata, self.table_format, self.schema, self.predicate)
        found = list(finder.find(changed, listed.data, data))
        counted.opened.update(finder.opened)
        counted.files += len(found)
        return found

    def _grouped(self, tasks: Sequence[ScanTask]) -> Iterator[ChangeGroup]:
        """Groups of tasks whose rows may be equal. With one spec, equal rows are in the same partition."""
        apart = self.by_partition and len({task.data_file.spec_id for task in tasks}) == 1
        groups: dict[Any, list[ScanTask]] = defaultdict(list)
        for task in tasks:
            groups[partition_key(task.data_file) if apart else None].append(task)
        for group in groups.values():
            deleted = tuple(task for task in group if task.change is not None and task.change.kind == DELETE)
            inserted = tuple(task for task in group if task.change is not None and task.change.kind == INSERT)
            yield ChangeGroup(deleted=deleted, inserted=inserted)


def _check(snapshot: Snapshot) -> None:
    """Raise `Corrupt` if a snapshot id is not a 64-bit number: rows show it as a long, and some writers use other
    ids."""
    if not -(2**63) <= snapshot.snapshot_id < 2**63:
        raise Corrupt(
            snapshot.manifest_list or "table metadata",
            f"its snapshot has the id {snapshot.snapshot_id}, which is not a 64-bit number",
        )


def _task(file: File, deletes: tuple[DataFile, ...], change: Change) -> ScanTask:
    data, residual = file
    return ScanTask(data_file=data, deletes=deletes, residual=residual, change=change)


def _taken(
    file: File, deletes: tuple[DataFile, ...], taken_by: tuple[DataFile, ...], change: Change
) -> Iterator[ScanTask]:
    """The rows that ``deletes`` leave and ``taken_by`` remove. No task if ``taken_by`` is empty."""
    if taken_by:
        yield replace(_task(file, deletes, change), taken_by=taken_by)


def _beyond(these: Sequence[DataFile], those: Sequence[DataFile]) -> tuple[DataFile, ...]:
    known = {(delete.path, delete.content_offset) for delete in those}
    return tuple(delete for delete in these if (delete.path, delete.content_offset) not in known)


def _funnel(tasks: Sequence[ScanTask], counted: _Counted) -> Funnel:
    return Funnel(
        manifests_total=len(counted.listed),
        manifests_read=len(counted.opened),
        files_total=counted.files,
        files_kept=len({(task.data_file.path, task.change) for task in tasks}),
        rows_kept=sum(_most_rows(task) for task in tasks),
        bytes_kept=sum(task.data_file.file_size for task in tasks),
        deletes_kept=len({delete.path for task in tasks for delete in (*task.deletes, *(task.taken_by or ()))}),
    )


def _most_rows(task: ScanTask) -> int:
    """The number of rows of the file. Fewer if a deletion vector counts the rows that it removes."""
    rows = task.data_file.record_count
    if task.taken_by is not None and all(delete.is_deletion_vector for delete in task.taken_by):
        rows = min(rows, sum(delete.record_count for delete in task.taken_by))
    return rows
