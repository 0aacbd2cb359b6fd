"""Predicates on a transform of a column, ``system.days(ts) = …``, as predicates on the column itself.

All transforms except bucket keep the order. So a comparison of the transform's value is an exact comparison of the
column, also for nulls. It then uses statistics, partition values and rows like any other condition. A bucket has no
order and stays a term of its own.
"""

from __future__ import annotations

from typing import Any

from esker.errors import InvalidInput
from esker.model.predicates.coerce import at_number, limits, not_null
from esker.model.predicates.predicate import (
    FALSE,
    Always,
    And,
    Bound,
    Compare,
    InBucket,
    IsNull,
    OneOf,
    Op,
    Or,
    StartsWith,
    all_of,
    any_of,
)
from esker.model.pruning.preimage import after_prefix
from esker.model.transform import (
    SECONDS_PER_DAY,
    BucketTransform,
    TimeTransform,
    TimeUnit,
    Transform,
    TruncateTransform,
    accepts,
    days_from_month,
    result_type,
)
from esker.model.types import (
    BinaryType,
    DateType,
    DecimalType,
    Field,
    IntType,
    LongType,
    StringType,
    TimestampType,
    Type,
)
from esker.model.values import unscaled

FUNCTIONS = ("bucket", "truncate", "years", "months", "days", "hours")
"""The transforms that SQL may call, by their Iceberg names."""

MAX_SIZE = 2**31 - 1  # of buckets, and of a width
_MOST_BUCKETS = 4096  # with more, comparisons of buckets with < and > are refused


def transform_named(name: str, size: int | None) -> Transform:
    """The transform of that function name."""
    match name:
        case "bucket":
            return BucketTransform(size or 1)
        case "truncate":
            return TruncateTransform(size or 1)
        case _:
            return TimeTransform(TimeUnit(name.removesuffix("s")))


def takes_size(name: str) -> bool:
    """Whether the function has a number of buckets or a width before the column."""
    return name in ("bucket", "truncate")


def result_field(transform: Transform, source: Field, place: str | None = None) -> Field:
    """The transform's value as a field. Raises ``InvalidInput`` if the transform does not exist for the column's
    type."""
    if not accepts(transform, source.type):
        where = f" at {place}" if place else ""
        raise InvalidInput(
            f"cannot compute {transform} of column {source.name!r}{where}: it is not defined for {source.type}",
            column=source.name,
            place=place,
        )
    type_ = _room_below(transform, result_type(transform, source.type))
    return Field(id=source.id, name=source.name, type=type_, required=source.required)


def _room_below(transform: Transform, type_: Type) -> Type:
    """The type of a truncated value. Truncating rounds down: -99.99 by 1000 is -100.00, which needs one more digit."""
    if isinstance(transform, TruncateTransform) and isinstance(type_, DecimalType):
        return DecimalType(type_.precision + 1, type_.scale)
    return type_


def on_source(bound: Bound, transform: Transform, source: Field) -> Bound:
    """A condition on the transform's value as the same condition on the source column."""
    match bound:
        case Always():
            return bound
        case And(parts):
            return all_of(on_source(part, transform, source) for part in parts)
        case Or(parts):
            return any_of(on_source(part, transform, source) for part in parts)
        case IsNull(_, negated):
            return IsNull(source, negated)
        case Compare(_, op, literal):
            return _compared(transform, source, op, literal)
        case OneOf(_, values, negated) if isinstance(transform, BucketTransform):
            return _in_buckets(source, transform.buckets, values, negated=negated)
        case OneOf(_, values, negated):
            each = (_compared(transform, source, Op.NE if negated else Op.EQ, value) for value in sorted(values))
            return all_of(each) if negated else any_of(each)
        case StartsWith(_, prefix, negated) if isinstance(transform, TruncateTransform):
            found = StartsWith(source, prefix) if len(prefix) <= transform.width else FALSE
            return _sql_not(found, source) if negated else found
        case _:
            raise InvalidInput(f"cannot use LIKE of {transform} of column {source.name!r}: only as LIKE 'prefix%'")


def _compared(transform: Transform, source: Field, op: Op, value: Any) -> Bound:
    """Three comparisons are computed; the others are their negations."""
    if isinstance(transform, BucketTransform):
        return _bucket_compared(source, transform.buckets, op, value)
    if op in (Op.NE, Op.GE, Op.GT):
        return _sql_not(_compared(transform, source, op.negated, value), source)
    match transform, source.type:
        case TimeTransform(unit), _:
            return _time(source, unit, op, value)
        case TruncateTransform(width), DecimalType(scale=scale):
            return _floored(source, width, op, unscaled(value, scale))
        case TruncateTransform(width), IntType() | LongType():
            return _floored_integer(source, width, op, value)
        case TruncateTransform(width), StringType() | BinaryType():
            return _cut(source, width, op, value)
        case _:
            raise InvalidInput(f"cannot compare {transform} of column {source.name!r}", column=source.name)


