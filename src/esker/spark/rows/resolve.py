"""Step *resolve* of a row change on Spark: ``RowChange`` → ``ResolvedOnSpark``.

Every expression is analysed by Spark over an empty table with the same columns. Then the keys of the source are read:
they say which files of the table a row of the source can match. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from esker.model.parsing.column_definitions import columns_from_spark
from esker.model.predicates.predicate import TRUE, all_of
from esker.model.schema import Schema
from esker.model.types import Field
from esker.ports.row_changes import Clause, InsertRow, ResolvedChange, RowChange, Side, UpdateRow, Wanted
from esker.spark.expressions.ddl_text import all_optional
from esker.spark.expressions.types import shown_schema
from esker.spark.rows.resolve_expressions import SOURCE, TARGET, Scope, named, qualified
from esker.spark.rows.resolve_join_keys import JoinKey, JoinTerms, Names, SourceKeys, join_terms
from esker.spark.rows.resolve_outputs import Outputs, is_default, labelled, written_fields
from esker.spark.rows.resolve_source import HERE, merge_of_upsert, source_frame
from esker.spark.rows.row_keeper import RowKeeper
from esker.spark.rows.target_rows import hidden_columns
from esker.spark.scan.file_scan import NUMBER, POSITION
from esker.spark.scan.stored_columns import quoted
from esker.spark.session.jobs import named_jobs
from esker.spark.session.jvm import empty_frame
from esker.spark.write.frame_schema import is_spark_frame
from esker.tree.table_metadata import TableMetadata
from esker.write.definition.evolve import evolved, may_evolve, only_in_source, wanted_of
from esker.write.rows.rewrite_file import with_lineage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CLAUSE = "__esker_clause"
"""The column with the number of the clause that applies."""
ROW_ID, LAST = "_row_id", "_last_updated_sequence_number"
_HASHED = (50_000, 2_000_000)  # rows of a source: below, Spark finds better ways; above, they may not fit
_MOST_BROADCAST = 32 << 20  # bytes of a source that each executor gets as a whole
_BROADCASTS = "spark.sql.autoBroadcastJoinThreshold"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedOnSpark(ResolvedChange):
    """A change whose expressions Spark has analysed, with the query that will decide it."""

    change: RowChange  # its columns qualified where a clause sees one side only
    session: SparkSession
    source: DataFrame | None  # kept, so that each look sees the same rows
    source_rows: int | None  # if they were counted
    query: DecidingQuery
    keys: tuple[JoinKey, ...]
    hidden: tuple[Field, ...]  # metadata columns that expressions name

    def decided(self, target: DataFrame) -> DataFrame:
        """The rows of this target that change, not computed yet."""
        return self._scope(target).query(self.query.text)

    def matched(self, target: DataFrame) -> DataFrame:
        """For a source that is broadcast: all pairs of rows that match, with the clause that applies, if one does, and
        the number of the source's row in ``HERE``. Not computed yet."""
        return self._scope(target).query(self.query.matched)

    def unmatched(self, target: DataFrame, matched: DataFrame) -> DataFrame:
        """The rows that come with the rows of the source that are in no pair. Not computed yet."""
        assert self.source is not None
        rest = self.source.join(matched.select(HERE), HERE, "left_anti").select(*map(quoted, self.source.columns))
        return replace(self, source=rest)._scope(target.limit(0)).query(self.query.text)

    def explained(self, target: DataFrame, kind: str) -> str:
        """Spark's plan of the same query; ``kind`` is a word of EXPLAIN, such as ``formatted``."""
        row = self._scope(target).query(f"EXPLAIN {kind} {self.query.text}").head()
        return "" if row is None else str(row[0])

    def _scope(self, target: DataFrame) -> Scope:
        return Scope(self.session, self.change, _frames(target, self.source))


def resolve(
    metadata: TableMetadata, change: RowChange, session: SparkSession, keeper: RowKeeper | None
) -> ResolvedOnSpark:
    """The change against the table's columns. ``InvalidInput`` names the first expression that cannot be used.

    Without a keeper the rows of the source are not read, so that its keys prune no files: enough for EXPLAIN.
    """
    if change.key and not change.clauses:
        change = merge_of_upsert(metadata, change)
    if change.evolves and not may_evolve(metadata):
        change = replace(change, evolves=False)
    source = None if change.source is None else source_frame(change.source, metadata.schema, session)
    columns = [] if source is None else [name for name in source.columns if name != HERE]
    metadata, new_columns, only = _with_new_columns(metadata, change, source)
    schema = metadata.schema
    hidden = hidden_columns(change, metadata, columns)
    given, change = change, _in_sight_of_one_side(change, (*schema.fields, *hidden), columns, only)
    with Scope(session, change, _frames(_empty_target(session, metadata, hidden), source)).with_views() as scope:
        query = DecidingQuery.of(change, schema, scope, columns, with_lineage=metadata.format_version >= 3)
        scope.query(query.text)  # analysed as a whole
    terms = _join_terms(change, schema, columns, session)
    keys = SourceKeys()
    if source is not None and terms.keys and keeper is not None and not change.has(Side.NOT_MATCHED_BY_SOURCE):
        is_kept = is_spark_frame(given.source)
        if is_kept:
            source = keeper.keep(_numbered(source), metadata, "the source of a merge")
        with named_jobs(session, f"look at the keys of the source to {change.label}"):
            keys = SourceKeys.of(source, named(change.source_name), terms.keys)
        query = query.knowing(keys, broadcasts=is_kept and _may_broadcast(session))
    every = change.has(Side.NOT_MATCHED_BY_SOURCE)  # any row of the table may be one
    return ResolvedOnSpark(
        change=change,
        predicate=TRUE if every else all_of((change.where, terms.alone, keys.predicate)),
        new_columns=new_columns,
        session=session,
        source=source,
        source_rows=keys.rows,
        query=query,
        keys=terms.keys,
        hidden=hidden,
    )


