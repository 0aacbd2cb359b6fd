"""Rows that files lose become deletes, written for the version of the table that the commit finds.

v3 gets one deletion vector per data file: it takes in the vector and the position deletes that were there, and those
that were about that file alone leave. v2 gets position delete files: one per data file takes in those about it alone;
one per partition comes beside those that are there.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from esker.errors import Unsupported
from esker.model.file_paths import same_file, split_location
from esker.ports.row_changes import DeletedRows
from esker.ports.table_format import EntryColumns
from esker.read.attach_deletes import DELETE_FILE_PATH_ID, only_target
from esker.tree.data_file import DataFile, FileContent
from esker.tree.manifest_list import ManifestContent, ManifestFile
from esker.tree.table_metadata import TableMetadata
from esker.write.context import Scratch, Tools
from esker.write.rows.rewrite_file import fingerprint, noted
from esker.write.rows.row_change_modes import deletes_are_per_file
from esker.write.steps import LostRows, Outcome, listed_name

if TYPE_CHECKING:
    from pyroaring import BitMap64


@dataclass(slots=True)
class DeleteSettler:
    """Writes the deletes of one operation. What an attempt has written serves the next, if it still says the same."""

    tools: Tools
    scratch: Scratch
    operation_id: str
    _written: dict[Hashable, tuple[DataFile, ...]] = field(default_factory=dict)

    def settle(self, metadata: TableMetadata, manifests: Sequence[ManifestFile], outcome: Outcome) -> None:
        """Make deletes of the rows that files lose, and let deletes leave that no longer say anything."""
        lost = [outcome.lost[path] for path in sorted(outcome.lost)]
        if lost and metadata.format_version == 1:
            raise Unsupported("cannot delete rows of a file that stays: format version 1 has no deletes", feature="v1")
        left = self._remove_useless(metadata, manifests, outcome)
        if metadata.format_version == 2:
            here = [replace(rows, deletes=tuple(d for d in rows.deletes if listed_name(d) in left)) for rows in lost]
            outcome.added.extend(self._positions(metadata, here))
        else:
            outcome.added.extend(self._vectors(metadata, lost))

    def _remove_useless(self, metadata: TableMetadata, manifests: Sequence[ManifestFile], outcome: Outcome) -> set[str]:
        """A data file that leaves takes its deletes along; one that gets deletes, those which the new ones take in.
        Gives the names of what leaves."""
        paths = [file.path for file in outcome.removed_files if file.content is FileContent.DATA]
        paths += outcome.lost if outcome.lost and deletes_are_per_file(metadata) else ()
        gone = {split_location(path)[2]: path for path in paths}
        deletes = [m for m in manifests if m.content is ManifestContent.DELETES and m.may_hold_live_files]
        left: set[str] = set()
        if not gone or not deletes:
            return left
        for manifest, delete, target in self._about_one_file(metadata, deletes):
            known = gone.get(split_location(target)[2])
            if known is not None and same_file(known, target):
                outcome.remove(manifest, delete)
                left.add(listed_name(delete))
        return left

    def _about_one_file(
        self, metadata: TableMetadata, manifests: Sequence[ManifestFile]
    ) -> Iterator[tuple[str, DataFile, str]]:
        columns = EntryColumns(metrics=(DELETE_FILE_PATH_ID,))
        for entries in self.tools.format.entries(metadata, manifests, columns):
            positions = entries.content == FileContent.POSITION_DELETES
            for row in np.flatnonzero(entries.is_live & positions):
                delete = entries.data_file(int(row))
                target = only_target(delete, entries, int(row))
                if target is not None:
                    yield entries.manifest_of(int(row)).path, delete, target

    def _positions(self, metadata: TableMetadata, lost: Sequence[LostRows]) -> tuple[DataFile, ...]:
        key = tuple(_delete_key(rows) for rows in lost)
        if lost and key not in self._written:
            rows = [DeletedRows(data_file=one.data_file, positions=self._all_of(one)) for one in lost]
            written = self.tools.deletes.write_positions(metadata, rows, self.operation_id)
            self._written[key] = tuple(noted(written, self.scratch))
        return self._written.get(key, ())

    def _vectors(self, metadata: TableMetadata, lost: Sequence[LostRows]) -> list[DataFile]:
        keys = {("vector", *_delete_key(rows)): rows for rows in lost}
        new = [(key, rows) for key, rows in keys.items() if key not in self._written]
        if new:
            whole = [DeletedRows(data_file=rows.data_file, positions=self._all_of(rows)) for _, rows in new]
            written = noted(self.tools.deletes.write_vectors(metadata, whole, self.operation_id), self.scratch)
            self._written |= {key: (vector,) for (key, _), vector in zip(new, written, strict=True)}
        return [vector for key in keys for vector in self._written[key]]

    def _all_of(self, rows: LostRows) -> BitMap64:
        if not rows.deletes:
            return rows.positions
        return rows.positions | self.tools.engine.deleted_positions(rows.data_file, rows.deletes)


def _delete_key(rows: LostRows) -> tuple[Hashable, ...]:
    """The same for deletes that say the same."""
    before = tuple(listed_name(delete) for delete in rows.deletes)
    return rows.data_file.path, fingerprint(rows.positions), before
