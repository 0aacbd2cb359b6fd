"""Rollups: totals of a table by periods of time, in measures that can be combined.

A row of a rollup summarizes many rows of its source: sums, maxima, minima, and a histogram. All of them can be
combined, so rows that arrive later are merged into the existing ones.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from operator import add
from typing import Any

import pyarrow as pa

from esker.errors import InvalidInput
from esker.model.table_names import TableName

PERIODS = {"minute": 60_000_000, "hour": 3_600_000_000, "day": 86_400_000_000}
"""Microseconds; periods are those of UTC."""
_PARTS = {"minute": "hour", "hour": "day", "day": "month"}  # a merge rewrites a partition's file: keep it small
_STEPS = 8  # buckets of a histogram between a number and its double
_LEAST = -(1 << 31)  # the bucket of values that are not above zero


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollup:
    """A table with totals of another table. ``keys``, ``sums``, ``maxima`` and ``minima`` are columns by name, each
    with a Spark SQL expression over a row of the source. ``histogram`` is one such pair. Raises ``InvalidInput`` for a
    definition that is wrong.

        esker.otlp.Rollup(
            name="otel.log_volume", source="otel.logs", every="hour",
            keys={"ServiceName": "ServiceName"}, sums={"Lines": "1", "Bytes": "octet_length(Body)"},
        )
    """

    name: str
    source: str
    time: str = "Timestamp"  # a column of the source, with a time zone
    every: str = "minute"  # or hour, or day; the column of periods is named Minute, Hour or Day
    keys: Mapping[str, str] = field(default_factory=dict)
    sums: Mapping[str, str] = field(default_factory=dict)
    maxima: Mapping[str, str] = field(default_factory=dict)
    minima: Mapping[str, str] = field(default_factory=dict)
    histogram: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        if self.every not in PERIODS:
            raise InvalidInput(f"cannot roll up by {self.every!r}: use one of {', '.join(PERIODS)}", rollup=self.name)
        if TableName.parse(self.name) == TableName.parse(self.source):
            raise InvalidInput(f"cannot roll up {self.source} into itself", rollup=self.name)
        names = [name.lower() for name in (self.period, *self.keys, *self.measures)]
        if not self.measures or len(set(names)) < len(names):
            raise InvalidInput(
                f"cannot roll up {self.source} into {self.name}: it needs a measure, and a name of its own for each "
                f"column; there are {', '.join((self.period, *self.keys, *self.measures))}",
                rollup=self.name,
            )

    @property
    def period(self) -> str:
        """The name of the column of periods."""
        return self.every.capitalize()

    @property
    def axes(self) -> tuple[str, ...]:
        """The columns that identify a row."""
        return (self.period, *self.keys)

    @property
    def measures(self) -> tuple[str, ...]:
        """The other columns."""
        return (*self.sums, *self.maxima, *self.minima, *(() if self.histogram is None else self.histogram[:1]))

    @property
    def partition_by(self) -> tuple[str, ...]:
        """The partitioning of the table."""
        return (f"{_PARTS[self.every]}({self.period})",)

    @property
    def digest(self) -> str:
        """Identifies the definition: rows of two definitions cannot be combined."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True, default=dict).encode()).hexdigest()[:32]

    @property
    def aggregation(self) -> str:
        """The query that computes the totals of rows of the source. The rows are named ``{rows}``, and braces are
        doubled, as in PySpark's ``sql(text, rows=frame)``."""
        time = f"unix_micros({quoted(self.time)})"
        columns = {
            self.period: f"timestamp_micros({time} - pmod({time}, {PERIODS[self.every]}))",
            **self.keys,
            **self.sums,
            **self.maxima,
            **self.minima,
        }
        axes = ", ".join(map(quoted, self.axes))
        ways = {**dict.fromkeys(self.sums, "sum"), **dict.fromkeys(self.maxima, "max")}
        ways |= dict.fromkeys(self.minima, "min")
        single = "".join(f", {way}({quoted(name)}) AS {quoted(name)}" for name, way in ways.items())
        shown = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in columns.items()).replace("{", "{{")
        shown = shown.replace("}", "}}")
        if self.histogram is None:
            return f"SELECT {axes}{single} FROM (SELECT {shown} FROM {{rows}}) GROUP BY {axes}"
        name, sql = self.histogram
        bucket = _bucket(sql).replace("{", "{{").replace("}", "}}")
        counted = (
            f"SELECT {axes}{single}, __bucket, count(*) AS __count "
            f"FROM (SELECT {shown}, {bucket} AS __bucket FROM {{rows}}) GROUP BY {axes}, __bucket"
        )
        pairs = "collect_list(struct(__bucket, __count)) FILTER (WHERE __bucket IS NOT NULL)"
        return f"SELECT {axes}{single}, map_from_entries({pairs}) AS {quoted(name)} FROM ({counted}) GROUP BY {axes}"

    @property
    def match(self) -> str:
        """The condition under which a row of the table ``t`` and one of the source ``s`` have the same period and
        keys."""
        return " AND ".join(f"t.{quoted(name)} <=> s.{quoted(name)}" for name in self.axes)

    @property
    def combined(self) -> dict[str, str]:
        """The measures of a row of the table combined with those of a new row."""
        ways = {
            **dict.fromkeys(self.sums, "coalesce({t} + {s}, {t}, {s})"),
            **dict.fromkeys(self.maxima, "greatest({t}, {s})"),
            **dict.fromkeys(self.minima, "least({t}, {s})"),
        }
        if self.histogram is not None:
            added = "map_zip_with({t}, {s}, (k, a, b) -> coalesce(a, 0L) + coalesce(b, 0L))"
            ways[self.histogram[0]] = f"coalesce({added}, {{t}}, {{s}})"
        return {name: way.format(t=f"t.{quoted(name)}", s=f"s.{quoted(name)}") for name, way in ways.items()}

    def combines_here(self, schema: pa.Schema) -> bool:
        """Whether rows of this schema can be combined without Spark: maxima and minima need a type that Python can
        order."""
        return not any(pa.types.is_nested(schema.field(name).type) for name in (*self.maxima, *self.minima))

    def combined_rows(self, there: pa.Table, coming: pa.Table) -> pa.Table:
        """The new rows, each combined with the row of the table that has its period and keys."""
        rows = {self._key(row): row for row in coming.to_pylist()}
        for row in there.to_pylist():
            other = rows.get(key := self._key(row))
            if other is not None:
                rows[key] = self._together(row, other)
        return pa.Table.from_pylist(list(rows.values()), schema=coming.schema)

    def _key(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.axes)

    def _together(self, one: Mapping[str, Any], two: Mapping[str, Any]) -> dict[str, Any]:
        made = dict(two)
        for names, way in ((self.sums, add), (self.maxima, _larger), (self.minima, _smaller)):
            for name in names:
                made[name] = _of_both(one[name], two[name], way)
        if self.histogram is not None:
            name = self.histogram[0]
            made[name] = _of_both(
                one[name], two[name], lambda a, b: list((Counter(dict(a)) + Counter(dict(b))).items())
            )
        return made

    @property
    def taken(self) -> dict[str, str]:
        """Every column of the new row."""
        return {name: f"s.{quoted(name)}" for name in (*self.axes, *self.measures)}


