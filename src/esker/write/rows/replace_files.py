"""Rewriting applied to a base: files leave, and files that say the same come."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from esker.errors import Conflict
from esker.ports.table_format import EntryColumns
from esker.tree.data_file import DataFile
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
