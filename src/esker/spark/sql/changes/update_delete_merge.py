"""DELETE, UPDATE and MERGE of SQL as row changes: lake tables in their subqueries and sources become frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from esker.errors import InvalidInput
from esker.model.predicates.bind import bind
from esker.model.predicates.unbound_predicate import Constant, Unbound
from esker.ports.row_changes import Action, Clause, DeleteRow, InsertRow, RowChange, Side, SqlText, UpdateRow, Verb
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

_EVERY_ROW = SqlText("TRUE")
_SELECT = "SELECT "
_QUERY = ("select", "with", "values", "table")  # what a subquery begins with


@dataclass(slots=True)
class Changer:
    """Binds the names of a statement that changes rows: its source and its subqueries become frames. Step *parse* ends
    here, with a ``RowChange``."""

    around: Surroundings
    get_spark: Callable[[], SparkSession]
    to: Destination = field(default_factory=Destination)
    ctes: str = ""  # what subqueries may name beside tables: WITH and what follows it
    frames: dict[str, Any] = field(default_factory=dict)

    def run(self, table: Table, statement: Delete | Update | Merge, source: DataFrame | None) -> Snapshot | None:
        """Change the rows; None where nothing changed."""
        with table.transaction(ref=self.to.ref, summary=self.to.summary) as tx:
            tx.apply(self.bound(table, statement, source))
        return tx.snapshot

    def bound(self, table: Table, statement: Delete | Update | Merge, source: DataFrame | None) -> RowChange:
        """What the statement asks for. ``source`` is the query behind USING."""
        match statement:
            case Delete():
                return self._delete(table, statement)
            case Update():
                where = _EVERY_ROW if statement.where is None else self._template(statement.where)
                clause = Clause(side=Side.MATCHED, action=UpdateRow(self._values(statement.values)))
                return self._change(statement, "update", on=where, clauses=(clause,))
            case Merge():
                return self._merge(statement, source)

    def _delete(self, table: Table, statement: Delete) -> RowChange:
        """Without an expression for Spark where Esker understands the condition itself."""
        clauses = (Clause(side=Side.MATCHED, action=DeleteRow()),)
        where: Unbound = Constant(True)
        if statement.partition is not None:
            where = in_partition(table, statement.partition, self.around.zone())
        elif statement.where is not None:
            name = _target_name(statement)
            try:
                where = predicate_of(statement.where, table.schema, Reading(zone=self.around.zone()), [name])
            except InvalidInput:
                on = self._template(_whole(statement.where))
                return self._change(statement, "delete", on=on, clauses=clauses)
        return RowChange(verb="delete", where=bind(where, table.schema), clauses=clauses)

    def _merge(self, statement: Merge, source: DataFrame | None) -> RowChange:
        on = self._template(statement.on)
        clauses = tuple(self._clause(clause) for clause in statement.clauses)
        source_name = statement.source.alias or statement.source.name or "esker_s"
        if _target_name(statement).lower() == source_name.lower():
            raise InvalidInput(
                f"cannot merge: table and source are both called {_target_name(statement)}; give one an alias"
            )
        check_clauses(clauses)
        return self._change(
            statement,
            "merge",
            on=on,
            clauses=clauses,
            source=source,
            source_name=source_name,
            evolves=statement.evolves,
        )

    def _change(self, statement: Delete | Update | Merge, verb: Verb, **more: Any) -> RowChange:
        return RowChange(
            verb=verb,
            target_name=_target_name(statement),
            frames=self.frames,
            session=self.get_spark(),
            **more,
        )

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


def _target_name(statement: Delete | Update | Merge) -> str:
    return statement.alias or statement.table.parts[-1]


def _whole(text: str) -> Stretch:
    """The condition of a DELETE, which is read as text alone."""
    tokens = Words(text).tokens.tokens
    return Stretch(text, Span(tokens[0].start, tokens[-1].end + 1), tokens[0].place)
