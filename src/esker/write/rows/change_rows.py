"""Changes of rows: what an engine is shown, and what it answered, applied to a base."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace

import numpy as np

from esker.errors import Conflict, InvalidInput
from esker.model.predicates.predicate import FALSE, Bound
from esker.ports.engine import ScanTask
from esker.ports.row_changes import RowDelta, RowView, Verb
from esker.ports.table_format import EntryColumns, TableFormat
from esker.read.attach_deletes import attach_deletes
from esker.read.plan_tasks import Tasks
from esker.read.prune_manifest import prune_manifests
from esker.read.prune_manifest_list import prune_manifest_list
from esker.tree.manifest_list import ManifestContent, ManifestFile
from esker.tree.table_metadata import TableMetadata
from esker.write.context import Tools
from esker.write.rows.row_change_modes import mode_of
from esker.write.steps import ChangeRows, Outcome, PlannedFile, listed_name

Sources = dict[str, str | None]
"""The manifest each data file of a view is listed in; None for one of the transaction's own."""


def planned_tasks(
    tools: Tools,
    metadata: TableMetadata,
    manifests: Sequence[ManifestFile],
    predicate: Bound,
    outcome: Outcome,
) -> Iterator[tuple[str, ScanTask]]:
    """Files of the base that may hold a matching row and are still there after the steps so far, with the manifest
    each is listed in."""
    if predicate == FALSE:
        return
    listed = prune_manifest_list(metadata, metadata.schema, manifests, predicate)
    pruned = prune_manifests(metadata, tools.format, metadata.schema, listed, predicate)
    deletes = attach_deletes(metadata, tools.format, listed, pruned)
    sources = [batch.entries.manifest_of(row).path for batch in pruned.kept for row in range(len(batch.entries))]
    for manifest, task in zip(sources, Tasks(pruned.kept, deletes), strict=True):
        if listed_name(task.data_file) not in outcome.removed.get(manifest, ()):
            gone = outcome.gone_from(task.data_file.path)
            yield manifest, task if gone is None else replace(task, gone=gone)


def view_rows(
    tools: Tools,
    metadata: TableMetadata,
    manifests: Sequence[ManifestFile],
    outcome: Outcome,
    *,
    verb: Verb,
    predicate: Bound,
    operation_id: str,
) -> tuple[RowView, Sources]:
    """The files that may hold a row to change: of the base, and those that earlier steps added."""
    sources: Sources = {}
    tasks: list[ScanTask] = []
    for manifest, task in planned_tasks(tools, metadata, manifests, predicate, outcome):
        sources[task.data_file.path] = manifest
        tasks.append(task)
    for file in outcome.added if predicate != FALSE else ():
        sources[file.path] = None
        tasks.append(ScanTask(data_file=file, residual=predicate))
    view = RowView(
        verb=verb,
        mode=mode_of(metadata, verb),
        predicate=predicate,
        metadata=metadata,
        tasks=tuple(tasks),
        operation_id=operation_id,
        fresh=frozenset(path for path, manifest in sources.items() if manifest is None),
    )
    return view, sources


def change_step(view: RowView, sources: Sources, delta: RowDelta, manifests: Iterable[ManifestFile]) -> ChangeRows:
    """An engine's answer as a step; ``InvalidInput`` where it does not answer the view."""
    gone = {path: positions for path, positions in delta.gone.items() if positions}
    named = {*gone, *delta.rewritten}
    by_path = {task.data_file.path: task for task in view.tasks}
    if unknown := sorted(named - by_path.keys()):
        raise InvalidInput(f"cannot change rows of {unknown[0]}: it is not among the files planned", file=unknown[0])
    if kept := sorted(path for path in gone if path in view.fresh or path in delta.rewritten):
        raise InvalidInput(
            f"cannot delete rows of {kept[0]} by position: it is of this transaction or leaves the table", file=kept[0]
        )
    for path, positions in gone.items():
        if positions.max() >= by_path[path].data_file.record_count:
            raise InvalidInput(f"cannot delete row {positions.max()} of {path}: it has fewer rows", file=path)
    return ChangeRows(
        verb=view.verb,
        predicate=view.predicate,
        files=tuple(
            PlannedFile(by_path[path].data_file, by_path[path].deletes, sources[path]) for path in sorted(named)
        ),
        gone=gone,
        rewritten=delta.rewritten,
        added=delta.added,
        counts=delta.counts,
        manifests=frozenset(manifest.path for manifest in manifests),
    )


def apply_change(
    tools: Tools, metadata: TableMetadata, manifests: Sequence[ManifestFile], step: ChangeRows, outcome: Outcome
) -> None:
    """Let the step's rows go and its files come; ``Conflict`` where a file it refers to is no longer there."""
    added = {file.path for file in outcome.added}
    own = [planned for planned in step.files if planned.manifest is None]
    _check_there(f"{step.verb} rows of", {planned.data_file.path for planned in own} - added)
    doing = f"{step.verb} rows of"
    listed = locate(tools.format, metadata, manifests, step.files, seen=step.manifests, doing=doing)
    outcome.added = [file for file in outcome.added if file.path not in step.rewritten]
    for planned, manifest in listed:
        file = planned.data_file
        if file.path in step.rewritten or len(step.gone[file.path]) == file.record_count:
            outcome.remove(manifest, file)
        else:
            outcome.lose(file, step.gone[file.path], planned.deletes)
    outcome.added.extend(step.added)
    outcome.count(step.verb, step.counts, copied=sum(file.record_count for file in step.added))


def locate(
    table_format: TableFormat,
    metadata: TableMetadata,
    manifests: Sequence[ManifestFile],
    files: Sequence[PlannedFile],
    *,
    seen: Set[str],
    doing: str,
) -> list[tuple[PlannedFile, str]]:
    """The manifest each file is listed in now: the one it was in, or one of those written since. Raises ``Conflict``
    for a file that is gone."""
    now = {manifest.path for manifest in manifests}
    found = [(planned, planned.manifest) for planned in files if planned.manifest in now]
    moved = {p.data_file.path: p for p in files if p.manifest is not None and p.manifest not in now}
    later = [m for m in manifests if m.content is ManifestContent.DATA and m.path not in seen]
    for entries in table_format.entries(metadata, later, EntryColumns(rest=False)) if moved else ():
        for row in np.flatnonzero(entries.is_live):
            planned = moved.pop(entries.path[int(row)].as_py(), None)
            if planned is not None:
                found.append((planned, entries.manifest_of(int(row)).path))
    _check_there(doing, moved.keys())
    return [(planned, manifest) for planned, manifest in found if manifest is not None]


def _check_there(doing: str, missing: Set[str]) -> None:
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise Conflict(
            f"cannot {doing} {min(missing)}{more}: another commit has removed it; refresh and try again",
            files=sorted(missing),
        )
