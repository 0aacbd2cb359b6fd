"""A verdict is never wrong: with the rows as oracle, whatever of their statistics is known."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from predicate_strategies import TYPES, arrow_array, predicates, values
from spark_oracle import truth
from statistics_of import by_partition, metrics, partition_values, summary, usable

from esker.arrow.filter import matches
from esker.model.bind import bind
from esker.model.column import col
from esker.model.schema import Schema
from esker.model.statistics import PartitionSummary, PartitionValues, Statistics
from esker.model.transform import UnknownTransform
from esker.model.types import INT, Field, Type
from esker.model.unbound import Unbound
from esker.model.verdict import Verdict, examine, judge
from esker.tree.manifest import ColumnMetrics

EXAMPLES = settings(max_examples=8)


def schema_of(type_: Type) -> Schema:
    return Schema(fields=(Field(id=1, name="x", type=type_),))


def rows_of(type_: Type, **size: int) -> st.SearchStrategy[list[Any]]:
    """Rows that may be null, often of few distinct values so that bounds meet literals."""
    value = st.one_of(st.none(), values(type_))
    return st.one_of(st.lists(value, **size), value.map(lambda one: [one, one]))


def assert_never_wrong(verdict: Verdict, predicate: Unbound, type_: Type, files: list[list[Any]]) -> None:
    for at, rows in enumerate(files):
        answers = [truth(predicate, type_, row) is True for row in rows]
        event(f"some {bool(verdict.some[at])} every {bool(verdict.every[at])}")
        assert verdict.some[at] or not any(answers), f"pruned {rows}"
        assert not verdict.every[at] or all(answers), f"not all of {rows} match"


@pytest.mark.parametrize("type_", TYPES, ids=str)
@EXAMPLES
@given(data=st.data())
def test_n9_a_verdict_from_metrics_is_never_wrong(type_: Type, data: st.DataObject) -> None:
    predicate = data.draw(predicates(type_))
    files = data.draw(st.lists(rows_of(type_, min_size=1, max_size=4), min_size=1, max_size=3))
    counts = pa.array([len(rows) for rows in files], pa.int64()) if data.draw(st.booleans()) else None
    known = Statistics(
        schema=schema_of(type_), rows=len(files), metrics={1: data.draw(metrics(type_, files))}, record_count=counts
    )
    assert_never_wrong(judge(bind(predicate, known.schema), known), predicate, type_, files)


@pytest.mark.parametrize("type_", TYPES, ids=str)
@EXAMPLES
@given(data=st.data())
def test_n9_a_verdict_from_partition_values_is_never_wrong(type_: Type, data: st.DataObject) -> None:
    predicate = data.draw(predicates(type_))
    transform = data.draw(st.sampled_from(usable(type_)))
    rows = data.draw(st.lists(st.one_of(st.none(), values(type_)), min_size=1, max_size=8))
    divided = by_partition(transform, type_, rows, old=data.draw(st.booleans()))
    files = [found for _, found in divided]
    evidence = partition_values(transform, type_, [value for value, _ in divided])
    with_metrics = {1: data.draw(metrics(type_, files))} if data.draw(st.booleans()) else {}
    known = Statistics(schema=schema_of(type_), rows=len(files), partitions={1: (evidence,)}, metrics=with_metrics)
    assert_never_wrong(judge(bind(predicate, known.schema), known), predicate, type_, files)


@pytest.mark.parametrize("type_", TYPES, ids=str)
@EXAMPLES
@given(data=st.data())
def test_n9_a_verdict_from_partition_summaries_is_never_wrong(type_: Type, data: st.DataObject) -> None:
    predicate = data.draw(predicates(type_))
    transform = data.draw(st.sampled_from([t for t in usable(type_) if not isinstance(t, UnknownTransform)]))
    manifests = data.draw(st.lists(rows_of(type_, min_size=1, max_size=6), min_size=1, max_size=3))
    old = data.draw(st.booleans())
    found = [[value for value, _ in by_partition(transform, type_, rows, old=old)] for rows in manifests]
    evidence = data.draw(summary(transform, type_, found))
    known = Statistics(schema=schema_of(type_), rows=len(manifests), partitions={1: (evidence,)})
    assert_never_wrong(judge(bind(predicate, known.schema), known), predicate, type_, manifests)


@pytest.mark.parametrize("type_", TYPES, ids=str)
@settings(max_examples=5)
@given(data=st.data())
def test_a_residual_selects_what_the_whole_predicate_does(type_: Type, data: st.DataObject) -> None:
    predicate = data.draw(predicates(type_))
    files = data.draw(st.lists(rows_of(type_, min_size=1, max_size=4), min_size=1, max_size=3))
    known = Statistics(schema=schema_of(type_), rows=len(files), metrics={1: data.draw(metrics(type_, files))})
    pattern, residuals = examine(bind(predicate, known.schema), known).residuals()
    for at, rows in enumerate(files):
        answers = matches(residuals[pattern[at]], {1: arrow_array(type_, rows)}, len(rows)).to_pylist()
        assert answers == [truth(predicate, type_, row) is True for row in rows]


@pytest.mark.parametrize("type_", TYPES, ids=str)
@settings(max_examples=5)
@given(data=st.data())
def test_statistics_that_make_no_sense_never_raise(type_: Type, data: st.DataObject) -> None:
    """Hostile bytes may be believed where they decode; they may not crash."""
    predicate = data.draw(predicates(type_))
    blobs = pa.array(data.draw(st.lists(st.one_of(st.none(), st.binary(max_size=20)), min_size=2, max_size=2)))
    numbers = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))
    counts = pa.array(data.draw(st.lists(numbers, min_size=2, max_size=2)), pa.int64())
    flags = pa.array([None, True], pa.bool_())
    lower = blobs.cast(pa.binary())
    other = lower.take(pa.array(data.draw(st.permutations([0, 1]))))
    evidence = [PartitionValues(transform=t, values=v) for t in usable(type_) for v in (lower, counts)]
    summaries = [
        PartitionSummary(transform=t, lower=lower, upper=other, contains_null=flags, contains_nan=flags)
        for t in usable(type_)
    ]
    known = Statistics(
        schema=schema_of(type_),
        rows=2,
        metrics={1: ColumnMetrics(lower=lower, upper=other, value_count=counts, null_count=counts, nan_count=counts)},
        partitions={1: (*evidence, *summaries)},
    )
    verdict = judge(bind(predicate, known.schema), known)
    assert len(verdict.some) == len(verdict.every) == 2


def test_evidence_of_the_wrong_length_is_no_evidence() -> None:
    short = pa.nulls(1, pa.int64())
    known = Statistics(
        schema=schema_of(INT),
        rows=2,
        metrics={
            1: ColumnMetrics(
                lower=pa.array([b"\0\0\0\0"]),
                upper=pa.array([b"\0\0\0\0"]),
                value_count=short,
                null_count=short,
                nan_count=short,
            )
        },
    )
    verdict = judge(bind(col("x") > 5, known.schema), known)
    assert verdict.some.tolist() == [True, True]
    assert verdict.every.tolist() == [False, False]
