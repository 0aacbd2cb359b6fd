"""A verdict is never wrong: with the rows as oracle, whatever of their statistics is known."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from predicate_strategies import TYPES, arrow_array, every_test, pools, predicates
from predicate_strategies import rows as rows_of
from spark_oracle import truth
from statistics_of import by_partition, metrics, partition_values, summary, usable

from esker.arrow.read.filter import matches
from esker.model.predicates.bind import bind
from esker.model.predicates.column import col
from esker.model.predicates.predicate import And
from esker.model.predicates.unbound_predicate import AllOf, Unbound
from esker.model.pruning.evidence import PartitionSummary, PartitionValues, Statistics
from esker.model.pruning.verdict import examine, judge
from esker.model.schema import Schema
from esker.model.transform import UnknownTransform
from esker.model.types import INT, Field, Type
from esker.tree.manifest import ColumnMetrics

EXAMPLES = settings(max_examples=8)


def schema_of(type_: Type) -> Schema:
    return Schema(fields=(Field(id=1, name="x", type=type_),))


def conditions(type_: Type, pool: list[Any]) -> st.SearchStrategy[list[Unbound]]:
    """Every single test on the values that rows are drawn from, and something nested."""
    return predicates(type_, pool).map(lambda nested: [*every_test(type_, pool), nested])


def assert_never_wrong(known: Statistics, asked: list[Unbound], type_: Type, files: list[list[Any]]) -> None:
    bound = And(tuple(bind(predicate, known.schema) for predicate in asked))  # one look at the evidence for all
    for predicate, verdict in zip(asked, examine(bound, known).verdicts, strict=True):
        for at, rows in enumerate(files):
            answers = [truth(predicate, type_, row) is True for row in rows]
            assert verdict.some[at] or not any(answers), f"{predicate} pruned {rows}"
            assert not verdict.every[at] or all(answers), f"not all of {rows} match {predicate}"


@pytest.mark.parametrize("type_", TYPES, ids=str)
@EXAMPLES
@given(data=st.data())
def test_n9_a_verdict_from_metrics_is_never_wrong(type_: Type, data: st.DataObject) -> None:
    pool = data.draw(pools(type_))
    asked = data.draw(conditions(type_, pool))
    files = data.draw(st.lists(rows_of(type_, pool, min_size=0, max_size=4), min_size=1, max_size=3))
    counts = pa.array([len(rows) for rows in files], pa.int64()) if data.draw(st.booleans()) else None
    known = Statistics(
        schema=schema_of(type_), rows=len(files), metrics={1: data.draw(metrics(type_, files))}, record_count=counts
    )
    assert_never_wrong(known, asked, type_, files)


@pytest.mark.parametrize("type_", TYPES, ids=str)
@EXAMPLES
@given(data=st.data())
def test_n9_a_verdict_from_partition_values_is_never_wrong(type_: Type, data: st.DataObject) -> None:
    pool = data.draw(pools(type_))
    asked = data.draw(conditions(type_, pool))
    transform = data.draw(st.sampled_from(usable(type_)))
    rows = data.draw(rows_of(type_, pool, min_size=1, max_size=8))
    divided = by_partition(transform, type_, rows, old=data.draw(st.booleans()))
    files = [found for _, found in divided]
    evidence = partition_values(transform, type_, [value for value, _ in divided])
    with_metrics = {1: data.draw(metrics(type_, files))} if data.draw(st.booleans()) else {}
    known = Statistics(schema=schema_of(type_), rows=len(files), partitions={1: (evidence,)}, metrics=with_metrics)
    assert_never_wrong(known, asked, type_, files)


@pytest.mark.parametrize("type_", TYPES, ids=str)
@EXAMPLES
@given(data=st.data())
def test_n9_a_verdict_from_partition_summaries_is_never_wrong(type_: Type, data: st.DataObject) -> None:
    pool = data.draw(pools(type_))
    asked = data.draw(conditions(type_, pool))
    transform = data.draw(st.sampled_from([t for t in usable(type_) if not isinstance(t, UnknownTransform)]))
    manifests = data.draw(st.lists(rows_of(type_, pool, min_size=1, max_size=6), min_size=1, max_size=3))
    old = data.draw(st.booleans())
    found = [[value for value, _ in by_partition(transform, type_, rows, old=old)] for rows in manifests]
    evidence = data.draw(summary(transform, type_, found))
    known = Statistics(schema=schema_of(type_), rows=len(manifests), partitions={1: (evidence,)})
    assert_never_wrong(known, asked, type_, manifests)


@pytest.mark.parametrize("type_", TYPES, ids=str)
@settings(max_examples=5)
@given(data=st.data())
def test_a_residual_selects_what_the_whole_predicate_does(type_: Type, data: st.DataObject) -> None:
    pool = data.draw(pools(type_))
    asked = data.draw(conditions(type_, pool))
    files = data.draw(st.lists(rows_of(type_, pool, min_size=1, max_size=4), min_size=1, max_size=3))
    known = Statistics(schema=schema_of(type_), rows=len(files), metrics={1: data.draw(metrics(type_, files))})
    for predicate in (AllOf(tuple(asked[:3])), AllOf(tuple(asked[-2:])), asked[-1]):
        pattern, residuals = examine(bind(predicate, known.schema), known).residuals()
        for at, rows in enumerate(files):
            answers = matches(residuals[pattern[at]], {1: arrow_array(type_, rows)}, len(rows)).to_pylist()
            assert answers == [truth(predicate, type_, row) is True for row in rows]


@pytest.mark.parametrize("type_", TYPES, ids=str)
@settings(max_examples=5)
@given(data=st.data())
def test_statistics_that_make_no_sense_never_raise(type_: Type, data: st.DataObject) -> None:
    """Hostile bytes may be believed where they decode; they may not crash."""
    pool = data.draw(pools(type_))
    asked = data.draw(conditions(type_, pool))
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
    for verdict in examine(And(tuple(bind(predicate, known.schema) for predicate in asked)), known).verdicts:
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
