"""EXPLAIN of a statement that writes: what it would do to which files, and Spark's plan of its rows. Writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from esker.errors import InvalidInput
from esker.model.predicates.predicate import TRUE
from esker.ports.row_changes import Verb
from esker.read.scan import Scan
from esker.spark.expressions.spark_predicate import Reading, predicate_of
from esker.spark.sql.changes.insert_rows import query_of
from esker.spark.sql.changes.write_audit_publish import MAIN, as_read
from esker.spark.sql.definitions.define_tables import is_there
from esker.spark.sql.grammar.statements import CreateTable, Delete, Explain, Insert, Merge, Query, Update
from esker.spark.sql.grammar.words import Named, Span
from esker.spark.sql.lake_names import LakeNames
from esker.spark.sql.queries.query_frames import Answer
from esker.spark.sql.queries.query_text import quoted_word
from esker.spark.sql.queries.rewrite_query import Surroundings, rewrite
from esker.table import Table
from esker.write.rows.row_change_modes import mode_of

_TITLE = "== Esker Plan =="


@dataclass(frozen=True, slots=True)
class Explainer:
    """Explains one statement; ``plan_of`` gives Spark's plan of the text of a query."""

    around: Surroundings
    plan_of: Callable[[str], str]

    def explain(self, statement: Explain) -> Answer:
        """One row with one column, ``plan``, as Spark has it."""
        match statement.statement:
            case Insert() as insert:
                table = self._names.must_find(insert.table).table
                lines, query = self._insert(insert), _text(query_of(table, insert))
            case CreateTable(query=Query() as of_rows) as create:
                lines, query = self._create(create), _text(of_rows)
            case Merge() as merge:
                lines, query = self._merge(merge), _text(merge.source.query)
            case Delete() | Update() as change:
                lines, query = self._change(change)
        text = "\n".join([_TITLE, *lines, "", "== Spark's Plan of the Rows ==" if query else ""]).rstrip()
        return Answer("plan string", [(f"{text}\n{self.plan_of(query)}" if query else text + "\n",)])

    @property
    def _names(self) -> LakeNames:
        return self.around.names

    def _insert(self, insert: Insert) -> list[str]:
        found = self._names.must_find(insert.table)
        lines = self._head("INSERT OVERWRITE" if insert.overwrite else "INSERT", insert.table)
        if insert.overwrite:
            given = ", ".join(f"{name} = {value}" for name, value in insert.partition.items() if value is not None)
            return [*lines, f"replaces   {f'the partition {given}' if given else 'rows, by partitionOverwriteMode'}"]
        if insert.replace_where is not None:
            scan = self._scan_of(found.table, insert.table, None, insert.replace_where.strip(), "")
            return [*lines, "replaces   the rows that match", *_funnel(scan)]
        return [*lines, "replaces   nothing: new files only"]

    def _create(self, create: CreateTable) -> list[str]:
        if not create.replaces and is_there(self._names, create):
            return [f"CREATE TABLE {create.name}", "does       nothing: the table is there already"]
        verb = "REPLACE" if create.replaces and self._names.find(create.name.parts) is not None else "CREATE"
        layout = ", ".join(create.partition_by) or "no partitions"
        return [f"{verb} TABLE {create.name} AS SELECT", f"layout     {layout}"]

    def _merge(self, merge: Merge) -> list[str]:
        table = self._names.must_find(merge.table).table
        clauses = [
            f"clause     WHEN {'' if clause.matched else 'NOT '}MATCHED{' BY SOURCE' if clause.by_source else ''}"
            f"{' AND …' if clause.condition is not None else ''} THEN {clause.kind.upper()}"
            for clause in merge.clauses
        ]
        lines = [*self._head("MERGE", merge.table), self._mode(table, "merge"), *clauses]
        if any(clause.by_source for clause in merge.clauses):
            return [*lines, "reads      every file: a clause is about rows that match nothing"]
        alias = merge.alias or merge.table.parts[-1]
        scan = self._scan_of(table, merge.table, alias, merge.on.text, merge.ctes, beside=_beside(merge))
        return [*lines, *_funnel(scan), "           and of these, only files that keys of the source may be in"]

    def _change(self, change: Delete | Update) -> tuple[list[str], str]:
        verb: Verb = "delete" if isinstance(change, Delete) else "update"
        table = self._names.must_find(change.table).table
        lines = [*self._head(verb.upper(), change.table), self._mode(table, verb)]
        where = None if change.where is None else change.where if isinstance(change.where, str) else change.where.text
        alias = change.alias or change.table.parts[-1]
        if where is None and verb == "delete":
            return [*lines, "files      all of them, by metadata alone"], ""
        text = _select(change.table, alias, where, change.ctes)
        if verb == "delete" and where is not None:
            lines += self._dropped(change.table, where, alias)
        return [*lines, *_funnel(self._scan(table, text))], text

    def _dropped(self, name: Named, where: str, alias: str) -> list[str]:
        """How many files go by metadata alone, where the lake understands the whole condition."""
        found = as_read(self._names.must_find(name), self._names.spark)
        try:
            condition = predicate_of(where, found.table.schema, Reading(zone=self.around.zone()), [alias])
        except InvalidInput:
            return []
        tasks = found.table.scan(condition, ref=found.ref).plan().tasks
        return [f"dropped    {sum(task.residual == TRUE for task in tasks):,} files as a whole, by metadata alone"]

    def _head(self, verb: str, name: Named) -> list[str]:
        found = self._names.must_find(name)
        return [f"{verb} {found.table.name}", f"branch     {as_read(found, self._names.spark).ref or MAIN}"]

    def _mode(self, table: Table, verb: Verb) -> str:
        return f"mode       {mode_of(table.metadata, verb).value}"

    def _scan_of(
        self, table: Table, name: Named, alias: str | None, where: str, ctes: str, *, beside: str = ""
    ) -> Scan:
        return self._scan(table, _select(name, alias or name.parts[-1], where, ctes, beside))

    def _scan(self, table: Table, text: str) -> Scan:
        """What a query of the rows would read of the table."""
        frames = rewrite(Query(text, Span(0, len(text))), self.around).frames.values()
        found = [rows for rows in frames if isinstance(rows, Scan) and rows.metadata.location == table.location]
        return found[-1]


def _select(name: Named, alias: str, where: str | None, ctes: str, beside: str = "") -> str:
    target = f"{'.'.join(map(quoted_word, name.parts))} AS {quoted_word(alias)}"
    condition = "" if where is None else f" WHERE ({where}\n)"
    return f"{ctes}SELECT * FROM {beside}{target}{condition}"


def _beside(merge: Merge) -> str:
    name = merge.source.alias or merge.source.name or "esker_s"
    return f"(\n{_text(merge.source.query)}\n) AS {quoted_word(name)} CROSS JOIN "


def _text(query: Query) -> str:
    return query.text[query.body.start : query.body.end]


def _funnel(scan: Scan) -> list[str]:
    return scan.explain().splitlines()