def _numbered(source: DataFrame) -> DataFrame:
    """The source with a number for each row in place of the mark. The numbers stay the same once the rows are kept."""
    from pyspark.sql import functions as F  # noqa: N812

    return source.withColumn(HERE, F.monotonically_increasing_id())


def _may_broadcast(session: SparkSession) -> bool:
    """Whether the user has not switched broadcasts off, by a threshold below zero."""
    return not str(session.conf.get(_BROADCASTS, None) or "").startswith("-")


def _with_new_columns(
    metadata: TableMetadata, change: RowChange, source: DataFrame | None
) -> tuple[TableMetadata, tuple[Wanted, ...], frozenset[str]]:
    """The table with the columns that the source brings, what they are, and the names that only the source has."""
    if not change.evolves or source is None:
        return metadata, (), frozenset()
    fields = all_optional(Schema(fields=columns_from_spark(source.drop(HERE).schema)))
    wanted = wanted_of(change, fields)
    return evolved(metadata, wanted), wanted, only_in_source(metadata, fields)


def _join_terms(change: RowChange, schema: Schema, columns: Sequence[str], session: SparkSession) -> JoinTerms:
    names = Names(
        schema=schema,
        target=change.target_name,
        source=None if change.source is None else change.source_name,
        source_columns=frozenset(name.lower() for name in columns),
    )
    return join_terms(change.on.shown, names, str(session.conf.get("spark.sql.session.timeZone")))


def _in_sight_of_one_side(
    change: RowChange, fields: Sequence[Field], source_columns: Sequence[str], only: frozenset[str]
) -> RowChange:
    """The change with a side's name before its columns, in the clauses that see this side alone."""
    if change.source is None:
        return change
    sides = {
        Side.NOT_MATCHED: (change.source_name, frozenset(name.lower() for name in source_columns)),
        Side.NOT_MATCHED_BY_SOURCE: (change.target_name, frozenset(field.name.lower() for field in fields)),
    }
    on = change.on
    if only:  # the table gets these columns with this merge: a name alone still means the source's
        sides[Side.MATCHED] = (change.source_name, only)
        on = qualified(on, change.source_name, only)

    def clear(clause: Clause) -> Clause:
        if clause.side not in sides:
            return clause
        name, columns = sides[clause.side]
        action = clause.action
        if isinstance(action, UpdateRow | InsertRow) and action.values is not None:
            action = replace(
                action,
                values={
                    at: said if is_default(said.shown, said.place, change.label) else qualified(said, name, columns)
                    for at, said in action.values.items()
                },
            )
        condition = None if clause.condition is None else qualified(clause.condition, name, columns)
        return replace(clause, action=action, condition=condition)

    return replace(change, on=on, clauses=tuple(map(clear, change.clauses)))


def _frames(target: DataFrame, source: DataFrame | None) -> Mapping[str, Any]:
    return {TARGET: target} if source is None else {TARGET: target, SOURCE: source}


def _empty_target(session: SparkSession, metadata: TableMetadata, hidden: Sequence[Field]) -> DataFrame:
    """No rows, with the table's columns: enough to analyse expressions."""
    schema = shown_schema((*with_lineage(metadata).fields, *hidden)).add(NUMBER, "long").add(POSITION, "long")
    return empty_frame(session, schema)


# ---------------------------------------------------------------- the deciding query
#
# The one query of a row change: which clause applies to which row, and what the row becomes. Resolve analyses it over
# an empty table, decide runs it over the table's rows, and EXPLAIN shows its plan.


