"""Aggregates that metadata answers exactly: the number of rows, and the count, minimum and maximum of a column.

Statistics are used only if they are exact for every file of the scan. Otherwise there is no answer, and rows are read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from esker.model.predicates.predicate import TRUE
from esker.model.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    Field,
    FloatType,
    IntType,
    LongType,
    TimestampType,
    Type,
    is_floating,
    is_nested,
)
from esker.model.values import from_bytes
from esker.ports.table_format import EntryColumns
from esker.read.scan import Scan, exact_count
from esker.tree.manifest_list import ManifestContent

if TYPE_CHECKING:
    from esker.tree.manifest import ColumnMetrics, Entries

_ORDERED = (IntType, LongType, DateType, TimestampType, DecimalType, FloatType, DoubleType, BooleanType)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A function over all rows of a scan. ``count`` without a column counts rows."""

    function: Literal["count", "min", "max"]
    column: Field | None = None


def exact_aggregates(scan: Scan, wanted: Sequence[Aggregate]) -> list[Any] | None:
    """Return the values in the held form, with None for null. Returns None if metadata does not have them exactly.

    Reads manifests, but no data. Bounds of text and bytes may be truncated, so they are not used. Nor are bounds of a
    float column with NaN or with zero as its bound: Iceberg stores both signs of zero as one.
    """
    if scan.limit is not None or not all(map(_may_be_exact, wanted)):
        return None
    tasks = scan.plan().tasks
    counts = [exact_count(task) for task in tasks]
    if None in counts:
        return None
    rows = sum(count for count in counts if count is not None)
    columns = {one.column.id: one.column for one in wanted if one.column is not None}
    found: dict[int, _Column] = {}
    if columns:
        if scan.service is not None or any(task.deletes for task in tasks):
            return None
        files = None if scan.filter == TRUE else {task.data_file.path for task in tasks}
        batches = list(_entries(scan, columns.keys(), files))
        if sum(len(batch) for batch in batches) != len(tasks):
            return None
        for id_, field in columns.items():
            column = _Column.of(field.type, batches, id_)
            if column is None:
                return None
            found[id_] = column
    values = [rows if one.column is None else found[one.column.id].value(one.function) for one in wanted]
    return None if any(value is _UNKNOWN for value in values) else values


_UNKNOWN = object()


def _may_be_exact(one: Aggregate) -> bool:
    if one.column is None:
        return True
    type_ = one.column.type
    if isinstance(type_, TimestampType) and type_.ticks_per_second != 1_000_000:
        return False
    return isinstance(type_, _ORDERED) or (one.function == "count" and not is_nested(type_))


def _entries(scan: Scan, ids: Any, files: set[str] | None) -> Iterator[Entries]:
    """Yield the live files of the scan, with the statistics of these columns."""
    snapshot = scan.resolved.snapshot
    if snapshot is None:
        return
    manifests = [
        manifest
        for manifest in scan.table_format.manifests(scan.metadata, snapshot)
        if manifest.content is ManifestContent.DATA
    ]
    columns = EntryColumns(metrics=frozenset(ids), rest=False)
    for batch in scan.table_format.entries(scan.metadata, manifests, columns):
        live = batch.take(batch.is_live)
        if files is not None:
            live = live.take([at for at, path in enumerate(live.path.to_pylist()) if path in files])
        if len(live):
            yield live


@dataclass(slots=True)
class _Column:
    """What the statistics of all files say about a column."""

    type: Type
    count: int | None = 0  # of values that are not null; None if unknown
    lower: Any = None
    upper: Any = None
    has_bounds: bool = True

    @classmethod
    def of(cls, type_: Type, batches: Sequence[Entries], id_: int) -> _Column | None:
        """Return the column, or None if a file has no statistics of it."""
        found = cls(type_)
        for batch in batches:
            metrics = batch.metrics.get(id_)
            if metrics is None:
                return None
            for at in range(len(batch)):
                found._take(int(batch.record_count[at]), metrics, at)
        return found

    def value(self, function: str) -> Any:
        """Return the aggregate, or ``_UNKNOWN``."""
        if function == "count":
            return _UNKNOWN if self.count is None else self.count
        if not self.has_bounds:
            return _UNKNOWN
        return self.lower if function == "min" else self.upper

    def _take(self, rows: int, metrics: ColumnMetrics, at: int) -> None:
        nulls = metrics.null_count[at].as_py()
        if nulls is not None and not 0 <= nulls <= rows:
            nulls = None  # the statistics contradict each other
        if nulls is None:
            self.count = None
        elif self.count is not None:
            self.count += rows - nulls
        if not rows or nulls == rows or not self.has_bounds:
            return
        low, high = self._bound(metrics.lower[at].as_py()), self._bound(metrics.upper[at].as_py())
        if low is None or high is None or (is_floating(self.type) and metrics.nan_count[at].as_py() != 0):
            self.has_bounds = False
            return
        self.lower = low if self.lower is None else min(self.lower, low)
        self.upper = high if self.upper is None else max(self.upper, high)

    def _bound(self, data: bytes | None) -> Any:
        """Return a bound that is a value of the column, or None."""
        if data is None or not isinstance(self.type, _ORDERED):
            return None
        if isinstance(self.type, TimestampType) and len(data) == 4:  # a date that was promoted
            return None
        try:
            value = from_bytes(self.type, data)
        except ValueError:
            return None
        return None if isinstance(value, float) and (math.isnan(value) or value == 0) else value
