"""Statistics of files and manifests, and what they prove about one column: which kinds of values may occur, and in
which intervals. Also the same as one span of values per file, for engines that prune files themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from esker.model.arrow_arrays import null_mask, numbers_of
from esker.model.pruning.orderable import Orderable, decode, from_values, is_orderable
from esker.model.pruning.preimage import Interval, time_preimage, truncate_preimage
from esker.model.schema import Schema
from esker.model.transform import (
    BucketTransform,
    IdentityTransform,
    TimeTransform,
    Transform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
    accepts,
    result_type,
)
from esker.model.types import (
    BooleanType,
    DateType,
    DecimalType,
    Field,
    IntType,
    ListType,
    LongType,
    MapType,
    StringType,
    TimestampType,
    Type,
    is_floating,
)

# ---------------------------------------------------------------- Statistics of many files or manifests
#
# One ``Statistics`` has ``rows`` files or manifests, and every array has that length. A column without statistics is
# unknown, which prunes nothing.


class Metrics(Protocol):
    """The statistics of one column, one row per file. Null is unknown. ``tree.ColumnMetrics`` is an implementation."""

    @property
    def lower(self) -> pa.Array:
        """Single-value bytes that are not above any value except null and NaN."""

    @property
    def upper(self) -> pa.Array:
        """Single-value bytes that are not below any value except null and NaN."""

    @property
    def value_count(self) -> pa.Array:
        """The number of values, including null and NaN."""

    @property
    def null_count(self) -> pa.Array:
        """The number of nulls."""

    @property
    def nan_count(self) -> pa.Array:
        """The number of NaNs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionValues:
    """The exact value of one partition field, per file."""

    transform: Transform
    values: pa.Array  # held form of the transform's result type; date and timestamp arrays are allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSummary:
    """The range of one partition field, per manifest."""

    transform: Transform
    lower: pa.Array  # binary, single-value form of the transform's result type; null if it is not recorded
    upper: pa.Array
    contains_null: pa.Array  # boolean; null is unknown
    contains_nan: pa.Array  # boolean; null is unknown


PartitionEvidence: TypeAlias = PartitionValues | PartitionSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """All statistics, by column id.

    The predicate is bound to ``schema``. Partition statistics are under the *source* column of their field, and belong
    to the spec of the manifest. All rows of one ``Statistics`` must have the same spec.
    """

    schema: Schema
    rows: int
    metrics: Mapping[int, Metrics] = field(default_factory=dict)
    partitions: Mapping[int, tuple[PartitionEvidence, ...]] = field(default_factory=dict)
    record_count: pa.Array | None = None  # int64, rows per file if known


# ---------------------------------------------------------------- Evidence about one column, per file
#
# A value is null, NaN or ordinary. Each kind may occur or is known not to occur. Ordinary values are in every known
# interval and bucket range. Statistics that cannot be decoded or contradict each other are ignored, so wrong statistics
# can only cause a file to be read.


if TYPE_CHECKING:
    import numpy.typing as npt

    Bools = npt.NDArray[np.bool_]
    Int64s = npt.NDArray[np.int64]

_UNREADABLE = (pa.ArrowException, ValueError, TypeError, OverflowError, IndexError, KeyError, AttributeError)


@dataclass(slots=True)
class Evidence:
    """What is known about one column. It starts with nothing known, and only gets narrower."""

    rows: int
    may_null: Bools
    may_nan: Bools
    may_value: Bools
    intervals: list[Interval] = field(default_factory=list)
    buckets: list[tuple[int, Interval]] = field(default_factory=list)  # the number of buckets, and which of them occur
    forbids_null: bool = False  # the column and its ancestors are required

    @classmethod
    def none(cls, rows: int, type_: Type) -> Evidence:
        """Nothing is known."""
        anywhere = np.ones(rows, dtype=bool)
        return cls(rows, anywhere, np.full(rows, is_floating(type_)), anywhere.copy())


def evidence_of(column: Field, statistics: Statistics) -> Evidence:
    """What is known about the column."""
    evidence = Evidence.none(statistics.rows, column.type)
    path = statistics.schema.path_by_id.get(column.id)
    if path is None or not is_orderable(column.type):
        return evidence
    if any(isinstance(part.type, ListType | MapType) for part in path[:-1]):  # G10: a row has many values there
        return evidence
    nullable_parent = any(not part.required for part in path[:-1])
    evidence.forbids_null = all(part.required for part in path)
    if (metrics := statistics.metrics.get(column.id)) is not None:
        _attempt(evidence, _add_metrics, column.type, metrics, statistics.record_count, nullable_parent)
    for partition in statistics.partitions.get(column.id, ()):
        if accepts(partition.transform, column.type):
            _attempt(evidence, _add_partition, column.type, partition)
    _forget_contradictions(evidence, column.type)
    return evidence