SERVICE_RED = Rollup(
    name="otel.service_red",
    source="otel.spans",
    keys={"ServiceName": "ServiceName", "SpanKind": "SpanKind"},
    sums={
        "Requests": "1",
        "Errors": "CASE WHEN StatusCode = 'STATUS_CODE_ERROR' THEN 1 ELSE 0 END",
        "DurationSum": "Duration",
    },
    maxima={"DurationMax": "Duration"},
    histogram=("DurationBuckets", "Duration"),
)
"""Rate, errors and duration of each service and kind of span, by the minute. Durations are nanoseconds."""


def quantile(buckets: str, share: float) -> str:
    """Return Spark SQL for a quantile of a histogram, such as 0.95 of ``DurationBuckets``. The result is null for an
    empty histogram, else its error is below five percent. Raises ``InvalidInput`` if ``share`` is not between 0 and 1.

        lake.sql(f"SELECT ServiceName, {esker.otlp.quantile('DurationBuckets', 0.95)} AS p95 FROM otel.service_red")
    """
    if not 0 <= share <= 1:
        raise InvalidInput(f"cannot compute the quantile {share}: it must be between 0 and 1")
    total = f"aggregate(map_values({buckets}), 0L, (sum, count) -> sum + count)"
    start = f"named_struct('left', {total} * {share!r}D, 'at', CAST(NULL AS DOUBLE))"
    middle = f"pow(2.0D, (pair.key + 0.5D) / {_STEPS})"
    step = (
        "named_struct('left', found.left - pair.value, "
        f"'at', CASE WHEN found.at IS NULL AND found.left <= pair.value THEN {middle} ELSE found.at END)"
    )
    return f"aggregate(array_sort(map_entries({buckets})), {start}, (found, pair) -> {step}, found -> found.at)"


def _of_both(one: Any, two: Any, way: Callable[[Any, Any], Any]) -> Any:
    """Two values combined; null if both are null, and the other one if one is."""
    return two if one is None else one if two is None else way(one, two)


def _larger(one: Any, two: Any) -> Any:
    """The larger value by Spark's rule: NaN is larger than all others."""
    return one if one != one or one >= two else two  # only NaN differs from itself


def _smaller(one: Any, two: Any) -> Any:
    return two if _larger(one, two) is one else one


def _bucket(sql: str) -> str:
    """The number of a value's bucket: bucket ``n`` is above 2^(n/8), up to 2^((n+1)/8)."""
    return (
        f"CASE WHEN ({sql}) > 0 THEN CAST(ceil(log2({sql}) * {_STEPS}) - 1 AS INT) WHEN ({sql}) <= 0 THEN {_LEAST} END"
    )


def quoted(name: str) -> str:
    """A column's name in SQL."""
    return f"`{name.replace('`', '``')}`"


def chosen_rollups(given: Any) -> tuple[Rollup, ...]:
    """The rollups that a user asks for; True means Esker's own. Raises ``InvalidInput``."""
    if given is True:
        return (SERVICE_RED,)
    found = () if given in (None, False) else (given,) if isinstance(given, Rollup) else tuple(given)
    for one in found:
        if not isinstance(one, Rollup):
            raise InvalidInput(f"cannot use {one!r} as a rollup: give True, or a list of esker.otlp.Rollup")
    return found
