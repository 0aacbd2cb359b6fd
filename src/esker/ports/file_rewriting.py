"""The port of an engine that rewrites groups of data files: a compaction reads and writes through it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from esker.model.partition_and_sort import UNSORTED, SortOrder
from esker.ports.engine import ScanTask
from esker.tree.data_file import DataFile
from esker.tree.table_metadata import TableMetadata

EngineName = Literal["auto", "arrow", "spark"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLayout:
    """The order of the rows in rewritten files. Without keys, rows stay in the order of their files.

    ``sort`` orders the rows of a group by keys. ``z_order`` has the ids of columns that all count the same: rows with
    near values in every one of them get near places.
    """

    sort: SortOrder = UNSORTED
    z_order: tuple[int, ...] = ()

    @property
    def is_unordered(self) -> bool:
        """Whether rows are only copied."""
        return self.sort.is_unsorted and not self.z_order

    @property
    def columns(self) -> frozenset[int]:
        """The ids of the columns that decide the order."""
        return frozenset((*(key.source_id for key in self.sort.fields), *self.z_order))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroup:
    """Data files that are rewritten together, with the deletes that apply to them.

    ``metadata`` has the table's current spec, by which the new files are divided, and its properties.
    """

    metadata: TableMetadata
    tasks: Sequence[ScanTask]
    target_file_size: int
    max_file_size: int  # for files whose rows were divided beforehand: a file a little too large beats a tiny one more
    operation_id: str  # for the names of new files
    layout: RowLayout = field(default_factory=RowLayout)
    engine: EngineName = "arrow"


class FileRewriter(Protocol):
    """Rewrites groups of files. What it writes is invisible until a commit adds it. Groups may run at the same time."""

    def engine_for(self, asked: EngineName, size: int) -> EngineName:
        """The engine for files of so many bytes. Raises ``Unsupported`` for Spark if it is not installed."""
        ...

    def rewrite(self, group: FileGroup) -> Iterator[DataFile]:
        """Write the rows of the group that are not deleted to new files. A row keeps its lineage (v3).

        If it fails, every file of this call is deleted.
        """
        ...

    def deleted_rows(self, group: FileGroup) -> int:
        """How many rows of the files their deletes remove. Counted apart from the rewriting, to check it."""
        ...
