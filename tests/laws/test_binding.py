"""Binding changes how a predicate is written, never what it selects."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from predicate_strategies import TYPES, arrow_array, predicates, values
from spark_oracle import truth

from esker.arrow.filter import matches
from esker.model.bind import bind, to_sql
from esker.model.predicate import Bound
from esker.model.predicate_text import parse
from esker.model.schema import Schema
from esker.model.types import Field, Type
from esker.model.unbound import Not, Unbound


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
    predicate: Unbound = data.draw(predicates(type_))
    rows = data.draw(st.lists(st.one_of(st.none(), values(type_)), max_size=6))
    bound = bind(predicate, schema_of(type_))
    assert selected(bound, type_, rows) == [truth(predicate, type_, row) is True for row in rows]


@pytest.mark.parametrize("type_", TYPES, ids=str)
@settings(max_examples=5)
@given(data=st.data())
def test_a_negation_selects_what_is_false_and_not_what_is_null(type_: Type, data: st.DataObject) -> None:
    predicate: Unbound = data.draw(predicates(type_))
    rows = data.draw(st.lists(st.one_of(st.none(), values(type_)), max_size=6))
    bound = bind(Not(predicate), schema_of(type_))
    assert selected(bound, type_, rows) == [truth(predicate, type_, row) is False for row in rows]


@pytest.mark.parametrize("type_", TYPES, ids=str)
@settings(max_examples=5)
@given(data=st.data())
def test_the_sql_of_a_bound_predicate_means_the_same(type_: Type, data: st.DataObject) -> None:
    schema = schema_of(type_)
    bound = bind(data.draw(predicates(type_)), schema)
    again = bind(parse(to_sql(bound, schema.name_by_id)), schema)
    rows = data.draw(st.lists(st.one_of(st.none(), values(type_)), max_size=6))
    assert selected(again, type_, rows) == selected(bound, type_, rows)


@given(st.lists(st.one_of(st.none(), st.sampled_from(["a", "b", "", "ab"])), max_size=6), st.data())
def test_a_dictionary_answers_as_its_values_do(rows: list[str | None], data: st.DataObject) -> None:
    from esker.model.types import STRING

    bound = bind(data.draw(predicates(STRING)), schema_of(STRING))
    plain = pa.array(rows, pa.string())
    assert matches(bound, {1: plain.dictionary_encode()}, len(rows)).equals(matches(bound, {1: plain}, len(rows)))
