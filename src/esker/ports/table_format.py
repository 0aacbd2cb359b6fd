"""What a table format must be able to tell a reader: which manifests a snapshot has, and what is in them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from esker.tree.manifest import Entries
from esker.tree.manifest_list import ManifestFile
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
