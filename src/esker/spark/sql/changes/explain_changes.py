"""EXPLAIN of a statement that writes: what it would do to which files, and Spark's plan of its rows. Writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from esker.model.predicates.predicate import TRUE
from esker.ports.row_changes import Clause, DeleteRow, InsertRow, RowChange, Side, UpdateRow, Verb
from esker.read.scan import Scan
from esker.spark.expressions.spark_predicate import Reading, predicate_of
from esker.spark.sql.changes.insert_rows import query_of
from esker.spark.sql.changes.update_delete_merge import Changer
from esker.spark.sql.changes.write_audit_publish import MAIN, as_read
from esker.spark.sql.definitions.define_tables import is_there
from esker.spark.sql.grammar.statements import CreateTable, Delete, Explain, Insert, Merge, Query, Update
from esker.spark.sql.grammar.words import Named, Span
from esker.spark.sql.lake_names import Found, LakeNames
from esker.spark.sql.queries.query_frames import Answer, frame_of
from esker.spark.sql.queries.rewrite_query import Surroundings
from esker.table import Table
from esker.write.rows.row_change_modes import mode_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TITLE = "== Esker Plan =="


@dataclass(frozen=True, slots=True)
class Explainer:
    """Explains one statement. A row change is resolved as if it were to run, and its deciding query is explained."""

    around: Surroundings
    kind: str  # of EXPLAIN: extended, formatted and so on; empty for none
    get_spark: Callable[[], SparkSession]
    frame: Callable[[Query], DataFrame]

    def explain(self, statement: Explain) -> Answer:
        """One row with one column, ``plan``, as Spark has it. ``InvalidInput`` where the statement would be refused."""
        match statement.statement:
            case Insert() as insert:
                table = self._names.must_find(insert.table).table
                lines, plan = self._insert(insert), self._plan_of(_text(query_of(table, insert)))
            case CreateTable(query=Query() as of_rows) as create:
                lines, plan = self._create(create), self._plan_of(_text(of_rows))
            case Delete() | Update() | Merge() as change:
                lines, plan = self._change(change)
        text = "\n".join([_TITLE, *lines, "", "== Spark's Plan of the Rows ==" if plan else ""]).rstrip()
        return Answer("plan string", [(f"{text}\n{plan}",)])

    def _plan_of(self, text: str) -> str:
        """Spark's plan of a query."""
        head = f"EXPLAIN {self.kind} "
        row = self.frame(Query(head + text, Span(len(head), len(head) + len(text)))).head()
        return "" if row is None else str(row[0])

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
            where = predicate_of(insert.replace_where, found.table.schema, Reading(zone=self.around.zone()))
            scan = found.table.scan(where, ref=as_read(found, self._names.spark).ref)
            return [*lines, "replaces   the rows that match", *_funnel(scan)]
        return [*lines, "replaces   nothing: new files only"]

    def _create(self, create: CreateTable) -> list[str]:
        if not create.replaces and is_there(self._names, create):
            return [f"CREATE TABLE {create.name}", "does       nothing: the table is there already"]
        verb = "REPLACE" if create.replaces and self._names.find(create.name.parts) is not None else "CREATE"
        layout = ", ".join(create.partition_by) or "no partitions"
        return [f"{verb} TABLE {create.name} AS SELECT", f"layout     {layout}"]

    def _change(self, statement: Delete | Update | Merge) -> tuple[list[str], str]:
        found = as_read(self._names.must_find(statement.table), self._names.spark)
        source = self.frame(statement.source.query) if isinstance(statement, Merge) else None
        changer = Changer(self.around, self.get_spark, ctes=statement.ctes)
        change = changer.bound(found.table, statement, source)
        lines = [*self._head(change.verb.upper(), statement.table), self._mode(found.table, change.verb)]
        if change.is_filter:
            more, plan = self._filter(found, change)
        else:
            more, plan = self._resolved(found, change)
        return [*lines, *more], plan

    def _filter(self, found: Found, change: RowChange) -> tuple[list[str], str]:
        """A delete that no engine computes: files go as a whole by metadata alone, the commit handles the others."""
        if change.where == TRUE:
            return ["files      all of them, by metadata alone"], ""
        scan = replace(found.table.scan(ref=found.ref), filter=change.where)
        dropped = sum(task.residual == TRUE for task in scan.plan().tasks)
        spark = self.get_spark()
        row = spark.sql(f"EXPLAIN {self.kind} SELECT * FROM {{rows}}", rows=frame_of(scan, spark)).head()
        lines = [f"dropped    {dropped:,} files as a whole, by metadata alone", *_funnel(scan)]
        return lines, "" if row is None else str(row[0])

    def _resolved(self, found: Found, change: RowChange) -> tuple[list[str], str]:
        """What step *resolve* knows without a look at the source's rows, and the query that step *decide* would run."""
        from esker.spark.rows.resolve import resolve  # late: statements that need no Spark start none
        from esker.spark.rows.target_rows import TargetRows

        spark = self.get_spark()
        scan = found.table.scan(ref=found.ref)
        assert scan.frames is not None  # a lake has them
        resolved = resolve(found.table.metadata, change, spark, None)
        tx = found.table.transaction(ref=found.ref or MAIN)
        try:
            if resolved.new_columns:
                tx.evolve(resolved.new_columns)
            view = tx.look(change.verb, resolved.predicate).view
            target = TargetRows(frames=scan.frames, session=spark, view=view, hidden=resolved.hidden)
            plan = resolved.explained(target.matching(view.predicate), self.kind)
        finally:
            tx.abandon()
        if change.source is None:
            return _funnel(replace(scan, filter=resolved.predicate)), plan
        clauses = [_shown(clause) for clause in change.clauses]
        if change.has(Side.NOT_MATCHED_BY_SOURCE):
            return [*clauses, "reads      every file: a clause is about rows that match nothing"], plan
        only = "           and of these, only files that keys of the source may be in"
        return [*clauses, *_funnel(replace(scan, filter=resolved.predicate)), only], plan

    def _head(self, verb: str, name: Named) -> list[str]:
        found = self._names.must_find(name)
        return [f"{verb} {found.table.name}", f"branch     {as_read(found, self._names.spark).ref or MAIN}"]

    def _mode(self, table: Table, verb: Verb) -> str:
        return f"mode       {mode_of(table.metadata, verb).value}"


def _shown(clause: Clause) -> str:
    verbs = {UpdateRow: "UPDATE", InsertRow: "INSERT", DeleteRow: "DELETE"}
    condition = "" if clause.condition is None else " AND …"
    return f"clause     {clause.side.value}{condition} THEN {verbs[type(clause.action)]}"


def _text(query: Query) -> str:
    return query.text[query.body.start : query.body.end]


def _funnel(scan: Scan) -> list[str]:
    return scan.explain().splitlines()
