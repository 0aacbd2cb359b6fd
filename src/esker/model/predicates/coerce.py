"""Exact comparisons: of a column with a literal of any type, and of two constants."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from esker.errors import InvalidInput
from esker.model.predicates.literal import (
    NANOS_PER_DAY,
    read_boolean,
    read_date,
    read_double,
    read_integer,
    read_time,
    read_timestamp,
    read_uuid,
)
from esker.model.predicates.predicate import FALSE, Bound, Compare, IsNaN, IsNull, Op, all_of, any_of
from esker.model.predicates.unbound_predicate import Literal
from esker.model.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    Field,
    FixedType,
    FloatType,
    IntType,
    LongType,
    StringType,
    TimestampType,
    TimeType,
    Type,
    UuidType,
)
from esker.model.values import from_unscaled

# ---------------------------------------------------------------- A column with a literal
#
# Spark compares an int column with 5.5, a date with a timestamp or a decimal with a double by widening the column. Here
# the column stays as it is stored, so that statistics and files can be used. The literal becomes a *span*: the least
# held value not below it and the greatest not above it. If the column can store the literal, both are the same value.
# If the literal is between two values, they cross. If many longs are one double, they are a range. Each comparison
# follows exactly from the span and the range of the type.


_INT64 = (-(2**63), 2**63 - 1)
_EXACT_IN_DOUBLE = 2**53


@dataclass(frozen=True, slots=True)
class Span:
    """The held integers around a literal: ``least`` is not below it, ``greatest`` not above."""

    least: int
    greatest: int


class Misfit(Exception):
    """A literal that cannot be compared with the column. The message is the reason."""


def compare(field: Field, op: Op, literal: Literal) -> Bound:
    """The bound form of ``field op literal``. ``literal`` is not null. Raises `InvalidInput` if they cannot be
    compared."""
    try:
        return _compare(field, op, literal)
    except (Misfit, ValueError) as error:
        where = f" at {literal.place}" if literal.place else ""
        raise InvalidInput(
            f"cannot compare column {field.name!r} of type {field.type} with the literal{where}: {error}",
            column=field.name,
            place=literal.place,
        ) from None


def _compare(field: Field, op: Op, literal: Literal) -> Bound:
    match field.type:
        case BooleanType():
            return _compare_boolean(field, op, _boolean(literal))
        case IntType() | LongType() | DecimalType() | DateType() | TimeType() | TimestampType():
            return _compare_span(field, op, _span(field.type, literal))
        case FloatType() | DoubleType():
            return _compare_float(field, op, _float(field.type, literal))
        case StringType():
            return Compare(field, op, _string(literal))
        case UuidType() | FixedType() | BinaryType():
            return _compare_bytes(field, op, _bytes(field.type, literal))
        case _:
            raise Misfit("it supports only IS NULL and IS NOT NULL")


# ---------------------------------------------------------------- Types that are stored as integers


def _compare_span(field: Field, op: Op, span: Span) -> Bound:
    least, greatest = span.least, span.greatest
    match op:
        case Op.EQ if least == greatest:
            return at_number(field, Op.EQ, least)
        case Op.NE if least == greatest:
            return at_number(field, Op.NE, least)
        case Op.EQ:
            inside = all_of((at_number(field, Op.GE, least), at_number(field, Op.LE, greatest)))
            return FALSE if least > greatest else inside
        case Op.NE:
            outside = any_of((at_number(field, Op.LT, least), at_number(field, Op.GT, greatest)))
            return not_null(field) if least > greatest else outside
        case Op.LT:
            return at_number(field, Op.LT, least) if least == greatest else at_number(field, Op.LE, least - 1)
        case Op.LE:
            return at_number(field, Op.LE, greatest)
        case Op.GT:
            return at_number(field, Op.GT, greatest)
        case Op.GE:
            return at_number(field, Op.GE, least) if least == greatest else at_number(field, Op.GT, least - 1)


def at_number(field: Field, op: Op, number: int) -> Bound:
    """``field op number``. TRUE or FALSE if the range of the type decides it."""
    low, high = limits(field.type)
    match op:
        case Op.EQ | Op.NE if not low <= number <= high:
            return FALSE if op is Op.EQ else not_null(field)
        case Op.LT | Op.GE if number <= low:
            return FALSE if op is Op.LT else not_null(field)
        case Op.GT | Op.LE if number >= high:
            return FALSE if op is Op.GT else not_null(field)
        case Op.LT | Op.GE if number > high:
            return not_null(field) if op is Op.LT else FALSE
        case Op.GT | Op.LE if number < low:
            return not_null(field) if op is Op.GT else FALSE
    return Compare(field, op, held(field.type, number))


def held(type_: Type, number: int) -> Any:
    """The held value that is stored as this integer."""
    return from_unscaled(number, type_.scale) if isinstance(type_, DecimalType) else number


def limits(type_: Type) -> tuple[int, int]:
    """The least and greatest integer that a type can store."""
    match type_:
        case IntType() | DateType():
            return -(2**31), 2**31 - 1
        case DecimalType(precision=precision):
            return 1 - 10**precision, 10**precision - 1
        case _:
            return _INT64


def _span(type_: Type, literal: Literal) -> Span:
    match type_:
        case DateType() | TimestampType():
            return _span_of_moment(type_, literal)
        case TimeType():
            return _span_of_time(literal)
        case DecimalType(scale=scale):
            return _span_of_number(literal, scale, limits(type_), whole=False)
        case _:
            return _span_of_number(literal, 0, limits(type_), whole=True)


def _span_of_number(literal: Literal, scale: int, within: tuple[int, int], *, whole: bool) -> Span:
    match literal.type, literal.value:
        case LongType(), int(value):
            exact = value * 10**scale
            return Span(exact, exact)
        case DecimalType(), Decimal() as value:
            return _span_of_decimal(value, scale, within)
        case FloatType() | DoubleType(), float(value):
            return _span_of_double(value, scale, within)
        case StringType(), str(text) if whole:
            return Span(number := read_integer(text), number)
        case StringType(), str(text):  # Spark compares a decimal column with a string as doubles
            return _span_of_double(read_double(text), scale, within)
        case _:
            raise Misfit(f"{describe(literal)} is not a number")


def _span_of_decimal(value: Decimal, scale: int, within: tuple[int, int]) -> Span:
    if value and value.adjusted() + scale > 80:  # far outside any column: do not compute its digits
        return _beyond(within, above=value > 0)
    if value and value.adjusted() + scale < -80:
        return Span(1, 0) if value > 0 else Span(0, -1)
    numerator, denominator = value.as_integer_ratio()
    scaled = numerator * 10**scale
    return Span(-(-scaled // denominator), scaled // denominator)


def _span_of_double(value: float, scale: int, within: tuple[int, int]) -> Span:
    """The held values whose nearest double is this one: above 2^53 there may be many, or none."""
    low, high = within
    if math.isnan(value) or value == math.inf:  # NaN is larger than any number
        return _beyond(within, above=True)
    if value == -math.inf:
        return _beyond(within, above=False)
    if scale == 0 and abs(value) < _EXACT_IN_DOUBLE:
        return Span(math.ceil(value), math.floor(value))
    power = 10**scale
    least = _first(low, high, lambda number: number / power >= value)
    return Span(least, _first(low, high, lambda number: number / power > value) - 1)


def _beyond(within: tuple[int, int], *, above: bool) -> Span:
    low, high = within
    return Span(high + 1, high) if above else Span(low, low - 1)


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The least number of a range from which a monotone condition is true. One after the end if it never is."""
    high += 1
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _span_of_moment(type_: DateType | TimestampType, literal: Literal) -> Span:
    """The span of a date or timestamp. Dates compare at midnight; without a zone, UTC is used, like Spark's session
    in UTC."""
    tick = NANOS_PER_DAY if isinstance(type_, DateType) else 1_000_000_000 // type_.ticks_per_second
    match literal.type, literal.value:
        case DateType(), int(days):
            nanos = days * NANOS_PER_DAY
        case TimestampType(), int(value):
            nanos = value
        case StringType(), str(text) if isinstance(type_, DateType):
            nanos = read_date(text) * NANOS_PER_DAY
        case StringType(), str(text):
            moment = read_timestamp(text)  # Spark drops the zone for a column without zone
            nanos = moment.instant if isinstance(type_, TimestampType) and type_.zoned else moment.wall
        case _:
            raise Misfit(f"{describe(literal)} is not a date or timestamp")
    if isinstance(type_, TimestampType):  # finer digits than the column's are cut off, as in Spark
        return Span(nanos // tick, nanos // tick)
    return Span(-(-nanos // tick), nanos // tick)


def _span_of_time(literal: Literal) -> Span:
    match literal.type, literal.value:
        case TimeType(), int(nanos):
            pass
        case StringType(), str(text):
            nanos = read_time(text)
        case _:
            raise Misfit(f"{describe(literal)} is not a time of day")
    return Span(nanos // 1000, nanos // 1000)


# ---------------------------------------------------------------- Other types


def _compare_float(field: Field, op: Op, value: float) -> Bound:
    """NaN equals itself and is above every number. Statistics have only its count, so it gets its own term."""
    if not math.isnan(value):
        return Compare(field, op, value + 0.0)  # both zeros are equal
    match op:
        case Op.EQ | Op.GE:
            return IsNaN(field)
        case Op.NE | Op.LT:
            return all_of((not_null(field), IsNaN(field, negated=True)))
        case Op.LE:
            return not_null(field)
        case Op.GT:
            return FALSE


def _float(type_: Type, literal: Literal) -> float:
    match literal.type, literal.value:
        case LongType(), int(value):
            if isinstance(type_, FloatType) and abs(value) < 2**63:  # Spark widens an int literal to the float
                return struct.unpack("<f", struct.pack("<f", value))[0]
            return _nearest(value)
        case DecimalType(), Decimal() as value:
            return _nearest(value)
        case FloatType() | DoubleType(), float(value):
            return value
        case StringType(), str(text):
            return read_double(text)
        case _:
            raise Misfit(f"{describe(literal)} is not a number")


def _nearest(value: int | Decimal) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _compare_boolean(field: Field, op: Op, value: bool) -> Bound:
    """False is below true. So every comparison is one of: is true, is false, is not null, never."""
    chosen = {row for row in (False, True) if _holds(op, row, value)}
    if len(chosen) == 1:
        return Compare(field, Op.EQ, chosen.pop())
    return not_null(field) if chosen else FALSE


def _holds(op: Op, left: bool, right: bool) -> bool:
    match op:
        case Op.EQ:
            return left == right
        case Op.NE:
            return left != right
        case Op.LT:
            return left < right
        case Op.LE:
            return left <= right
        case Op.GT:
            return left > right
        case Op.GE:
            return left >= right


def _boolean(literal: Literal) -> bool:
    match literal.type, literal.value:
        case BooleanType(), bool(value):
            return value
        case StringType(), str(text):
            return read_boolean(text)
        case _:
            raise Misfit(f"{describe(literal)} is not a boolean")


def _string(literal: Literal) -> str:
    match literal.type, literal.value:
        case StringType(), str(value):
            return value
        case BinaryType(), bytes(value):
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise Misfit(f"{describe(literal)} is not UTF-8") from None
        case _:
            raise Misfit(f"{describe(literal)} is not a string: put it in quotes")


def _compare_bytes(field: Field, op: Op, value: bytes) -> Bound:
    if isinstance(field.type, FixedType) and len(value) != field.type.length and op in (Op.EQ, Op.NE):
        return FALSE if op is Op.EQ else not_null(field)
    return Compare(field, op, value)


def _bytes(type_: Type, literal: Literal) -> bytes:
    match literal.type, literal.value:
        case UuidType(), bytes(value) if isinstance(type_, UuidType):
            return value
        case StringType(), str(text):
            return read_uuid(text) if isinstance(type_, UuidType) else text.encode()
        case BinaryType(), bytes(value):
            if isinstance(type_, UuidType) and len(value) != 16:
                raise Misfit(f"{describe(literal)} has {len(value)} bytes and a uuid 16")
            return value
        case _:
            raise Misfit(f"{describe(literal)} is not a uuid" if isinstance(type_, UuidType) else "give bytes: X'00ff'")


def not_null(field: Field) -> IsNull:
    """``field IS NOT NULL``."""
    return IsNull(field, negated=True)


def describe(literal: Literal) -> str:
    """A literal as a message shows it."""
    shown = repr(literal.value)
    return f"{shown if len(shown) <= 60 else shown[:57] + '…'} ({literal.type or 'null'})"


# ---------------------------------------------------------------- Comparisons of two values without a column
#
# ``1 = 1``, ``'a' < 'b'``, ``NULL = 5``.


def compare_constants(one: Literal, op: Op, other: Literal, place: str | None) -> bool | None:
    """Whether it is TRUE or FALSE. None if one side is null. Raises `InvalidInput` if they cannot be compared."""
    if one.type is None or other.type is None:
        return None
    kind, left = _comparable(one)
    other_kind, right = _comparable(other)
    if kind != other_kind:
        raise InvalidInput(f"cannot compare {describe(one)} with {describe(other)} at {place}", place=place)
    if kind == "number" and (isinstance(left, float) or isinstance(right, float)):
        left, right = _ordered(float(left)), _ordered(float(right))
    match op:
        case Op.EQ | Op.NE:
            return (left == right) == (op is Op.EQ)
        case Op.LT | Op.GE:
            return (left < right) == (op is Op.LT)
        case Op.GT | Op.LE:
            return (left > right) == (op is Op.GT)


def _comparable(literal: Literal) -> tuple[str, Any]:
    """A literal in a form that Python orders like Spark, and the kind within which it can be compared."""
    match literal.type:
        case LongType() | DecimalType():
            return "number", Decimal(literal.value)
        case FloatType() | DoubleType():
            return "number", literal.value
        case DateType():
            return "moment", literal.value * NANOS_PER_DAY
        case TimestampType():
            return "moment", literal.value
        case _:
            return str(literal.type), literal.value


def _ordered(value: float) -> tuple[bool, float]:
    """A double in Spark's order: NaN equals itself and is above all."""
    return (True, 0.0) if math.isnan(value) else (False, value)
