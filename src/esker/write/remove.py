"""Which files are removed from the table, and what replaces files that lose only some rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from esker.errors import Conflict, InvalidInput
from esker.model.predicates.predicate import TRUE, any_of
from esker.ports.engine import ScanTask
from esker.ports.row_changes import Mode, RowCounts
from esker.read.attach_deletes import partition_key
from esker.tree.data_file import DataFile, FileContent
from esker.tree.manifest_list import ManifestFile
from esker.tree.table_metadata import TableMetadata
from esker.write.context import Tools
from esker.write.rows.change_rows import apply_change, planned_tasks
from esker.write.rows.replace_files import apply_new_deletes, apply_new_manifests, apply_replacement, remove_dangling
from esker.write.rows.rewrite_file import Rewriter
from esker.write.rows.row_change_modes import mode_of
from esker.write.steps import (
    AddFiles,
    ChangeRows,
    DeleteKeys,
    FileConflicts,
    Outcome,
    Removal,
    RemoveDangling,
    RemoveFiles,
    RemovePartitions,
    RemoveRows,
    ReplaceDeletes,
    ReplaceFiles,
    ReplaceManifests,
    Step,
)

_Alone = (
    ChangeRows | ReplaceFiles | ReplaceDeletes | ReplaceManifests | RemoveDangling
)  # applied to what the steps before it left


def apply_steps(
    tools: Tools, rewriter: Rewriter, metadata: TableMetadata, manifests: Sequence[ManifestFile], steps: Sequence[Step]
) -> Outcome:
    """Apply the steps in order. A removal applies to the base and to everything that earlier steps added."""
    outcome = Outcome()
    conflicts = FileConflicts()
    for segment in _segments(steps):
        if isinstance(segment, ReplaceFiles):
            with conflicts.collecting():
                apply_replacement(tools, metadata, manifests, segment, outcome)
        elif segment:
            conflicts.raise_if_any()
            _apply_one(tools, rewriter, metadata, manifests, segment, outcome)
    conflicts.raise_if_any()
    return outcome


def _apply_one(
    tools: Tools,
    rewriter: Rewriter,
    metadata: TableMetadata,
    manifests: Sequence[ManifestFile],
    segment: _Alone | list[Step],
    outcome: Outcome,
) -> None:
    match segment:
        case ChangeRows():
            apply_change(tools, metadata, manifests, segment, outcome)
        case ReplaceDeletes():
            apply_new_deletes(tools, metadata, manifests, segment, outcome)
        case ReplaceManifests():
            apply_new_manifests(manifests, segment, outcome)
        case RemoveDangling():
            remove_dangling(tools.format, metadata, manifests, outcome)
        case list():
            _apply_segment(tools, rewriter, metadata, manifests, segment, outcome)


def _segments(steps: Sequence[Step]) -> Iterator[_Alone | list[Step]]:
    """Split the steps at changes of rows: such a change was computed on the result of the steps before it. The steps
    between two of them are applied to the base at once."""
    segment: list[Step] = []
    for step in steps:
        if isinstance(step, _Alone):
            yield segment
            segment = []
            yield step
        else:
            segment.append(step)
    yield segment


def _apply_segment(
    tools: Tools,
    rewriter: Rewriter,
    metadata: TableMetadata,
    manifests: Sequence[ManifestFile],
    steps: Sequence[Step],
    outcome: Outcome,
) -> None:
    removals: list[Removal] = []
    for step in steps:
        match step:
            case AddFiles(files=files):
                outcome.added.extend(files)
                outcome.appended += _rows(files)
            case DeleteKeys(files):
                outcome.added.extend(files)
                outcome.count("delete", None)
            case RemoveRows() | RemovePartitions() | RemoveFiles():
                kept = _remove_from_added(rewriter, metadata, outcome.added, step)
                outcome.appended -= _rows(outcome.added) - _rows(kept)
                outcome.added = kept
                removals.append(step)
    if removals:
        _remove_from_base(tools, rewriter, metadata, manifests, removals, outcome)


def _remove_from_added(
    rewriter: Rewriter, metadata: TableMetadata, added: Sequence[DataFile], step: Removal
) -> list[DataFile]:
    kept: list[DataFile] = []
    for file in added:
        if file.content is not FileContent.DATA:
            kept.append(file)
            continue
        match step:
            case RemoveRows(predicate):
                copy = rewriter.without(metadata, ScanTask(data_file=file, residual=TRUE), predicate)
                kept.extend((file,) if copy is None else copy)
            case RemovePartitions(keys=keys):
                kept.extend(() if partition_key(file) in keys else (file,))
            case RemoveFiles(paths):
                kept.extend(() if file.path in paths else (file,))
    return kept


def _remove_from_base(
    tools: Tools,
    rewriter: Rewriter,
    metadata: TableMetadata,
    manifests: Sequence[ManifestFile],
    removals: Sequence[Removal],
    outcome: Outcome,
) -> None:
    if not all(isinstance(step, RemoveFiles) for step in removals):
        outcome.count("delete", RowCounts())
    named = [step for step in removals if not isinstance(step, RemoveRows)]
    if named:  # first: a file that is removed as a whole need not be rewritten
        _remove_named(tools, rewriter, metadata, manifests, named, outcome)
    predicate = any_of(step.predicate for step in removals if isinstance(step, RemoveRows))
    mode = mode_of(metadata, "delete")
    for manifest, task in planned_tasks(tools, metadata, manifests, predicate, outcome):
        if _is_whole(task):
            outcome.remove(manifest, task.data_file)
            outcome.count("delete", _deleted(rewriter.live_rows(metadata, task, reads_data=False)))
        elif mode is Mode.MERGE_ON_READ:
            found = rewriter.matching(metadata, task, predicate)
            if len(found) == task.data_file.record_count:
                outcome.remove(manifest, task.data_file)
            elif found:
                outcome.lose(task.data_file, found, task.deletes)
            outcome.count("delete", RowCounts(deleted=len(found)))
        else:
            copy = rewriter.without(metadata, task, predicate)
            if copy is not None:
                outcome.remove(manifest, task.data_file)
                outcome.added.extend(copy)
                before = rewriter.live_rows(metadata, task, reads_data=True)
                outcome.count("delete", _deleted(before, left=sum(file.record_count for file in copy)))


def _rows(files: Sequence[DataFile]) -> int:
    return sum(file.record_count for file in files if file.content is FileContent.DATA)


def _deleted(before: int | None, *, left: int = 0) -> RowCounts | None:
    return None if before is None else RowCounts(deleted=before - left)


def _is_whole(task: ScanTask) -> bool:
    """Whether all rows of the file match, deleted ones too: then it can be removed without being read."""
    return task.residual == TRUE


def _remove_named(
    tools: Tools,
    rewriter: Rewriter,
    metadata: TableMetadata,
    manifests: Sequence[ManifestFile],
    steps: Sequence[RemovePartitions | RemoveFiles],
    outcome: Outcome,
) -> None:
    """Remove files by their partition or by their own name."""
    missing = {path for step in steps if isinstance(step, RemoveFiles) for path in step.paths}
    for manifest, task in planned_tasks(tools, metadata, manifests, TRUE, outcome):
        file = task.data_file
        if any(_is_named(step, file) for step in steps):
            outcome.remove(manifest, file)
            if outcome.counts_rows:  # files that are only replaced by others with the same rows do not count
                outcome.count("delete", _deleted(rewriter.live_rows(metadata, task, reads_data=False)))
        missing.discard(file.path)
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise Conflict(f"cannot replace {min(missing)}{more}: another commit has removed it", files=sorted(missing))


def _is_named(step: RemovePartitions | RemoveFiles, file: DataFile) -> bool:
    if isinstance(step, RemoveFiles):
        return file.path in step.paths
    if file.spec_id != step.spec_id:
        raise InvalidInput(
            f"cannot overwrite partitions: {file.path} was written with partition spec {file.spec_id}, the table now "
            f"has {step.spec_id}, and its rows may belong to any of the new partitions; use overwrite(data, where=…)",
            file=file.path,
        )
    return partition_key(file) in step.keys
