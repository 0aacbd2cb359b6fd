"""SQL expressions for updates: what is read, and what is left to Spark by name."""

from __future__ import annotations

import pytest

from esker.errors import InvalidInput, Unsupported
from esker.model.parsing.value_text import Arithmetic, Value, parse_value
from esker.model.predicates.unbound_predicate import Literal, Name


def shown(value: Value) -> str:
    """The expression with every parenthesis."""
    match value:
        case Arithmetic(sign, left, right):
            return f"({shown(left)} {sign} {shown(right)})"
        case Name():
            return str(value)
        case Literal():
            return repr(value.value)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("a", "a"),
        ("`a b`.c", "a b.c"),
        ("a + b * 2", "(a + (b * 2))"),
        ("(a + b) * 2", "((a + b) * 2)"),
        ("a - b - c", "((a - b) - c)"),
        ("a / b / c", "((a / b) / c)"),
        ("a - -1", "(a - -1)"),
        ("-a", "(0 - a)"),
        ("- (a + 1)", "(0 - (a + 1))"),
        ("'it''s'", repr("it's")),
        ("NULL", "None"),
        ("true", "True"),
        ("DATE '1970-01-02'", "1"),
        ("CAST('5' AS INT)", "5"),
        ("1e3", "1000.0"),
    ],
)
def test_operators_bind_as_in_sql(text: str, meaning: str) -> None:
    assert shown(parse_value(text)) == meaning


@pytest.mark.parametrize(
    "text",
    [
        "CASE WHEN a = 1 THEN 2 END",
        "upper(a)",
        "a > 1",
        "a AND b",
        "a || b",
        "a % 2",
        "CAST(a AS INT)",
        "a b",
        "NOT a",
        "a IN (1)",
    ],
)
def test_what_is_richer_is_named_and_left_to_spark(text: str) -> None:
    with pytest.raises(
        Unsupported, match=r"without Spark: at .*, .* is not one of columns, literals and \+ - \* /"
    ) as caught:
        parse_value(text)
    assert "lake.sql('UPDATE …')" in str(caught.value)


@pytest.mark.parametrize("text", ["", "(", "a +", "(a", "'open"])
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises((InvalidInput, Unsupported), match=r"cannot (read|compute)"):
        parse_value(text)


def test_nesting_is_counted_before_it_exhausts_the_stack() -> None:
    with pytest.raises(InvalidInput, match="nested"):
        parse_value("(" * 100_000 + "1" + ")" * 100_000)
    with pytest.raises(InvalidInput, match="nested"):
        parse_value("- " * 100_000 + "a")
