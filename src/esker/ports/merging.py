"""What merges rows of a source into a table: clauses as SQL text, and an engine that computes what they come to.

A delete or an update by any expression is a merge without a source: its condition stands in ``on``.
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
    """An expression as a template: braces are doubled, and ``{name}`` stands for a frame of the plan's."""

    text: str
    place: str | None = None  # in the statement that it is part of

    @classmethod
    def plain(cls, text: str) -> SqlText:
        """Text as a user wrote it, which names no frame."""
        ended = f"{text}\n" if "--" in text else text  # a comment must not take in what follows
        return cls(ended.replace("{", "{{").replace("}", "}}"))

    @property
    def is_plain(self) -> bool:
        """Whether it names no frame."""
        return "{" not in self.text.replace("{{", "")

    @property
    def shown(self) -> str:
        """For a person."""
        return self.text.replace("{{", "{").replace("}}", "}").strip()


class Side(Enum):
    """Which rows a clause is about."""

    MATCHED = "WHEN MATCHED"
    NOT_MATCHED = "WHEN NOT MATCHED"  # rows of the source that match none of the table
    NOT_MATCHED_BY_SOURCE = "WHEN NOT MATCHED BY SOURCE"


@dataclass(frozen=True, slots=True)
class UpdateRow:
    """Columns set to expressions; None: every column to the source's of its name."""

    values: Mapping[str, SqlText] | None


@dataclass(frozen=True, slots=True)
class InsertRow:
    """A new row of expressions, defaults for the rest; None: every column from the source's of its name."""

    values: Mapping[str, SqlText] | None


@dataclass(frozen=True, slots=True)
class DeleteRow:
    """The row goes."""


Action: TypeAlias = UpdateRow | InsertRow | DeleteRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """What is done with rows of one side that meet a condition; the first clause that applies to a row counts."""

    side: Side
    action: Action
    condition: SqlText | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePlan:
    """A merge as it was asked for. Without a source every row of the table that meets ``on`` is matched."""

    on: SqlText
    clauses: Sequence[Clause]
    source: Any = None
    target_name: str = "t"
    source_name: str = "s"
    frames: Mapping[str, Any] = field(default_factory=dict)  # what names in braces stand for
    session: Any = None  # the one to work on; None: the source's, or the lake's
    verb: str = "merge"  # for messages
    key: tuple[str, ...] = ()  # columns whose values may not occur twice in the source
    evolves: bool = False  # whether columns of the source that the table lacks are added
    only_in_source: frozenset[str] = frozenset()  # those columns, in lower case

    @property
    def deletes_every_match(self) -> int | None:
        """The clause by which every row that matches goes, however many rows of the source match it."""
        matched = [at for at, clause in enumerate(self.clauses) if clause.side is Side.MATCHED]
        if len(matched) != 1:
            return None
        only = self.clauses[matched[0]]
        return matched[0] if isinstance(only.action, DeleteRow) and only.condition is None else None

    def has(self, side: Side) -> bool:
        """Whether some clause is about that side."""
        return any(clause.side is side for clause in self.clauses)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedMerge:
    """A plan that was checked, with what prunes the table's files."""

    plan: MergePlan
    predicate: Bound  # of every row of the table that may be changed
    state: Any  # the engine's own


class Merger(Protocol):
    """Computes merges. What it writes is invisible until a commit names it, and taken back if it fails."""

    def source_columns(self, metadata: TableMetadata, plan: MergePlan) -> tuple[MergePlan, tuple[Field, ...]]:
        """The columns of the plan's source, all optional, and the plan with the source made one to be read twice."""
        ...

    def prepare(self, metadata: TableMetadata, plan: MergePlan) -> PreparedMerge:
        """Check the plan and look at the source's keys; ``InvalidInput`` says which expression cannot be."""
        ...

    def merge(self, view: RowView, prepared: PreparedMerge) -> RowDelta:
        """What the plan comes to on the files of the view; ``InvalidInput`` where two rows of the source would change
        one row."""
        ...

    def takes(self, text: str) -> bool:
        """Whether the text may be an expression of the engine's, and the engine is there: told without starting it."""
        ...
