"""Verbs that change rows: look at the files that may hold them, let an engine answer, take its answer as a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from esker.errors import InvalidInput
from esker.model.predicate import Bound
from esker.ports.merging import Action, Clause, MergePlan, Side, SqlText
from esker.ports.row_changes import RowDelta, RowEngine, RowView, Verb
from esker.tree.manifest_list import ManifestFile
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata
from esker.write.change_rows import Sources, change_step, view_rows
from esker.write.remove import apply_steps
from esker.write.rewrite import Rewriter
from esker.write.steps import ChangeRows, DeleteKeys, Step
from esker.write.workbench import Tools


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


def updated(engine: RowEngine, view: RowView, values: Mapping[str, str]) -> RowDelta:
    """The delta of an update; ``InvalidInput`` names a column that is not the table's or is set to nothing."""
    return engine.update(view, checked_values(values, view.metadata))


def changing(where: str, action: Action, verb: Verb) -> MergePlan:
    """The rows that meet a condition of SQL's changed, as a merge without a source."""
    clause = Clause(side=Side.MATCHED, action=action)
    return MergePlan(on=SqlText.plain(where), clauses=(clause,), verb=verb)


def checked_values(values: Mapping[str, str], metadata: TableMetadata) -> Mapping[str, str]:
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
    return values
