"""A change feed: the rows that snapshots inserted and deleted, with the same methods as a scan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from esker.errors import InvalidInput, Unsupported
from esker.model.display_text import card, first_of
from esker.model.predicates.predicate import Bound
from esker.model.schema import Schema
from esker.model.types import Field, VariantType, is_nested
from esker.ports.engine import CHANGE_COLUMNS, ChangeRequest, Commit, Engine, SparkFrames
from esker.ports.table_format import TableFormat, refuse_versions
from esker.read.plan_changes import ChangePlan, ChangePlanner
from esker.read.result_formats import RowVerbs
from esker.read.scan import Where, bound_filter, exact_count, shown_filter
from esker.read.snapshot_range import SnapshotName, SnapshotRange, snapshot_range
from esker.tree.table_metadata import TableMetadata

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, kw_only=True)
class ChangeScan(RowVerbs):
    """Changed rows that were asked for and are not read yet. Every method reads the same snapshots.

    changes = orders.scan_changes(from_snapshot=seen)
    changes.to_arrow()
    """

    metadata: TableMetadata
    table_format: TableFormat
    engine: Engine
    range: SnapshotRange
    filter: Bound
    projection: Schema
    keys: tuple[Field, ...] = ()
    net: bool = False
    frames: SparkFrames | None = None

    def __repr__(self) -> str:
        facts = "; ".join(f"{name} {said}" for name, said in self._facts())
        return f"<esker.ChangeScan of {self.metadata.location}: {facts}>"

    def _repr_html_(self) -> str:
        return card(f"Changes of {self.metadata.location}", self._facts())

    def _facts(self) -> list[tuple[str, str]]:
        """What was asked for. Plans nothing."""
        return [
            ("snapshots", f"{len(self.range.steps):,}"),
            ("filter", shown_filter(self.filter, self.range.schema)),
            ("columns", first_of((field.name for field in self.projection), 12)),
            *([("changes", "net")] if self.net else []),
        ]

    def plan(self) -> ChangePlan:
        """What each snapshot did, as files to read with the deletes that select their rows."""
        return self._plan

    @cached_property
    def _plan(self) -> ChangePlan:
        planner = ChangePlanner(
            metadata=self.metadata,
            table_format=self.table_format,
            schema=self.range.schema,
            predicate=self.filter,
            by_partition=not self.keys,  # an update may move a row to another partition
        )
        return planner.plan(self.range.steps)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows: the table's columns, then the columns of the feed."""
        return self.engine.arrow_schema(Schema(fields=(*self.projection, *CHANGE_COLUMNS)))

    def count(self) -> int:
        """The number of changes: from metadata if that is exact, else by reading the files that need it."""
        if self.net:
            return sum(batch.num_rows for batch in self._batches())
        known, unsure = 0, []
        for commit in self.plan().commits:
            for group in commit.groups:
                counts = [None if group.is_mixed else exact_count(task) for task in group.tasks]
                exact = [count for count in counts if count is not None]
                if len(exact) == len(counts):
                    known += sum(exact)
                else:
                    unsure.append(replace(commit, groups=(group,)))
        if unsure:
            nothing = Schema(fields=())
            known += sum(batch.num_rows for batch in self.engine.read_changes(self._request(unsure, nothing)))
        return known

    def to_spark(self, session: SparkSession | None = None) -> DataFrame:
        """All changes as a Spark DataFrame, in no order: sort by ``_change_ordinal``.

        Raises ``Unsupported`` if the table was opened without Spark.
        """
        if self.frames is None:
            raise Unsupported(
                "cannot return a Spark DataFrame: this table was opened without Spark; open it through esker.connect",
                feature="spark",
            )
        return self.frames.change_frame(self._request(self.plan().commits, self.projection), self.filter, session)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        return self.engine.read_changes(self._request(self.plan().commits, self.projection))

    def _request(self, commits: Sequence[Commit], projection: Schema) -> ChangeRequest:
        return ChangeRequest(
            metadata=self.metadata,
            commits=commits,
            row_schema=self.range.schema,
            projection=projection,
            keys=self.keys,
            net=self.net,
        )


def scan_changes(
    *,
    metadata: TableMetadata,
    table_format: TableFormat,
    engine: Engine,
    from_snapshot: SnapshotName | None,
    to_snapshot: SnapshotName | None,
    where: Where,
    columns: Sequence[str] | None,
    keys: Sequence[str],
    net: bool = False,
    frames: SparkFrames | None = None,
) -> ChangeScan:
    """A change feed. Checks everything that can be checked before a file is opened."""
    refuse_versions(table_format, "read the changes of a table")
    if net and keys:
        raise InvalidInput("cannot read net changes as updates: give net=True or keys, not both")
    found = snapshot_range(metadata, from_snapshot, to_snapshot)
    taken = [f.name for f in CHANGE_COLUMNS if f.name in {own.name for own in found.schema}]
    if taken:
        raise InvalidInput(
            f"cannot read changes: the table has a column {taken[0]!r}, which a change feed adds; rename it first",
            column=taken[0],
        )
    return ChangeScan(
        metadata=metadata,
        table_format=table_format,
        engine=engine,
        range=found,
        filter=bound_filter(where, found.schema),
        projection=found.schema if columns is None else _chosen(found.schema, columns, "columns"),
        keys=tuple(_chosen(found.schema, keys, "keys", comparable=True)),
        net=net,
        frames=frames,
    )


def _chosen(schema: Schema, names: Sequence[str], what: str, *, comparable: bool = False) -> Schema:
    """Whole columns by their names."""
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise InvalidInput(f"cannot use {what}={names!r}: give a list of names")
    fields = tuple(schema.find(name) for name in dict.fromkeys(names))
    for field in fields:
        if field not in schema.fields:
            raise InvalidInput(f"cannot use {field.name!r} for {what} of a change feed: give whole columns")
        if comparable and (is_nested(field.type) or isinstance(field.type, VariantType)):
            raise InvalidInput(f"cannot identify rows by {field.name!r}, a {field.type}: give columns of single values")
    return Schema(fields=fields, schema_id=schema.schema_id)
