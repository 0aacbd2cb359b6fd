"""A merge as one query of Spark's: which clause applies to which row, and what the row becomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from esker.model.schema import Schema
from esker.ports.merging import MergePlan, Side, SqlText
from esker.spark.file_scan import NUMBER, POSITION
from esker.spark.rows.expressions import SOURCE, TARGET, Scope, named
from esker.spark.rows.outputs import Outputs, labelled, written_fields
from esker.spark.rows.source_keys import SourceKeys

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CLAUSE, HERE = "__esker_clause", "__esker_here"
"""The number of the clause that applies; whether a row of the source is there."""
ROW_ID, LAST = "_row_id", "_last_updated_sequence_number"
_HASHED = (50_000, 2_000_000)  # rows of a source: below, Spark finds better ways; above, they may not fit


@dataclass(frozen=True, slots=True)
class Decision:
    """The text of a plan's query, checked: it gives a row for every row that changes."""

    plan: MergePlan
    schema: Schema
    values: Sequence[dict[int, str] | None]  # of each clause, by field id; None where the row goes
    with_lineage: bool
    hint: str = ""

    @classmethod
    def of(
        cls, plan: MergePlan, schema: Schema, scope: Scope, source_columns: Sequence[str], *, with_lineage: bool
    ) -> Decision:
        """``InvalidInput`` names the first expression that cannot be."""
        scope.check_condition(Side.MATCHED, "the condition" if plan.source is None else "ON", plan.on)
        outputs = Outputs(plan=plan, schema=schema, scope=scope, source_columns=source_columns)
        values = []
        for at, clause in enumerate(plan.clauses):
            if clause.condition is not None:
                what = f"the condition of {labelled(clause, at, plan.clauses)}"
                scope.check_condition(clause.side, what, clause.condition)
            values.append(outputs.of(clause))
        return cls(plan, schema, values, with_lineage)

    def knowing(self, keys: SourceKeys) -> Decision:
        """The same, joined in the way that suits the source's keys.

        An outer join keeps the source and cannot broadcast it; one that fits memory is hashed, so that the table need
        not be sorted. Keys without nulls compare as plain values.
        """
        fits = keys.rows is not None and _HASHED[0] <= keys.rows <= _HASHED[1] and self.plan.has(Side.NOT_MATCHED)
        hint = f"/*+ SHUFFLE_HASH({named(self.plan.source_name)}) */ " if fits else ""
        plan = self.plan
        if plan.key and not keys.have_nulls:
            target, source = named(plan.target_name), named(plan.source_name)
            same = " AND ".join(f"{target}.{named(name)} = {source}.{named(name)}" for name in plan.key)
            plan = replace(plan, on=SqlText(same))
        return replace(self, plan=plan, hint=hint)

    @property
    def writing(self) -> list[int]:
        """The clauses that leave a row behind."""
        return [at for at, values in enumerate(self.values) if values is not None]

    def changes(self, scope: Scope) -> DataFrame:
        """A row for every row that goes, changes or comes: where it was, and what it becomes."""
        target = named(self.plan.target_name)
        columns = [f"{self._clause()} AS {CLAUSE}", f"{target}.{NUMBER}", f"{target}.{POSITION}"]
        if self.with_lineage:
            columns.append(f"{target}.{ROW_ID} AS {ROW_ID}")
        columns += [f"{self._value(f.id)} AS {named(f.name)}" for f in written_fields(self.schema)]
        found = scope.query(f"SELECT {self.hint}{', '.join(columns)} FROM {self._joined()}")
        return found.where(f"{CLAUSE} IS NOT NULL")

    def _clause(self) -> str:
        target, source = named(self.plan.target_name), named(self.plan.source_name)
        there, given = f"{target}.{NUMBER} IS NOT NULL", f"{source}.{HERE} IS NOT NULL"
        about = {
            Side.MATCHED: f"{there} AND {given}" if self.plan.source is not None else "TRUE",
            Side.NOT_MATCHED: f"{target}.{NUMBER} IS NULL",
            Side.NOT_MATCHED_BY_SOURCE: f"{source}.{HERE} IS NULL",
        }
        cases = []
        for at, clause in enumerate(self.plan.clauses):
            condition = "" if clause.condition is None else f" AND ({clause.condition.text})"
            cases.append(f"WHEN {about[clause.side]}{condition} THEN {at}")
        return f"CASE {' '.join(cases)} END"

    def _value(self, field_id: int) -> str:
        """Each value is of the column's own type, so no case bends another."""
        cases = [f"WHEN {at} THEN {values[field_id]}" for at, values in enumerate(self.values) if values is not None]
        return f"CASE {CLAUSE} {' '.join(cases)} END" if cases else "NULL"

    def _joined(self) -> str:
        plan = self.plan
        target = f"{{{TARGET}}} AS {named(plan.target_name)}"
        if plan.source is None:
            return f"{target} WHERE ({plan.on.text})"
        inserts, by_source = plan.has(Side.NOT_MATCHED), plan.has(Side.NOT_MATCHED_BY_SOURCE)
        kind = {(True, True): "FULL", (True, False): "RIGHT", (False, True): "LEFT"}.get((inserts, by_source), "INNER")
        return f"{target} {kind} JOIN {{{SOURCE}}} AS {named(plan.source_name)} ON ({plan.on.text})"
