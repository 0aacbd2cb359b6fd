"""Frames of Spark: the rows of a scan or of a metadata table, and the small answers of statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from esker.model.predicate import Bound, all_of, conjuncts, terms
from esker.model.types import is_floating
from esker.read.scan import Scan
from esker.read.scan_changes import ChangeScan
from esker.spark.sql.cached_tables import CachedTables
from esker.spark.sql.changelog import changelog_frame
from esker.spark.sql.functions.calls import check_types, expanded
from esker.spark.sql.known_frames import KnownFrames
from esker.spark.sql.rewrite import MetadataRows, Rewritten, Rows
from esker.tree.snapshot import Snapshot

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def frame_of(rows: Rows, spark: SparkSession) -> DataFrame:
    """The rows, not read yet where they are a scan's."""
    if isinstance(rows, Scan):
        return _pruned(rows, spark)
    if isinstance(rows, ChangeScan):
        return changelog_frame(rows, spark)
    return arrow_frame(_metadata_rows(rows), spark)


def _pruned(scan: Scan, spark: SparkSession) -> DataFrame:
    """The rows of the files that the filter leaves. The query filters rows itself: once is enough, but for floats."""
    if scan.frames is None:
        return scan.to_spark(spark)  # says why there are none
    return scan.frames.frame(scan.spark_request(), _about_floats(scan.filter), spark)


def _about_floats(predicate: Bound) -> Bound:
    """The conditions on float columns: the query's own may not reach Spark's reader, and in Esker's form they may."""
    return all_of(part for part in conjuncts(predicate) if any(is_floating(term.field.type) for term in terms(part)))


def arrow_frame(table: pa.Table, spark: SparkSession) -> DataFrame:
    """A frame of rows that are here already. PySpark cannot take a map column without rows, so it gets one row."""
    import pyarrow as pa

    schema = pa.schema([_optional(field) for field in table.schema])
    if table.num_rows:
        return spark.createDataFrame(table.cast(schema))
    nulls = pa.table([pa.nulls(1, field.type) for field in schema], schema=schema)
    return spark.createDataFrame(nulls).where("false")


def _optional(field: pa.Field) -> pa.Field:
    """PySpark refuses a struct that is null where a member may not be."""
    import pyarrow as pa

    type_ = field.type
    if pa.types.is_struct(type_):
        type_ = pa.struct([_optional(type_.field(at)) for at in range(type_.num_fields)])
    elif pa.types.is_map(type_):
        type_ = pa.map_(type_.key_field, _optional(type_.item_field))
    elif pa.types.is_list(type_):
        type_ = pa.list_(_optional(type_.value_field))
    return pa.field(field.name, type_, nullable=True)


def run_rewritten(
    rewritten: Rewritten, spark: SparkSession, known: KnownFrames, cached: CachedTables | None = None
) -> DataFrame:
    """Spark's answer; each frame is known to this one statement only, by a name of its own."""

    def make(name: str, rows: Rows) -> DataFrame:
        if not isinstance(rows, Scan):
            return frame_of(rows, spark)
        if cached is not None and (kept := cached.find(rows, spark)) is not None:
            return kept
        return known.get(spark, rewritten.keys[name], lambda: frame_of(rows, spark))

    template = expanded(rewritten.template)
    if not rewritten.frames:
        found = spark.sql(template.replace("{{", "{").replace("}}", "}"))
    else:
        frames: dict[str, Any] = {name: make(name, rows) for name, rows in rewritten.frames.items()}
        found = spark.sql(template, **frames)
    if template != rewritten.template:
        check_types(found)
    return found


@dataclass(frozen=True, slots=True)
class Answer:
    """A few rows that are there already, no Spark needed; ``columns`` is DDL, and empty where there is no answer."""

    columns: str
    rows: Sequence[tuple[Any, ...]] = ()


NOTHING = Answer("")


def answer_frame(answer: Answer, spark: SparkSession) -> DataFrame:
    """The answer as Spark gives it: no rows of no columns where a statement has none."""
    from pyspark.sql.types import StructType

    return spark.createDataFrame(list(answer.rows), answer.columns or StructType([]))


def commit_answer(snapshot: Snapshot | None) -> Answer:
    """What a change of rows came to: one row, or none where nothing was to be changed."""
    columns = ", ".join(
        (
            "operation string",
            "snapshot_id bigint",
            "added_records bigint",
            "updated_records bigint",
            "deleted_records bigint",
        )
    )
    if snapshot is None:
        return Answer(columns)
    counts = (snapshot.rows_inserted, snapshot.rows_updated, snapshot.rows_deleted)
    return Answer(columns, [(snapshot.operation, snapshot.snapshot_id, *counts)])


def _metadata_rows(rows: MetadataRows) -> Any:
    read = getattr(rows.table.inspect, rows.name)
    return read() if rows.snapshot_id is None else read(rows.snapshot_id)
