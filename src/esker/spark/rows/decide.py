"""Step *decide* of a row change: which clause applies to which row, what the row becomes, and which positions go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from esker.model.schema import Schema
from esker.ports.merging import MergePlan, Side, SqlText
from esker.spark.rows.resolve_expressions import SOURCE, TARGET, Scope, named
from esker.spark.rows.resolve_join_keys import SourceKeys
from esker.spark.rows.resolve_outputs import Outputs, labelled, written_fields
from esker.spark.scan.apply_deletes import Int64s
from esker.spark.scan.file_scan import NUMBER, POSITION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# ---------------------------------------------------------------- decide
#
# A merge as one query of Spark's: which clause applies to which row, and what the row becomes.


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


# ---------------------------------------------------------------- positions
#
# Which positions of which files go, brought here in blocks: two columns and a short number for each row.


_BITS = 16


@dataclass(frozen=True, slots=True)
class Places:
    """Where the rows of a change were."""

    gone: dict[int, Int64s]  # by the number of a file, in order; a position that occurs twice is there twice
    by_clause: Mapping[int, int]  # how many rows each clause applied to, those that were nowhere among them

    @classmethod
    def of(cls, changes: DataFrame) -> Places:
        """One job groups the positions by file."""
        from pyspark.sql import functions as F  # noqa: N812

        blocks = (
            changes.groupBy(
                F.col(CLAUSE).alias("clause"),
                F.col(NUMBER).alias("n"),
                F.expr(f"shiftright({POSITION}, {_BITS})").alias("block"),
            )
            .agg(
                F.count(F.lit(1)).alias("rows"),
                F.collect_list(F.expr(f"CAST({POSITION} & {(1 << _BITS) - 1} AS INT)")).alias("low"),
            )
            .toArrow()
            .combine_chunks()
        )
        by_clause: Counter[int] = Counter()
        for clause, rows in zip(blocks.column("clause").to_pylist(), blocks.column("rows").to_pylist(), strict=True):
            by_clause[clause] += rows
        return cls(_by_file(blocks.filter(blocks.column("n").is_valid()).combine_chunks()), by_clause)

    @property
    def rows(self) -> int:
        """Of the change, those that were nowhere among them."""
        return sum(self.by_clause.values())

    @property
    def has_new(self) -> bool:
        """Whether some of the rows were nowhere."""
        return self.rows > sum(map(len, self.gone.values()))

    def once(self, clause: int) -> Places:
        """The same where each position counts once; only that clause may have named one twice."""
        gone = {number: np.unique(held) for number, held in self.gone.items()}
        twice = sum(map(len, self.gone.values())) - sum(map(len, gone.values()))
        return Places(gone, {**self.by_clause, clause: self.by_clause.get(clause, 0) - twice})

    @property
    def first_twice(self) -> tuple[int, int] | None:
        """A file's number and a position that is there twice, if there is one."""
        for number, held in self.gone.items():
            twice = np.flatnonzero(held[1:] == held[:-1])
            if len(twice):
                return number, int(held[twice[0]])
        return None


def _by_file(blocks: pa.Table) -> dict[int, Int64s]:
    if not blocks.num_rows:
        return {}
    low = blocks.column("low").combine_chunks()
    lengths = low.value_lengths().to_numpy(zero_copy_only=False)
    numbers = np.repeat(blocks.column("n").to_numpy(), lengths)
    starts = np.repeat(blocks.column("block").to_numpy().astype(np.int64) << _BITS, lengths)
    positions = starts + low.flatten().to_numpy(zero_copy_only=False)
    order = np.lexsort((positions, numbers))
    numbers, positions = numbers[order], positions[order]
    files, first = np.unique(numbers, return_index=True)
    return {int(n): part for n, part in zip(files, np.split(positions, first[1:]), strict=True)}
