"""Which types a column may grow into: those the spec lists, and no others (T15)."""

from __future__ import annotations

from typing import Any

from esker.model.types import (
    DateType,
    DecimalType,
    DoubleType,
    Field,
    FloatType,
    IntType,
    LongType,
    TimestampType,
    Type,
    UnknownType,
)

RULE = "int to long, float to double, a decimal to more digits at the same scale"
RULE_V3 = RULE + ", date to timestamp without zone, unknown to any"
SECONDS_PER_DAY = 86_400


def can_promote(old: Type, new: Type, format_version: int) -> bool:
    """Whether every value of the old type is one of the new, as the spec of that version has it."""
    match old, new:
        case (IntType(), LongType()) | (FloatType(), DoubleType()):
            return True
        case DecimalType(), DecimalType():
            return new.scale == old.scale and new.precision > old.precision
        case DateType(), TimestampType(zoned=False):  # an instant needs a zone, which a date has not
            return format_version >= 3
        case UnknownType(), _:
            return format_version >= 3 and not isinstance(new, UnknownType)
        case _:
            return False


def changes_partition_values(old: Type, new: Type) -> bool:
    """Whether a partition value computed of the old type may differ from one of the new (E7)."""
    return isinstance(old, DateType) and isinstance(new, TimestampType)


def promoted_value(field: Field, new: Type, value: Any) -> Any:
    """A default of the column in the held form of its new type."""
    if value is not None and isinstance(field.type, DateType) and isinstance(new, TimestampType):
        return value * SECONDS_PER_DAY * new.ticks_per_second
    return value
