"""Which files leave the table, and what takes the place of those that are only partly gone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from esker.errors import Conflict, InvalidInput, Unsupported
from esker.model.predicate import FALSE, TRUE, Bound, any_of, complement
from esker.model.schema import Schema
from esker.ports.engine import ReadRequest, ScanTask, WriteRequest
from esker.ports.table_format import EntryColumns
from esker.read.attach_deletes import attach_deletes, partition_key
from esker.read.metadata_columns import metadata_column
from esker.read.plan_tasks import Tasks
from esker.read.prune_manifest import prune_manifests
from esker.read.prune_manifest_list import prune_manifest_list
from esker.tree.data_file import DataFile
from esker.tree.manifest_list import ManifestContent, ManifestFile
from esker.tree.table_metadata import TableMetadata
from esker.write.steps import AddFiles, Removal, RemoveFiles, RemovePartitions, RemoveRows, Step
from esker.write.workbench import Scratch, Tools


@dataclass(slots=True)
class Outcome:
    """What the steps come to on one base."""

    added: list[DataFile] = field(default_factory=list)
    removed: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # by manifest, names of files
    removed_files: list[DataFile] = field(default_factory=list)

    def remove(self, manifest: str, file: DataFile) -> None:
        """A file leaves; removing it twice is removing it once."""
        name = listed_name(file)
        if name not in self.removed[manifest]:
            self.removed[manifest].add(name)
            self.removed_files.append(file)


def listed_name(file: DataFile) -> str:
    """What tells files of a manifest apart: several deletion vectors share one Puffin file."""
    return f"{file.path}#{file.content_offset}" if file.is_deletion_vector else file.path


@dataclass(slots=True)
class Rewriter:
    """Copies the rows that stay out of files that partly match. Each file is copied once, however many attempts."""

    tools: Tools
    scratch: Scratch
    operation_id: str
    _copies: dict[tuple[str, Bound, tuple[str, ...]], tuple[DataFile, ...] | None] = field(default_factory=dict)

    def without(self, metadata: TableMetadata, task: ScanTask, predicate: Bound) -> tuple[DataFile, ...] | None:
        """New files with the rows that do not match; None where no row matches, so the file can stay."""
        key = (task.data_file.path, predicate, tuple(delete.path for delete in task.deletes))
        if key not in self._copies:
            self._copies[key] = self._copy(metadata, task, predicate)
        return self._copies[key]

    def _copy(self, metadata: TableMetadata, task: ScanTask, predicate: Bound) -> tuple[DataFile, ...] | None:
        if not self._any_match(metadata, task, predicate):
            return None
        mode = metadata.properties.get("write.delete.mode", "copy-on-write")
        if mode != "copy-on-write":
            raise Unsupported(
                f"cannot delete rows inside {task.data_file.path}: the table asks for {mode} "
                "(write.delete.mode) and this version rewrites files",
                feature=mode,
            )
        import pyarrow as pa

        projection = _with_lineage(metadata)
        stay = ScanTask(data_file=task.data_file, deletes=task.deletes, residual=complement(predicate))
        request = ReadRequest(metadata=metadata, tasks=[stay], row_schema=metadata.schema, projection=projection)
        rows = pa.RecordBatchReader.from_batches(
            self.tools.engine.arrow_schema(projection), self.tools.engine.read(request)
        )
        written = self.tools.writer.write(
            WriteRequest(metadata=metadata, schema=metadata.schema, data=rows, operation_id=self.operation_id)
        )
        return tuple(noted(written, self.scratch))

    def _any_match(self, metadata: TableMetadata, task: ScanTask, predicate: Bound) -> bool:
        look = ScanTask(data_file=task.data_file, deletes=task.deletes, residual=predicate)
        request = ReadRequest(
            metadata=metadata, tasks=[look], row_schema=metadata.schema, projection=Schema(fields=()), limit=1
        )
        return any(batch.num_rows for batch in self.tools.engine.read(request))


def noted(files: Iterable[DataFile], scratch: Scratch) -> Iterator[DataFile]:
    """Files as they are written, each remembered."""
    for file in files:
        scratch.note(file.path)
        yield file


def apply_steps(
    tools: Tools, rewriter: Rewriter, metadata: TableMetadata, manifests: Sequence[ManifestFile], steps: Sequence[Step]
) -> Outcome:
    """Apply the steps in order: a removal touches the base and everything that earlier steps added."""
    outcome = Outcome()
    for step in steps:
        if isinstance(step, AddFiles):
            outcome.added.extend(step.files)
        else:
            outcome.added = _remove_from_added(rewriter, metadata, outcome.added, step)
    removals = [step for step in steps if not isinstance(step, AddFiles)]
    if removals:
        _remove_from_base(tools, rewriter, metadata, manifests, removals, outcome)
    return outcome


def _remove_from_added(
    rewriter: Rewriter, metadata: TableMetadata, added: Sequence[DataFile], step: Removal
) -> list[DataFile]:
    kept: list[DataFile] = []
    for file in added:
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
    named = [step for step in removals if not isinstance(step, RemoveRows)]
    if named:  # first: what leaves whole is not worth a copy of its rows
        _remove_named(tools, metadata, manifests, named, outcome)
    predicate = any_of(step.predicate for step in removals if isinstance(step, RemoveRows))
    for manifest, task in _tasks(tools, metadata, manifests, predicate):
        if listed_name(task.data_file) in outcome.removed.get(manifest, ()):
            continue
        copy = () if _is_whole(task) else rewriter.without(metadata, task, predicate)
        if copy is not None:
            outcome.remove(manifest, task.data_file)
            outcome.added.extend(copy)
    _remove_vectors(tools, metadata, manifests, outcome)


def _is_whole(task: ScanTask) -> bool:
    """Every row of the file matches, deleted ones too: it can go without being read."""
    return task.residual == TRUE


def _tasks(
    tools: Tools, metadata: TableMetadata, manifests: Sequence[ManifestFile], predicate: Bound
) -> Iterator[tuple[str, ScanTask]]:
    """Files that may hold a matching row, with the manifest each is listed in."""
    if predicate == FALSE:
        return
    listed = prune_manifest_list(metadata, metadata.schema, manifests, predicate)
    pruned = prune_manifests(metadata, tools.format, metadata.schema, listed, predicate)
    deletes = attach_deletes(metadata, tools.format, listed, pruned)
    sources = [batch.entries.manifest_of(row).path for batch in pruned.kept for row in range(len(batch.entries))]
    yield from zip(sources, Tasks(pruned.kept, deletes), strict=True)


def _remove_named(
    tools: Tools,
    metadata: TableMetadata,
    manifests: Sequence[ManifestFile],
    steps: Sequence[RemovePartitions | RemoveFiles],
    outcome: Outcome,
) -> None:
    """Files that leave by their partition or by their own name."""
    missing = {path for step in steps if isinstance(step, RemoveFiles) for path in step.paths}
    for manifest, task in _tasks(tools, metadata, manifests, TRUE):
        file = task.data_file
        if any(_is_named(step, file) for step in steps):
            outcome.remove(manifest, file)
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


def _remove_vectors(tools: Tools, metadata: TableMetadata, manifests: Sequence[ManifestFile], outcome: Outcome) -> None:
    """A data file that leaves takes its deletion vector along."""
    gone = {file.path for file in outcome.removed_files}
    deletes = [m for m in manifests if m.content is ManifestContent.DELETES and m.may_hold_live_files]
    if not gone or not deletes:
        return
    for entries in tools.format.entries(metadata, deletes, EntryColumns()):
        for row in np.flatnonzero(entries.is_live):
            delete = entries.data_file(int(row))
            if delete.is_deletion_vector and delete.referenced_data_file in gone:
                outcome.remove(entries.manifest_of(int(row)).path, delete)


def _with_lineage(metadata: TableMetadata) -> Schema:
    """The table's columns; from v3 on also those by which a row keeps its identity when it is copied."""
    if metadata.format_version < 3:
        return metadata.schema
    lineage = (metadata_column("_row_id"), metadata_column("_last_updated_sequence_number"))
    fields = (*metadata.schema.fields, *(column for column in lineage if column is not None))
    return Schema(fields=fields, schema_id=metadata.schema.schema_id)
