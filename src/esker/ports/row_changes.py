"""The port of row changes: an engine decides which rows of the given files are deleted, and writes the new rows.

The write path plans a ``RowView``. An engine returns a ``RowDelta``. The write path makes one snapshot of it. Only then
do positions become position delete files (v2) or deletion vectors (v3), for the version that the commit finds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, Protocol

from esker.model.predicates.predicate import Bound
from esker.ports.engine import ScanTask
from esker.tree.data_file import DataFile
from esker.tree.table_metadata import TableMetadata

if TYPE_CHECKING:
    from pyroaring import BitMap64

Verb = Literal["delete", "update", "merge"]
"""Which properties apply: ``write.<verb>.mode`` and ``write.<verb>.isolation-level``. An upsert is a merge."""


class Mode(Enum):
    """How a row is removed from a file: the file is rewritten without it, or a delete file is written."""

    COPY_ON_WRITE = "copy-on-write"
    MERGE_ON_READ = "merge-on-read"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowView:
    """The files that may contain a row to change, as one transaction sees them."""

    verb: Verb
    mode: Mode
    predicate: Bound  # the condition of the plan; rows that another commit adds under it are a conflict
    metadata: TableMetadata
    tasks: Sequence[ScanTask]
    operation_id: str  # for the names of new files
    fresh: frozenset[str] = frozenset()  # files of this transaction: no delete can refer to them, rewrite them

    def rewrites(self, path: str) -> bool:
        """Whether a file that loses rows is rewritten. If not, a delete file is written."""
        return self.mode is Mode.COPY_ON_WRITE or path in self.fresh


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCounts:
    """How many rows a change deleted, updated and inserted. Rows that are copied to another file are not counted."""

    deleted: int = 0
    updated: int = 0
    inserted: int = 0
    deleted_by_source: int = 0  # how many of the deleted rows: by WHEN NOT MATCHED BY SOURCE
    updated_by_source: int = 0

    def __add__(self, other: RowCounts) -> RowCounts:
        return RowCounts(
            deleted=self.deleted + other.deleted,
            updated=self.updated + other.updated,
            inserted=self.inserted + other.inserted,
            deleted_by_source=self.deleted_by_source + other.deleted_by_source,
            updated_by_source=self.updated_by_source + other.updated_by_source,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDelta:
    """The changes to the files of a view. Paths are written as in the tasks.

    ``added`` has every file that the engine wrote: changed rows, new rows, and the remaining rows of rewritten files.
    Copied and changed rows keep their ``_row_id`` (v3). A copied row also keeps its ``_last_updated_sequence_number``;
    in a changed row it is null.
    """

    gone: Mapping[str, BitMap64] = field(default_factory=dict)  # for each data file that stays, the deleted positions
    rewritten: frozenset[str] = frozenset()  # data files that are removed; their remaining rows are in ``added``
    added: tuple[DataFile, ...] = ()
    counts: RowCounts = RowCounts()

    def __bool__(self) -> bool:
        return bool(self.added or self.rewritten or any(self.gone.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedRows:
    """Rows to upsert, read and checked: no key occurs twice."""

    on: tuple[str, ...]
    predicate: Bound  # true for every row that may have one of the keys
    rows: Any  # in the form of the engine


class RowEngine(Protocol):
    """Computes row changes. Its files are invisible until a commit adds them, and are removed if the change fails."""

    def keyed(self, metadata: TableMetadata, data: object, on: Sequence[str]) -> KeyedRows:
        """The rows to upsert. Raises ``InvalidInput`` if they do not fit the table or a key occurs twice."""
        ...

    def upsert(self, view: RowView, keyed: KeyedRows) -> RowDelta:
        """Replace the rows whose key is in the source, and insert the other rows of the source."""
        ...

    def update(self, view: RowView, values: Mapping[str, str]) -> RowDelta:
        """Set columns of the rows that match ``view.predicate`` to SQL expressions over the old row.

        Raises ``Unsupported`` for an expression that the engine cannot compute.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedRows:
    """The deleted positions of one data file."""

    data_file: DataFile
    positions: BitMap64


class DeleteWriter(Protocol):
    """Writes delete files. Each has the spec and partition of the data it deletes from."""

    def write_positions(
        self, metadata: TableMetadata, rows: Sequence[DeletedRows], operation_id: str
    ) -> Iterator[DataFile]:
        """Write position delete files, one per data file or per partition as ``write.delete.granularity`` says (v2)."""
        ...

    def write_vectors(
        self, metadata: TableMetadata, rows: Sequence[DeletedRows], operation_id: str
    ) -> Iterator[DataFile]:
        """Write one deletion vector per data file, in as few Puffin files as possible (v3)."""
        ...

    def write_keys(
        self, metadata: TableMetadata, data: object, on: Sequence[str], operation_id: str
    ) -> Iterator[DataFile]:
        """Write equality delete files of these keys. Raises ``Unsupported`` if the keys do not determine the
        partition."""
        ...
