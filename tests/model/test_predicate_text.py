"""Predicates from Spark's SQL: what is read, and what is refused, with its place."""

from __future__ import annotations

import time
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esker.errors import InvalidInput
from esker.model.parsing.predicate_text import MAX_NESTING, MAX_TEXT, parse
from esker.model.predicates.predicate import Op
from esker.model.predicates.unbound_predicate import (
    AllOf,
    Among,
    AnyOf,
    Comparison,
    Constant,
    LikeTest,
    Name,
    NaNTest,
    Not,
    NullTest,
    Same,
    Unbound,
)
from esker.model.types import DATE, DOUBLE, TIMESTAMP_NS, TIMESTAMPTZ_NS, Type


def literal(text: str) -> Any:
    """The literal that ``x = text`` holds, as its type and value."""
    parsed = parse(f"x = {text}")
    assert isinstance(parsed, Comparison)
    return parsed.literal.type, parsed.literal.value


def value(text: str) -> Any:
    return literal(text)[1]


def shape(node: Unbound) -> Any:
    """A predicate without places: easier to state."""
    match node:
        case Not(part):
            return ("not", shape(part))
        case AllOf(parts):
            return ("and", *map(shape, parts))
        case AnyOf(parts):
            return ("or", *map(shape, parts))
        case Comparison(column, op, given):
            return (str(column), op.value, given.value)
        case Same(column, given):
            return (str(column), "<=>", given.value)
        case Among(column, given):
            return (str(column), "in", tuple(one.value for one in given))
        case NullTest(column):
            return (str(column), "is null")
        case NaNTest(column):
            return (str(column), "is nan")
        case LikeTest(column, pattern, escape):
            return (str(column), "like", pattern, escape)
        case Constant(constant):
            return constant


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5", 5), ("-5", -5), ("- -5", 5), ("+5", 5), ("1L", 1), ("1S", 1), ("1Y", 1), ("(5)", 5),
        ("1.5", Decimal("1.5")), (".5", Decimal("0.5")), ("5.", Decimal(5)), ("-.5", Decimal("-0.5")),
        ("2BD", Decimal(2)), ("1.50BD", Decimal("1.50")), ("1e3", 1000.0), ("1.5e-3", 0.0015), ("1.5D", 1.5),
        ("1e3D", 1000.0), ("1.5F", 1.5), ("0.1F", 0.10000000149011612),
        ("12345678901234567890", Decimal(12345678901234567890)), ("-9223372036854775808", -(2**63)),
        ("'x'", "x"), ('"x"', "x"), ("''", ""), ("'it''s'", "it's"), (r"'it\'s'", "it's"), (r"'a\nb'", "a\nb"),
        (r"'\u0041'", "A"), (r"r'a\nb'", r"a\nb"), ("'a' 'b'", "ab"), ("'日本'", "日本"),
        ("X'00ff'", b"\x00\xff"), ("x''", b""), ("X'f'", b"\x0f"),
        ("true", True), ("FALSE", False), ("NULL", None),
        ("CAST('5' AS int)", 5), ("cast(5.9 as bigint)", 5), ("CAST('1.005' AS decimal(4, 2))", Decimal("1.01")),
        ("cast('nan' as double)", pytest.approx(float("nan"), nan_ok=True)), ("int('7')", 7),
        ("cast(1.5 as string)", "1.5"), ("cast('yes' as boolean)", True), ("cast('ab' as binary)", b"ab"),
        ("cast(null as int)", None), ("try_cast('5' as int)", 5), ("cast(cast('5' as int) as double)", 5.0),
    ],
)  # fmt: skip
def test_a_literal_of_every_spelling(text: str, expected: Any) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "type_", "expected"),
    [
        ("DATE '2017-11-16'", DATE, 17486),
        ("date('2017-11-16')", DATE, 17486),
        ("date '2017'", DATE, 17167),
        ("DATE '1969-12-31'", DATE, -1),
        ("DATE '+12345-01-01'", DATE, 3789391),
        ("TIMESTAMP '1970-01-01 00:00:01'", TIMESTAMPTZ_NS, 10**9),
        ("TIMESTAMP '1970-01-01T00:00:00.5+02:00'", TIMESTAMPTZ_NS, -7_199_500_000_000),
        ("TIMESTAMP '1970-07-01 00:00:00 Europe/Berlin'", TIMESTAMPTZ_NS, (181 * 24 - 1) * 3600 * 10**9),
        ("TIMESTAMP_LTZ '1970-01-01 00:00:00Z'", TIMESTAMPTZ_NS, 0),
        ("TIMESTAMP_NTZ '1969-12-31 23:59:59.999999999'", TIMESTAMP_NS, -1),
        ("CAST('1970-01-02' AS timestamp_ntz)", TIMESTAMP_NS, 86_400 * 10**9),
        ("CAST(DATE '1970-01-02' AS timestamp)", TIMESTAMPTZ_NS, 86_400 * 10**9),
        ("CAST(TIMESTAMP '1969-12-31 12:00:00' AS date)", DATE, -1),
        ("1e400", DOUBLE, float("inf")),
    ],
)
def test_a_typed_literal(text: str, type_: Type, expected: Any) -> None:
    assert literal(text) == (type_, expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1", ("a", "=", 1)),
        ("a == 1 AND b != 2", ("and", ("a", "=", 1), ("b", "<>", 2))),
        ("5 < a", ("a", ">", 5)),
        ("'x' <> a", ("a", "<>", "x")),
        ("a <=> null", ("a", "<=>", None)),
        ("1 <=> a", ("a", "<=>", 1)),
        ("a is distinct from 1", ("not", ("a", "<=>", 1))),
        ("a is not distinct from 1", ("a", "<=>", 1)),
        ("a in (1, null, -2)", ("a", "in", (1, None, -2))),
        ("a not in ('x')", ("not", ("a", "in", ("x",)))),
        ("a between 1 and 2 and b", ("and", ("and", ("a", ">=", 1), ("a", "<=", 2)), ("b", "=", True))),
        ("a not between 1 and 2", ("not", ("and", ("a", ">=", 1), ("a", "<=", 2)))),
        ("a is null or a is not null", ("or", ("a", "is null"), ("not", ("a", "is null")))),
        ("isnull(a) or isnotnull(a)", ("or", ("a", "is null"), ("not", ("a", "is null")))),
        ("a is true or a is not false", ("or", ("a", "<=>", True), ("not", ("a", "<=>", False)))),
        ("a is unknown", ("a", "is null")),
        ("a like 'x%'", ("a", "like", "x%", "\\")),
        (r"a not like 'x\_%' escape '|'", ("not", ("a", "like", r"x\_%", "|"))),
        ("startswith(a, '5%')", ("a", "like", r"5\%%", "\\")),
        ("a like null", None),
        ("isnan(a) and not isnan(b)", ("and", ("a", "is nan"), ("not", ("b", "is nan")))),
        ("not not a", ("a", "=", True)),
        ("! a = 1", ("not", ("a", "=", 1))),
        ("a or b and not c", ("or", ("a", "=", True), ("and", ("b", "=", True), ("not", ("c", "=", True))))),
        ("(a or b) and c", ("and", ("or", ("a", "=", True), ("b", "=", True)), ("c", "=", True))),
        ("((a)) > ((1))", ("a", ">", 1)),
        ("true", True),
        ("null", None),
        ("not null", ("not", None)),
        ("1 = 1", True),
        ("'a' > 'b'", False),
        ("null = 1", None),
        ("1 < 1.5 and 2e0 = 2", ("and", True, True)),
        ("double('nan') > double('inf')", True),
        ("DATE '2020-01-01' < TIMESTAMP '2020-01-01 00:00:01'", True),
        ("null is null and 5 is not null", ("and", True, True)),
        ("a.b.c = 1", ("a.b.c", "=", 1)),
        ("a /* here */ = 1 -- and there", ("a", "=", 1)),
        ("date = DATE '1970-01-01' and timestamp is null", ("and", ("date", "=", 0), ("timestamp", "is null"))),
        ("a.and = 1", ("a.and", "=", 1)),
    ],
)  # fmt: skip
def test_what_a_text_means(text: str, expected: Any) -> None:
    assert shape(parse(text)) == expected


