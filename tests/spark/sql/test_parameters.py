"""Parameters put into the text of a statement: each is the literal it stands for, wherever it stands."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from esker.errors import InvalidInput
from esker.spark.expressions.sql_text import with_parameters


@pytest.mark.parametrize(
    ("value", "literal"),
    [(-5, "-5"), (-(2**40), f"-{2**40}L"), (-0.5, "-0.5D"), (Decimal("-1.50"), "-1.50BD")],
)
def test_a_negative_number_after_a_minus_begins_no_comment(value: Any, literal: str) -> None:
    assert with_parameters("SELECT n-:x FROM t", {"x": value}) == f"SELECT n- {literal} FROM t"
    assert with_parameters("SELECT n-? FROM t", [value]) == f"SELECT n- {literal} FROM t"


def test_a_text_stays_a_text_whatever_it_says() -> None:
    assert with_parameters("SELECT :x", {"x": "a' OR 'b"}) == r"SELECT 'a\' OR \'b'"
    assert with_parameters("SELECT :x", {"x": "a\\"}) == r"SELECT 'a\\'"


def test_a_marker_needs_its_value() -> None:
    with pytest.raises(InvalidInput, match=r"cannot bind :x at .*no value of that name"):
        with_parameters("SELECT :x", {"y": 1})
