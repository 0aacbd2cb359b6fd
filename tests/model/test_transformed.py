"""Conditions on a transform of a column."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from esker.model.predicates.bind import bind
from esker.model.predicates.predicate import Compare, Op
from esker.model.predicates.unbound_predicate import Comparison, Literal, Name
from esker.model.schema import Schema
from esker.model.transform import TruncateTransform
from esker.model.types import DecimalType, Field


@pytest.mark.parametrize("precision", [4, 38])
def test_a_decimal_truncated_below_the_least_of_its_type_is_still_found(precision: int) -> None:
    """-99.99 by 1000 is -100.00, which decimal(4, 2) cannot hold."""
    schema = Schema(fields=(Field(id=1, name="a", type=DecimalType(precision, 2), required=True),))
    least = Decimal((1, (1, *[0] * precision), -2))
    name = Name(("a",), transform=TruncateTransform(1000))
    found: Any = bind(Comparison(name, Op.EQ, Literal(least, DecimalType(precision + 1, 2))), schema)
    assert found.parts[1] == Compare(schema.fields[0], Op.LT, Decimal((1, (9,) * (precision - 3) + (0, 0, 0), -2)))
