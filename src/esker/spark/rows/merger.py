"""Merges on Spark: one join decides what changes, and is kept; what goes is looked up in it, what comes is written.

Rows that change are computed once, so that a source or a condition that would not say the same twice cannot tear a
merge apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from esker.arrow.deletes.deleted_positions import bitmap_of
from esker.errors import InvalidInput
from esker.model.parsing.column_definitions import columns_from_spark
from esker.model.predicates.predicate import TRUE, all_of
from esker.model.schema import Schema
from esker.model.types import Field
from esker.ports.engine import SparkFrames, Writer, WriteRequest
from esker.ports.merging import Clause, DeleteRow, InsertRow, MergePlan, PreparedMerge, Side, UpdateRow
from esker.ports.row_changes import RowCounts, RowDelta, RowView
from esker.spark.expressions.ddl_text import all_optional
from esker.spark.expressions.types import shown_schema
from esker.spark.rows.decide import CLAUSE, HERE, LAST, ROW_ID, Decision, Places
from esker.spark.rows.resolve_expressions import SOURCE, TARGET, Scope, named, qualified
from esker.spark.rows.resolve_join_keys import JoinKey, JoinTerms, Names, SourceKeys, join_terms
from esker.spark.rows.resolve_outputs import is_default, written_fields
from esker.spark.rows.resolve_source import source_frame
from esker.spark.rows.row_keeper import RowKeeper
from esker.spark.rows.target_rows import TargetRows, hidden_columns
from esker.spark.scan.file_scan import NUMBER, POSITION
from esker.spark.scan.stored_columns import quoted
from esker.spark.session.jobs import named_jobs
from esker.spark.write.distribution import distribution_mode
from esker.spark.write.frame_schema import is_spark_frame
from esker.tree.data_file import DataFile
from esker.tree.table_metadata import TableMetadata
from esker.write.rows.rewrite_file import with_lineage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BYTES_PER_TASK, _WIDTH = 16 << 20, 100  # as files hold them, compressed


@dataclass(frozen=True, slots=True)
class _State:
    session: SparkSession
    source: DataFrame | None
    decision: Decision
    terms: JoinTerms
    hidden: tuple[Field, ...]  # metadata columns that expressions name


class SparkMerger:
    """Implements ``ports.merging.Merger``."""

    def __init__(
        self, frames: SparkFrames, writer: Writer, get_session: Callable[[], SparkSession], keeper: RowKeeper
    ) -> None:
        self._frames = frames
        self._writer = writer
        self._get_session = get_session
        self._keeper = keeper

    def takes(self, text: str) -> bool:
        """Only Spark itself can tell."""
        return bool(text.strip())

    def source_columns(self, metadata: TableMetadata, plan: MergePlan) -> tuple[MergePlan, tuple[Field, ...]]:
        """What columns the source has; a source of Arrow's is a frame from here on."""
        frame = source_frame(plan.source, metadata.schema, self._session_of(plan)).drop(HERE)
        return replace(plan, source=frame), all_optional(Schema(fields=columns_from_spark(frame.schema)))

    def prepare(self, metadata: TableMetadata, plan: MergePlan) -> PreparedMerge:
        """Let Spark read every expression, then look at the source's keys."""
        session = self._session_of(plan)
        schema = metadata.schema
        source = None if plan.source is None else source_frame(plan.source, schema, session)
        columns = [] if source is None else [name for name in source.columns if name != HERE]
        hidden = hidden_columns(plan, metadata, columns)
        plan = _in_sight_of_one_side(plan, (*schema.fields, *hidden), columns)
        scope = Scope(session, plan, _frames(_empty_target(session, metadata, hidden), source))
        decision = Decision.of(plan, schema, scope, columns, with_lineage=metadata.format_version >= 3)
        decision.changes(scope)
        names = Names(
            schema=schema,
            target=plan.target_name,
            source=None if source is None else plan.source_name,
            source_columns=frozenset(name.lower() for name in columns),
        )
        terms = join_terms(plan.on.shown, names, str(session.conf.get("spark.sql.session.timeZone", "UTC")))
        if plan.has(Side.NOT_MATCHED_BY_SOURCE):  # any row of the table may be one
            return PreparedMerge(plan=plan, predicate=TRUE, state=_State(session, source, decision, terms, hidden))
        keys = SourceKeys()
        if source is not None and terms.keys:
            if is_spark_frame(plan.source):
                source = self._keeper.keep(source, metadata, "the source of a merge")
            with named_jobs(session, f"look at the keys of the source to {plan.verb}"):
                keys = SourceKeys.of(source, named(plan.source_name), terms.keys)
        state = _State(session, source, decision.knowing(keys), terms, hidden)
        return PreparedMerge(plan=plan, predicate=all_of((terms.alone, keys.predicate)), state=state)

    def merge(self, view: RowView, prepared: PreparedMerge) -> RowDelta:
        """Decide, look up what goes, write what comes."""
        state: _State = prepared.state
        plan, decision = prepared.plan, state.decision
        if not view.tasks and not plan.has(Side.NOT_MATCHED):
            return RowDelta()
        rows = TargetRows(frames=self._frames, session=state.session, view=view, hidden=state.hidden)
        target = rows.matching(view.predicate)
        decided = decision.changes(Scope(state.session, plan, _frames(target, state.source)))
        changes = self._keeper.keep(decided, view.metadata, f"the rows that change in a {plan.verb}")
        with named_jobs(state.session, f"find the places of rows that change in a {plan.verb}"):
            places = Places.of(changes)
        if plan.deletes_every_match is not None:
            places = places.once(plan.deletes_every_match)
        elif places.first_twice is not None:
            raise _matched_twice(rows, plan, state.terms.keys, *places.first_twice)
        if plan.key and places.has_new:
            with named_jobs(state.session, "look for keys that are there twice"):
                _check_unique(changes.where(f"{NUMBER} IS NULL"), plan.key)
        rewritten = [n for n in places.gone if view.rewrites(view.tasks[n].data_file.path)]
        added: tuple[DataFile, ...] = ()
        if places.rows and (decision.writing or rewritten):
            new = self._new_rows(view, decision, changes, rows, rewritten, places)
            added = self._written(view, _gathered(view, new, rewritten, places.rows))
        paths = {n: view.tasks[n].data_file.path for n in places.gone}
        return RowDelta(
            gone={paths[n]: bitmap_of(held) for n, held in places.gone.items() if n not in rewritten},
            rewritten=frozenset(paths[n] for n in rewritten),
            added=added,
            counts=_counts(plan, places),
        )

    def _new_rows(
        self,
        view: RowView,
        decision: Decision,
        changes: DataFrame,
        rows: TargetRows,
        rewritten: list[int],
        places: Places,
    ) -> DataFrame:
        """Rows that changed or came, and those that stay of files that are written anew."""
        names = [quoted(f.name) for f in written_fields(view.metadata.schema)]
        lineage = decision.with_lineage
        new = changes.where(f"{CLAUSE} IN ({', '.join(map(str, decision.writing)) or '-1'})").selectExpr(
            *names, *([ROW_ID, f"CAST(NULL AS BIGINT) AS {LAST}"] if lineage else [])
        )
        if not rewritten:
            return new
        stay = rows.without(rewritten, places.gone).select(*names, *([ROW_ID, LAST] if lineage else []))
        return stay.union(new) if decision.writing else stay

    def _written(self, view: RowView, frame: DataFrame) -> tuple[DataFile, ...]:
        schema = with_lineage(view.metadata)
        fitted = self._writer.fit(view.metadata, schema, frame)
        request = WriteRequest(metadata=view.metadata, schema=schema, data=fitted, operation_id=view.operation_id)
        return tuple(self._writer.write(request))

    def _session_of(self, plan: MergePlan) -> SparkSession:
        if plan.session is not None:
            return plan.session
        if is_spark_frame(plan.source):
            return plan.source.sparkSession
        return self._get_session()


