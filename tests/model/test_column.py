"""Predicates built in Python."""

from __future__ import annotations

import datetime
import math
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from esker.errors import InvalidInput
from esker.model.predicates.bind import bind, to_sql
from esker.model.predicates.column import Column, Expression, as_unbound, col
from esker.model.predicates.literal import literal_of
from esker.model.predicates.unbound_predicate import AllOf, Name
from esker.model.schema import Schema
from esker.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    UUID,
    Field,
    StructType,
    Type,
)

SCHEMA = Schema(
    fields=(
        Field(id=1, name="a", type=INT),
        Field(id=2, name="b", type=STRING),
        Field(id=3, name="c", type=DOUBLE),
        Field(id=4, name="ok", type=BOOLEAN),
        Field(id=5, name="ts", type=TIMESTAMPTZ),
        Field(id=6, name="s", type=StructType((Field(id=7, name="x.y", type=INT),))),
    )
)


def sql(expression: Expression | Column) -> str:
    return to_sql(bind(expression, SCHEMA))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (col("a") > 5, "a > 5"),
        (col("a") >= 5, "a >= 5"),
        (col("a") < 5, "a < 5"),
        (col("a") <= 5, "a <= 5"),
        (col("a") == 5, "a = 5"),
        (col("a") != 5, "a <> 5"),
        (col("a").isin([3, 1]), "a IN (1, 3)"),
        (col("a").isin([]), "false"),
        (~col("a").isin([]), "true"),
        (~col("a").isin([1, None]), "false"),
        (col("a").between(1, 3), "a >= 1 AND a <= 3"),
        (col("b").is_null(), "b IS NULL"),
        (col("b").is_not_null(), "b IS NOT NULL"),
        (col("c").is_nan(), "isnan(c)"),
        (~col("c").is_nan(), "NOT isnan(c)"),
        (col("b").startswith("5%_"), r"b LIKE '5\\%\\_%'"),
        (col("b").like("a%b"), "b LIKE 'a%b'"),
        (~col("b").like("a|%", escape="|"), "b <> 'a%'"),
        (col("a").eq_null_safe(None), "a IS NULL"),
        (~col("a").eq_null_safe(1), "a IS NULL OR a <> 1"),
        (col("ok") & ~col("ok"), "ok = true AND ok = false"),
        ((col("a") > 5) & col("ok") | (col("b") == "x"), "(a > 5 AND ok = true) OR b = 'x'"),
        (~((col("a") > 5) | col("ok")), "a <= 5 AND ok = false"),
        (~~(col("a") > 5), "a > 5"),
        (col("s.`x.y`") == 1, "`x.y` = 1"),
        (col("A") == None, "false"),  # noqa: E711  # a comparison with null, which is never TRUE
        (col("c") == math.nan, "isnan(c)"),
        (col("ok"), "ok = true"),
    ],
)  # fmt: skip
def test_what_an_expression_means(expression: Expression, expected: str) -> None:
    assert sql(expression) == expected


@pytest.mark.parametrize(
    ("value", "type_", "held"),
    [
        (True, BOOLEAN, True),
        (np.bool_(False), BOOLEAN, False),
        (7, LONG, 7),
        (np.int32(7), LONG, 7),
        (np.uint64(2**63), LONG, 2**63),
        (1.5, DOUBLE, 1.5),
        (np.float32(0.5), DOUBLE, 0.5),
        (Decimal("Infinity"), DOUBLE, math.inf),
        ("x", STRING, "x"),
        (np.str_("x"), STRING, "x"),
        (b"x", BINARY, b"x"),
        (bytearray(b"x"), BINARY, b"x"),
        (uuid.UUID(int=1), UUID, b"\x00" * 15 + b"\x01"),
        (datetime.date(1969, 12, 31), DATE, -1),
        (datetime.time(0, 0, 1, 5), TIME, 1_000_005_000),
        (datetime.datetime(1970, 1, 1, 0, 0, 1), TIMESTAMP_NS, 10**9),
        (datetime.datetime(1970, 1, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2))), TIMESTAMPTZ_NS, 0),
        (datetime.datetime(9999, 12, 31, 23, 59, 59, 999999), TIMESTAMP_NS, 253402300799999999000),
        (np.datetime64("1970-01-02"), DATE, 1),
        (np.datetime64("1970-01-01T00:00:01"), TIMESTAMP_NS, 10**9),
        (np.datetime64(5, "ns"), TIMESTAMP_NS, 5),
        (pd.Timestamp(1005, unit="ns"), TIMESTAMP_NS, 1005),
        (pd.Timestamp(1005, unit="ns", tz="Europe/Berlin"), TIMESTAMPTZ_NS, 1005),
        (pd.Timestamp.max, TIMESTAMP_NS, 2**63 - 1),
        (pa.scalar(5, pa.int16()), LONG, 5),
    ],
)
def test_python_values_become_literals(value: Any, type_: Type, held: Any) -> None:
    literal = literal_of(value)
    assert (literal.type, literal.value) == (type_, held)
    assert type(literal.value) is type(held)


@pytest.mark.parametrize("value", [None, pd.NaT, pd.NA, np.datetime64("NaT")])
def test_what_stands_for_null_is_null(value: Any) -> None:
    assert literal_of(value).type is None


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: col("a") == object(), "a object is not a literal"),
        (lambda: col("a") == [1], "a list is not a literal"),
        (lambda: col("a") == col("b"), "cannot compare column a with another column"),
        (lambda: col("a").isin("abc"), "cannot use one value in isin"),
        (lambda: bool(col("a") == 1), r"combine conditions with & \| ~"),
        (lambda: bool(col("a")), "cannot use a column as true or false"),
        (lambda: (col("a") == 1) & True, "cannot use True as a condition"),
        (lambda: col("a") == "\ud800", "half of a surrogate pair"),
        (lambda: col("a") == datetime.time(tzinfo=datetime.UTC), "has a zone"),
        (lambda: col(""), "'' is not the name of a column"),
        (lambda: col("a..b"), "is not the name of a column"),
        (lambda: col("`a"), "a backtick is not closed"),
        (lambda: col("`a`b"), "is not the name of a column"),
    ],
)
def test_what_is_no_predicate_is_refused(make: Any, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        make()


def test_names_take_dots_apart_and_leave_quoted_ones_together() -> None:
    assert col("a.b").name == Name(("a", "b"))
    assert col("`a.b`.c").name == Name(("a.b", "c"))
    assert col("`a``b`").name == Name(("a`b",))


def test_a_long_chain_stays_flat() -> None:
    expression = col("a") != 0
    for at in range(1, 3000):
        expression &= col("a") != at
    unbound = as_unbound(expression)
    assert isinstance(unbound, AllOf)
    assert len(unbound.parts) == 3000
    assert sql(expression).startswith("a NOT IN (0, 1, 2")


def test_nesting_beyond_reason_is_refused_and_does_not_crash() -> None:
    expression = col("a") == 0
    for at in range(5000):
        expression = (expression | (col("a") == at)) if at % 2 else (expression & (col("a") == at))
    with pytest.raises(InvalidInput, match="nested more than 100 levels deep"):
        bind(expression, SCHEMA)


def test_a_column_is_no_key() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        {col("a")}  # being made is what it is about
