"""What changes rows: given the files that may hold them, an engine says which rows go and writes those that come.

The write side plans a ``RowView``, an engine answers with a ``RowDelta``, and the write side makes one snapshot of it:
positions become position delete files (v2) or deletion vectors (v3) only then, on the version the commit finds.
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
"""Whose properties apply: ``write.<verb>.mode`` and ``write.<verb>.isolation-level``. An upsert is a merge."""


class Mode(Enum):
    """How a row leaves a file: the file is written anew without it, or a delete is written beside the file."""

    COPY_ON_WRITE = "copy-on-write"
    MERGE_ON_READ = "merge-on-read"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowView:
    """The files that may hold a row to change, as one transaction sees them."""

    verb: Verb
    mode: Mode
    predicate: Bound  # what the files were planned by; rows that arrive under it meanwhile are a conflict
    metadata: TableMetadata
    tasks: Sequence[ScanTask]
    operation_id: str  # for the names of new files
    fresh: frozenset[str] = frozenset()  # files of this very transaction: no delete can refer to them, rewrite them

    def rewrites(self, path: str) -> bool:
        """Whether a file that loses rows is to be written anew, rather than get a delete."""
        return self.mode is Mode.COPY_ON_WRITE or path in self.fresh


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCounts:
    """How many rows a change deleted, updated and inserted. A row that is copied to another file is none of these."""

    deleted: int = 0
    updated: int = 0
    inserted: int = 0
    deleted_by_source: int = 0  # of those deleted: by WHEN NOT MATCHED BY SOURCE
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
    """What a change comes to on the files of a view; paths are spelt as their tasks spell them.

    ``added`` holds every file the engine wrote: changed rows, new rows, and the rows that stay of rewritten files.
    Rows that are copied or changed bring ``_row_id`` along (v3); a copied row brings its
    ``_last_updated_sequence_number`` too, a changed one null.
    """

    gone: Mapping[str, BitMap64] = field(default_factory=dict)  # per data file that stays, positions that go
    rewritten: frozenset[str] = frozenset()  # data files that leave; what stays of them is among ``added``
    added: tuple[DataFile, ...] = ()
    counts: RowCounts = RowCounts()

    def __bool__(self) -> bool:
        return bool(self.added or self.rewritten or any(self.gone.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedRows:
    """Rows to upsert, read and checked: no key occurs twice."""

    on: tuple[str, ...]
    predicate: Bound  # of every row that may have one of the keys
    rows: Any  # as the engine holds them


class RowEngine(Protocol):
    """Computes changes of rows. What it writes is invisible until a commit names it, and taken back if it fails."""

    def keyed(self, metadata: TableMetadata, data: object, on: Sequence[str]) -> KeyedRows:
        """Rows to upsert; ``InvalidInput`` where they do not fit or one key occurs twice."""
        ...

    def upsert(self, view: RowView, keyed: KeyedRows) -> RowDelta:
        """Rows with a key of the source are replaced by the source's, the rest of the source is inserted."""
        ...

    def update(self, view: RowView, values: Mapping[str, str]) -> RowDelta:
        """The rows that match ``view.predicate`` with some columns set to SQL expressions over the old row;
        ``Unsupported`` for an expression the engine cannot compute."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedRows:
    """Positions that go out of one data file."""

    data_file: DataFile
    positions: BitMap64


class DeleteWriter(Protocol):
    """Writes files of deletes. Each is filed under spec and partition of the data it deletes from."""

    def write_positions(
        self, metadata: TableMetadata, rows: Sequence[DeletedRows], operation_id: str
    ) -> Iterator[DataFile]:
        """Position delete files, one per data file or per partition as ``write.delete.granularity`` says (v2)."""
        ...

    def write_vectors(
        self, metadata: TableMetadata, rows: Sequence[DeletedRows], operation_id: str
    ) -> Iterator[DataFile]:
        """One deletion vector per data file, in as few Puffin files as can be (v3)."""
        ...

    def write_keys(
        self, metadata: TableMetadata, data: object, on: Sequence[str], operation_id: str
    ) -> Iterator[DataFile]:
        """Equality delete files of these keys; ``Unsupported`` where no partition can be told from a key."""
        ...
