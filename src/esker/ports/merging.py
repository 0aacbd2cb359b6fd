"""The port of a merge: clauses as SQL text, and an engine that computes the changed rows.

A delete or update by an SQL expression is a merge without a source. Its condition is in ``on``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol, TypeAlias

from esker.model.predicates.predicate import Bound
from esker.model.types import Field
from esker.ports.row_changes import RowDelta, RowView
from esker.tree.table_metadata import TableMetadata


@dataclass(frozen=True, slots=True)
class SqlText:
    """An expression as a template. Braces are doubled, and ``{name}`` means a frame of the plan."""

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
class MergePlan:
    """A merge as the user asked for it. Without a source, every row of the table that meets ``on`` is matched."""

    on: SqlText
    clauses: Sequence[Clause]
    source: Any = None
    target_name: str = "t"
    source_name: str = "s"
    frames: Mapping[str, Any] = field(default_factory=dict)  # the frames that the names in braces mean
    session: Any = None  # the Spark session; None: the session of the source, or of the lake
    verb: str = "merge"  # for messages
    key: tuple[str, ...] = ()  # columns whose values may occur only once in the source
    evolves: bool = False  # whether columns that only the source has are added to the table
    only_in_source: frozenset[str] = frozenset()  # these columns, in lower case

    @property
    def deletes_every_match(self) -> int | None:
        """The index of the clause that deletes every matched row, however many source rows match it. None if there
        is none."""
        matched = [at for at, clause in enumerate(self.clauses) if clause.side is Side.MATCHED]
        if len(matched) != 1:
            return None
        only = self.clauses[matched[0]]
        return matched[0] if isinstance(only.action, DeleteRow) and only.condition is None else None

    def has(self, side: Side) -> bool:
        """Whether a clause is about that side."""
        return any(clause.side is side for clause in self.clauses)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedMerge:
    """A checked plan, with the condition that prunes the table's files."""

    plan: MergePlan
    predicate: Bound  # true for every row of the table that may change
    state: Any  # internal to the engine


class Merger(Protocol):
    """Computes merges. Its files are invisible until a commit adds them, and are removed if the merge fails."""

    def source_columns(self, metadata: TableMetadata, plan: MergePlan) -> tuple[MergePlan, tuple[Field, ...]]:
        """The columns of the plan's source, all optional, and the plan with a source that can be read twice."""
        ...

    def prepare(self, metadata: TableMetadata, plan: MergePlan) -> PreparedMerge:
        """Check the plan and read the keys of the source. Raises ``InvalidInput`` with the expression that is not
        valid."""
        ...

    def merge(self, view: RowView, prepared: PreparedMerge) -> RowDelta:
        """The changes that the plan makes to the files of the view.

        Raises ``InvalidInput`` if two rows of the source would change the same row.
        """
        ...

    def takes(self, text: str) -> bool:
        """Whether the text may be an expression of this engine and the engine is installed. Does not start the
        engine."""
        ...
