"""DuckDB orders NaN as Spark does: what it selects by the same text, we must select."""

from __future__ import annotations

import functools
import re
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import sqlglot
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from predicate_strategies import arrow_array, every_test, pools
from predicate_strategies import rows as rows_of

from esker.arrow.read.filter import matches
from esker.model.parsing.predicate_text import parse
from esker.model.predicates.bind import bind, to_sql
from esker.model.predicates.unbound_predicate import LikeTest, Not
from esker.model.schema import Schema
from esker.model.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    DateType,
    DecimalType,
    Field,
    StringType,
    Type,
)

pytestmark = pytest.mark.interop

TYPES = (BOOLEAN, INT, LONG, FLOAT, DOUBLE, DecimalType(18, 2), DATE, STRING)


@functools.cache
def connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


_DOUBLE = re.compile(r"TRY_CAST\(([-+\d.eE]+) AS DOUBLE\)")


def answered_by_duckdb(texts: list[str], column: pa.Array) -> list[list[bool]]:
    rows = pa.table({"n": pa.array(range(len(column))), "x": column})
    connection().register("held", rows)
    # DuckDB reads a number as a decimal, and its cast of a decimal to a double is not exact. That of a text is.
    spoken = (sqlglot.transpile(text, read="spark", write="duckdb")[0] for text in texts)
    exact = (_DOUBLE.sub(r"CAST('\1' AS DOUBLE)", text) for text in spoken)
    asked = ", ".join(f"coalesce({text}, false)" for text in exact)
    found = connection().sql(f"select {asked} from held order by n").fetchall()
    return [list(answers) for answers in zip(*found, strict=True)]


def is_common(type_: Type, value: Any) -> bool:
    """Within what DuckDB can hold: its dates end, and its text has no NUL."""
    if value is None:
        return True
    if isinstance(type_, DateType):
        return abs(value) < 10**6
    return not (isinstance(type_, StringType) and "\x00" in value)


@pytest.mark.parametrize("type_", TYPES, ids=str)
@settings(max_examples=5, deadline=None, phases=[Phase.generate])
@given(data=st.data())
def test_a_text_selects_what_duckdb_selects_by_it(type_: Type, data: st.DataObject) -> None:
    schema = Schema(fields=(Field(id=1, name="x", type=type_),))
    pool = [value for value in data.draw(pools(type_)) if is_common(type_, value)]
    rows = [row for row in data.draw(rows_of(type_, pool, min_size=1)) if is_common(type_, row)] if pool else []
    column = arrow_array(type_, [*rows, *pool, None])
    tests = [test for test in every_test(type_, pool) if not isinstance(test, LikeTest | Not)]
    texts = [to_sql(bind(test, schema)) for test in tests]
    expected = answered_by_duckdb(texts, column)
    for text, answers in zip(texts, expected, strict=True):
        found = matches(bind(parse(text), schema), {1: column}, len(column))
        assert found.to_pylist() == answers, text


WRITTEN = [
    "x < 5.5 and not x in (1, 2)", "x between -1 and 3 or x is null", "not (x >= 2 or x is null)",
    "x = 1 or x = 2 and x <> 3",
    "x not in (1, null)", "x in (1, null)", "not (x < 2 and x > -5)", "x > 1e0",
]  # fmt: skip


@pytest.mark.parametrize("text", WRITTEN)
@pytest.mark.parametrize("type_", [INT, LONG, DOUBLE, DecimalType(18, 2)], ids=str)
def test_connectives_bind_as_they_do_in_duckdb(text: str, type_: Type) -> None:
    schema = Schema(fields=(Field(id=1, name="x", type=type_),))
    column = pa.array([None, -6, -5, -1, 0, 1, 2, 3, 5, 6], pa.int32()).cast(arrow_array(type_, []).type)
    (expected,) = answered_by_duckdb([text], column)
    assert matches(bind(parse(text), schema), {1: column}, len(column)).to_pylist() == expected
