"""A scan of a table. `Scan.plan` shows the steps of the read path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from esker.errors import InvalidInput, Unsupported
from esker.model.display_text import card, first_of, shortened
from esker.model.parsing.predicate_text import parse
from esker.model.predicates.bind import bind, to_sql
from esker.model.predicates.column import Column, Expression
from esker.model.predicates.predicate import TRUE, Bound
from esker.model.predicates.unbound_predicate import Unbound
from esker.model.schema import Schema
from esker.ports.engine import Engine, ReadRequest, ScanTask, SparkFrames
from esker.ports.merge import MergeRule
from esker.ports.scan_service import NotServed, ScanQuestion, ScanService, ServedPlan
from esker.ports.table_format import MergesRows, TableFormat
from esker.read.attach_deletes import DeleteIndex, attach_deletes, index_deletes
from esker.read.metadata_columns import is_deleted_column, metadata_column
from esker.read.plan_tasks import Plan, Tasks, explain, plan_tasks
from esker.read.prune_manifest import NO_FACTS, FileFacts, float_columns, prune_in_turn, prune_manifests, span_columns
from esker.read.prune_manifest_list import prune_manifest_list
from esker.read.prune_on_workers import PlanWorkers, asks_for_workers
from esker.read.resolve_snapshot import AsOf, Resolved, resolve_snapshot
from esker.read.result_formats import RowVerbs
from esker.read.served_plan import plan_served
from esker.tree.table_metadata import TableMetadata

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Where: TypeAlias = str | Expression | Column | Unbound | None


@dataclass(frozen=True, kw_only=True)
class Scan(RowVerbs):
    """Rows that were asked for and are not read yet. Every method reads the same snapshot.

    recent = orders.scan("ts >= '2026-01-01'", columns=["id", "amount"])
    recent.count()
    recent.to_arrow()
    """

    metadata: TableMetadata
    table_format: TableFormat
    engine: Engine
    resolved: Resolved
    filter: Bound
    projection: Schema
    limit: int | None = None
    frames: SparkFrames | None = None
    service: ScanService | None = None  # of a catalog that takes part in scans
    workers: PlanWorkers | None = None  # who prunes the manifests; None: this process

    def __getstate__(self) -> dict[str, Any]:
        """For other processes: there the reader plans itself, since a service of the catalog holds connections."""
        return {**self.__dict__, "service": None, "workers": None}

    def __repr__(self) -> str:
        facts = "; ".join(f"{name} {said}" for name, said in self._facts())
        return f"<esker.Scan of {self.metadata.location}: {facts}>"

    def _repr_html_(self) -> str:
        return card(f"Scan of {self.metadata.location}", self._facts())

    def _facts(self) -> list[tuple[str, str]]:
        """What was asked for. Plans nothing."""
        snapshot = self.resolved.snapshot
        facts = [
            ("snapshot", "none" if snapshot is None else str(snapshot.snapshot_id)),
            ("filter", shown_filter(self.filter, self.resolved.schema)),
            ("columns", first_of((field.name for field in self.projection), 12)),
        ]
        return facts if self.limit is None else [*facts, ("limit", f"{self.limit:,}")]

    def plan(self) -> Plan:
        """The files to read, and the deletes that apply to each. Reads manifests, but no data.

        orders.scan("amount > 100").plan().funnel.files_kept
        """
        # not a cached_property: until Python 3.12 that has one lock for all scans, and a plan may wait for a server
        kept: dict[str, Any] = self.__dict__
        if "_plan" not in kept:
            kept["_plan"] = self._reported(NO_FACTS)
        found: Plan = kept["_plan"]
        return found

    def planned_on_workers(self, session: SparkSession | None = None) -> Scan:
        """The same scan, whose manifests are read and pruned by Spark's workers. The plan has the same tasks.

        For tables with many thousands of manifests, on a cluster. ``session`` is the Spark session, by default the
        session of the lake. Tables in memory, of other formats, or with few manifests are planned in this process.
        Raises ``Unsupported`` if the table was opened without Spark.

        events.scan("day = 3").planned_on_workers().plan()
        """
        return replace(self, workers=PlanWorkers(self._spark_frames, session))

    @property
    def _spark_frames(self) -> SparkFrames:
        if self.frames is None:
            raise Unsupported(
                "cannot use Spark: this table was opened without it; open the table through esker.connect",
                feature="spark",
            )
        return self.frames

    def tasks(self) -> Iterator[ScanTask]:
        """The tasks of the plan one after the other, for tables whose plan would not fit in memory.

        Nothing is kept: manifests are decoded as the tasks are read. A plan that the catalog makes, or that shows
        deleted rows, is made as a whole.

        for task in events.scan("day = 3").tasks(): print(task.data_file.path)
        """
        snapshot, schema = self.resolved.snapshot, self.resolved.schema
        if snapshot is None or self.service is not None or any(is_deleted_column(f) for f in self.projection):
            yield from self.plan().tasks
            return
        manifests = self.table_format.manifests(self.metadata, snapshot)
        listed = prune_manifest_list(self.metadata, schema, manifests, self.filter)
        deletes: DeleteIndex | None = None
        for kept in prune_in_turn(self.metadata, self.table_format, schema, listed, self.filter):
            if deletes is None:
                deletes = index_deletes(self.metadata, self.table_format, listed)
            yield from Tasks([kept], deletes)

    def _reported(self, facts: FileFacts) -> Plan:
        """The plan, made by the catalog or here, and reported to a catalog that wants reports."""
        question, service = self._question, self.service
        if question is None or service is None:
            return self._planned(facts)
        began = service.clock_ns()
        kept: dict[str, Any] = self.__dict__
        if "_served" not in kept:  # the catalog is asked once
            kept["_served"] = service.plan(question)
        served: ServedPlan | NotServed = kept["_served"]
        if isinstance(served, NotServed):
            plan = replace(self._planned(facts), planner=served.why)
        else:
            plan = self._with_dead(plan_served(question, served))
        counts = {**plan.funnel.counters, **plan.manifest_counters}
        service.report(question, counts, service.clock_ns() - began)
        return plan

    @property
    def _question(self) -> ScanQuestion | None:
        """What a catalog is asked; None for an empty table."""
        if self.resolved.snapshot is None:
            return None
        return ScanQuestion(
            metadata=self.metadata,
            snapshot=self.resolved.snapshot,
            schema=self.resolved.schema,
            filter=self.filter,
            projection=self.projection,
        )

    def _planned(self, facts: FileFacts) -> Plan:
        snapshot, schema = self.resolved.snapshot, self.resolved.schema
        manifests = () if snapshot is None else self.table_format.manifests(self.metadata, snapshot)
        listed = prune_manifest_list(self.metadata, schema, manifests, self.filter)
        prune = prune_manifests if self.workers is None else self.workers.prune
        pruned = prune(self.metadata, self.table_format, schema, listed, self.filter, facts.limited(listed))
        deletes = attach_deletes(self.metadata, self.table_format, listed, pruned)
        return self._with_dead(plan_tasks(snapshot, schema, listed, pruned, deletes, self.filter))

    def _with_dead(self, plan: Plan) -> Plan:
        """The plan, where it is asked for also with the rows that deletes removed."""
        if not any(is_deleted_column(field) for field in self.projection):
            return plan
        dead = [replace(task, deletes=(), taken_by=task.deletes) for task in plan.tasks if task.deletes]
        return replace(plan, tasks=(*plan.tasks, *dead))

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return self.engine.arrow_schema(self.projection)

    def count(self) -> int:
        """The number of rows: from metadata if that is exact, else by reading the files that need it."""
        known, unsure = 0, []
        for task in self.plan().tasks:
            exact = exact_count(task)
            if exact is None:
                unsure.append(task)
            else:
                known += exact
            if self.limit is not None and known >= self.limit:
                return self.limit
        if unsure:
            nothing = Schema(fields=())
            known += sum(batch.num_rows for batch in self.engine.read(self._request(unsure, nothing)))
        return known if self.limit is None else min(known, self.limit)

    def to_spark(self, session: SparkSession | None = None) -> DataFrame:
        """All rows as a Spark DataFrame. Spark's own readers read the files when the DataFrame is used.

        ``session`` is the Spark session, by default the session of the lake. Raises ``Unsupported`` if the table was
        opened without Spark.
        """
        if self.frames is None:
            raise Unsupported(
                "cannot return a Spark DataFrame: this table was opened without Spark; open it through esker.connect",
                feature="spark",
            )
        return self.frames.frame(self.spark_request(session), self.filter, session)

    def spark_request(self, session: SparkSession | None = None) -> ReadRequest:
        """What Spark reads. The tasks record which float columns may contain NaN or zero. The request has the spans of
        other columns, so that Spark leaves out files by a filter that is given later."""
        if self.workers is None and self.frames is not None and asks_for_workers(self.metadata):
            return self.planned_on_workers(session).spark_request()
        facts = FileFacts(
            floats=float_columns(self.resolved.schema), spans=span_columns(self.metadata, self.projection)
        )
        tasks = (self._reported(facts) if facts != NO_FACTS else self.plan()).tasks
        request = self._request(tasks, self.projection)
        return replace(request, spans=tasks.spans) if isinstance(tasks, Tasks) and request.merge is None else request

    def explain(self) -> str:
        """How much each level of the tree skips, and which part of the filter does it, as text.

        If a Spark session is running, the last line says who would read the files there, and why.

        print(orders.scan("amount > 100").explain())
        """
        plan = self.plan()
        request = self._request(plan.tasks, self.projection)
        on_spark = None if self.frames is None else self.frames.explained(request)
        return explain(plan) if on_spark is None else f"{explain(plan)}\non Spark   {on_spark}"

    def _batches(self) -> Iterator[pa.RecordBatch]:
        return self.engine.read(self._request(self.plan().tasks, self.projection))

    def _request(self, tasks: Sequence[ScanTask], projection: Schema) -> ReadRequest:
        return ReadRequest(
            metadata=self.metadata,
            tasks=tasks,
            row_schema=self.resolved.schema,
            projection=projection,
            limit=self.limit,
            filter=self.filter,
            merge=merge_rule_of(self),
        )


def merge_rule_of(scan: Scan) -> MergeRule | None:
    """How rows of several files with the same key become one. None if they do not."""
    if not isinstance(scan.table_format, MergesRows):
        return None
    return scan.table_format.merge_rule(scan.metadata, scan.resolved.schema)


def scan(
    *,
    metadata: TableMetadata,
    table_format: TableFormat,
    engine: Engine,
    where: Where,
    columns: Sequence[str] | None,
    snapshot_id: int | None,
    as_of: AsOf | None,
    ref: str | None,
    limit: int | None,
    frames: SparkFrames | None = None,
    service: ScanService | None = None,
) -> Scan:
    """A scan. Checks everything that can be checked before a file is opened."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        raise InvalidInput(f"cannot read {limit!r} rows: limit must be a whole number from 0", limit=limit)
    resolved = resolve_snapshot(metadata, snapshot_id=snapshot_id, as_of=as_of, ref=ref)
    return Scan(
        metadata=metadata,
        table_format=table_format,
        engine=engine,
        resolved=resolved,
        filter=bound_filter(where, resolved.schema),
        projection=_project(resolved.schema, columns, metadata),
        limit=limit,
        frames=frames,
        service=service,
    )


