"""The types of a row change, in the order of its four steps: parse, resolve, decide, write.

| step | gives |
|---|---|
| *parse* (the SQL grammar, or a verb of a table) | ``RowChange``: what was asked for, as text and places |
| *resolve* (``RowEngine.resolve``) | ``ResolvedChange``: names and types are known, and which files may change |
| *decide* (``RowEngine.decide``) | ``RowDecisions``: which rows go and what comes, on the files of a ``RowView`` |
| *write* (``RowEngine.write``) | ``RowDelta``: new data files, and the positions that go |

``write.verbs.Transaction.apply`` calls the steps. The ``RowDelta`` becomes one step of a snapshot: positions
become position delete files (v2) or deletion vectors (v3) only then, on the version that the commit finds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar

from esker.model.predicates.predicate import TRUE, Bound
from esker.model.types import Type
from esker.ports.engine import ScanTask
from esker.tree.data_file import DataFile
from esker.tree.table_metadata import TableMetadata

if TYPE_CHECKING:
    from pyroaring import BitMap64

Verb = Literal["delete", "update", "merge"]
"""Whose properties apply: ``write.<verb>.mode`` and ``write.<verb>.isolation-level``. An upsert is a merge."""


# ---------------------------------------------------------------- parse gives RowChange


@dataclass(frozen=True, slots=True)
class SqlText:
    """An expression as a template. Braces are doubled, and ``{name}`` means a frame of the change."""

    text: str
    place: str | None = None  # its place in the statement

    @classmethod
    def plain(cls, text: str) -> SqlText:
        """Text as a user wrote it, without frames."""
        ended = f"{text}\n" if "--" in text else text  # a comment must not hide the text that follows
        return cls(ended.replace("{", "{{").replace("}", "}}"))

    @property
    def is_plain(self) -> bool:
        """Whether the text names no frame."""
        return "{" not in self.text.replace("{{", "")

    @property
    def shown(self) -> str:
        """The text for messages."""
        return self.text.replace("{{", "{").replace("}}", "}").strip()


class Side(Enum):
    """Which rows a clause is about."""

    MATCHED = "WHEN MATCHED"
    NOT_MATCHED = "WHEN NOT MATCHED"  # rows of the source without a match in the table
    NOT_MATCHED_BY_SOURCE = "WHEN NOT MATCHED BY SOURCE"


@dataclass(frozen=True, slots=True)
class UpdateRow:
    """Columns set to expressions. None: each column gets the source column of its name."""

    values: Mapping[str, SqlText] | None


@dataclass(frozen=True, slots=True)
class InsertRow:
    """A new row of expressions, with defaults for the other columns. None: each column gets the source column of its
    name."""

    values: Mapping[str, SqlText] | None


@dataclass(frozen=True, slots=True)
class DeleteRow:
    """The row is deleted."""


Action: TypeAlias = UpdateRow | InsertRow | DeleteRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """What is done with the rows of one side that meet a condition. The first clause that applies to a row is used."""

    side: Side
    action: Action
    condition: SqlText | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange:
    """Step *parse*: a MERGE, UPDATE, DELETE or upsert as it was asked for. No name in it has been looked up.

    Without a source (UPDATE, DELETE) every row of the table that meets ``on`` and ``where`` is matched. An upsert has a
    ``key`` and no clauses: an engine adds them when it resolves the change.
    """

    verb: Verb
    on: SqlText = SqlText("TRUE")
    clauses: tuple[Clause, ...] = ()
    source: Any = None  # a DataFrame, or data for Arrow
    target_name: str = "t"
    source_name: str = "s"
    where: Bound = TRUE  # a condition on the table's rows that Esker understands, besides ``on``
    key: tuple[str, ...] = ()  # of an upsert: columns whose values may not occur twice in the source
    evolves: bool = False  # whether columns that only the source has are added to the table
    frames: Mapping[str, Any] = field(default_factory=dict)  # what names in braces stand for
    session: Any = None  # the Spark session to use; None: the source's, or the lake's

    @property
    def label(self) -> str:
        """The verb for messages."""
        return "upsert" if self.key else self.verb

    @property
    def deletes_every_match(self) -> int | None:
        """The clause by which every matched row goes, however many rows of the source match it."""
        matched = [at for at, clause in enumerate(self.clauses) if clause.side is Side.MATCHED]
        if len(matched) != 1:
            return None
        only = self.clauses[matched[0]]
        return matched[0] if isinstance(only.action, DeleteRow) and only.condition is None else None

    @property
    def is_filter(self) -> bool:
        """Whether it removes exactly the rows that meet ``where``: a commit can do this without an engine."""
        return self.source is None and self.deletes_every_match is not None and self.on.text == "TRUE"

    def has(self, side: Side) -> bool:
        """Whether some clause is about that side."""
        return any(clause.side is side for clause in self.clauses)


# ---------------------------------------------------------------- resolve gives ResolvedChange


@dataclass(frozen=True, slots=True)
class Wanted:
    """A column, or a member of a struct, of the type that values to be written have."""

    path: tuple[str, ...]
    type: Type
    by_place: bool = False  # how members of structs inside are matched with the table's


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedChange:
    """Step *resolve*: the change against the table's columns, every expression checked. Engines extend it."""

    predicate: Bound  # of every row of the table that may change; it prunes files
    new_columns: tuple[Wanted, ...] = ()  # that the table gets in the same commit


# ---------------------------------------------------------------- decide gives RowDecisions


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
class RowDecisions:
    """Step *decide*: which rows of the view go, and which rows come. Nothing is written yet. Engines extend it."""

    view: RowView


# ---------------------------------------------------------------- write gives RowDelta


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


# ---------------------------------------------------------------- engines


R = TypeVar("R", bound=ResolvedChange)
D = TypeVar("D", bound=RowDecisions)


class RowEngine(Protocol[R, D]):
    """Computes row changes. What it writes is invisible until a commit names it, and is removed if the change fails."""

    def takes(self, text: str) -> bool:
        """Whether the text may be an expression of the engine's. Answered without starting the engine."""
        ...

    def resolve(self, metadata: TableMetadata, change: RowChange) -> R:
        """Check the change against the table; ``InvalidInput`` names the expression that cannot be used, and its
        place. ``Unsupported`` for an expression that the engine cannot compute."""
        ...

    def decide(self, view: RowView, resolved: R) -> D:
        """Find the rows that change in the files of the view; ``InvalidInput`` where two rows of the source would
        change one row."""
        ...

    def write(self, decisions: D) -> RowDelta:
        """Write the rows that come."""
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
