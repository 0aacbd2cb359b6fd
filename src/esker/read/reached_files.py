"""Third step of a change feed: the data files, live before and after, of which some delete came or went."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from esker.model.file_names import spelt
from esker.model.predicate import Bound, all_of
from esker.model.schema import Schema
from esker.ports.table_format import EntryColumns, TableFormat
from esker.read.attach_deletes import DELETE_FILE_PATH_ID, DeleteIndex
from esker.read.compare_manifests import Compared, live_entries
from esker.read.key_ranges import key_ranges
from esker.read.partition_scope import PartitionScope
from esker.read.prune_manifest import columns_asked, examine_entries
from esker.tree.data_file import DataFile
from esker.tree.manifest import Entries
from esker.tree.manifest_list import ManifestFile
from esker.tree.table_metadata import TableMetadata

DELETE_COLUMNS = EntryColumns(metrics=(DELETE_FILE_PATH_ID,), full_metrics=True)
"""What must be known of the delete files that came or went: the bounds of paths, and those of keys."""


class ChangedDeletes:
    """The delete files that a snapshot added or removed, and how far they reach."""

    def __init__(self, metadata: TableMetadata, schema: Schema, compared: Compared) -> None:
        batches = [*compared.added, *compared.removed]
        deletes = [delete for entries in batches for delete in entries.data_files()]
        self._index = DeleteIndex(metadata, batches)
        self._names = self._index.names
        self._newest = max((delete.sequence_number for delete in deletes), default=0)
        # Some writers file deletes under the newest spec instead of that of the data: then partitions prove nothing.
        self._scope = PartitionScope.of(metadata, deletes) if len(metadata.specs) == 1 else None
        self.keys = key_ranges(schema, deletes)

    def __bool__(self) -> bool:
        return bool(self._index)

    def may_reach(self, manifest: ManifestFile) -> bool:
        """False only where the list proves that no file of a data manifest is reached."""
        in_time = manifest.min_sequence_number <= self._newest
        return in_time and (self._scope is None or self._scope.may_be_in(manifest))

    def candidates(self, entries: Entries) -> Entries:
        """Without the files that cannot be reached, by what columns tell."""
        mask = entries.sequence_number <= self._newest
        if self._names is not None:
            names = self._names
            mask &= np.fromiter((spelt(path)[2] in names for path in entries.path.to_pylist()), bool, len(entries))
        return entries.take(mask)

    def reach(self, data: DataFile) -> bool:
        """Whether a delete that came or went applies to the file."""
        return bool(self._index.applying_to(data))

    def all_found(self, found: set[str]) -> bool:
        """Whether these paths are all that can be reached, so that looking on is of no use."""
        return self._names is not None and self._names <= found


class ReachedFiles:
    """Looks through the data manifests of a snapshot for the files that changed deletes reach."""

    def __init__(self, metadata: TableMetadata, table_format: TableFormat, schema: Schema, predicate: Bound) -> None:
        self._metadata, self._format, self._schema, self._predicate = metadata, table_format, schema, predicate
        self.opened: set[str] = set()  # the manifests that were looked into

    def find(
        self, deletes: ChangedDeletes, manifests: Sequence[ManifestFile], data: Compared
    ) -> Iterator[tuple[DataFile, Bound]]:
        """Each file that may hold a row of the answer, with what of the filter it leaves open. ``data`` was read
        already: what came or went with its deletes is not looked for."""
        found = {spelt(path)[2] for part in (*data.added, *data.removed) for path in part.path.to_pylist()}
        for entries in self._batches(deletes, manifests, data.kept, found):
            for file, residual in self._reached(deletes, entries):
                found.add(spelt(file.path)[2])
                yield file, residual

    def _batches(
        self, deletes: ChangedDeletes, manifests: Sequence[ManifestFile], kept: Sequence[Entries], found: set[str]
    ) -> Iterator[Entries]:
        """Entries that may be of reached files, as long as some can still be found."""
        yield from kept
        if deletes.all_found(found):
            return
        asked = columns_asked(self._schema, all_of((self._predicate, deletes.keys)))
        for entries in live_entries(self._format.entries(self._metadata, manifests, EntryColumns(metrics=asked))):
            self.opened.update(manifest.path for manifest in entries.manifests)
            yield entries
            if deletes.all_found(found):
                return

    def _reached(self, deletes: ChangedDeletes, entries: Entries) -> Iterator[tuple[DataFile, Bound]]:
        near = deletes.candidates(entries)
        if not len(near):
            return
        touchable = examine_entries(deletes.keys, self._schema, near).verdict.some
        examination = examine_entries(self._predicate, self._schema, near)
        pattern, residuals = examination.residuals()
        for row in np.flatnonzero(touchable & examination.verdict.some):
            data = near.data_file(int(row))
            if deletes.reach(data):
                yield data, residuals[int(pattern[row])]