def _counts(plan: MergePlan, places: Places) -> RowCounts:
    found = RowCounts()
    for at, rows in places.by_clause.items():
        clause = plan.clauses[at]
        by_source = rows if clause.side is Side.NOT_MATCHED_BY_SOURCE else 0
        match clause.action:
            case DeleteRow():
                found += RowCounts(deleted=rows, deleted_by_source=by_source)
            case UpdateRow():
                found += RowCounts(updated=rows, updated_by_source=by_source)
            case InsertRow():
                found += RowCounts(inserted=rows)
    return found


def _gathered(view: RowView, frame: DataFrame, rewritten: list[int], changed: int) -> DataFrame:
    """As few tasks as the rows need, each of which makes a file, where the table does not say how to spread them."""
    if distribution_mode(view.metadata) != "none":
        return frame
    files = [task.data_file for task in view.tasks]
    width = sum(file.file_size for file in files) / max(1, sum(file.record_count for file in files)) or _WIDTH
    size = sum(files[n].file_size for n in rewritten) + changed * width
    return frame.coalesce(1 + int(size // _BYTES_PER_TASK))


def _in_sight_of_one_side(plan: MergePlan, fields: Sequence[Field], source_columns: Sequence[str]) -> MergePlan:
    """The plan with a side's name before its columns, in the clauses that see this side alone."""
    if plan.source is None:
        return plan
    sides = {
        Side.NOT_MATCHED: (plan.source_name, frozenset(name.lower() for name in source_columns)),
        Side.NOT_MATCHED_BY_SOURCE: (plan.target_name, frozenset(field.name.lower() for field in fields)),
    }
    on = plan.on
    if plan.only_in_source:  # the table gets them with this merge: a name alone still means the source's
        sides[Side.MATCHED] = (plan.source_name, plan.only_in_source)
        on = qualified(on, plan.source_name, plan.only_in_source)

    def clear(clause: Clause) -> Clause:
        if clause.side not in sides:
            return clause
        name, columns = sides[clause.side]
        action = clause.action
        if isinstance(action, UpdateRow | InsertRow) and action.values is not None:
            action = replace(
                action,
                values={
                    at: said if is_default(said.shown, said.place, plan.verb) else qualified(said, name, columns)
                    for at, said in action.values.items()
                },
            )
        condition = None if clause.condition is None else qualified(clause.condition, name, columns)
        return replace(clause, action=action, condition=condition)

    return replace(plan, on=on, clauses=tuple(map(clear, plan.clauses)))


def _frames(target: DataFrame, source: DataFrame | None) -> Mapping[str, Any]:
    return {TARGET: target} if source is None else {TARGET: target, SOURCE: source}


def _empty_target(session: SparkSession, metadata: TableMetadata, hidden: Sequence[Field]) -> DataFrame:
    """No rows with the columns of the table's: enough to read expressions by."""
    schema = shown_schema((*with_lineage(metadata).fields, *hidden)).add(NUMBER, "long").add(POSITION, "long")
    return session.createDataFrame([], schema)


def _check_unique(new: DataFrame, key: tuple[str, ...]) -> None:
    """Of the rows that come; two that would change one row are known by its place."""
    names = [quoted(name) for name in key]
    twice = new.groupBy(*names).count().where("count > 1").select(*names).head(1)
    if twice:
        shown = ", ".join(f"{name} = {value}" for name, value in zip(key, twice[0], strict=True))
        raise InvalidInput(f"cannot upsert: the key {shown} occurs twice in the rows given")


def _matched_twice(
    rows: TargetRows, plan: MergePlan, keys: tuple[JoinKey, ...], number: int, position: int
) -> InvalidInput:
    path = rows.view.tasks[number].data_file.path
    shown = ""
    if keys:
        names = [key.field.name for key in keys]
        found = rows.without([number], {number: np.empty(0, np.int64)}).where(f"{POSITION} = {position}")
        values = found.select(*map(quoted, names)).head(1)[0]
        shown = " where " + ", ".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))
    return InvalidInput(
        f"cannot {plan.verb}: several rows of the source match one row of the table{shown} (row {position} of {path}); "
        "which of them should win? Make the source's rows unique by what ON compares",
        file=path,
        row=position,
    )