def _attempt(evidence: Evidence, add: Any, *what: Any) -> None:
    """Add one piece of evidence, completely or not at all."""
    before = (evidence.may_null, evidence.may_nan, evidence.may_value, evidence.intervals[:], evidence.buckets[:])
    try:
        add(evidence, *what)
    except _UNREADABLE:
        evidence.may_null, evidence.may_nan, evidence.may_value, evidence.intervals, evidence.buckets = before


def _forget_contradictions(evidence: Evidence, type_: Type) -> None:
    """Reset rows where no kind of value may occur: two statistics contradict each other, and neither is used."""
    absurd = ~(evidence.may_null | evidence.may_nan | evidence.may_value)
    if absurd.any():
        evidence.may_null = evidence.may_null | absurd
        evidence.may_value = evidence.may_value | absurd
        evidence.may_nan = evidence.may_nan | (absurd & is_floating(type_))


def recorded_as_empty(statistics: Statistics) -> Bools:
    """Files with 0 records. Not those whose columns have values or bounds: their count is wrong."""
    empty = np.zeros(statistics.rows, dtype=bool)
    with suppress(*_UNREADABLE):
        if statistics.record_count is not None:
            empty = numbers_of(statistics.record_count.cast(pa.int64()), null=-1) == 0
        if empty.any():
            for metrics in statistics.metrics.values():
                empty = empty & (numbers_of(metrics.value_count.cast(pa.int64()), null=0) <= 0)
                empty = empty & _missing(metrics.lower) & _missing(metrics.upper)
    return empty if len(empty) == statistics.rows else np.zeros(statistics.rows, dtype=bool)


# ---------------------------------------------------------------- Column metrics


def _add_metrics(
    evidence: Evidence, type_: Type, metrics: Metrics, record_count: pa.Array | None, nullable_parent: bool
) -> None:
    interval = Interval(_sized(evidence, decode(type_, metrics.lower)), _sized(evidence, decode(type_, metrics.upper)))
    nulls, nans = _counts(evidence, metrics.null_count), _counts(evidence, metrics.nan_count)
    if not is_floating(type_):
        nans = np.zeros(evidence.rows, dtype=np.int64)
    total = _counts(evidence, metrics.value_count)
    if record_count is not None:  # a writer may have counted only values that are not null; the larger count is safe
        total = np.maximum(total, _counts(evidence, record_count))
    sound = (total < 0) | (np.maximum(nulls, 0) + np.maximum(nans, 0) <= total)
    # If one count equals the number of rows, the other is 0 even if it is missing.
    all_null, all_nan = sound & (total > 0) & (nulls == total), sound & (total > 0) & (nans == total)
    # ORC writers do not count the nulls of a field whose struct is null.
    evidence.may_null = evidence.may_null & (((nulls != 0) & ~all_nan) | ~sound | nullable_parent)
    evidence.may_nan = evidence.may_nan & (((nans != 0) & ~all_null) | ~sound)
    filled = all_nan | ((total > 0) & (nulls >= 0) & (nulls + np.maximum(nans, 0) == total))
    evidence.may_value = evidence.may_value & ~filled
    evidence.intervals.append(interval.checked())


def _counts(evidence: Evidence, column: pa.Array) -> Int64s:
    """The counts, with -1 for a missing or impossible one."""
    counts = numbers_of(column.cast(pa.int64()), null=-1)
    if len(counts) != evidence.rows:
        raise ValueError(f"{len(counts)} counts for {evidence.rows} rows")
    return np.where((counts < 0) | (counts > 2**62), -1, counts)


def _sized(evidence: Evidence, bound: Orderable) -> Orderable:
    if len(bound.known) != evidence.rows:
        raise ValueError(f"{len(bound.known)} bounds for {evidence.rows} rows")
    return bound


# ---------------------------------------------------------------- Partitions


def _add_partition(evidence: Evidence, type_: Type, partition: PartitionEvidence) -> None:
    if isinstance(partition.transform, VoidTransform | UnknownTransform):
        return
    result = result_type(partition.transform, type_)
    match partition:
        case PartitionValues():
            interval = _add_values(evidence, from_values(result, partition.values), result)
        case PartitionSummary():
            interval = _add_summary(evidence, partition, result)
    match partition.transform:
        case IdentityTransform():
            evidence.intervals.append(interval)
        case TruncateTransform(width):
            evidence.intervals.append(truncate_preimage(type_, width, interval).checked())
        case TimeTransform(unit):
            evidence.intervals.append(time_preimage(type_, unit, interval).checked())
        case BucketTransform(buckets):
            evidence.buckets.append((buckets, interval))


