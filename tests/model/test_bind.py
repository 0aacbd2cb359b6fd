"""Binding: names to fields, literals to held values, NOT to the leaves; exact by every example."""

from __future__ import annotations

import time

import pytest

from esker.errors import InvalidInput
from esker.model.parsing.predicate_text import parse
from esker.model.predicates.bind import bind, to_sql
from esker.model.predicates.predicate import (
    FALSE,
    TRUE,
    And,
    Compare,
    Op,
    Or,
    all_of,
    any_of,
    conjuncts,
    field_ids,
    terms,
)
from esker.model.schema import Schema
from esker.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    UNKNOWN,
    UUID,
    VARIANT,
    DecimalType,
    Field,
    FixedType,
    GeometryType,
    ListType,
    MapType,
    StructType,
)

COLUMNS = {
    "i": INT, "l": LONG, "f": FLOAT, "d": DOUBLE, "dec": DecimalType(9, 2), "dt": DATE, "tm": TIME, "ts": TIMESTAMP,
    "tz": TIMESTAMPTZ, "ns": TIMESTAMP_NS, "s": STRING, "u": UUID, "fx": FixedType(2), "bin": BINARY, "ok": BOOLEAN,
    "unk": UNKNOWN, "v": VARIANT, "geo": GeometryType(),
}  # fmt: skip
SCHEMA = Schema(
    fields=(
        *(Field(id=at, name=name, type=type_) for at, (name, type_) in enumerate(COLUMNS.items(), 1)),
        Field(id=50, name="st", type=StructType((Field(id=51, name="a", type=INT), Field(id=52, name="or", type=INT)))),
        Field(id=60, name="li", type=ListType(element_id=61, element=StructType((Field(id=62, name="x", type=INT),)))),
        Field(id=70, name="mp", type=MapType(key_id=71, key=STRING, value_id=72, value=INT)),
        Field(id=80, name="a.b", type=INT),
    )
)


