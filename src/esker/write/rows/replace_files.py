"""Rewriting applied to a base: files leave, files that say the same come, and deletes that say nothing are removed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

import numpy as np

from esker.errors import Conflict
from esker.model.file_paths import same_file, split_location
from esker.ports.table_format import EntryColumns, TableFormat
from esker.read.attach_deletes import DELETE_FILE_PATH_ID, PartitionKey, only_target, partition_key
from esker.tree.data_file import DataFile, FileContent
from esker.tree.manifest_list import ManifestContent, ManifestFile
from esker.tree.table_metadata import TableMetadata
from esker.write.context import Tools
from esker.write.rows.change_rows import locate
from esker.write.steps import Outcome, ReplaceDeletes, ReplaceFiles, ReplaceManifests, listed_name


def apply_replacement(
    tools: Tools, metadata: TableMetadata, manifests: Sequence[ManifestFile], step: ReplaceFiles, outcome: Outcome
) -> None:
    """Let the replaced files go and the new ones come. Raises ``Conflict`` if a replaced file is no longer there."""
    found = locate(tools.format, metadata, manifests, step.files, seen=step.manifests, doing="compact")
    for planned, manifest in found:
        outcome.remove(manifest, planned.data_file)
    outcome.added.extend(step.added)
    if step.sequence_number is not None:
        outcome.numbers |= {file.path: step.sequence_number for file in step.added}


def apply_new_deletes(
    tools: Tools, metadata: TableMetadata, manifests: Sequence[ManifestFile], step: ReplaceDeletes, outcome: Outcome
) -> None:
    """Let the old deletes go and the new ones come. Raises ``Conflict`` if they do not fit this base."""
    old = {listed_name(file): file for file in step.files}
    for manifest, delete in _live(tools, metadata, manifests, ManifestContent.DELETES):
        if old.pop(listed_name(delete), None) is not None:
            outcome.remove(manifest, delete)
        elif delete.is_deletion_vector and delete.referenced_data_file in step.targets:
            raise Conflict(
                f"cannot rewrite the deletes of {delete.referenced_data_file}: another commit has deleted rows of it; "
                "try again",
                file=delete.referenced_data_file,
            )
    if old:
        raise Conflict(
            f"cannot rewrite {min(old)}: another commit has removed it; try again",
            files=sorted(file.path for file in old.values()),
        )
    missing = set(step.targets)
    missing.difference_update(file.path for _, file in _live(tools, metadata, manifests, ManifestContent.DATA))
    if missing:
        raise Conflict(
            f"cannot rewrite the deletes of {min(missing)}: another commit has removed it; try again",
            files=sorted(missing),
        )
    outcome.added.extend(step.added)
    outcome.numbers |= step.numbers


def _live(
    tools: Tools, metadata: TableMetadata, manifests: Sequence[ManifestFile], content: ManifestContent
) -> list[tuple[str, DataFile]]:
    listed = [m for m in manifests if m.content is content and m.may_hold_live_files]
    return [
        (entries.manifest_of(int(row)).path, entries.data_file(int(row)))
        for entries in tools.format.entries(metadata, listed, EntryColumns())
        for row in np.flatnonzero(entries.is_live)
    ]


def apply_new_manifests(manifests: Sequence[ManifestFile], step: ReplaceManifests, outcome: Outcome) -> None:
    """Exchange manifests. Raises ``Conflict`` if one of the old ones is no longer listed."""
    missing = step.paths - {manifest.path for manifest in manifests}
    if missing:
        raise Conflict(
            f"cannot rewrite manifest {min(missing)}: another commit has changed it; try again", files=sorted(missing)
        )
    outcome.clustered.append(step)


# ---------------------------------------------------------------- dangling deletes
#
# Delete files that apply to no data file any more, by the rules of ``read.attach_deletes``. A delete of one data file
# dangles when that file is gone. A delete of a partition dangles when every data file there is newer than the delete.
# No position is about a file that the same commit adds, though its rows may keep an older number. An equality delete of
# an unpartitioned spec looks at the data of the whole table.


def remove_dangling(
    table_format: TableFormat, metadata: TableMetadata, manifests: Sequence[ManifestFile], outcome: Outcome
) -> None:
    """Remove the delete files that dangle once the steps so far are applied."""
    for manifest, delete in list(dangling_deletes(table_format, metadata, manifests, outcome)):
        outcome.remove(manifest, delete)


def dangling_deletes(
    table_format: TableFormat,
    metadata: TableMetadata,
    manifests: Sequence[ManifestFile],
    outcome: Outcome | None = None,
) -> Iterator[tuple[str, DataFile]]:
    """The delete files that apply to no data file, each with the manifest that lists it."""
    deletes = list(_deletes(table_format, metadata, manifests))
    if not deletes:
        return
    unpartitioned = {spec.spec_id for spec in metadata.specs if spec.is_unpartitioned}
    data = _live_data(table_format, metadata, manifests, outcome or Outcome(), deletes)
    for manifest, delete, target in deletes:
        if target is not None:
            known = data.names.get(split_location(target)[2], ())
            if not any(same_file(path, target) for path in known):
                yield manifest, delete
            continue
        is_equality = delete.content is FileContent.EQUALITY_DELETES
        everywhere = is_equality and delete.spec_id in unpartitioned
        if everywhere:
            oldest = data.oldest
        else:
            oldest = (data.oldest_in if is_equality else data.oldest_before_in).get(partition_key(delete))
        if oldest is None or oldest > delete.sequence_number - is_equality:
            yield manifest, delete


@dataclass(slots=True)
class _LiveData:
    """The live data files, as far as deletes need to know them."""

    oldest: int | None = None  # the least data sequence number
    oldest_in: dict[PartitionKey, int] = field(default_factory=dict)
    oldest_before_in: dict[PartitionKey, int] = field(default_factory=dict)  # without files that the commit adds
    names: dict[str, list[str]] = field(default_factory=dict)  # targets of deletes, by path without scheme and host

    def add(self, file: DataFile, number: int, targets: Set[str], *, is_new: bool) -> None:
        self.oldest = number if self.oldest is None else min(self.oldest, number)
        key = partition_key(file)
        self.oldest_in[key] = min(number, self.oldest_in.get(key, number))
        if not is_new:
            self.oldest_before_in[key] = self.oldest_in[key]
        short = split_location(file.path)[2]
        if short in targets:
            self.names.setdefault(short, []).append(file.path)


def _deletes(
    table_format: TableFormat, metadata: TableMetadata, manifests: Sequence[ManifestFile]
) -> Iterator[tuple[str, DataFile, str | None]]:
    """Live delete files, with their manifest and the only data file that each is about, if there is one."""
    listed = [m for m in manifests if m.content is ManifestContent.DELETES and m.may_hold_live_files]
    for entries in table_format.entries(metadata, listed, EntryColumns(metrics=(DELETE_FILE_PATH_ID,))):
        for row in np.flatnonzero(entries.is_live):
            delete = entries.data_file(int(row))
            is_equality = delete.content is FileContent.EQUALITY_DELETES
            target = None if is_equality else only_target(delete, entries, int(row))
            yield entries.manifest_of(int(row)).path, delete, target


def _live_data(
    table_format: TableFormat,
    metadata: TableMetadata,
    manifests: Sequence[ManifestFile],
    outcome: Outcome,
    deletes: Sequence[tuple[str, DataFile, str | None]],
) -> _LiveData:
    targets = {split_location(target)[2] for _, _, target in deletes if target is not None}
    removed: Mapping[str, set[str]] = outcome.removed
    found = _LiveData()
    listed = [m for m in manifests if m.content is ManifestContent.DATA and m.may_hold_live_files]
    for entries in table_format.entries(metadata, listed, EntryColumns(rest=False)):
        for row in np.flatnonzero(entries.is_live):
            file = entries.data_file(int(row))
            if listed_name(file) not in removed.get(entries.manifest_of(int(row)).path, ()):
                found.add(file, file.sequence_number, targets, is_new=False)
    for file in outcome.added:
        if file.content is FileContent.DATA:  # newer than every delete, unless it keeps an older number
            number = outcome.numbers.get(file.path, metadata.last_sequence_number + 1)
            found.add(file, number, targets, is_new=True)
    return found