def bound_filter(where: Where, schema: Schema) -> Bound:
    """The user's condition, bound to the schema. No condition is TRUE."""
    if where is None:
        return TRUE
    if isinstance(where, str):
        return bind(parse(where), schema)
    if not isinstance(where, Unbound | Expression | Column):
        raise InvalidInput(
            f"cannot filter by {where!r}, a {type(where).__name__}: give SQL text or a condition built with esker.col"
        )
    return bind(where, schema)


def shown_filter(predicate: Bound, schema: Schema) -> str:
    """The condition as SQL, in one line."""
    return "none" if predicate == TRUE else shortened(to_sql(predicate, dict(schema.name_by_id)))


def _project(schema: Schema, columns: Sequence[str] | None, metadata: TableMetadata) -> Schema:
    """The selected columns. Metadata columns can be selected too; a table's own column of the same name is
    preferred."""
    if columns is None:
        return schema
    if isinstance(columns, str):
        raise InvalidInput(f"cannot select columns={columns!r}: give a list of names: [{columns!r}]", columns=columns)
    names = list(columns) if isinstance(columns, Iterable) else [columns]
    if not all(isinstance(name, str) for name in names):
        raise InvalidInput(f"cannot select columns={columns!r}: give a list of names", columns=columns)
    wanted = tuple(dict.fromkeys(names))
    offered = {name: metadata_column(name, metadata) for name in wanted if name not in schema.id_by_name}
    extra = {name: field for name, field in offered.items() if field is not None}
    own = schema.select([name for name in wanted if name not in extra])
    if not extra:
        return own
    place = {wanted.index(name): field for name, field in extra.items()}
    fields = list(own.fields)
    for at in sorted(place):
        fields.insert(at, place[at])
    return Schema(fields=tuple(fields), schema_id=schema.schema_id)


def exact_count(task: ScanTask) -> int | None:
    """The rows of a file from its metadata alone. None if it has deletes other than one vector, a filter to apply, or
    rows to merge."""
    if task.residual != TRUE or task.taken_by is not None or task.data_file.merge_group is not None:
        return None
    if not task.deletes:
        return task.data_file.record_count
    if len(task.deletes) == 1 and task.deletes[0].is_deletion_vector:
        return task.data_file.record_count - task.deletes[0].record_count
    return None
