"""Step *write* of a row change on Spark: ``DecidedOnSpark`` → ``RowDelta``, with the new data files."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from esker.arrow.deletes.deleted_positions import bitmap_of
from esker.ports.engine import Writer, WriteRequest
from esker.ports.row_changes import RowDelta
from esker.spark.rows.decide import DecidedOnSpark
from esker.spark.rows.resolve import CLAUSE, LAST, ROW_ID
from esker.spark.rows.resolve_outputs import written_fields
from esker.spark.scan.stored_columns import quoted
from esker.spark.write.distribution import distribution_mode
from esker.tree.data_file import DataFile
from esker.write.rows.rewrite_file import with_lineage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BYTES_PER_TASK, _WIDTH = 16 << 20, 100  # as files hold them, compressed


def write(decided: DecidedOnSpark, writer: Writer) -> RowDelta:
    """Write the rows that come, and those that stay of rewritten files. Positions go as they are: the commit writes
    them."""
    view, places, rewritten = decided.view, decided.places, decided.rewritten
    added: tuple[DataFile, ...] = ()
    if places.rows and (decided.changes is not None or rewritten):
        rows = _fetched(decided)
        if rows is None:
            rows = _gathered(decided, _new_rows(decided, rewritten), rewritten)
        added = _written(decided, rows, writer)
    paths = {n: view.tasks[n].data_file.path for n in places.gone}
    return RowDelta(
        gone={paths[n]: bitmap_of(held) for n, held in places.gone.items() if n not in rewritten},
        rewritten=frozenset(paths[n] for n in rewritten),
        added=added,
        counts=decided.counts,
    )


def _new_rows(decided: DecidedOnSpark, rewritten: list[int]) -> DataFrame:
    """Rows that changed or came, and those that stay of rewritten files."""
    query = decided.resolved.query
    names = [quoted(f.name) for f in written_fields(decided.view.metadata.schema)]
    found = []
    if rewritten:
        stay = decided.target.without(rewritten, decided.places.gone)
        found.append(stay.select(*names, *([ROW_ID, LAST] if query.with_lineage else [])))
    if decided.changes is not None:
        new = decided.changes.where(f"{CLAUSE} IN ({', '.join(map(str, query.writing))})")
        lineage = [ROW_ID, f"CAST(NULL AS BIGINT) AS {LAST}"] if query.with_lineage else []
        found.append(new.selectExpr(*names, *lineage))
    return reduce(lambda one, other: one.union(other), found)


def _gathered(decided: DecidedOnSpark, frame: DataFrame, rewritten: list[int]) -> DataFrame:
    """As few tasks as the rows need, each of which makes a file, where the table does not say how to spread them."""
    if distribution_mode(decided.view.metadata) != "none":
        return frame
    return frame.coalesce(_tasks(decided, rewritten))


def _tasks(decided: DecidedOnSpark, rewritten: list[int]) -> int:
    """How many tasks the rows need, by the size that rows of the table have in its files."""
    files = [task.data_file for task in decided.view.tasks]
    width = sum(file.file_size for file in files) / max(1, sum(file.record_count for file in files)) or _WIDTH
    size = sum(files[n].file_size for n in rewritten) + decided.places.rows * width
    return 1 + int(size // _BYTES_PER_TASK)


def _written(decided: DecidedOnSpark, rows: DataFrame | pa.Table, writer: Writer) -> tuple[DataFile, ...]:
    view = decided.view
    schema = with_lineage(view.metadata)
    fitted = writer.fit(view.metadata, schema, rows)
    request = WriteRequest(
        metadata=view.metadata,
        schema=schema,
        data=fitted,
        operation_id=view.operation_id,
        most_rows=decided.places.rows if not decided.rewritten and _tasks(decided, []) == 1 else None,
    )
    return tuple(writer.write(request))


def _fetched(decided: DecidedOnSpark) -> pa.Table | None:
    """The same rows as ``_new_rows``, if they are in this process."""
    found, query = decided.fetched, decided.resolved.query
    if found is None:
        return None
    written = found.filter(pc.is_in(found.column(CLAUSE), pa.array(query.writing, found.column(CLAUSE).type)))
    names = [field.name for field in written_fields(decided.view.metadata.schema)]
    if not query.with_lineage:
        return written.select(names)
    return written.select([*names, ROW_ID]).append_column(LAST, pa.nulls(written.num_rows, pa.int64()))
