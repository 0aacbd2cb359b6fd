"""Data that is written already: workers of another engine made the files, and a commit is all that is left."""

from __future__ import annotations

from dataclasses import dataclass

from esker.errors import Conflict
from esker.tree.data_file import DataFile
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Files for a verb to take in place of rows. They are the verb's from then on: where it fails, they are deleted."""

    files: tuple[DataFile, ...]
    spec_id: int  # that the files are partitioned by
    began_at: int | None  # the branch's head when the writing began; None for an empty table

    def start(self, metadata: TableMetadata) -> Snapshot | None:
        """The snapshot that the writing began from; ``Conflict`` where the table has moved away from under it."""
        if self.spec_id not in metadata.spec_by_id:
            raise Conflict(
                f"cannot commit files of partition spec {self.spec_id}: the table has none of that number any more; "
                "write them again",
                spec_id=self.spec_id,
            )
        if self.began_at is None:
            return None
        found = metadata.snapshot(self.began_at)
        if found is None:
            raise Conflict(
                f"cannot commit: snapshot {self.began_at}, which the writing began from, has expired meanwhile; "
                "write again",
                snapshot_id=self.began_at,
            )
        return found
