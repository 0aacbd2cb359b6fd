"""Commits that register a statistics file, and the search for a registered file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar
from uuid import uuid4

from esker.errors import Conflict
from esker.model.table_names import TableName
from esker.ports.catalog import TableState
from esker.ports.statistics import ColumnSketch
from esker.read.resolve_snapshot import resolve_snapshot
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import PartitionStatisticsFile, StatisticsFile, TableMetadata
from esker.write.commit import Proposal
from esker.write.context import Scratch, Tools, metadata_folder
from esker.write.table_changes import ancestors, with_partition_statistics, with_statistics


def sketches_location(metadata: TableMetadata, snapshot: Snapshot) -> str:
    """A new location for the sketches of a snapshot."""
    return f"{metadata_folder(metadata)}/{snapshot.snapshot_id}-{uuid4()}.stats"


def partitions_location(metadata: TableMetadata, snapshot: Snapshot) -> str:
    """A new location for the partition statistics of a snapshot."""
    return f"{metadata_folder(metadata)}/partition-stats-{snapshot.snapshot_id}-{uuid4()}.parquet"


@dataclass(slots=True, kw_only=True)
class RegisterSketches:
    """Registers sketches of a snapshot. Statistics of other columns, also of another writer, are kept in the file."""

    name: TableName
    tools: Tools
    snapshot: Snapshot
    sketches: tuple[ColumnSketch, ...]
    scratch: Scratch
    file: StatisticsFile | None = None
    _replaced: str | None = field(init=False, default=None)

    def propose(self, base: TableState, attempt: int) -> Proposal | None:
        """The table with the file. The file is written again if another writer has registered statistics since."""
        metadata = base.metadata
        _check_snapshot(self.name, metadata, self.snapshot)
        found = statistics_of(metadata, self.snapshot.snapshot_id)
        if self.file is None or (found is not None and found.path != self._replaced):
            with self.scratch.writing(sketches_location(metadata, self.snapshot)) as location:
                self.file = self.tools.statistics.write_sketches(location, self.snapshot, self.sketches, found)
            self._replaced = None if found is None else found.path
        return Proposal(metadata=with_statistics(metadata, self.file), settle=self._drop_others)

    def abandon(self) -> None:
        """Delete what was written."""
        self.scratch.discard()

    def _drop_others(self) -> None:
        assert self.file is not None  # it was committed
        self.scratch.discard(self.scratch.locations - {self.file.path})


@dataclass(slots=True, kw_only=True)
class RegisterPartitions:
    """Registers the partition statistics of a snapshot, instead of earlier ones of the same snapshot."""

    name: TableName
    snapshot: Snapshot
    file: PartitionStatisticsFile
    scratch: Scratch

    def propose(self, base: TableState, attempt: int) -> Proposal | None:
        """The table with the file."""
        _check_snapshot(self.name, base.metadata, self.snapshot)
        return Proposal(metadata=with_partition_statistics(base.metadata, self.file))

    def abandon(self) -> None:
        """Delete what was written."""
        self.scratch.discard()


F = TypeVar("F", StatisticsFile, PartitionStatisticsFile)


def nearest(metadata: TableMetadata, files: Iterable[F], snapshot_id: int | None) -> F | None:
    """The file of the snapshot, by default the current one, or else of its nearest ancestor that has one."""
    snapshot = resolve_snapshot(metadata, snapshot_id=snapshot_id).snapshot
    by_id = {file.snapshot_id: file for file in files}
    line = ancestors(metadata, snapshot.snapshot_id) if snapshot is not None and by_id else ()
    return next((by_id[one.snapshot_id] for one in line if one.snapshot_id in by_id), None)


def statistics_of(metadata: TableMetadata, snapshot_id: int) -> StatisticsFile | None:
    """The statistics of a snapshot, or None."""
    return next((file for file in metadata.statistics if file.snapshot_id == snapshot_id), None)


def _check_snapshot(name: TableName, metadata: TableMetadata, snapshot: Snapshot) -> None:
    if metadata.snapshot(snapshot.snapshot_id) is None:
        raise Conflict(
            f"cannot register statistics of {name}: snapshot {snapshot.snapshot_id} has expired in the meantime; "
            "compute those of a newer snapshot",
            table=str(name),
            snapshot_id=snapshot.snapshot_id,
        )
