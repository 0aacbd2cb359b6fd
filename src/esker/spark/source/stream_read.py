"""Reads a table as a stream for Spark: offsets as dictionaries, files as parts for workers."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from esker.spark.source.batch_read import packed_parts, projected, scan_of
from esker.spark.source.source_options import Address, Options, Use, branch_of, open_table, read_options
from esker.spark.source.table_feed import SKIP_DELETES, SKIP_OVERWRITES, START, Feed, Manner, Offset
from esker.table import Table
from esker.tree.table_metadata import without_history

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

FILES, ROWS = "streaming-max-files-per-micro-batch", "streaming-max-rows-per-micro-batch"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPlan:
    """What the process that follows the table needs to know."""

    given: Mapping[str, str]
    registered: Address | None
    scan: bytes
    manner: Manner


def plan_stream(given: Mapping[str, str], registered: Address | None, scan: bytes) -> bytes:
    """Check the options of a stream, and return the plan. Raises ``InvalidInput`` for a wrong option."""
    options = read_options(given, Use.STREAM_READ)
    return pickle.dumps(StreamPlan(given=dict(given), registered=registered, scan=scan, manner=_manner(options)))


def open_feed(data: bytes) -> LiveFeed:
    """Open the table and return its feed."""
    plan: StreamPlan = pickle.loads(data)
    return LiveFeed(plan, open_table(read_options(plan.given, Use.STREAM_READ), plan.registered))


def read_limit(data: bytes) -> Any:
    """Return the limit for a batch that the options set, in Spark's form."""
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles, ReadMaxRows

    manner = pickle.loads(data).manner
    if manner.max_files is not None:
        return ReadMaxFiles(manner.max_files)
    return ReadAllAvailable() if manner.max_rows is None else ReadMaxRows(manner.max_rows)


class LiveFeed:
    """A table's feed, with offsets in the form that Spark stores."""

    def __init__(self, plan: StreamPlan, table: Table) -> None:
        self._plan = plan
        self._table = table
        self._feed = Feed(table, scan_of(plan.scan), plan.manner)

    def initial(self) -> dict[str, Any]:
        """Return the offset before the start of a stream. The first batch decides where the stream starts."""
        return START.as_json()

    def latest(self, start: dict[str, Any] | None, *, is_limited: bool) -> dict[str, Any]:
        """Return the offset at which the next batch ends."""
        begun = None if start is None else Offset.of(start)
        return self._feed.latest(begun, is_limited=is_limited).as_json()

    def newest(self) -> dict[str, Any] | None:
        """Return the offset of the current snapshot, or None."""
        found = self._feed.newest()
        return None if found is None else found.as_json()

    def stop_at_now(self) -> None:
        """Read only snapshots that exist now."""
        self._feed.stop_at_now()

    def parts(self, start: dict[str, Any], end: dict[str, Any], schema: StructType) -> list[bytes]:
        """Return the files of a batch, for workers. They get the current specs and schemas, which new files may use."""
        tasks = self._feed.tasks(Offset.of(start), Offset.of(end))
        scan = replace(projected(self._plan.scan, schema), metadata=without_history(self._table.metadata))
        return packed_parts(scan, tasks)


def _manner(options: Options) -> Manner:
    options.one_of("stream-from", "stream-from-timestamp", "stream-from-snapshot-id")
    return Manner(
        branch=branch_of(options),
        start=options.choice("stream-from", "whole", "latest"),
        start_time=options.get("stream-from-timestamp"),
        start_snapshot=options.number("stream-from-snapshot-id"),
        skips_overwrites=options.switch(SKIP_OVERWRITES),
        skips_deletes=options.switch(SKIP_DELETES),
        max_files=options.number(FILES, at_least=1),
        max_rows=options.number(ROWS, at_least=1),
    )
