"""Whether a term may be TRUE for an ordinary value that the statistics allow.

One question is enough: a term is TRUE for *every* value if its negation is possible for none.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from esker.model.predicates.predicate import (
    Compare,
    InBucket,
    IsNaN,
    IsNull,
    Like,
    OneOf,
    Op,
    StartsWith,
    Term,
    as_regex,
    literal_prefix,
)
from esker.model.pruning.evidence import Evidence
from esker.model.pruning.orderable import Orderable, orderable_literal
from esker.model.pruning.preimage import Interval
from esker.model.transform import BucketTransform, apply_transform
from esker.model.types import Type

if TYPE_CHECKING:
    import numpy.typing as npt

    Bools = npt.NDArray[np.bool_]


def possible(term: Term, evidence: Evidence) -> Bools:
    """Per row of the statistics: can a value that is neither null nor NaN satisfy the term?"""
    match term:
        case IsNull(_, negated):
            return np.full(evidence.rows, negated)
        case IsNaN(_, negated):
            return np.full(evidence.rows, negated)
    answer = np.ones(evidence.rows, dtype=bool)
    for interval in evidence.intervals:
        answer &= _within(term, interval)
    for buckets, interval in evidence.buckets:
        answer &= _within_buckets(term, buckets, interval)
    return answer


def negation(term: Term) -> Term:
    """The term that is TRUE for exactly the ordinary values for which this one is not."""
    match term:
        case Compare(field, op, literal):
            return Compare(field, op.negated, literal)
        case OneOf(field, values, negated):
            return OneOf(field, values, not negated)
        case IsNull(field, negated):
            return IsNull(field, not negated)
        case IsNaN(field, negated):
            return IsNaN(field, not negated)
        case StartsWith(field, prefix, negated):
            return StartsWith(field, prefix, not negated)
        case Like(field, pattern, escape, negated):
            return Like(field, pattern, escape, not negated)
        case InBucket(field, buckets, values, negated):
            return InBucket(field, buckets, values, not negated)


def _within(term: Term, interval: Interval) -> Bools:
    match term:
        case Compare(field, op, literal):
            return _compared(op, _orderable(field.type, (literal,)), interval)
        case OneOf(field, values, negated):
            return _among(_orderable(field.type, tuple(values)), interval, negated=negated)
        case StartsWith(_, prefix, False):
            return _may_start(prefix.encode(), interval)
        case StartsWith(_, prefix, True):
            return ~_all_start(prefix.encode(), interval)
        case Like():
            return _alike(term, interval)
        case InBucket():  # bounds of the column prove nothing about its buckets
            return np.ones(len(interval.lower.known), dtype=bool)
        case _:
            raise TypeError(f"{term!r} is no term over values")


def _orderable(type_: Type, values: tuple[Any, ...]) -> list[Any]:
    """Literals in orderable form, ascending. NaN has its own terms."""
    plain = (value for value in values if not (isinstance(value, float) and math.isnan(value)))
    return sorted(orderable_literal(type_, value) for value in plain)


def _compared(op: Op, literals: list[Any], interval: Interval) -> Bools:
    lower, upper = interval.lower, interval.upper
    if not literals:
        return np.ones(len(lower.known), dtype=bool)
    literal = _scalar(literals[0])
    match op:
        case Op.EQ:
            return (~lower.known | (lower.values <= literal)) & (~upper.known | (upper.values >= literal))
        case Op.NE:
            return ~_pinned(interval, lower.values == literal)
        case Op.LT:
            return ~lower.known | (lower.values < literal)
        case Op.LE:
            return ~lower.known | (lower.values <= literal)
        case Op.GT:
            return ~upper.known | (upper.values > literal)
        case Op.GE:
            return ~upper.known | (upper.values >= literal)


def _scalar(value: Any) -> Any:
    """A literal to compare an array with. numpy alone would cut the zero bytes at the end of bytes."""
    if not isinstance(value, bytes):
        return value
    boxed = np.empty((), dtype=object)
    boxed[()] = value
    return boxed


def _pinned(interval: Interval, where: Any) -> Bools:
    """Where both bounds are known and equal, so that there is only one value, and ``where`` is true for it."""
    lower, upper = interval.lower, interval.upper
    return lower.known & upper.known & (lower.values == upper.values).astype(bool) & np.asarray(where, dtype=bool)


def _among(literals: list[Any], interval: Interval, *, negated: bool) -> Bools:
    """Whether the first literal not below the lower bound is not above the upper one. The list is sorted once."""
    lower, upper = interval.lower, interval.upper
    if not literals:
        return np.full(len(lower.known), negated)
    sought = _array(literals, lower.values.dtype)
    at = np.where(lower.known, np.searchsorted(sought, lower.values), 0)
    inside = at < len(sought)
    first = sought[np.minimum(at, len(sought) - 1)]
    if negated:
        return ~_pinned(interval, inside & np.asarray(first == lower.values, dtype=bool))
    return inside & (~upper.known | np.asarray(first <= upper.values, dtype=bool))


def _array(literals: list[Any], dtype: Any) -> npt.NDArray[Any]:
    if dtype.kind != "O" and all(not isinstance(value, int) or abs(value) < 2**63 for value in literals):
        return np.array(literals, dtype=dtype)
    array = np.empty(len(literals), dtype=object)
    array[:] = literals
    return array


def _within_buckets(term: Term, buckets: int, interval: Interval) -> Bools:
    """Buckets decide only about equality."""
    match term:
        case Compare(field, Op.EQ, literal):
            values: tuple[Any, ...] = (literal,)
        case OneOf(field, found, False):
            values = tuple(found)
        case InBucket(_, asked, wanted, negated):
            return _of_bucket(asked, sorted(wanted), buckets, interval, negated=negated)
        case _:
            return np.ones(len(interval.lower.known), dtype=bool)
    transform = BucketTransform(buckets)
    hashed = {apply_transform(transform, field.type, value) for value in values}
    return _among(sorted(hashed), interval, negated=False)


def _of_bucket(asked: int, wanted: list[int], buckets: int, interval: Interval, *, negated: bool) -> Bools:
    """Whether a row of these partitions may be in one of the buckets.

    If the partition's number of buckets is a multiple of the term's, the partition's bucket decides the term's bucket.
    """
    if asked == buckets:
        return _among(wanted, interval, negated=negated)
    if buckets % asked:
        return np.ones(len(interval.lower.known), dtype=bool)
    inside = np.isin(interval.lower.values % asked, wanted)
    return ~_pinned(interval, inside if negated else ~inside)


# ---------------------------------------------------------------- Text


def _may_start(prefix: bytes, interval: Interval) -> Bools:
    """Shortened bounds are compared as far as they go (N7)."""
    lower, upper = interval.lower, interval.upper
    not_after = ~lower.known | (lower.values < _scalar(prefix + b"\xff"))
    not_before = ~upper.known | (upper.values >= _scalar(prefix))
    short = np.flatnonzero(~not_before) if interval.shortened else ()
    not_before[list(short)] = [prefix.startswith(upper.values[at]) for at in short]
    return not_after & not_before


def _all_start(prefix: bytes, interval: Interval) -> Bools:
    """If both bounds start with the prefix, all values between them do."""
    return _starts(prefix, interval.lower) & _starts(prefix, interval.upper)


def _starts(prefix: bytes, bound: Orderable) -> Bools:
    return bound.known & (bound.values >= _scalar(prefix)) & (bound.values <= _scalar(prefix + b"\xff"))


def _alike(term: Like, interval: Interval) -> Bools:
    """Decided by the text before the first wildcard. By the whole pattern if only one value is possible."""
    prefix, _ = literal_prefix(term.pattern, term.escape)
    answer = np.ones(len(interval.lower.known), dtype=bool) if term.negated else _may_start(prefix.encode(), interval)
    single = np.flatnonzero(_pinned(interval, True) & answer)
    if len(single):
        answer[single] = _matches(term, interval.lower.values[single]) != term.negated
    return answer


def _matches(term: Like, values: npt.NDArray[np.object_]) -> Bools:
    import pyarrow.compute as pc

    text = pa.array(values, type=pa.binary()).cast(pa.string())
    return pc.match_substring_regex(text, as_regex(term.pattern, term.escape)).to_numpy(zero_copy_only=False)