def bound_sql(text: str) -> str:
    return to_sql(bind(parse(text), SCHEMA), SCHEMA.name_by_id)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # a literal between two values of the column's type
        ("i < 5.5", "i <= 5"), ("i <= 5.5", "i <= 5"), ("i > 5.5", "i > 5"), ("i >= 5.5", "i > 5"),
        ("i = 5.5", "false"), ("i <> 5.5", "i IS NOT NULL"), ("i in (5.5, 6)", "i = 6"), ("i < -5.5", "i <= -6"),
        ("i = 5.0", "i = 5"), ("i = 5e0", "i = 5"), ("dec = 5.555", "false"), ("dec > 5.555", "dec > 5.55BD"),
        # beyond the type
        ("i > 3e9", "false"), ("i < 3e9", "i IS NOT NULL"), ("i <> 3000000000", "i IS NOT NULL"),
        ("i = 3000000000", "false"), ("i >= -3000000000", "i IS NOT NULL"), ("i <= -3000000000", "false"),
        ("i > 2147483647", "false"), ("i not in (1, 3000000000)", "i IS NOT NULL AND i <> 1"),
        ("dec < 10000000", "dec IS NOT NULL"), ("l < 1e30", "l IS NOT NULL"), ("l < double('inf')", "l IS NOT NULL"),
        ("i > cast('-inf' as double)", "i IS NOT NULL"), ("i < double('nan')", "i IS NOT NULL"),
        ("i = double('nan')", "false"),
        # doubles that stand for many longs, or for one
        ("l = 9007199254740993D", "l >= 9007199254740992 AND l <= 9007199254740993"),
        ("l = 9007199254740991D", "l = 9007199254740991"), ("dec = 0.1D", "dec = 0.10BD"),
        # floats compare as doubles
        ("f = 0.1", "f = 0.1D"), ("f = 0.1F", "f = 0.10000000149011612D"), ("f = 16777217", "f = 16777216.0D"),
        ("d = 9007199254740993", "d = 9007199254740992.0D"), ("d = -0.0", "d = 0.0D"), ("d = '1.5'", "d = 1.5D"),
        # strings take the column's type
        ("i = '5'", "i = 5"), ("dec = '5.5'", "dec = 5.50BD"), ("ok = 'yes'", "ok = true"),
        ("bin = 'ab'", "bin = X'6162'"),
        ("u = 'F79C3E09-677C-4BBD-A479-3F349CB785E7'", "u = 'f79c3e09-677c-4bbd-a479-3f349cb785e7'"),
        ("s = X'6162'", "s = 'ab'"), ("fx = X'0001'", "fx = X'0001'"), ("fx = X'00'", "false"),
        ("fx <> X'00'", "fx IS NOT NULL"), ("fx < X'00'", "fx < X'00'"),
        # dates and timestamps
        ("dt = '2020-01-01'", "dt = DATE '2020-01-01'"), ("dt = '2020-01-01 12:00:00'", "dt = DATE '2020-01-01'"),
        ("dt < TIMESTAMP '2020-01-01 12:00:00'", "dt <= DATE '2020-01-01'"),
        ("dt = TIMESTAMP '2020-01-01 12:00:00'", "false"), ("dt = TIMESTAMP '2020-01-01'", "dt = DATE '2020-01-01'"),
        ("ts > DATE '2020-01-01'", "ts > TIMESTAMP_NTZ '2020-01-01 00:00:00'"),
        ("tz = '2020-01-01 00:00:00+02:00'", "tz = TIMESTAMP '2019-12-31 22:00:00+00:00'"),
        ("tz = '2020-01-01'", "tz = TIMESTAMP '2020-01-01 00:00:00+00:00'"),
        ("ts = '2020-01-01 00:00:00+02:00'", "ts = TIMESTAMP_NTZ '2020-01-01 00:00:00'"),
        ("ts = TIMESTAMP '2020-01-01 00:00:00+02:00'", "ts = TIMESTAMP_NTZ '2019-12-31 22:00:00'"),
        ("ts = '2020-01-01 00:00:00.123456789'", "ts = TIMESTAMP_NTZ '2020-01-01 00:00:00.123456'"),
        ("ns = '2020-01-01 00:00:00.123456789'", "ns = TIMESTAMP_NTZ '2020-01-01 00:00:00.123456789'"),
        ("ns < DATE '9999-01-01'", "ns IS NOT NULL"), ("tm >= '10:00:00.5'", "tm >= TIME '10:00:00.500'"),
        # booleans
        ("ok", "ok = true"), ("not ok", "ok = false"), ("ok <> true", "ok = false"), ("ok < true", "ok = false"),
        ("ok <= true", "ok IS NOT NULL"), ("ok > true", "false"), ("ok is not true", "ok IS NULL OR ok = false"),
        # LIKE
        ("s like 'ab%'", "s LIKE 'ab%'"), ("s like 'ab%%'", "s LIKE 'ab%'"), ("s like '%'", "s IS NOT NULL"),
        ("s not like '%'", "false"), ("s like 'ab'", "s = 'ab'"), (r"s like 'a\_b'", "s = 'a_b'"),
        ("s not like 'a_'", "s NOT LIKE 'a_'"), ("s like ''", "s = ''"),
        # the rest
        ("isnan(i)", "false"), ("not isnan(i)", "true"), ("unk is null", "true"), ("unk is not null", "false"),
        ("v is null and geo is not null", "v IS NULL AND geo IS NOT NULL"), ("st is null", "st IS NULL"),
        ("li is null", "li IS NULL"), ("i = 1 or i = 2 or i in (3)", "i IN (1, 2, 3)"),
        ("st.a = 1 and ST.`OR` = 2", "st.a = 1 AND st.`or` = 2"), ("`a.b` = 1", "`a.b` = 1"), ("a.b = 1", "`a.b` = 1"),
    ],
)  # fmt: skip
def test_a_literal_becomes_what_the_column_holds(text: str, expected: str) -> None:
    assert bound_sql(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i = null", "false"), ("not (i = null)", "false"), ("i <> null", "false"), ("i in (1, null)", "i = 1"),
        ("i not in (1, null)", "false"), ("not (i in (1, null))", "false"), ("i in (null)", "false"),
        ("i <=> null", "i IS NULL"), ("not (i <=> null)", "i IS NOT NULL"), ("not (i <=> 5)", "i IS NULL OR i <> 5"),
        ("not (i < 5)", "i >= 5"), ("not (i < 5 and s = 'x')", "i >= 5 OR s <> 'x'"),
        ("not (i < 5 or s = 'x')", "i >= 5 AND s <> 'x'"), ("not (i between 1 and null)", "i < 1"),
        ("not not i = 1", "i = 1"), ("s like null", "false"), ("not (s like null)", "false"),
        ("null or i = 1", "i = 1"), ("not (null and i = 1)", "i <> 1"), ("true or i = null", "true"),
    ],
)  # fmt: skip
def test_n2_null_is_selected_by_nothing_that_does_not_ask_for_it(text: str, expected: str) -> None:
    assert bound_sql(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("d = double('nan')", "isnan(d)"), ("d >= double('nan')", "isnan(d)"), ("d > double('nan')", "false"),
        ("d < double('nan')", "d IS NOT NULL AND NOT isnan(d)"), ("d <= double('nan')", "d IS NOT NULL"),
        ("d <> double('nan')", "d IS NOT NULL AND NOT isnan(d)"), ("d in (1, double('nan'))", "isnan(d) OR d = 1.0D"),
        ("d not in (1, double('nan'))", "d IS NOT NULL AND NOT isnan(d) AND d <> 1.0D"), ("f = 'NaN'", "isnan(f)"),
        ("not (d < double('nan'))", "isnan(d)"), ("not (d <=> double('nan'))",
         "d IS NULL OR (d IS NOT NULL AND NOT isnan(d))"),
    ],
)  # fmt: skip
def test_n3_nan_has_a_term_of_its_own(text: str, expected: str) -> None:
    assert bound_sql(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nope = 1", "no column 'nope'.* at line 1, column 1"),
        ("i = 1 and dt2 = 1", "no column 'dt2': did you mean 'dt'.* at line 1, column 11"),
        ("li.element.x = 1", "is inside a list or map"),
        ("mp.value = 1", "cannot filter by mp.value at line 1, column 1: it is inside a list or map"),
        ("s = 5", r"column 's' of type string with the literal at line 1, column 5: 5 \(long\) is not a string"),
        ("s = X'ff'", "is not UTF-8"),
        ("ok = 1", r"1 \(long\) is not a boolean"),
        ("i = 'x'", "'x' is not a whole number"),
        ("i = '5.5'", "'5.5' is not a whole number"),
        ("i = true", r"True \(boolean\) is not a number"),
        ("d = 'x'", "'x' is not a number"),
        ("i = DATE '2020-01-01'", "is not a number"),
        ("dt = 5", r"5 \(long\) is not a date or timestamp"),
        ("dt = 'foo'", "'foo' is not a date"),
        ("tz = '2020-13-01'", "there is no month 13"),
        ("tm = '25:00:00'", "has no valid time of day"),
        ("tm = 5", "is not a time of day"),
        ("u = 'zz'", "'zz' is not a uuid"),
        ("u = X'00'", "has 1 bytes and a uuid 16"),
        ("bin = 5", "give bytes"),
        ("unk = 5", "only IS NULL and IS NOT NULL"),
        ("v = 5", "only IS NULL and IS NOT NULL"),
        ("geo <> 'x'", "only IS NULL and IS NOT NULL"),
        ("st = 5", "only IS NULL and IS NOT NULL"),
        ("i like 'x'", "a int is not a string"),
        ("isnan(s)", "a string is not a number"),
        (r"s like 'a\\'", "ends with its escape character"),
        (r"s like 'a\\b'", "escapes 'b', which needs no escape"),
        ("s like 'a' escape 'xy'", "must be one character"),
    ],
)
def test_what_does_not_fit_is_refused_by_name_and_place(text: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        bind(parse(text), SCHEMA)


def test_names_may_be_bound_with_their_case() -> None:
    assert to_sql(bind(parse("I = 1"), SCHEMA)) == "i = 1"
    with pytest.raises(InvalidInput, match="no column 'I'"):
        bind(parse("I = 1"), SCHEMA, case_sensitive=True)


def test_a_long_list_is_bound_and_shown_fast() -> None:
    listed = parse("l in (" + ",".join(map(str, range(10_000))) + ")")
    chained = parse(" and ".join(f"s <> '{at}'" for at in range(10_000)))
    start = time.process_time()
    bound = bind(listed, SCHEMA)
    assert to_sql(bound, most_values=3) == "l IN (0, 1, 2, … 9997 more)"
    assert to_sql(bind(chained, SCHEMA), most_values=1) == "s NOT IN ('0', … 9999 more)"
    assert time.process_time() - start < 3


def test_conjunctions_and_disjunctions_simplify() -> None:
    one, two = Compare(SCHEMA.find("i"), Op.GT, 1), Compare(SCHEMA.find("l"), Op.LT, 2)
    assert all_of([]) == TRUE
    assert any_of([]) == FALSE
    assert all_of([TRUE, one]) == one
    assert all_of([one, FALSE]) == FALSE
    assert any_of([one, TRUE]) == TRUE
    assert all_of([And((one, two)), one]) == And((one, two))
    assert any_of([one, one, two]) == Or((one, two))
    assert conjuncts(TRUE) == ()
    assert conjuncts(And((one, two))) == (one, two)
    assert list(terms(Or((one, And((two, one)))))) == [one, two, one]
    assert field_ids(Or((one, two))) == {1, 2}
