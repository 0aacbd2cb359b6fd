"""The way down, in five lines: see ``Scan.plan``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from esker.errors import InvalidInput, Unsupported
from esker.model.display_text import card, first_of, shortened
from esker.model.parsing.predicate_text import parse
from esker.model.predicates.bind import bind, to_sql
from esker.model.predicates.column import Column, Expression
from esker.model.predicates.predicate import TRUE, Bound
from esker.model.predicates.unbound_predicate import Unbound
from esker.model.schema import Schema
from esker.model.types import Field
from esker.ports.engine import Engine, ReadRequest, ScanTask, SparkFrames
from esker.ports.table_format import TableFormat
from esker.read.attach_deletes import attach_deletes
from esker.read.metadata_columns import is_deleted_column, metadata_column
from esker.read.plan_tasks import Plan, explain, plan_tasks
from esker.read.prune_manifest import float_columns, prune_manifests
from esker.read.prune_manifest_list import prune_manifest_list
from esker.read.resolve_snapshot import AsOf, Resolved, resolve_snapshot
from esker.read.result_formats import RowVerbs
from esker.tree.table_metadata import TableMetadata

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Where: TypeAlias = str | Expression | Column | Unbound | None


@dataclass(frozen=True, kw_only=True)
class Scan(RowVerbs):
    """Rows asked for, not yet read. Every verb reads the same pinned snapshot."""

    metadata: TableMetadata
    table_format: TableFormat
    engine: Engine
    resolved: Resolved
    filter: Bound
    projection: Schema
    limit: int | None = None
    frames: SparkFrames | None = None

    def __repr__(self) -> str:
        facts = "; ".join(f"{name} {said}" for name, said in self._facts())
        return f"<esker.Scan of {self.metadata.location}: {facts}>"

    def _repr_html_(self) -> str:
        return card(f"Scan of {self.metadata.location}", self._facts())

    def _facts(self) -> list[tuple[str, str]]:
        """What was asked for; nothing is planned to say it."""
        snapshot = self.resolved.snapshot
        facts = [
            ("snapshot", "none" if snapshot is None else str(snapshot.snapshot_id)),
            ("filter", shown_filter(self.filter, self.resolved.schema)),
            ("columns", first_of((field.name for field in self.projection), 12)),
        ]
        return facts if self.limit is None else [*facts, ("limit", f"{self.limit:,}")]

    def plan(self) -> Plan:
        """The files to read, and the deletes that apply to each."""
        return self._plan

    @cached_property
    def _plan(self) -> Plan:
        return self._planned(())

    def _planned(self, floats: Sequence[Field]) -> Plan:
        snapshot, schema = self.resolved.snapshot, self.resolved.schema
        manifests = () if snapshot is None else self.table_format.manifests(self.metadata, snapshot)
        listed = prune_manifest_list(self.metadata, schema, manifests, self.filter)
        pruned = prune_manifests(self.metadata, self.table_format, schema, listed, self.filter, floats)
        deletes = attach_deletes(self.metadata, self.table_format, listed, pruned)
        plan = plan_tasks(snapshot, schema, listed, pruned, deletes, self.filter)
        if any(is_deleted_column(field) for field in self.projection):  # which deleted rows are read for, too
            dead = [replace(task, deletes=(), taken_by=task.deletes) for task in plan.tasks if task.deletes]
            plan = replace(plan, tasks=(*plan.tasks, *dead))
        return plan

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return self.engine.arrow_schema(self.projection)

    def count(self) -> int:
        """How many rows there are: from metadata where it is exact, else by reading what it must."""
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
        """All rows as a Spark DataFrame, read by Spark's own readers when it is used; on the lake's session if none
        is given."""
        if self.frames is None:
            raise Unsupported("cannot give rows to Spark: this table was opened without it", feature="spark")
        return self.frames.frame(self.spark_request(), self.filter, session)

    def spark_request(self) -> ReadRequest:
        """What Spark is asked to read. Its tasks say which float columns may hold NaN or a zero."""
        floats = float_columns(self.resolved.schema)
        plan = self._planned(floats) if floats else self.plan()
        return self._request(plan.tasks, self.projection)

    def explain(self) -> str:
        """What each level of the tree drops, and which term of the filter does it."""
        return explain(self.plan())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        return self.engine.read(self._request(self.plan().tasks, self.projection))

    def _request(self, tasks: Sequence[ScanTask], projection: Schema) -> ReadRequest:
        return ReadRequest(
            metadata=self.metadata,
            tasks=tasks,
            row_schema=self.resolved.schema,
            projection=projection,
            limit=self.limit,
        )


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
) -> Scan:
    """Check everything that can be checked before a file is opened."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        raise InvalidInput(f"cannot take {limit!r} rows: limit is a whole number from 0", limit=limit)
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
    )


def bound_filter(where: Where, schema: Schema) -> Bound:
    """What a user asks for, bound to the schema; no condition is one that every row meets."""
    if where is None:
        return TRUE
    if isinstance(where, str):
        return bind(parse(where), schema)
    if not isinstance(where, Unbound | Expression | Column):
        raise InvalidInput(
            f"cannot filter by {where!r}, a {type(where).__name__}: give SQL text or a condition made of esker.col"
        )
    return bind(where, schema)


def shown_filter(predicate: Bound, schema: Schema) -> str:
    """The condition as SQL, in a line."""
    return "none" if predicate == TRUE else shortened(to_sql(predicate, dict(schema.name_by_id)))


def _project(schema: Schema, columns: Sequence[str] | None, metadata: TableMetadata) -> Schema:
    """The columns asked for, metadata columns among them; a table's own column of that name goes first."""
    if columns is None:
        return schema
    if isinstance(columns, str):
        raise InvalidInput(f"columns is a list of names: [{columns!r}]", columns=columns)
    names = list(columns) if isinstance(columns, Iterable) else [columns]
    if not all(isinstance(name, str) for name in names):
        raise InvalidInput(f"columns is a list of names, not {columns!r}", columns=columns)
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
    """A file's rows by its metadata alone: no deletes but one vector, and no filter left to ask."""
    if task.residual != TRUE or task.taken_by is not None:
        return None
    if not task.deletes:
        return task.data_file.record_count
    if len(task.deletes) == 1 and task.deletes[0].is_deletion_vector:
        return task.data_file.record_count - task.deletes[0].record_count
    return None
