"""DELETE, UPDATE and MERGE: done by the lake alone where it understands the condition, else as a plan for Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from esker.errors import InvalidInput
from esker.model.predicates.unbound_predicate import Constant, Unbound
from esker.ports.merging import Action, Clause, DeleteRow, InsertRow, MergePlan, Side, SqlText, UpdateRow
from esker.ports.row_changes import Verb
from esker.spark.expressions.spark_predicate import Reading, predicate_of
from esker.spark.sql.changes.insert_rows import in_partition
from esker.spark.sql.changes.write_audit_publish import Destination
from esker.spark.sql.grammar.statements import Delete, Merge, MergeClause, Query, Stretch, Update
from esker.spark.sql.grammar.words import Span, Words, blanked
from esker.spark.sql.queries.query_frames import frame_of
from esker.spark.sql.queries.rewrite_query import Surroundings, rewrite
from esker.table import Table
from esker.tree.snapshot import Snapshot
from esker.write.rows.row_change_verbs import check_clauses

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from esker.write.verbs import Transaction

_SELECT = "SELECT "
_QUERY = ("select", "with", "values", "table")  # what a subquery begins with


@dataclass(slots=True)
class Changer:
    """Runs the statements that change rows; each expression may name tables of the lake in subqueries."""

    around: Surroundings
    get_spark: Callable[[], SparkSession]
    to: Destination = field(default_factory=Destination)
    ctes: str = ""  # what subqueries may name beside tables: WITH and what follows it
    frames: dict[str, Any] = field(default_factory=dict)

    def delete(self, table: Table, statement: Delete) -> Snapshot | None:
        """Remove rows; by metadata alone where whole files go."""
        where: Unbound = Constant(True)
        qualifier = statement.alias or statement.table.parts[-1]
        if statement.partition is not None:
            where = in_partition(table, statement.partition, self.around.zone())
        elif statement.where is not None:
            try:
                where = predicate_of(statement.where, table.schema, Reading(zone=self.around.zone()), [qualifier])
            except InvalidInput:
                on = self._template(_whole(statement.where))
                clause = Clause(side=Side.MATCHED, action=DeleteRow())
                return self._run(table, "delete", MergePlan(on=on, clauses=(clause,), target_name=qualifier))
        with self._transaction(table) as tx:
            tx.delete(where)
        return tx.snapshot  # None where nothing changed

    def update(self, table: Table, statement: Update) -> Snapshot | None:
        """Set columns of rows."""
        on = SqlText("TRUE") if statement.where is None else self._template(statement.where)
        clause = Clause(side=Side.MATCHED, action=UpdateRow(self._values(statement.values)))
        plan = MergePlan(on=on, clauses=(clause,), target_name=statement.alias or statement.table.parts[-1])
        return self._run(table, "update", plan)

    def merge(self, table: Table, statement: Merge, source: DataFrame) -> Snapshot | None:
        """Bring rows of a source in."""
        plan = MergePlan(
            on=self._template(statement.on),
            clauses=tuple(self._clause(clause) for clause in statement.clauses),
            source=source,
            target_name=statement.alias or statement.table.parts[-1],
            source_name=statement.source.alias or statement.source.name or "esker_s",
            evolves=statement.evolves,
        )
        if plan.target_name.lower() == plan.source_name.lower():
            raise InvalidInput(f"cannot merge: table and source are both called {plan.target_name}; give one an alias")
        check_clauses(plan.clauses)
        return self._run(table, "merge", plan)

    def _transaction(self, table: Table) -> Transaction:
        return table.transaction(ref=self.to.ref, summary=self.to.summary)

    def _run(self, table: Table, verb: Verb, plan: MergePlan) -> Snapshot | None:
        ready = replace(plan, frames=self.frames, session=self.get_spark(), verb=verb)
        with self._transaction(table) as tx:
            tx.apply(verb, ready)
        return tx.snapshot  # None where nothing changed

    def _clause(self, clause: MergeClause) -> Clause:
        side = Side.MATCHED if clause.matched else Side.NOT_MATCHED_BY_SOURCE if clause.by_source else Side.NOT_MATCHED
        values = None if clause.values is None else self._values(clause.values)
        actions: dict[str, Action] = {
            "update": UpdateRow(values),
            "insert": InsertRow(values),
            "delete": DeleteRow(),
        }
        condition = None if clause.condition is None else self._template(clause.condition)
        return Clause(side=side, action=actions[clause.kind], condition=condition)

    def _values(self, values: tuple[tuple[str, Stretch], ...]) -> Mapping[str, SqlText]:
        found: dict[str, SqlText] = {}
        for name, text in values:
            if name in found:
                raise InvalidInput(f"cannot set column {name!r} twice (at {text.place})", column=name, place=text.place)
            found[name] = self._template(text)
        return found

    def _template(self, said: Stretch) -> SqlText:
        """The expression with lake tables of its subqueries made frames."""
        if not any(token.word in ("select", "table", "from") for token in Words(said.text).tokens.tokens):
            return SqlText(SqlText.plain(said.text).text, said.place)
        at = said.span.start - len(_SELECT)  # there is always room: a statement begins with words of its own
        text = _SELECT + (_with_ctes(said.text, self.ctes) if self.ctes else said.text)
        query = Query(blanked(said.whole[:at]) + text, Span(at, at + len(text)))
        rewritten = rewrite(query, self.around)
        template = rewritten.template.strip()[len(_SELECT) :] + "\n"  # which ends a comment
        for name, rows in rewritten.frames.items():
            own = f"esker_sub_{len(self.frames)}"
            template = template.replace("{" + name + "}", "{" + own + "}")
            self.frames[own] = frame_of(rows, self.get_spark())
        return SqlText(template, said.place)


def _with_ctes(text: str, ctes: str) -> str:
    """The expression with the CTEs at the head of each subquery, where a query may have them."""
    found, done, depth, inside = "", 0, 0, None
    tokens = Words(text).tokens.tokens
    for at, token in enumerate(tokens):
        if not token.is_sign or token.text not in ("(", ")"):
            continue
        depth += 1 if token.text == "(" else -1
        first = tokens[at + 1] if at + 1 < len(tokens) else None
        if inside is None and token.text == "(" and first is not None and first.word in _QUERY:
            inside = depth
            found += text[done : first.start] + ctes + (", " if first.word == "with" else "")
            done = first.end + 1 if first.word == "with" else first.start
        elif inside is not None and depth < inside:
            inside = None
    return found + text[done:]


def _whole(text: str) -> Stretch:
    """The condition of a DELETE, which is read as text alone."""
    tokens = Words(text).tokens.tokens
    return Stretch(text, Span(tokens[0].start, tokens[-1].end + 1), tokens[0].place)
