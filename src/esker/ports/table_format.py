"""The port of a table format: it reads and writes the manifests of a snapshot and their entries."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from esker.errors import Unsupported
from esker.model.partition_and_sort import PartitionSpec
from esker.model.schema import Schema
from esker.tree.manifest import Entries, ManifestEntry
from esker.tree.manifest_list import ManifestContent, ManifestFile
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata

if TYPE_CHECKING:
    from esker.ports.merge import MergeRule


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryColumns:
    """Which parts of manifest entries are decoded. The other parts are skipped."""

    metrics: Collection[int] = ()  # field ids whose bounds and counts are decoded as columns
    full_metrics: bool = False  # all statistics maps, for inspection and rewriting
    rest: bool = True  # split offsets, equality ids, row ids and so on
    fresh: bool = False  # read the files even if their entries are known, to find out what they have


class TableFormat(Protocol):
    """Reads manifest lists and manifests."""

    def manifests(self, metadata: TableMetadata, snapshot: Snapshot) -> Sequence[ManifestFile]:
        """The manifests of a snapshot, from its manifest list."""
        ...

    def entries(
        self, metadata: TableMetadata, manifests: Sequence[ManifestFile], columns: EntryColumns
    ) -> Iterator[Entries]:
        """The entries of the manifests, in batches of one spec and one content kind. Each manifest is opened once.

        The rows of one manifest are contiguous and in one batch. Deleted entries are included.
        """
        ...


@runtime_checkable
class SpreadFormat(Protocol):
    """A format whose manifests can be read by several processes, each some of them."""

    def for_workers(self) -> TableFormat | None:
        """What reads the same manifests in another process. None if the files cannot be reached from there."""
        ...


@runtime_checkable
class MergesRows(Protocol):
    """A format whose files have versions of rows, which a reader merges by key."""

    def merge_rule(self, metadata: TableMetadata, schema: Schema) -> MergeRule | None:
        """How rows are merged. None if the table has no key."""
        ...


def refuse_versions(table_format: TableFormat, what: str) -> None:
    """Raise ``Unsupported`` for a format whose manifests are no history of rows: its files have versions of rows."""
    if isinstance(table_format, MergesRows):
        raise Unsupported(
            f"cannot {what}: the files of this table have versions of rows, and Esker does this for Iceberg tables "
            "only",
            feature=what,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSnapshot:
    """The identity of a new snapshot. Its manifests and its manifest list record it."""

    snapshot_id: int
    parent_snapshot_id: int | None
    sequence_number: int
    first_row_id: int | None = None  # v3: the table's next row id at this attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtendedList:
    """The content of an extended manifest list, besides the new manifests."""

    carried: int  # manifests of the parent
    row_ids: int  # how many were assigned to the new manifests (v3)


class TableFormatWriter(Protocol):
    """Writes manifest lists and manifests. Every file is new; no file is changed."""

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
        """Write a manifest and return its row for the list. Added files have no sequence number, so a retry can
        reuse it."""
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
        """Write the list of the new and the carried manifests. Returns how many row ids were assigned (v3)."""
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
        """Write the parent's list with new manifests. The cost does not grow with the list.

        Returns None, and writes nothing, if the list must be rewritten.
        """
        ...