def test_a_name_in_backticks_keeps_its_dots_and_backticks() -> None:
    parsed = parse("`a.b`.`c``d` = 1")
    assert isinstance(parsed, Comparison)
    assert parsed.column == Name(("a.b", "c`d"), "line 1, column 1")


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("a + 1 > 5", "line 1, column 3", r"'\+' cannot be used in a predicate"),
        ("a > 5 + 1", "line 1, column 7", r"'\+' cannot be used in a predicate"),
        ("-a > 5", "line 1, column 1", "expected a column or a value, not '-'"),
        ("upper(a) = 'A'", "line 1, column 1", "the function upper cannot be used"),
        ("a rlike 'x'", "line 1, column 3", "'rlike' cannot be used"),
        ("a ilike 'x'", "line 1, column 3", "'ilike' cannot be used"),
        ("a = 1 and\n  b @ 2", "line 2, column 5", "'@' cannot be used"),
        ("a >", r"line 1, column 4 \(the end\)", "expected a column or a value"),
        ("", r"line 1, column 1 \(the end\)", "expected a column or a value"),
        ("(a = 1", r"line 1, column 7 \(the end\)", r"expected '\)'"),
        ("a = 1)", "line 1, column 6", r"did not expect '\)'"),
        ("a = b", "line 1, column 5", "cannot compare two columns"),
        ("(a = 1) = true", "line 1, column 1", "cannot compare conditions"),
        ("a in ()", "line 1, column 7", r"expected a column or a value, not '\)'"),
        ("a in (b)", "line 1, column 7", "IN takes values"),
        ("a in (1 2)", "line 1, column 9", r"expected '\)', not '2'"),
        ("5 in (1)", "line 1, column 1", "IN needs a column"),
        ("a between 1", r"line 1, column 12 \(the end\)", "expected AND and an upper limit"),
        ("a like 5", "line 1, column 1", "LIKE takes a pattern in quotes"),
        ("a not 5", "line 1, column 7", "NOT here must be followed by IN, BETWEEN or LIKE"),
        ("a is 5", "line 1, column 6", "expected NULL, TRUE or FALSE after IS"),
        ("5", "line 1, column 1", r"5 \(long\) is not a condition"),
        ("a and 'x'", "line 1, column 7", r"'x' \(string\) is not a condition"),
        ("'abc", "line 1, column 1", "a quote or comment is not closed"),
        ("a = X'0g'", "line 1, column 1", "not hexadecimal"),
        ("cast(a as int) = 5", "line 1, column 6", "CAST takes values"),
        ("a = cast('x' as int)", "line 1, column 5", "'x' is not a whole number"),
        ("a = cast('5' as blob)", "line 1, column 5", "the type is not known"),
        ("a = 300Y", "line 1, column 5", "it is out of range"),
        ("a = DATE '2020-02-30'", "line 1, column 5", "month 2 of 2020 has no day 30"),
        ("a = TIMESTAMP '2020-01-01 25:00:00'", "line 1, column 5", "has no valid time of day"),
        ("a = TIMESTAMP '2020-01-01 00:00:00 Nowhere/At_All'", "line 1, column 5", "is not a known time zone"),
        ("a = 1" + "0" * 90, "line 1, column 5", "has too many digits"),
        ("a; drop table t", "line 1, column 2", "';' cannot be used"),
        ("a = 1 = 2", "line 1, column 1", "cannot compare conditions"),
        ("a. = 1", "line 1, column 4", "expected a name after the dot"),
        ("1 = 'x'", "line 1, column 1", "cannot compare"),
    ],
)  # fmt: skip
def test_what_is_refused_is_refused_with_its_place(text: str, place: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=place) as caught:
        parse(text)
    caught.match(reason)