def _sql_not(bound: Bound, source: Field) -> Bound:
    """SQL's NOT of a condition on one column that is NULL for null."""
    match bound:
        case And(parts):
            return any_of(_sql_not(part, source) for part in parts)
        case Or(parts):
            return all_of(_sql_not(part, source) for part in parts)
        case Compare(field, op, literal):
            return Compare(field, op.negated, literal)
        case StartsWith(field, prefix, negated):
            return StartsWith(field, prefix, not negated)
        case Always():
            return not_null(source)
        case _:  # IS NOT NULL, which is TRUE for every value
            return FALSE


# ---------------------------------------------------------------- Buckets


def _bucket_compared(source: Field, buckets: int, op: Op, value: int) -> Bound:
    if op in (Op.EQ, Op.NE):
        return _in_buckets(source, buckets, frozenset((value,)), negated=op is Op.NE)
    if buckets > _MOST_BUCKETS:
        raise InvalidInput(f"cannot order more than {_MOST_BUCKETS} buckets: compare with = or IN")
    ranges = {
        Op.LT: range(value),
        Op.LE: range(value + 1),
        Op.GT: range(max(0, value + 1), buckets),
        Op.GE: range(max(0, value), buckets),
    }
    return _in_buckets(source, buckets, frozenset(ranges[op][:buckets]), negated=False)


def _in_buckets(source: Field, buckets: int, values: frozenset[int], *, negated: bool) -> Bound:
    kept = frozenset(value for value in values if 0 <= value < buckets)
    if not kept or len(kept) == buckets:
        return not_null(source) if bool(kept) != negated else FALSE
    return InBucket(source, buckets, kept, negated)


# ---------------------------------------------------------------- Times


def _time(source: Field, unit: TimeUnit, op: Op, ordinal: int) -> Bound:
    match op:
        case Op.LT:
            return at_number(source, Op.LT, _first_tick(source, unit, ordinal))
        case Op.LE:
            return at_number(source, Op.LT, _first_tick(source, unit, ordinal + 1))
        case _:
            first, after = (_first_tick(source, unit, number) for number in (ordinal, ordinal + 1))
            return all_of((at_number(source, Op.GE, first), at_number(source, Op.LT, after)))


def _first_tick(source: Field, unit: TimeUnit, ordinal: int) -> int:
    """The start of a year, month, day or hour, in the unit of the column."""
    per_second = source.type.ticks_per_second if isinstance(source.type, TimestampType) else 0
    if unit is TimeUnit.HOUR:
        return ordinal * 3600 * per_second
    match unit:
        case TimeUnit.DAY:
            days = ordinal
        case TimeUnit.MONTH:
            days = days_from_month(ordinal)
        case _:
            days = days_from_month(ordinal * 12)
    return days if isinstance(source.type, DateType) else days * SECONDS_PER_DAY * per_second


# ---------------------------------------------------------------- Numbers


def _floored(source: Field, width: int, op: Op, number: int) -> Bound:
    """``number`` and the bounds are integers, unscaled for a decimal."""
    match op:
        case Op.LT:
            return at_number(source, Op.LT, -(-number // width) * width)
        case Op.LE:
            return at_number(source, Op.LT, (number // width + 1) * width)
        case _ if number % width:
            return FALSE
        case _:
            return all_of((at_number(source, Op.GE, number), at_number(source, Op.LT, number + width)))


def _floored_integer(source: Field, width: int, op: Op, number: int) -> Bound:
    """The lowest values of the type have no multiple below them in the type: the result wraps around."""
    low, high = limits(source.type)
    first = -(-low // width) * width
    found = _floored(source, width, op, number)
    if first == low:
        return found
    wrapped = first - width + (high - low + 1)
    meets = {Op.LT: wrapped < number, Op.LE: wrapped <= number}.get(op, wrapped == number)
    ordinary = all_of((at_number(source, Op.GE, first), found)) if op is not Op.EQ or number < first else found
    return any_of((ordinary, at_number(source, Op.LT, first))) if meets else ordinary


# ---------------------------------------------------------------- Text and bytes


def _cut(source: Field, width: int, op: Op, value: Any) -> Bound:
    """The order of text is that of its bytes, which is that of its characters."""
    is_short, fits = len(value) < width, len(value) <= width
    if (op is Op.LT and fits) or is_short:
        return Compare(source, op, value)
    prefix = value[:width]
    if op is Op.EQ:
        return _begins(source, prefix) if fits else FALSE
    return any_of((Compare(source, Op.LT, prefix), _begins(source, prefix)))


def _begins(source: Field, prefix: Any) -> Bound:
    if isinstance(prefix, str):
        return StartsWith(source, prefix)
    after = after_prefix(prefix)
    least = Compare(source, Op.GE, prefix)
    return least if after is None else all_of((least, Compare(source, Op.LT, after)))
