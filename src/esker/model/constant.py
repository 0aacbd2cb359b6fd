"""Comparisons of two values, with no column in sight: ``1 = 1``, ``'a' < 'b'``, ``NULL = 5``."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

from esker.errors import InvalidInput
from esker.model.coerce import describe
from esker.model.literal_text import NANOS_PER_DAY
from esker.model.predicate import Op
from esker.model.types import DateType, DecimalType, DoubleType, FloatType, LongType, TimestampType
from esker.model.unbound import Literal


def compare_constants(one: Literal, op: Op, other: Literal, place: str | None) -> bool | None:
    """Whether it is TRUE, FALSE or, with a null on either side, neither."""
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
    """A literal as something Python orders as Spark does, and the kind it can be compared within."""
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
    """A double among doubles: NaN equals itself and is above all."""
    return (True, 0.0) if math.isnan(value) else (False, value)