@pytest.mark.slow
def test_nesting_is_counted_before_it_exhausts_the_stack() -> None:
    deepest = "(" * MAX_NESTING + "a" + ")" * MAX_NESTING
    assert shape(parse(deepest)) == ("a", "=", True)
    with pytest.raises(InvalidInput, match="nested more than 64 deep"):
        parse("(" * 100_000 + "a" + ")" * 100_000)
    assert shape(parse("not " * 10_001 + "a")) == ("not", ("a", "=", True))
    assert value("-" + " -" * 10_000 + "5") == -5


def test_a_text_beyond_the_limit_is_not_read() -> None:
    with pytest.raises(InvalidInput, match=f"{MAX_TEXT} is the most"):
        parse("a" * (MAX_TEXT + 1))


def test_ten_thousand_values_are_read_fast() -> None:
    listed = "a in (" + ", ".join(f"'value {at}'" for at in range(10_000)) + ")"
    chained = " or ".join(f"a = {at}" for at in range(10_000))
    start = time.process_time()
    assert len(parse(listed).literals) == 10_000  # type: ignore[union-attr]  # an Among
    assert len(parse(chained).parts) == 10_000  # type: ignore[union-attr]  # an AnyOf
    assert time.process_time() - start < 3


@given(st.text(alphabet="ab=<>!()',.`\"\\-+*/ \nxX015eELD%_&|;:{}[]?@#$~^é", max_size=40))
def test_no_text_crashes_the_reader(text: str) -> None:
    try:
        parse(text)
    except InvalidInput as error:
        assert error.message  # noqa: PT017  # either outcome is fine, any other error is not


words = st.sampled_from(
    [
        "a",
        "b.c",
        "`d",
        "e`",
        "and",
        "or",
        "not",
        "in",
        "is",
        "null",
        "between",
        "like",
        "escape",
        "(",
        ")",
        ",",
        "=",
        "<>",
        "<",
        "<=>",
        "5",
        "-1.5",
        "'x'",
        "X'00'",
        "date",
        "'2020-01-01'",
        "true",
        "isnan",
        "cast",
        "as",
        "int",
        ".",
        "distinct",
        "from",
        "timestamp",
    ]
)


@given(st.lists(words, max_size=12).map(" ".join))
def test_no_sequence_of_words_crashes_the_reader(text: str) -> None:
    try:
        parse(text)
    except InvalidInput as error:
        assert error.message  # noqa: PT017  # likewise


def test_operators_are_those_of_sql() -> None:
    assert [op.flipped.value for op in Op] == ["=", "<>", ">", ">=", "<", "<="]
    assert all(op.negated.negated is op for op in Op)
