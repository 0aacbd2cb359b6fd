"""A column's default: any value a user may give, in the held form of the column's type."""

from __future__ import annotations

import math
import struct
from typing import Any

from esker.errors import InvalidInput
from esker.model.coerce import compare, describe
from esker.model.literal import literal_of
from esker.model.predicate import Compare, IsNaN, Op
from esker.model.types import (
    Field,
    FloatType,
    GeographyType,
    GeometryType,
    UnknownType,
    VariantType,
    is_nested,
)

_ONLY_NULL = (UnknownType, VariantType, GeometryType, GeographyType)


def held_default(field: Field, value: Any) -> Any:
    """The held form of a default; ``InvalidInput`` names the column it does not fit. None is no default."""
    literal = literal_of(value)
    if literal.type is None:
        return None
    if isinstance(field.type, _ONLY_NULL) or is_nested(field.type):
        raise InvalidInput(
            f"cannot give column {field.name!r} a default: a {field.type} has no default but null", column=field.name
        )
    try:
        match compare(field, Op.EQ, literal):  # equal to exactly one value: that is the value
            case Compare(_, Op.EQ, held):
                return _single(held) if isinstance(field.type, FloatType) else held
            case IsNaN(negated=False):
                return math.nan
    except (InvalidInput, OverflowError):
        pass
    raise InvalidInput(
        f"cannot give column {field.name!r} the default {describe(literal)}: it is no {field.type}", column=field.name
    )


def _single(value: float) -> float:
    """The nearest value that four bytes can hold."""
    return struct.unpack("<f", struct.pack("<f", value))[0]
