"""Updates rollups: merges what a table gained since the last update, and records the new position in the same commit.

The position is the sequence number of the source's snapshot, recorded like a batch. If rows were only added, their
totals are added. If rows were deleted, the periods and keys of these rows are computed again. If the recorded snapshot
is no longer in the source's history, everything is.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from esker.errors import AlreadyExists, Conflict, InvalidInput, NoSuchNamespace, NoSuchTable
from esker.ingest.pipeline.rollups import PERIODS, SERVICE_RED, Rollup, quoted
from esker.lake import Lake
from esker.model.predicates.column import Expression, col
from esker.model.table_names import TableName
from esker.read.scan_changes import ChangeScan
from esker.spark.session.jobs import named_jobs, settings
from esker.tree.snapshot import Snapshot
from esker.write.exactly_once import last_applied
from esker.write.table_changes import MAIN, ancestors
from esker.write.verbs import Transaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from esker.table import Table

DEFINITION = "esker.rollup"
SOURCE = "esker.rollup.source-snapshot-id"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TRIES = 8
_FEW = 20_000  # rows that are merged in this process
_FEW_PERIODS = 200
_HERE = "__here"
_ADDING = frozenset({"append", "replace"})  # operations that remove no row

log = logging.getLogger("esker.ingest")


def roll_up(lake: Lake, rollup: Rollup = SERVICE_RED, *, session: SparkSession | None = None) -> Snapshot | None:
    """Update a rollup from its source, on Spark. The table is created if it is missing.

    Returns the new snapshot; None if nothing was new. Raises ``InvalidInput`` if the table has another definition or is
    not a rollup, and ``Conflict`` if other processes commit first too often.

        esker.otlp.roll_up(lake)  # otel.service_red, from otel.spans
    """
    for attempt in range(_TRIES):
        try:
            return _once(lake, rollup, session)
        except Conflict:  # another process has rolled up the same rows
            if attempt == _TRIES - 1:
                raise
            time.sleep(random.uniform(0, 0.1 * 2**attempt))
    return None


class Rollups:
    """The rollups of a pipeline, updated after each batch."""

    def __init__(self, lake: Lake, rollups: Sequence[Rollup]) -> None:
        self._lake = lake
        self._rollups = rollups

    def __call__(self, session: SparkSession) -> None:
        """Update each rollup. A stream's session has adaptive execution off, which would give small merges hundreds of
        tasks."""
        if not self._rollups:
            return
        with settings(session, {"spark.sql.adaptive.enabled": "true"}):
            for rollup in self._rollups:
                roll_up(self._lake, rollup, session=session)


def _once(lake: Lake, rollup: Rollup, session: SparkSession | None) -> Snapshot | None:
    try:
        source = lake.table(rollup.source)
    except (NoSuchTable, NoSuchNamespace):  # nothing has been loaded yet
        return None
    target = _target(lake, rollup, source, session)
    head = source.current_snapshot
    if head is None:
        return None
    if head.sequence_number == 0:
        raise InvalidInput(
            f"cannot roll up {rollup.source}: it has format version 1, whose snapshots have no order; upgrade it"
        )
    application = f"rollup:{source.uuid}"
    number = head.sequence_number
    with target.transaction(batch=(application, number), summary={SOURCE: str(head.snapshot_id)}) as tx:
        # The position is read from the version that the commit is based on: a commit in the meantime is a conflict.
        own_head = tx.base.metadata.current_snapshot_id
        mark = last_applied(tx.base.metadata, MAIN, own_head, application)
        if mark >= number:
            return None
        spark = session if session is not None else lake.spark
        with named_jobs(spark, f"roll up {rollup.source} into {rollup.name}"):
            _take_in(tx, rollup, target.refresh(), source, _start(source, head, mark), spark)
    return tx.snapshot


def _take_in(
    tx: Transaction, rollup: Rollup, target: Table, source: Table, start: Snapshot | None, session: SparkSession
) -> None:
    if start is None:
        if tx.base.metadata.current_snapshot_id is not None:
            log.warning(
                "%s is computed again as a whole: its position is not in the history of %s", rollup.name, rollup.source
            )
        tx.overwrite(_aggregated(rollup, source.scan().to_spark(session), session))
        return
    changes = source.scan_changes(start.snapshot_id, source.metadata.current_snapshot_id)
    if not changes.plan().tasks:
        return
    if all(step.after.operation in _ADDING for step in changes.range.steps):
        _add(tx, rollup, target, changes, session)
    else:
        _compute_again(tx, rollup, source, changes, session)


def _add(tx: Transaction, rollup: Rollup, target: Table, changes: ChangeScan, session: SparkSession) -> None:
    """Merge the totals of rows that arrived. Few rows are merged in this process, without the two dozen jobs of a merge
    on Spark. In both cases a row that another process adds in the meantime is a conflict."""
    arrived = _aggregated(rollup, changes.to_spark(session).where("_change_type = 'insert'"), session)
    few = arrived.limit(_FEW + 1).toArrow()
    if few.num_rows > _FEW or not rollup.combines_here(few.schema):
        merge = tx.merge(arrived, rollup.match)
        merge.when_matched_update(rollup.combined).when_not_matched_insert(rollup.taken).commit()
        return
    few = few.cast(target.scan().schema)
    periods = [] if few.num_rows == 0 else few.column(rollup.period).unique().to_pylist()
    head = tx.base.metadata.current_snapshot_id  # the base of the commit
    there = target.scan(_among(rollup.period, periods), snapshot_id=head).to_arrow()
    tx.upsert(rollup.combined_rows(there, few), list(rollup.axes))


def _compute_again(tx: Transaction, rollup: Rollup, source: Table, changes: ChangeScan, session: SparkSession) -> None:
    """Replace the rows whose source has changed by new totals of the source. A row without source rows is removed."""
    axes = [quoted(name) for name in rollup.axes]
    touched = _aggregated(rollup, changes.to_spark(session), session).select(*axes).localCheckpoint()
    now = _aggregated(rollup, source.scan(_when(rollup, touched)).to_spark(session), session)
    columns = [*(f"t.{name}" for name in axes), *(f"s.{quoted(name)}" for name in rollup.measures)]
    beside = session.sql(
        f"SELECT {', '.join(columns)}, s.{_HERE} FROM {{touched}} t "
        f"LEFT JOIN (SELECT *, true AS {_HERE} FROM {{now}}) s ON {rollup.match}",
        touched=touched,
        now=now,
    )
    merge = tx.merge(beside, rollup.match).when_matched_delete(f"s.{_HERE} IS NULL")
    merge = merge.when_matched_update({name: rollup.taken[name] for name in rollup.measures})
    merge.when_not_matched_insert(rollup.taken, f"s.{_HERE} IS NOT NULL").commit()


def _aggregated(rollup: Rollup, rows: DataFrame, session: SparkSession) -> DataFrame:
    return session.sql(rollup.aggregation, rows=rows)


def _among(column: str, values: list[Any]) -> Expression | None:
    """Rows that have one of the values; more rows if the values are too many or none."""
    known = [value for value in values if value is not None]
    if len(known) < len(values) or not known:
        return None
    return col(column).isin(known) if len(known) <= _FEW_PERIODS else col(column).between(min(known), max(known))


def _when(rollup: Rollup, touched: DataFrame) -> Expression | None:
    """The times of the rows of some periods, so that the scan can skip other files."""
    period = f"unix_micros({quoted(rollup.period)})"
    low, high, has_null = touched.selectExpr(f"min({period})", f"max({period})", f"bool_or({period} IS NULL)").first()
    if low is None or has_null:
        return None
    first, last = (_EPOCH + timedelta(microseconds=at) for at in (low, high + PERIODS[rollup.every]))
    return (col(rollup.time) >= first) & (col(rollup.time) < last)


def _start(source: Table, head: Snapshot, mark: int) -> Snapshot | None:
    """The source's snapshot at the recorded position; None if there is none, or if it is no longer in the source's
    history."""
    if mark < 0:
        return None
    for snapshot in ancestors(source.metadata, head.snapshot_id):
        if snapshot.sequence_number <= mark:
            return snapshot if snapshot.sequence_number == mark else None
    return None


def _target(lake: Lake, rollup: Rollup, source: Table, session: SparkSession | None) -> Table:
    """The rollup's table, created if it is missing. Raises ``InvalidInput`` if it has another definition."""
    try:
        found = lake.table(rollup.name)
    except (NoSuchTable, NoSuchNamespace):
        found = _made(lake, rollup, source, session)
    if found.properties.get(DEFINITION) != rollup.digest:
        what = "is a rollup with another definition" if DEFINITION in found.properties else "is not a rollup"
        raise InvalidInput(
            f"cannot roll up {rollup.source} into {rollup.name}: the table {what}; choose another name, or drop it to "
            "have it made again",
            table=rollup.name,
        )
    return found


def _made(lake: Lake, rollup: Rollup, source: Table, session: SparkSession | None) -> Table:
    spark = session if session is not None else lake.spark
    columns = _aggregated(rollup, source.scan(limit=0).to_spark(spark), spark).schema
    with suppress(AlreadyExists):
        lake.create_namespace(".".join(TableName.parse(rollup.name).namespace))
    with suppress(AlreadyExists):  # another process has created it
        return lake.create_table(
            rollup.name,
            columns,
            partition_by=rollup.partition_by,
            sort_by=rollup.axes,
            properties={DEFINITION: rollup.digest},
        )
    return lake.table(rollup.name)
