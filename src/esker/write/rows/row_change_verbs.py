"""Step *parse* of a row change for Python: what the verbs of a table ask for, as a ``RowChange``.

``look`` makes the view of the files that a transaction gives to an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from esker.errors import InvalidInput
from esker.model.predicates.predicate import Bound
from esker.ports.row_changes import (
    Action,
    Clause,
    DeleteRow,
    InsertRow,
    RowChange,
    RowDelta,
    RowView,
    Side,
    SqlText,
    UpdateRow,
    Verb,
)
from esker.tree.manifest_list import ManifestFile
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata
from esker.write.context import Tools
from esker.write.remove import apply_steps
from esker.write.rows.change_rows import Sources, change_step, view_rows
from esker.write.rows.rewrite_file import Rewriter
from esker.write.steps import ChangeRows, DeleteKeys, Step

# ---------------------------------------------------------------- merge
#
# A merge, clause by clause: ``table.merge(source, on="t.id = s.id")`` and what is to become of which rows.


Values = Mapping[str, str] | Literal["*"]


@dataclass(frozen=True, slots=True)
class Merge:
    """The rows of a source brought into a table. In expressions ``t`` is the table and ``s`` the source.

    Of the clauses about a row the first whose condition holds counts; each call gives the merge with one more.
    """

    change: RowChange
    run: Callable[[RowChange], Snapshot | None]

    @classmethod
    def of(cls, source: object, on: str, run: Callable[[RowChange], Snapshot | None]) -> Merge:
        """A merge without clauses so far."""
        if source is None:
            raise InvalidInput("cannot merge nothing: give a DataFrame, a pyarrow table or pandas as the source")
        return cls(RowChange(verb="merge", on=_text(on, "on"), source=source), run)

    def when_matched_update(self, values: Values, condition: str | None = None) -> Merge:
        """Set columns of a row that matches to expressions over both; ``"*"``: to the source's of their names."""
        return self._with(Side.MATCHED, UpdateRow(_values(values)), condition)

    def when_matched_delete(self, condition: str | None = None) -> Merge:
        """Remove a row that matches."""
        return self._with(Side.MATCHED, DeleteRow(), condition)

    def when_not_matched_insert(self, values: Values = "*", condition: str | None = None) -> Merge:
        """Add a row of the source that matches none; columns that are not given get their default, or null."""
        return self._with(Side.NOT_MATCHED, InsertRow(_values(values)), condition)

    def when_not_matched_by_source_update(self, values: Mapping[str, str], condition: str | None = None) -> Merge:
        """Set columns of a row of the table that no row of the source matches, to expressions over it alone."""
        if isinstance(values, str):
            raise InvalidInput("cannot update a row that no row of the source matches to '*': give its values")
        return self._with(Side.NOT_MATCHED_BY_SOURCE, UpdateRow(_values(values)), condition)

    def when_not_matched_by_source_delete(self, condition: str | None = None) -> Merge:
        """Remove a row of the table that no row of the source matches."""
        return self._with(Side.NOT_MATCHED_BY_SOURCE, DeleteRow(), condition)

    def with_schema_evolution(self) -> Merge:
        """Add columns that only the source has, at any depth, and widen types, in the same commit.

        Columns of the source come by ``"*"``, or by setting a column to the source's of the same name. Where the source
        lacks a column of the table, ``"*"`` leaves it as it is, and a new row gets its default or null.
        """
        return replace(self, change=replace(self.change, evolves=True))

    def commit(self) -> Snapshot | None:
        """Do it, as one snapshot. Where no row changes, nothing is committed and the newest snapshot comes back."""
        check_clauses(self.change.clauses)
        return self.run(self.change)

    def _with(self, side: Side, action: Action, condition: str | None) -> Merge:
        said = None if condition is None else _text(condition, "a condition")
        clause = Clause(side=side, action=action, condition=said)
        return replace(self, change=replace(self.change, clauses=(*self.change.clauses, clause)))


