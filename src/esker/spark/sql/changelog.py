"""``t.changes``, and the range of snapshots that its options name, as in Iceberg's Spark runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from esker.errors import InvalidInput
from esker.ports.changes import CHANGE_COLUMNS
from esker.read.scan_changes import ChangeScan
from esker.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RANGE_OPTIONS = ("start-snapshot-id", "end-snapshot-id", "start-timestamp", "end-timestamp")
_KIND = CHANGE_COLUMNS[0].name


def changelog_frame(changes: ChangeScan, spark: SparkSession) -> DataFrame:
    """The changes with their kind in capitals: INSERT, DELETE, UPDATE_BEFORE and UPDATE_AFTER."""
    frame = changes.to_spark(spark)
    capital = frame.selectExpr(f"* EXCEPT ({_KIND})", f"upper({_KIND}) AS {_KIND}")
    return capital.select(*(f"`{name.replace('`', '``')}`" for name in frame.columns))


def changelog_range(table: Table, options: Mapping[str, object]) -> tuple[int | None, int | None]:
    """The snapshot after which changes begin, and the last one; None for the first and for the current one.

    Times are in milliseconds, on the way that ``main`` came. A snapshot of exactly the start is left out, as
    ``start-snapshot-id`` is. ``InvalidInput`` where options are unknown, contradict each other, or are no numbers.
    """
    unknown = sorted(options.keys() - set(RANGE_OPTIONS))
    if unknown:
        raise InvalidInput(f"cannot take the option {unknown[0]!r}: there are {', '.join(RANGE_OPTIONS)}")
    start, end, after, until = (_number(name, options.get(name)) for name in RANGE_OPTIONS)
    for which, by_id, by_time in (("start", start, after), ("end", end, until)):
        if by_id is not None and by_time is not None:
            raise InvalidInput(f"cannot read changes: give one of {which}-snapshot-id and {which}-timestamp")
    if after is not None and until is not None and after >= until:
        raise InvalidInput("cannot read changes: start-timestamp must be before end-timestamp")
    line = _line(table)
    if after is not None:
        start = next((id_ for id_, moment in line if moment <= after), None)
    if until is not None:
        end = next((id_ for id_, moment in line if moment <= until), None)
        if end is None:  # before the first snapshot nothing changed
            return (line[-1][0], line[-1][0]) if line else (None, None)
    return start, end


def _number(name: str, value: object) -> int | None:
    if value is None:
        return None
    text = str(value).strip()
    if not text.removeprefix("-").isdecimal() or not text.isascii():
        raise InvalidInput(f"cannot take {value!r} for the option {name!r}: give a whole number")
    return int(text)


def _line(table: Table) -> list[tuple[int, int]]:
    """The snapshots that main came by, newest first."""
    found, at = [], table.current_snapshot
    while at is not None:
        found.append((at.snapshot_id, at.timestamp_ms))
        at = None if at.parent_snapshot_id is None else table.metadata.snapshot(at.parent_snapshot_id)
    return found
