"""A compaction applied to a base: data files leave, and files with the same rows come."""

from __future__ import annotations

from collections.abc import Sequence

from esker.tree.manifest_list import ManifestFile
from esker.tree.table_metadata import TableMetadata
from esker.write.context import Tools
from esker.write.rows.change_rows import locate
from esker.write.steps import Outcome, ReplaceFiles


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