def check_clauses(clauses: Sequence[Clause]) -> None:
    """``InvalidInput`` where there is nothing to do, or a clause that no row can reach."""
    if not clauses:
        raise InvalidInput("cannot merge without a clause: say what becomes of rows, as .when_matched_update({…})")
    for side in Side:
        about = [clause for clause in clauses if clause.side is side]
        if any(clause.condition is None for clause in about[:-1]):
            raise InvalidInput(
                f"cannot merge: a clause {side.value} behind one without a condition applies to no row; "
                "only the last of them may be without"
            )


def _values(values: Values) -> dict[str, SqlText] | None:
    if isinstance(values, str):
        if values != "*":
            raise InvalidInput(f'cannot set columns to {values!r}: give {{"column": "expression"}} or "*"')
        return None
    if not values:
        raise InvalidInput('cannot set no columns: give {"column": "expression"} or "*"')
    return {name: _text(text, f"the value of {name!r}") for name, text in values.items()}


def _text(text: object, what: str) -> SqlText:
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput(f'cannot take {text!r} as {what}: give a SQL expression as text, such as "s.qty + 1"')
    return SqlText.plain(text)


# ---------------------------------------------------------------- row verbs
#
# Verbs that change rows: look at the files that may hold them, let an engine answer, take its answer as a step.


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a transaction sees: a view for the engine, and what makes a step of its answer."""

    view: RowView
    sources: Sources
    manifests: tuple[ManifestFile, ...]

    def step(self, delta: RowDelta) -> ChangeRows:
        """The engine's answer as a step."""
        return change_step(self.view, self.sources, delta, self.manifests)


def look(
    tools: Tools,
    rewriter: Rewriter,
    metadata: TableMetadata,
    head: Snapshot | None,
    steps: Sequence[Step],
    *,
    verb: Verb,
    predicate: Bound,
) -> Look:
    """The table as the steps so far leave it, cut down to the files that may hold a matching row."""
    if any(isinstance(step, DeleteKeys) for step in steps):
        raise InvalidInput(f"cannot {verb} rows after deleting by key in one transaction: make it two")
    manifests = () if head is None else tools.format.manifests(metadata, head)
    outcome = apply_steps(tools, rewriter, metadata, manifests, steps)
    view, sources = view_rows(
        tools, metadata, manifests, outcome, verb=verb, predicate=predicate, operation_id=rewriter.operation_id
    )
    return Look(view=view, sources=sources, manifests=tuple(manifests))


def changing(verb: Verb, action: Action, where: Bound | str) -> RowChange:
    """An update or a delete: the rows that meet a condition, which is a predicate or any SQL expression."""
    clauses = (Clause(side=Side.MATCHED, action=action),)
    if isinstance(where, str):
        return RowChange(verb=verb, on=SqlText.plain(where), clauses=clauses)
    return RowChange(verb=verb, where=where, clauses=clauses)


def upserting(data: object, on: Sequence[str]) -> RowChange:
    """An upsert by the columns ``on``; ``InvalidInput`` where that is no list of columns."""
    if isinstance(on, str) or not on:
        raise InvalidInput(f'cannot use on={on!r} as the key: give a list of columns: ["id"]', on=on)
    return RowChange(verb="merge", source=data, key=tuple(on))


def set_to(values: Mapping[str, str], metadata: TableMetadata) -> UpdateRow:
    """What an update sets; ``InvalidInput`` names a column that is not the table's or is set to nothing."""
    if not values:
        raise InvalidInput('cannot update nothing: give {"column": "expression"}')
    named = [metadata.schema.find(name).id for name in values]
    for name, expression in values.items():
        if not isinstance(expression, str):
            raise InvalidInput(
                f"cannot set {name!r} to {expression!r}: give a SQL expression as text, such as 'qty + 1' or \"'red'\"",
                column=name,
            )
    if len(set(named)) < len(named):
        raise InvalidInput(f"cannot update a column twice: {', '.join(values)}")
    return UpdateRow({name: SqlText.plain(text) for name, text in values.items()})
