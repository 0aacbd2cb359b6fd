"""Writes a stream into a table. Each batch of a query is committed once, even if Spark sends it several times."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from esker.errors import Unsupported
from esker.spark.source import batch_write
from esker.spark.source.batch_write import Report, WritePlan, collected
from esker.spark.source.source_options import Address, Use, open_lake, read_options, table_name
from esker.write.exactly_once import EPOCH, QUERY

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def plan_write(
    given: Mapping[str, str], registered: Address | None, schema: StructType, overwrite: bool
) -> tuple[bytes, Callable[[Any], Any]]:
    """Return the plan, and the function that workers run for each batch. ``overwrite`` is the output mode complete."""
    return batch_write.plan_write(given, registered, schema, overwrite, Use.STREAM_WRITE)


def commit(data: bytes, reports: Sequence[Report | None], batch_id: int) -> None:
    """Commit the batch in one snapshot, unless it is committed already. A batch without rows makes no snapshot."""
    plan: WritePlan = pickle.loads(data)
    options = read_options(plan.given, plan.use)
    lake = open_lake(options, plan.registered)
    table = lake.table(table_name(options))
    written = collected(plan, lake, table, reports)
    if not written.files and not plan.overwrite:
        return
    query = _query(reports)
    summary = {**options.summary, QUERY: query, EPOCH: str(batch_id)}
    with table.transaction(ref=plan.ref, summary=summary, batch=(query, batch_id)) as tx:
        if plan.overwrite:
            tx.overwrite(written)
        else:
            tx.append(written)


def _query(reports: Sequence[Report | None]) -> str:
    found = next((report[1] for report in reports if report is not None and report[1]), None)
    if found is None:
        raise Unsupported(
            "cannot commit each batch once: this release of Spark does not give its tasks the id of their query; "
            "write with foreachBatch and table.append(df, batch=(name, batch_id))",
            feature="query id",
        )
    return found
