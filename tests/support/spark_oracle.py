"""What Spark would answer, written plainly and apart from the code under test: three-valued, a row at a time."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from fractions import Fraction
from typing import Any

from esker.model.predicates.predicate import Op
from esker.model.predicates.unbound_predicate import (
    AllOf,
    Among,
    AnyOf,
    Comparison,
    Constant,
    LikeTest,
    Literal,
    NaNTest,
    Not,
    NullTest,
    Same,
    Unbound,
)
from esker.model.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    LongType,
    StringType,
    TimestampType,
    TimeType,
    Type,
)

Truth = bool | None


def truth(node: Unbound, type_: Type, value: Any) -> Truth:
    """TRUE, FALSE or NULL of a row whose only column holds ``value``."""
    match node:
        case Constant(constant):
            return constant
        case Not(part):
            inner = truth(part, type_, value)
            return None if inner is None else not inner
        case AllOf(parts):
            found = [truth(part, type_, value) for part in parts]
            return False if False in found else None if None in found else True
        case AnyOf(parts):
            found = [truth(part, type_, value) for part in parts]
            return True if True in found else None if None in found else False
        case NullTest():
            return value is None
        case NaNTest():
            return isinstance(value, float) and math.isnan(value)
        case Comparison(_, op, literal):
            return compared(op, type_, value, literal)
        case Same(_, literal):
            if value is None or literal.type is None:
                return value is None and literal.type is None
            return compared(Op.EQ, type_, value, literal)
        case Among(_, literals):
            found = [compared(Op.EQ, type_, value, literal) for literal in literals]
            return True if True in found else None if None in found else False
        case LikeTest(_, pattern, escape):
            return None if value is None else like(value, pattern, escape)
    raise AssertionError(node)


def compared(op: Op, type_: Type, value: Any, literal: Literal) -> Truth:
    if value is None or literal.type is None:
        return None
    left, right = common(type_, value, literal)
    return {
        Op.EQ: left == right,
        Op.NE: left != right,
        Op.LT: left < right,
        Op.LE: left <= right,
        Op.GT: left > right,
        Op.GE: left >= right,
    }[op]


def common(type_: Type, value: Any, literal: Literal) -> tuple[Any, Any]:
    """Both sides in the type Spark would compare them in."""
    right = literal.value
    match type_, literal.type:
        case (FloatType(), LongType()):
            return double(value), double(struct.unpack("<f", struct.pack("<f", right))[0])
        case (FloatType() | DoubleType(), _) | (_, FloatType() | DoubleType()):
            return double(value), double(right)
        case (IntType() | LongType() | DecimalType(), _):
            return Fraction(value), Fraction(right)
        case (DateType() | TimestampType(), _):
            return Fraction(seconds(type_, value)), Fraction(floor_micros(type_, seconds(literal.type, right)))
        case (TimeType(), TimeType()):
            return value, right // 1000
        case (StringType(), StringType()):
            return value.encode(), right.encode()
    return value, right


def double(value: Any) -> tuple[bool, float]:
    """NaN above all, and equal to itself; tuples compare so."""
    number = (
        value if isinstance(value, float) else float(Fraction(value)) if isinstance(value, Decimal) else float(value)
    )
    return (True, 0.0) if math.isnan(number) else (False, number)


def seconds(type_: Type | None, value: int) -> Fraction:
    if isinstance(type_, DateType):
        return Fraction(value * 86_400)
    assert isinstance(type_, TimestampType)
    return Fraction(value, type_.ticks_per_second)


def floor_micros(type_: Type, when: Fraction) -> Fraction:
    """Spark's timestamps end at microseconds."""
    ticks = type_.ticks_per_second if isinstance(type_, TimestampType) else 1_000_000_000
    return Fraction(math.floor(when * ticks), ticks)


def like(text: str, pattern: str, escape: str) -> bool:
    if not pattern:
        return not text
    head = pattern[0]
    if head == escape:
        return text[:1] == pattern[1] and like(text[1:], pattern[2:], escape)
    if head == "%":
        return any(like(text[at:], pattern[1:], escape) for at in range(len(text) + 1))
    return bool(text) and head in ("_", text[0]) and like(text[1:], pattern[1:], escape)