@dataclass(frozen=True, slots=True)
class DecidingQuery:
    """Makes the text of the query."""

    change: RowChange
    schema: Schema
    values: Sequence[dict[int, str] | None]  # of each clause, by field id; None where the row goes
    with_lineage: bool
    on: str
    hint: str = ""
    broadcasts: bool = False  # whether each executor gets the whole source

    @classmethod
    def of(
        cls, change: RowChange, schema: Schema, scope: Scope, source_columns: Sequence[str], *, with_lineage: bool
    ) -> DecidingQuery:
        """``InvalidInput`` names the first expression that cannot be used: ON, then clause by clause."""
        scope.check_condition(Side.MATCHED, "the condition" if change.source is None else "ON", change.on)
        outputs = Outputs(change=change, schema=schema, scope=scope, source_columns=source_columns)
        values = []
        for at, clause in enumerate(change.clauses):
            if clause.condition is not None:
                what = f"the condition of {labelled(clause, at, change.clauses)}"
                scope.check_condition(clause.side, what, clause.condition)
            values.append(outputs.of(clause))
        return cls(change, schema, values, with_lineage, change.on.text)

    def knowing(self, keys: SourceKeys, *, broadcasts: bool) -> DecidingQuery:
        """The same query, joined in the way that suits the source's keys.

        A small source is broadcast, so that the table's rows stay where they are read. An outer join keeps the source
        and cannot broadcast it, so pairs are found first, and the rows of the source in none of them then. A larger
        source that fits memory is hashed, so that the table need not be sorted. Keys without nulls compare as plain
        values.
        """
        change = self.change
        broadcasts = broadcasts and keys.source_bytes is not None and keys.source_bytes <= _MOST_BROADCAST
        fits = keys.rows is not None and _HASHED[0] <= keys.rows <= _HASHED[1] and change.has(Side.NOT_MATCHED)
        hint = f"/*+ SHUFFLE_HASH({named(change.source_name)}) */ " if fits else ""
        if broadcasts:
            hint = "" if change.has(Side.NOT_MATCHED) else f"/*+ BROADCAST({named(change.source_name)}) */ "
        on = self.on
        if change.key and not keys.have_nulls:
            target, source = named(change.target_name), named(change.source_name)
            on = " AND ".join(f"{target}.{named(name)} = {source}.{named(name)}" for name in change.key)
        return replace(self, on=on, hint=hint, broadcasts=broadcasts)

    @property
    def in_two_steps(self) -> bool:
        """Whether pairs of rows are found first, and new rows then."""
        return self.broadcasts and self.change.has(Side.NOT_MATCHED)

    @property
    def writing(self) -> list[int]:
        """The clauses that leave a row behind."""
        return [at for at, values in enumerate(self.values) if values is not None]

    @property
    def text(self) -> str:
        """It gives a row for every row that goes, changes or comes: where it was, and what it becomes."""
        return f"SELECT * FROM ({self._every()}) WHERE {CLAUSE} IS NOT NULL"

    @property
    def matched(self) -> str:
        """It gives a row for every pair of rows that match, with the number of the source's row."""
        source = named(self.change.source_name)
        return replace(self, hint=f"/*+ BROADCAST({source}) */ ")._every(f", {source}.{HERE}", kind="INNER")

    def _every(self, more: str = "", *, kind: str | None = None) -> str:
        target = named(self.change.target_name)
        columns = [f"{self._clause()} AS {CLAUSE}", f"{target}.{NUMBER}", f"{target}.{POSITION}"]
        if self.with_lineage:
            columns.append(f"{target}.{ROW_ID} AS {ROW_ID}")
        columns += [f"{self._value(f.id)} AS {named(f.name)}" for f in written_fields(self.schema)]
        return f"SELECT {self.hint}{', '.join(columns)}{more} FROM {self._joined(kind)}"

    def _clause(self) -> str:
        target, source = named(self.change.target_name), named(self.change.source_name)
        there, given = f"{target}.{NUMBER} IS NOT NULL", f"{source}.{HERE} IS NOT NULL"
        about = {
            Side.MATCHED: f"{there} AND {given}" if self.change.source is not None else "TRUE",
            Side.NOT_MATCHED: f"{target}.{NUMBER} IS NULL",
            Side.NOT_MATCHED_BY_SOURCE: f"{source}.{HERE} IS NULL",
        }
        cases = []
        for at, clause in enumerate(self.change.clauses):
            condition = "" if clause.condition is None else f" AND ({clause.condition.text})"
            cases.append(f"WHEN {about[clause.side]}{condition} THEN {at}")
        return f"CASE {' '.join(cases)} END"

    def _value(self, field_id: int) -> str:
        """Each value is of the column's own type, so no case changes the type of another."""
        cases = [f"WHEN {at} THEN {values[field_id]}" for at, values in enumerate(self.values) if values is not None]
        return f"CASE {CLAUSE} {' '.join(cases)} END" if cases else "NULL"

    def _joined(self, kind: str | None) -> str:
        change = self.change
        target = f"{{{TARGET}}} AS {named(change.target_name)}"
        if change.source is None:
            return f"{target} WHERE ({self.on})"
        inserts, by_source = change.has(Side.NOT_MATCHED), change.has(Side.NOT_MATCHED_BY_SOURCE)
        kinds = {(True, True): "FULL", (True, False): "RIGHT", (False, True): "LEFT"}
        kind = kind or kinds.get((inserts, by_source), "INNER")
        return f"{target} {kind} JOIN {{{SOURCE}}} AS {named(change.source_name)} ON ({self.on})"
