"""What one snapshot added: the step of a reader that follows a table from commit to commit."""

from __future__ import annotations

from esker.model.predicate import Bound
from esker.model.schema import Schema
from esker.ports.engine import ScanTask
from esker.ports.table_format import TableFormat
from esker.read.attach_deletes import DeleteIndex
from esker.read.plan_tasks import Tasks
from esker.read.prune_manifest import prune_manifests
from esker.read.prune_manifest_list import prune_manifest_list
from esker.tree.manifest_list import ManifestContent
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata


def added_files(
    metadata: TableMetadata, table_format: TableFormat, snapshot: Snapshot, schema: Schema, predicate: Bound
) -> list[ScanTask]:
    """The data files that a snapshot added and that may hold a match, in the order of its manifests; rows as they were
    added, whatever was deleted of them since."""
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
    # a manifest that was folded with older ones holds their files too
    return [task for task in tasks if task.data_file.snapshot_id == snapshot.snapshot_id]
