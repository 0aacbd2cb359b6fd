"""Rows that this process writes itself: those in Spark's driver already, and those that are known to be few.

In Spark's driver are VALUES, and small Arrow or pandas data that ``createDataFrame`` was given.

Spark's optimizer turns a query over such rows into a local relation. Its rows are fetched as Arrow data without a job.
The form of the data is the one that workers get, because the same class of Spark makes it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from esker.spark.session.jobs import named_jobs
from esker.spark.session.jvm import Jvm, jvm_of
from esker.spark.session.spark_session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger("esker.spark")

MOST_ROWS = 20_000
"""More rows of a local relation are written by the workers, in parallel."""
MOST_FETCHED = 200_000
"""Rows of a change that a job brings here at most. One task would write as many."""

_ZONE = "spark.sql.session.timeZone"
_PLANS = "org.apache.spark.sql.catalyst.plans.logical"
_NO_BOUND = 2**63 - 1


def local_rows(frame: DataFrame) -> list[pa.RecordBatch] | None:
    """Return the rows of a frame whose rows are in the driver, with columns in the frame's order.

    Returns None if Spark must run a job for them, if they are many, or if this release of Spark has other internal
    classes. No job is started.
    """
    from py4j.protocol import Py4JError

    session = frame.sparkSession
    if is_connect(session):
        return None
    jvm = jvm_of(session)
    try:
        relation = _local_relation(jvm, frame._jdf.queryExecution().optimizedPlan())
        if relation is None:
            return None
        rows = relation.data()
        if rows.length() > MOST_ROWS:
            return None
        batches = jvm.singleton("org.apache.spark.sql.execution.arrow.ArrowConverters").toBatchWithSchemaIterator(
            rows.iterator(), relation.schema(), MOST_ROWS, _NO_BOUND, session.conf.get(_ZONE), True, False
        )
        streams: list[bytes] = []
        while batches.hasNext():
            streams.append(batches.next())
    except (Py4JError, AttributeError, TypeError) as error:  # the job reports what is wrong with the rows, if anything
        log.debug("rows in the driver are written by a job: %s", error)
        return None
    return [batch for stream in streams for batch in pa.ipc.open_stream(stream)]


_NUMBERS = frozenset(("byte", "short", "integer", "long", "float", "double", "decimal"))
_PLAIN = _NUMBERS | {"boolean", "string", "char", "varchar", "binary", "date", "timestamp", "timestamp_ntz"}


def few_rows(frame: DataFrame, most: int | None) -> list[pa.RecordBatch] | None:
    """Return the rows of a frame that has at most ``most``, if these are few. One job brings them, without a worker.

    Returns None for more rows, and for types whose Arrow form in the driver may differ from the one that workers get.
    """
    if most is None or most > MOST_FETCHED or any(f.dataType.typeName() not in _PLAIN for f in frame.schema.fields):
        return None
    names = frame.columns
    numbered = frame.toDF(*(f"c{at}" for at in range(len(names))))  # names may differ by case alone
    with named_jobs(frame.sparkSession, "bring a few rows to the driver"):
        return numbered.toArrow().rename_columns(names).to_batches()


def _local_relation(jvm: Jvm, plan: Any) -> Any | None:
    """Return the plan as a local relation, or None. ``SELECT`` without ``FROM`` has one row, of its expressions."""
    match plan.nodeName():
        case "LocalRelation":
            return plan
        case "Project" if plan.child().nodeName() == "OneRowRelation":
            row = jvm.once("one row", lambda: _one_row(jvm))
            project = jvm.new(f"{_PLANS}.Project", plan.projectList(), row)
            made = jvm.singleton("org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation").apply(project)
            return made if made.nodeName() == "LocalRelation" else None
        case _:
            return None


def _one_row(jvm: Jvm) -> Any:
    empty = jvm.singleton("org.apache.spark.sql.catalyst.InternalRow").empty()
    return jvm.new(f"{_PLANS}.LocalRelation", jvm.sequence([]), jvm.sequence([empty]), False, jvm.none)
