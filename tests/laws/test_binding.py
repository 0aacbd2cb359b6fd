"""Binding changes how a predicate is written, never what it selects."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from predicate_strategies import TYPES, arrow_array, every_test, pools, predicates
from predicate_strategies import rows as rows_of
from spark_oracle import truth

from esker.arrow.read.filter import matches
from esker.model.parsing.predicate_text import parse
from esker.model.predicates.bind import bind, to_sql
from esker.model.predicates.predicate import Bound
from esker.model.predicates.unbound_predicate import Not
from esker.model.schema import Schema
from esker.model.types import STRING, Field, Type


def schema_of(type_: Type) -> Schema:
    return Schema(fields=(Field(id=1, name="x", type=type_),))


def selected(bound: Bound, type_: Type, rows: list[Any]) -> list[bool]:
    answer = matches(bound, {1: arrow_array(type_, rows)}, len(rows))
    assert answer.null_count == 0
    return answer.to_pylist()


@pytest.mark.parametrize("type_", TYPES, ids=str)
@settings(max_examples=8)
@given(data=st.data())
def test_a_bound_predicate_selects_what_spark_would(type_: Type, data: st.DataObject) -> None:
    pool = data.draw(pools(type_))
    rows = [*data.draw(rows_of(type_, pool)), *pool, None]
    for predicate in (*every_test(type_, pool), data.draw(predicates(type_, pool))):
        bound = bind(predicate, schema_of(type_))
        assert selected(bound, type_, rows) == [truth(predicate, type_, row) is True for row in rows], predicate


@pytest.mark.parametrize("type_", TYPES, ids=str)
@settings(max_examples=5)
@given(data=st.data())
def test_a_negation_selects_what_is_false_and_not_what_is_null(type_: Type, data: st.DataObject) -> None:
    pool = data.draw(pools(type_))
    predicate, rows = data.draw(predicates(type_, pool)), data.draw(rows_of(type_, pool))
    bound = bind(Not(predicate), schema_of(type_))
    assert selected(bound, type_, rows) == [truth(predicate, type_, row) is False for row in rows]


@pytest.mark.parametrize("type_", TYPES, ids=str)
@settings(max_examples=5)
@given(data=st.data())
def test_the_sql_of_a_bound_predicate_means_the_same(type_: Type, data: st.DataObject) -> None:
    schema = schema_of(type_)
    pool = data.draw(pools(type_))
    bound = bind(data.draw(predicates(type_, pool)), schema)
    again = bind(parse(to_sql(bound, schema.name_by_id)), schema)
    rows = data.draw(rows_of(type_, pool))
    assert selected(again, type_, rows) == selected(bound, type_, rows)


@given(st.lists(st.one_of(st.none(), st.sampled_from(["a", "b", "", "ab"])), max_size=6), st.data())
def test_a_dictionary_answers_as_its_values_do(rows: list[str | None], data: st.DataObject) -> None:
    bound = bind(data.draw(predicates(STRING, ["a", "ab"])), schema_of(STRING))
    plain = pa.array(rows, pa.string())
    assert matches(bound, {1: plain.dictionary_encode()}, len(rows)).equals(matches(bound, {1: plain}, len(rows)))
