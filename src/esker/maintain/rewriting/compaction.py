"""Compaction: data files are rewritten in groups, and each group is exchanged in a snapshot of operation "replace".

Before a group is committed, its rows are counted: rows in, less the deleted ones, must be rows out. A group whose files
were changed by another commit is planned and written again on the newest version.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field, replace

from esker.errors import Conflict, Corrupt, EskerError, OutcomeUnknown
from esker.maintain.rewriting.compaction_results import CompactionPlan, CompactionReport, FailedGroup, TableSize
from esker.maintain.rewriting.plan_groups import CompactionOptions, ListedTask, PlannedGroup, plan_groups
from esker.model.predicates.predicate import TRUE, Bound
from esker.ports.catalog import TableState
from esker.ports.file_rewriting import EngineName, FileGroup, RowLayout
from esker.tree.data_file import DataFile
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata
from esker.write.build_snapshot import SnapshotChange, head_of
from esker.write.commit import commit, refreshed
from esker.write.context import Home, MetadataNames, Scratch, Tools
from esker.write.rows.change_rows import planned_tasks
from esker.write.rows.rewrite_file import noted
from esker.write.steps import Outcome, PlannedFile, RemoveDangling, ReplaceFiles, Step, conflicting_files

log = logging.getLogger("esker.maintain")

Progress = Callable[[int, int], None]
"""Called with the number of groups that are rewritten, and the number of all groups."""


def plan_compaction(
    tools: Tools,
    metadata: TableMetadata,
    head: Snapshot | None,
    options: CompactionOptions,
    *,
    where: Bound = TRUE,
    only: frozenset[str] | None = None,
) -> CompactionPlan:
    """The groups that a compaction of this version rewrites; ``only`` limits it to these files. Nothing is written."""
    manifests = () if head is None else tools.format.manifests(metadata, head)
    files: Iterable[ListedTask] = (
        ListedTask(replace(task, residual=TRUE), manifest)
        for manifest, task in planned_tasks(tools, metadata, manifests, where, Outcome())
        if only is None or task.data_file.path in only
    )
    return CompactionPlan(
        snapshot=head,
        strategy=options.strategy,
        groups=tuple(plan_groups(files, options, metadata.default_spec_id)),
        target_file_size=options.target_file_size,
        before=TableSize.of(head),
        manifests=frozenset(manifest.path for manifest in manifests),
    )


# ---------------------------------------------------------------- one group


@dataclass(frozen=True, slots=True)
class RewrittenGroup:
    """A group with its new files, which no commit has added yet."""

    group: PlannedGroup
    step: ReplaceFiles
    scratch: Scratch
    deleted: int  # rows of the old files that deletes had removed
    attempt: int = 0  # how often its files were rewritten before

    @property
    def paths(self) -> set[str]:
        """The old files."""
        return {file.task.data_file.path for file in self.group.files}

    @property
    def rows(self) -> int:
        """The rows of the new files."""
        return sum(file.record_count for file in self.step.added)


def check_rows(group: PlannedGroup, added: Sequence[DataFile], deleted: int) -> None:
    """Raise ``Corrupt`` unless rows in, less the deleted ones, are rows out."""
    rows_in = sum(file.task.data_file.record_count for file in group.files)
    rows_out = sum(file.record_count for file in added)
    if rows_in - deleted != rows_out:
        first = group.files[0].task.data_file.path
        more = f" and {len(group.files) - 1} more files" if len(group.files) > 1 else ""
        raise Corrupt(
            first,
            f"cannot compact it{more}: the files record {rows_in:,} rows, of which {deleted:,} are deleted, but "
            f"{rows_out:,} were written; nothing was changed; check the table with verify(deep=True)",
            rows_in=rows_in,
            rows_deleted=deleted,
            rows_out=rows_out,
        )


def rewrite_group(
    tools: Tools,
    metadata: TableMetadata,
    plan: CompactionPlan,
    group: PlannedGroup,
    options: CompactionOptions,
    layout: RowLayout,
    engine: EngineName,
) -> RewrittenGroup:
    """Write the new files of a group and check their rows. If it fails, the new files are deleted."""
    assert plan.snapshot is not None  # a group has files
    scratch = Scratch(tools.storage)
    request = FileGroup(
        metadata=metadata,
        tasks=[file.task for file in group.files],
        target_file_size=options.target_file_size,
        max_file_size=(options.target_file_size + options.max_file_size) // 2,
        operation_id=MetadataNames().operation_id,
        layout=layout,
        engine=engine,
    )
    try:
        added = tuple(noted(tools.rewriter.rewrite(request), scratch))
        deleted = tools.rewriter.deleted_rows(request)
        check_rows(group, added, deleted)
    except BaseException:
        scratch.discard()
        raise
    keeps = options.keep_sequence_number and metadata.format_version > 1
    step = ReplaceFiles(
        files=tuple(PlannedFile(f.task.data_file, f.task.deletes, f.manifest) for f in group.files),
        added=added,
        start=plan.snapshot,
        sequence_number=plan.snapshot.sequence_number if keeps else None,
        manifests=plan.manifests,
        format_version=metadata.format_version,
    )
    return RewrittenGroup(group, step, scratch, deleted)


# ---------------------------------------------------------------- all groups


@dataclass(slots=True, kw_only=True)
class Compaction:
    """One run. The groups are rewritten in threads; only the caller's thread uses the catalog."""

    home: Home
    state: TableState
    ref: str
    options: CompactionOptions
    layout: RowLayout
    engine: EngineName
    extra: Mapping[str, str]
    progress: Progress | None = None
    _committed: list[RewrittenGroup] = field(default_factory=list)
    _snapshots: list[Snapshot] = field(default_factory=list)
    _failed: list[FailedGroup] = field(default_factory=list)

    def run(self, plan: CompactionPlan) -> CompactionReport:
        """Rewrite and commit the groups of the plan, which was made for ``state``.

        Raises what the first failed group raised, with nothing committed; with partial progress, other groups are
        committed and the failed ones are in the report.
        """
        groups = plan.groups
        commits = min(self.options.max_commits, len(groups)) if self.options.partial_progress else 1
        batch = -(-len(groups) // max(1, commits))
        waiting: list[RewrittenGroup] = []
        try:
            with closing(self._rewritten(plan)) as rewritten:  # groups that still run end here, also after a failure
                for done in rewritten:
                    waiting.append(done)
                    if len(waiting) >= batch:
                        self._commit_or_note(waiting)
            if waiting:
                self._commit_or_note(waiting)
        except BaseException:
            for done in waiting:
                done.scratch.discard()
            raise
        return self._report(plan)

    def _rewritten(self, plan: CompactionPlan) -> Generator[RewrittenGroup]:
        """The groups as they are finished, a few at a time."""
        left = list(reversed(plan.groups))
        running: dict[Future[RewrittenGroup], PlannedGroup] = {}
        metadata = self.state.metadata
        at_once = self.options.max_concurrent_groups
        finished = 0
        with ThreadPoolExecutor(at_once, thread_name_prefix="esker-compact") as pool:
            try:
                while left or running:
                    while left and len(running) < at_once:
                        group = left.pop()
                        running[pool.submit(self._rewrite, metadata, plan, group)] = group
                    done, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        group = running.pop(future)
                        finished += 1
                        log.info("%d of %d groups rewritten…", finished, len(plan.groups))
                        if self.progress is not None:
                            self.progress(finished, len(plan.groups))
                        try:
                            found = future.result()
                        except EskerError as error:
                            self._fail([group], error)
                            continue
                        yield found
            finally:
                for future in running:
                    future.cancel()
                    future.add_done_callback(_discard)

    def _rewrite(self, metadata: TableMetadata, plan: CompactionPlan, group: PlannedGroup) -> RewrittenGroup:
        return rewrite_group(self.home.tools, metadata, plan, group, self.options, self.layout, self.engine)

    def _fail(self, groups: Iterable[PlannedGroup], error: EskerError) -> None:
        """Note failed groups; without partial progress, raise."""
        if not self.options.partial_progress:
            raise error
        log.warning("a group of a compaction of %s failed: %s", self.home.name, error)
        self._failed.extend(FailedGroup(group, error) for group in groups)

    def _commit_or_note(self, waiting: list[RewrittenGroup]) -> None:
        """Commit groups, and empty the list of what is committed or may be."""
        while waiting:
            try:
                self._commit(waiting)
                self._committed.extend(waiting)
                waiting.clear()
            except Conflict as error:
                touched = _touched(waiting, error)
                # If no group was touched, the race for the catalog was lost as often as the table allows.
                lost = [
                    group for group in touched or waiting if not touched or group.attempt >= self.options.max_retries
                ]
                if lost and not self.options.partial_progress:
                    raise
                for group in touched or lost:
                    group.scratch.discard()
                    waiting.remove(group)
                if lost:
                    self._fail((group.group for group in lost), error)
                if again := [group for group in touched if group not in lost]:
                    log.info("compacting %d groups of %s again: %s", len(again), self.home.name, error)
                    waiting.extend(self._again(again))
            except EskerError as error:
                if isinstance(error, OutcomeUnknown):
                    waiting.clear()  # their files may be in the table
                raise
            except BaseException:
                waiting.clear()
                raise

    def _commit(self, groups: Sequence[RewrittenGroup]) -> None:
        tools = self.home.tools
        steps: list[Step] = [group.step for group in groups]
        if self.options.remove_dangling_deletes:
            steps.append(RemoveDangling())
        change = SnapshotChange(
            tools=tools,
            steps=steps,
            scratch=Scratch(tools.storage),  # of metadata alone: a group that has no conflict keeps its data files
            names=MetadataNames(),
            ref=self.ref,
            operation="replace",
            extra=self.extra,
        )
        self.state = commit(self.home.catalog, self.home.name, self.state, change)
        if change.snapshot is not None:
            self._snapshots.append(change.snapshot)

    def _again(self, groups: Sequence[RewrittenGroup]) -> list[RewrittenGroup]:
        """The same files planned and rewritten on the newest version. Files that are gone are left out."""
        self.state = refreshed(self.home.catalog, self.home.name, self.state)
        metadata = self.state.metadata
        if not self.layout.columns <= metadata.schema.by_id.keys():  # F32
            why = "cannot compact: a column by which its rows are sorted was dropped since; sort by another one"
            self._fail((group.group for group in groups), Conflict(why))
            return []
        head = head_of(metadata, self.ref)
        only = frozenset(path for group in groups for path in group.paths)
        plan = plan_compaction(self.home.tools, metadata, head, self.options, only=only)
        made: list[RewrittenGroup] = []
        try:
            for group in plan.groups:
                try:
                    found = self._rewrite(metadata, plan, group)
                except EskerError as error:
                    self._fail([group], error)
                    continue
                made.append(replace(found, attempt=1 + max(old.attempt for old in groups)))
        except BaseException:
            for done in made:
                done.scratch.discard()
            raise
        return made

    def _report(self, plan: CompactionPlan) -> CompactionReport:
        groups = self._committed
        old = [file.task.data_file for group in groups for file in group.group.files]
        new = [file for group in groups for file in group.step.added]
        return CompactionReport(
            snapshots=tuple(self._snapshots),
            groups=len(groups),
            failed=tuple(self._failed),
            files_rewritten=len(old),
            files_added=len(new),
            bytes_rewritten=sum(file.file_size for file in old),
            bytes_added=sum(file.file_size for file in new),
            rows=sum(group.rows for group in groups),
            rows_deleted=sum(group.deleted for group in groups),
            delete_files_removed=sum(
                int(snapshot.summary.get("removed-delete-files", "0")) for snapshot in self._snapshots
            ),
            before=plan.before,
            after=TableSize.of(head_of(self.state.metadata, self.ref)),
        )


def _touched(groups: Sequence[RewrittenGroup], error: Conflict) -> list[RewrittenGroup]:
    """The groups that another commit has touched; none if only the race for the catalog was lost."""
    if "attempts" in error.facts:
        return []
    paths = conflicting_files(error)
    return [group for group in groups if not paths or group.paths & paths]


def _discard(future: Future[RewrittenGroup]) -> None:
    """Delete the files of a group that finished after the compaction had failed."""
    if not future.cancelled() and future.exception() is None:
        future.result().scratch.discard()
