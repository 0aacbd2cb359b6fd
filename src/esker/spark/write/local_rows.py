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
MOST_AT_ONCE, MOST_TASKS = 100_000, 8
"""Rows that one task of a job brings here, and tasks of that job, if the number of rows is not known before."""

_ZONE = "spark.sql.session.timeZone"
_PLANS = "org.apache.spark.sql.catalyst.plans.logical"
_NO_BOUND = 2**63 - 1
_MANY = 10_000  # more than any job here has tasks


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
    if most is None or most > MOST_FETCHED or not _has_plain_types(frame):
        return None
    names = frame.columns
    numbered = frame.toDF(*(f"c{at}" for at in range(len(names))))  # names may differ by case alone
    with named_jobs(frame.sparkSession, "bring a few rows to the driver"):
        return numbered.toArrow().rename_columns(names).to_batches()


def rows_at_once(frame: DataFrame, tasks: int) -> pa.Table | None:
    """Return all rows of a frame whose number is not known, if they are few. One job brings them, without a worker.

    Each of its ``tasks`` stops when it has more than a few, so that the job brings a bounded number of rows. Returns
    None if there are more rows or more tasks, for types as in ``few_rows``, and on Spark Connect.
    """
    from py4j.protocol import Py4JError
    from pyspark.sql import DataFrame

    session = frame.sparkSession
    if tasks > MOST_TASKS or is_connect(session) or not _has_plain_types(frame):
        return None
    names = frame.columns
    # The code that Spark makes of a limit is never the same twice, so all code beside it is compiled again each time.
    # The coalesce changes nothing else: it keeps the limit out of the code of the scan.
    numbered: Any = frame.toDF(*(f"c{at}" for at in range(len(names)))).coalesce(_MANY)
    jvm = jvm_of(session)
    try:
        most = jvm.singleton("org.apache.spark.sql.catalyst.expressions.Literal").apply(MOST_AT_ONCE + 1)
        plan = jvm.new(f"{_PLANS}.LocalLimit", most, numbered._jdf.queryExecution().analyzed())
        bounded = jvm.singleton("org.apache.spark.sql.classic.Dataset").ofRows(jvm.session, plan)
    except (Py4JError, AttributeError, TypeError) as error:
        log.debug("rows that change are kept by a job of their own: %s", error)
        return None
    with named_jobs(session, "bring the rows that change to the driver"):
        rows = DataFrame(bounded, session).toArrow()
    return rows.rename_columns(names) if rows.num_rows <= MOST_AT_ONCE else None


def _has_plain_types(frame: DataFrame) -> bool:
    return all(field.dataType.typeName() in _PLAIN for field in frame.schema.fields)


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