def _add_values(evidence: Evidence, values: Orderable, type_: Type) -> Interval:
    """The exact value of each file. Null means that all rows are null: no transform maps another value to null."""
    _sized(evidence, values)
    nan = values.known & np.isnan(values.values) if is_floating(type_) else np.zeros(evidence.rows, dtype=bool)
    evidence.may_null = evidence.may_null & ~values.known
    evidence.may_nan = evidence.may_nan & nan
    evidence.may_value = evidence.may_value & values.known & ~nan
    exact = values.only(~nan)
    return Interval(exact, exact, shortened=False)


def _add_summary(evidence: Evidence, summary: PartitionSummary, type_: Type) -> Interval:
    lower, upper = _sized(evidence, decode(type_, summary.lower)), _sized(evidence, decode(type_, summary.upper))
    has_null, has_nan = _flags(evidence, summary.contains_null), _flags(evidence, summary.contains_nan)
    evidence.may_null = evidence.may_null & (has_null != 0)
    evidence.may_nan = evidence.may_nan & (has_nan != 0)
    # Bounds are omitted if there is only null and NaN (C3). If a writer records neither, it just omitted them.
    bare = _missing(summary.lower) & _missing(summary.upper) & ((has_null == 1) | (has_nan == 1))
    evidence.may_value = evidence.may_value & ~bare
    return Interval(lower, upper).checked()


def _flags(evidence: Evidence, column: pa.Array) -> npt.NDArray[np.int8]:
    """1 for true, 0 for false, -1 for unknown."""
    flags = numbers_of(column.cast(pa.int8()), null=-1)
    if len(flags) != evidence.rows:
        raise ValueError(f"{len(flags)} flags for {evidence.rows} rows")
    return flags


def _missing(column: pa.Array) -> Bools:
    return null_mask(column)


# ---------------------------------------------------------------- Spans, for engines that prune files themselves


@dataclass(frozen=True, slots=True)
class Span:
    """What is known of one column, per file: bounds of its values except null, where they are known."""

    lower: Orderable
    upper: Orderable
    may_null: Bools
    may_value: Bools

    def take(self, rows: Int64s) -> Span:
        """The same of these files."""
        lower, upper = (Orderable(one.values[rows], one.known[rows]) for one in (self.lower, self.upper))
        return Span(lower, upper, self.may_null[rows], self.may_value[rows])

    @classmethod
    def joined(cls, parts: Sequence[Span]) -> Span:
        """The files of several spans, one after the other."""
        if len(parts) == 1:
            return parts[0]
        lower, upper = (
            Orderable(np.concatenate([one.values for one in side]), np.concatenate([one.known for one in side]))
            for side in ([part.lower for part in parts], [part.upper for part in parts])
        )
        flags = (np.concatenate([getattr(part, name) for part in parts]) for name in ("may_null", "may_value"))
        return cls(lower, upper, *flags)


def has_span(type_: Type) -> bool:
    """Whether bounds of the type are whole numbers of 64 bits, or text. NaN and negative zero have no part in them."""
    match type_:
        case BooleanType() | IntType() | LongType() | DateType() | StringType():
            return True
        case TimestampType(nanos=nanos):
            return not nanos
        case DecimalType(precision=precision):
            return precision <= 18
        case _:
            return False


def span_of(column: Field, statistics: Statistics) -> Span:
    """The narrowest bounds of a column that its statistics and partitions prove. The type is one that ``has_span``."""
    evidence = evidence_of(column, statistics)
    dtype = np.dtype(object if isinstance(column.type, StringType) else np.int64)
    found = [one for one in evidence.intervals if one.lower.values.dtype == one.upper.values.dtype == dtype]
    return Span(
        _narrowest([one.lower for one in found], np.maximum, evidence.rows, dtype),
        _narrowest([one.upper for one in found], np.minimum, evidence.rows, dtype),
        evidence.may_null,
        evidence.may_value,
    )


def _narrowest(bounds: Sequence[Orderable], better: np.ufunc, rows: int, dtype: np.dtype[Any]) -> Orderable:
    values, known = np.full(rows, b"" if dtype.kind == "O" else 0, dtype), np.zeros(rows, bool)
    for bound in bounds:
        both = known & bound.known
        values = np.where(both, better(values, bound.values), np.where(known, values, bound.values))
        known = known | bound.known
    return Orderable(values, known)
