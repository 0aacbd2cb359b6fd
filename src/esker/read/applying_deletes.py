"""The deletes of a snapshot that can apply to a few files, out of all it has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from esker.model.file_names import spelt
from esker.ports.table_format import EntryColumns, TableFormat
from esker.read.attach_deletes import DELETE_FILE_PATH_ID, DeleteIndex
from esker.read.partition_scope import PartitionScope
from esker.tree.data_file import DataFile
from esker.tree.manifest import Entries
from esker.tree.manifest_list import ManifestContent, ManifestFile
from esker.tree.table_metadata import TableMetadata

COLUMNS = EntryColumns(metrics=(DELETE_FILE_PATH_ID,))


@dataclass(frozen=True, slots=True)
class ApplyingDeletes:
    """Reads delete manifests, as few as a change touches.

    A delete never applies to data of a larger sequence number, and no entry of a manifest has a larger one than the
    manifest itself: so of a file that has just been added only the newest manifests can say anything.
    """

    metadata: TableMetadata
    table_format: TableFormat

    def index(self, manifests: Sequence[ManifestFile], files: Sequence[DataFile], opened: set[str]) -> DeleteIndex:
        """What applies to these files; ``opened`` gets the manifests that were read for it."""
        near = list(self._near(manifests, files)) if files else []
        opened.update(manifest.path for manifest in near)
        batches = self.table_format.entries(self.metadata, near, COLUMNS)
        return DeleteIndex(self.metadata, _about(batches, files))

    def _near(self, manifests: Sequence[ManifestFile], files: Sequence[DataFile]) -> Iterator[ManifestFile]:
        oldest = min(file.sequence_number for file in files)
        # Some writers file deletes under the newest spec instead of that of the data: then partitions prove nothing.
        scope = PartitionScope.of(self.metadata, files) if len(self.metadata.specs) == 1 else None
        for manifest in manifests:
            if manifest.content is ManifestContent.DELETES and manifest.may_hold_live_files:
                in_time = manifest.sequence_number >= oldest
                if in_time and (scope is None or scope.may_be_in(manifest)):
                    yield manifest


def _about(batches: Iterable[Entries], files: Sequence[DataFile]) -> Iterator[Entries]:
    """Without the deletes that name other files: a table has as many vectors as files with deletes."""
    names = {spelt(file.path)[2] for file in files}
    oldest = min((file.sequence_number for file in files), default=0)
    for entries in batches:
        mask = entries.sequence_number >= oldest
        targets = entries.rest.get("referenced_data_file")
        if targets is not None:
            named = (target is None or spelt(target)[2] in names for target in targets.to_pylist())
            mask &= np.fromiter(named, bool, len(entries))
        yield entries.take(mask)
