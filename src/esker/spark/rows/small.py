"""Rows of a DataFrame that this process can hold itself: to change a little, a join over a cluster is much."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from esker.errors import InvalidInput, Unsupported
from esker.model.predicate_sql import quote_name
from esker.ports.merging import MergePlan
from esker.ports.row_changes import KeyedRows, RowEngine, RowView
from esker.spark.jobs import named_jobs
from esker.spark.rows.keep import RowKeeper
from esker.tree.table_metadata import TableMetadata

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_ROWS, _BYTES = 2_000_000, 256 << 20  # of a source, as Arrow holds it
_FILES = 512 << 20  # of the files that it may change, as they lie there
_FIXED = 16  # bytes of a value that has no length of its own, at most


@dataclass(frozen=True, slots=True)
class SmallSource:
    """Rows to upsert, held here; and how Spark would do it, if the files to change are large."""

    here: KeyedRows
    plan: MergePlan


def hold(
    metadata: TableMetadata, plan: MergePlan, engine: RowEngine, keeper: RowKeeper
) -> tuple[MergePlan, SmallSource | None]:
    """The plan with its source kept still, and its rows where they are few; None too where the engine here does not
    take them as they are, for then Spark's rules decide."""
    held = keeper.keep(plan.source, metadata, "the rows to upsert")
    kept = replace(plan, source=held)
    rows = _few(held)
    if rows is None:
        return kept, None
    try:
        return kept, SmallSource(engine.keyed(metadata, rows, plan.key), kept)
    except (InvalidInput, Unsupported):
        return kept, None


def suits(view: RowView) -> bool:
    """Whether the files to change are small enough to be changed here as well."""
    return sum(task.data_file.file_size for task in view.tasks) <= _FILES


def _few(frame: DataFrame) -> pa.Table | None:
    lengths = []
    for field in frame.schema.fields:
        match field.dataType.typeName():
            case "string" | "binary":
                lengths.append(f"coalesce(sum(octet_length({quote_name(field.name)})), 0)")
            case "array" | "map" | "struct" | "variant":
                return None  # nobody can say how long they are without a look at each
    with named_jobs(frame.sparkSession, "measure the rows to upsert"):
        told: Any = frame.selectExpr("count(*)", *lengths).collect()[0]
        count = int(told[0])
        size = sum(map(int, told[1:])) + count * _FIXED * len(frame.columns)
        return frame.toArrow() if count <= _ROWS and size <= _BYTES else None
