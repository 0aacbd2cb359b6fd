"""What a table format must be able to tell a reader: which manifests a snapshot has, and what is in them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from esker.model.partition_and_sort import PartitionSpec
from esker.tree.manifest import Entries, ManifestEntry
from esker.tree.manifest_list import ManifestContent, ManifestFile
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryColumns:
    """Which parts of manifest entries a caller wants decoded; the rest is walked over."""

    metrics: Collection[int] = ()  # field ids whose bounds and counts are wanted as columns
    full_metrics: bool = False  # every statistics map whole, for inspection and rewriting
    rest: bool = True  # split offsets, equality ids, row ids and the like


class TableFormat(Protocol):
    """Reads the two lower levels of a table's tree."""

    def manifests(self, metadata: TableMetadata, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        """The snapshot's manifests, from its list or lists."""
        ...

    def entries(
        self, metadata: TableMetadata, manifests: Sequence[ManifestFile], columns: EntryColumns
    ) -> Iterator[Entries]:
        """What the manifests hold, in batches of one spec and one content kind; each manifest is opened once.

        Rows of one manifest are contiguous and never split over batches, deleted ones included.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSnapshot:
    """The identity of a snapshot in the making, which its manifests and its list carry."""

    snapshot_id: int
    parent_snapshot_id: int | None
    sequence_number: int
    first_row_id: int | None = None  # v3: the table's next row id at this attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtendedList:
    """What a list that was extended without being decoded holds besides what is new."""

    carried: int  # manifests taken over
    row_ids: int  # assigned to the new ones (v3)


class TableFormatWriter(Protocol):
    """Writes the two lower levels of a table's tree. Everything written is new; nothing is changed in place."""

    def write_manifest(
        self,
        metadata: TableMetadata,
        location: str,
        snapshot: NewSnapshot,
        *,
        spec: PartitionSpec,
        content: ManifestContent,
        entries: Sequence[ManifestEntry],
    ) -> ManifestFile:
        """A manifest, and its row for the list. Added files carry no sequence number, so a retry can keep it."""
        ...

    def write_manifest_list(
        self,
        metadata: TableMetadata,
        location: str,
        snapshot: NewSnapshot,
        *,
        new: Sequence[ManifestFile],
        carried: Sequence[ManifestFile],
    ) -> int:
        """The list of the new and the carried manifests; gives the number of row ids that were assigned (v3)."""
        ...

    def extend_manifest_list(
        self,
        metadata: TableMetadata,
        location: str,
        snapshot: NewSnapshot,
        *,
        parent: Snapshot,
        new: Sequence[ManifestFile],
    ) -> ExtendedList | None:
        """The parent's list with new manifests, at a cost that does not grow with it; None, and nothing written,
        where it must be written anew."""
        ...
