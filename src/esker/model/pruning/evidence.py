"""Statistics of files and manifests, and the evidence that they give about one column:
which kinds of values may occur, and in which intervals.
"""

from __future__ import annotations

from collections.abc import Mapping
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
from esker.model.types import Field, ListType, MapType, Type, is_floating

# ---------------------------------------------------------------- statistics
#
# What is known of many files, or many manifests, without opening them: the evidence a verdict rests on.
#
# One ``Statistics`` speaks of ``rows`` things at once, a row each, and every array in it has that length. A column
# without evidence is unknown, which prunes nothing.


class Metrics(Protocol):
    """One column's statistics, a row per file; null is unknown everywhere. ``tree.ColumnMetrics`` is one."""

    @property
    def lower(self) -> pa.Array:
        """Single-value bytes not above any value that is neither null nor NaN."""

    @property
    def upper(self) -> pa.Array:
        """Single-value bytes not below any such value."""

    @property
    def value_count(self) -> pa.Array:
        """Values, nulls and NaNs included."""

    @property
    def null_count(self) -> pa.Array:
        """Nulls."""

    @property
    def nan_count(self) -> pa.Array:
        """NaNs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionValues:
    """One partition field's exact value per file."""

    transform: Transform
    values: pa.Array  # held form of the transform's result type; date and timestamp arrays are taken too


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSummary:
    """One partition field's range of values per manifest."""

    transform: Transform
    lower: pa.Array  # binary, single-value form of the transform's result type; null where none was given
    upper: pa.Array
    contains_null: pa.Array  # boolean; null is unknown
    contains_nan: pa.Array  # boolean; null is unknown


PartitionEvidence: TypeAlias = PartitionValues | PartitionSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Everything known, by id of the column it is known of.

    ``schema`` is the one the predicate was bound to. Partition evidence is filed under the *source* column of
    its field and belongs to the spec of the manifest at hand; give every row of one ``Statistics`` the same spec.
    """

    schema: Schema
    rows: int
    metrics: Mapping[int, Metrics] = field(default_factory=dict)
    partitions: Mapping[int, tuple[PartitionEvidence, ...]] = field(default_factory=dict)
    record_count: pa.Array | None = None  # int64, rows per file where it is known


# ---------------------------------------------------------------- evidence
#
# What the statistics say of one column, file by file: the three kinds of rows it may have, and where values lie.
#
# A row's value is null, NaN or an ordinary value. Each kind may occur or is known not to; ordinary values lie in
# every interval known, and hash into every bucket range known. Evidence that cannot be read, or contradicts
# itself, is no evidence: what a hostile file can do is to be read.


if TYPE_CHECKING:
    import numpy.typing as npt

    Bools = npt.NDArray[np.bool_]
    Int64s = npt.NDArray[np.int64]

_UNREADABLE = (pa.ArrowException, ValueError, TypeError, OverflowError, IndexError, KeyError, AttributeError)


@dataclass(slots=True)
class Evidence:
    """All that is known of one column; starts as nothing, and only ever narrows."""

    rows: int
    may_null: Bools
    may_nan: Bools
    may_value: Bools
    intervals: list[Interval] = field(default_factory=list)
    buckets: list[tuple[int, Interval]] = field(default_factory=list)  # the number of buckets, and which occur
    forbids_null: bool = False  # the column, and what it is in, are required

    @classmethod
    def none(cls, rows: int, type_: Type) -> Evidence:
        """Anything may be."""
        anywhere = np.ones(rows, dtype=bool)
        return cls(rows, anywhere, np.full(rows, is_floating(type_)), anywhere.copy())


def evidence_of(column: Field, statistics: Statistics) -> Evidence:
    """What is known of the column."""
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
    """Adds one piece of evidence, whole or not at all."""
    before = (evidence.may_null, evidence.may_nan, evidence.may_value, evidence.intervals[:], evidence.buckets[:])
    try:
        add(evidence, *what)
    except _UNREADABLE:
        evidence.may_null, evidence.may_nan, evidence.may_value, evidence.intervals, evidence.buckets = before


def _forget_contradictions(evidence: Evidence, type_: Type) -> None:
    """Where no kind of row may occur, two pieces of evidence disagree, and neither can be believed."""
    absurd = ~(evidence.may_null | evidence.may_nan | evidence.may_value)
    if absurd.any():
        evidence.may_null = evidence.may_null | absurd
        evidence.may_value = evidence.may_value | absurd
        evidence.may_nan = evidence.may_nan | (absurd & is_floating(type_))


def recorded_as_empty(statistics: Statistics) -> Bools:
    """Files of 0 records; one whose columns have values or bounds all the same is not believed."""
    empty = np.zeros(statistics.rows, dtype=bool)
    with suppress(*_UNREADABLE):
        if statistics.record_count is not None:
            empty = numbers_of(statistics.record_count.cast(pa.int64()), null=-1) == 0
        if empty.any():
            for metrics in statistics.metrics.values():
                empty = empty & (numbers_of(metrics.value_count.cast(pa.int64()), null=0) <= 0)
                empty = empty & _missing(metrics.lower) & _missing(metrics.upper)
    return empty if len(empty) == statistics.rows else np.zeros(statistics.rows, dtype=bool)


# ---------------------------------------------------------------- column metrics


def _add_metrics(
    evidence: Evidence, type_: Type, metrics: Metrics, record_count: pa.Array | None, nullable_parent: bool
) -> None:
    interval = Interval(_sized(evidence, decode(type_, metrics.lower)), _sized(evidence, decode(type_, metrics.upper)))
    nulls, nans = _counts(evidence, metrics.null_count), _counts(evidence, metrics.nan_count)
    if not is_floating(type_):
        nans = np.zeros(evidence.rows, dtype=np.int64)
    total = _counts(evidence, metrics.value_count)
    if record_count is not None:  # a writer may have counted only what is not null; the larger is the safer
        total = np.maximum(total, _counts(evidence, record_count))
    sound = (total < 0) | (np.maximum(nulls, 0) + np.maximum(nans, 0) <= total)
    # one count that comes to all rows says what the other is, where a writer has left that out
    all_null, all_nan = sound & (total > 0) & (nulls == total), sound & (total > 0) & (nans == total)
    # an ORC writer does not count the nulls of a member whose struct is null
    evidence.may_null = evidence.may_null & (((nulls != 0) & ~all_nan) | ~sound | nullable_parent)
    evidence.may_nan = evidence.may_nan & (((nans != 0) & ~all_null) | ~sound)
    filled = all_nan | ((total > 0) & (nulls >= 0) & (nulls + np.maximum(nans, 0) == total))
    evidence.may_value = evidence.may_value & ~filled
    evidence.intervals.append(interval.checked())


def _counts(evidence: Evidence, column: pa.Array) -> Int64s:
    """Counts, with -1 where one is missing or makes no sense."""
    counts = numbers_of(column.cast(pa.int64()), null=-1)
    if len(counts) != evidence.rows:
        raise ValueError(f"{len(counts)} counts for {evidence.rows} rows")
    return np.where((counts < 0) | (counts > 2**62), -1, counts)


def _sized(evidence: Evidence, bound: Orderable) -> Orderable:
    if len(bound.known) != evidence.rows:
        raise ValueError(f"{len(bound.known)} bounds for {evidence.rows} rows")
    return bound


# ---------------------------------------------------------------- partitions


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
    """A file's one value: a null means that every row is null, for no transform maps anything else to null."""
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
    # bounds are left out where nothing but null and NaN remains (C3); a writer that says neither just left them out
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
