"""Pruning, rule by rule of the checklist."""

from __future__ import annotations

import math
import struct
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from esker.model.parsing.predicate_text import parse
from esker.model.predicates.bind import bind, to_sql
from esker.model.predicates.predicate import TRUE, Compare, OneOf, Op
from esker.model.pruning.evidence import PartitionSummary, PartitionValues, Statistics
from esker.model.pruning.verdict import Verdict, examine, judge
from esker.model.schema import Schema
from esker.model.transform import (
    DAY,
    HOUR,
    IDENTITY,
    MONTH,
    VOID,
    YEAR,
    BucketTransform,
    Transform,
    TruncateTransform,
    UnknownTransform,
    apply_transform,
)
from esker.model.types import (
    BINARY,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    UUID,
    DecimalType,
    Field,
    ListType,
    StructType,
    Type,
)
from esker.model.values import to_bytes
from esker.tree.manifest import ColumnMetrics

DAY_US = 86_400_000_000


def schema_of(type_: Type) -> Schema:
    return Schema(fields=(Field(id=1, name="x", type=type_),))


def metrics(
    lower: list[bytes | None],
    upper: list[bytes | None],
    *,
    count: int | None = 10,
    nulls: int | None = 0,
    nans: int | None = None,
) -> ColumnMetrics:
    rows = len(lower)
    return ColumnMetrics(
        lower=pa.array(lower, pa.binary()),
        upper=pa.array(upper, pa.binary()),
        value_count=pa.array([count] * rows, pa.int64()),
        null_count=pa.array([nulls] * rows, pa.int64()),
        nan_count=pa.array([nans] * rows, pa.int64()),
    )


def ask(text: str, type_: Type, **known: Any) -> Verdict:
    schema = schema_of(type_)
    return judge(bind(parse(text), schema), Statistics(schema=schema, **known))


def of_file(text: str, type_: Type, low: Any, high: Any, **counts: Any) -> tuple[bool, bool]:
    """The verdict on one file with these bounds, as (some, every)."""
    lower = [None if low is None else to_bytes(type_, low)]
    upper = [None if high is None else to_bytes(type_, high)]
    verdict = ask(text, type_, rows=1, metrics={1: metrics(lower, upper, **counts)})
    return bool(verdict.some[0]), bool(verdict.every[0])


def of_partition(text: str, type_: Type, transform: Transform, values: pa.Array) -> list[tuple[bool, bool]]:
    evidence = PartitionValues(transform=transform, values=values)
    verdict = ask(text, type_, rows=len(values), partitions={1: (evidence,)})
    return list(zip(verdict.some.tolist(), verdict.every.tolist(), strict=True))


def of_summary(text: str, type_: Type, transform: Transform, **summary: Any) -> tuple[bool, bool]:
    evidence = PartitionSummary(
        transform=transform,
        lower=pa.array([summary.get("lower")], pa.binary()),
        upper=pa.array([summary.get("upper")], pa.binary()),
        contains_null=pa.array([summary.get("null", False)], pa.bool_()),
        contains_nan=pa.array([summary.get("nan")], pa.bool_()),
    )
    verdict = ask(text, type_, rows=1, partitions={1: (evidence,)})
    return bool(verdict.some[0]), bool(verdict.every[0])


NO, MAYBE, ALL = (False, False), (True, False), (True, True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x < 5", NO), ("x <= 5", MAYBE), ("x < 10", MAYBE), ("x <= 10", ALL), ("x > 10", NO), ("x >= 10", MAYBE),
        ("x > 4", ALL), ("x = 4", NO), ("x = 7", MAYBE), ("x <> 4", ALL), ("x <> 7", MAYBE), ("x in (1, 12)", NO),
        ("x in (1, 7)", MAYBE), ("x not in (1, 12)", ALL), ("x is null", NO), ("x is not null", ALL),
        ("x > 4 and x < 11", ALL), ("x < 5 or x > 10", NO), ("x > 4 and x = 7", MAYBE), ("x < 5 or x = 7", MAYBE),
    ],
)  # fmt: skip
def test_bounds_from_five_to_ten(text: str, expected: tuple[bool, bool]) -> None:
    assert of_file(text, INT, 5, 10) == expected


def test_bounds_that_meet_are_a_value() -> None:
    assert of_file("x = 5", INT, 5, 5) == ALL
    assert of_file("x <> 5", INT, 5, 5) == NO
    assert of_file("x in (5, 6)", INT, 5, 5) == ALL
    assert of_file("x not in (5, 6)", INT, 5, 5) == NO
    assert of_file("x like '%b_'", STRING, "abc", "abc") == ALL
    assert of_file("x not like '%b_'", STRING, "abc", "abc") == NO


def test_n1_an_unknown_count_may_be_any_count() -> None:
    assert of_file("x > 4", INT, 5, 10, nulls=None) == MAYBE
    assert of_file("x is null", INT, 5, 10, nulls=None) == MAYBE
    assert of_file("x < 11", DOUBLE, 5.0, 10.0, nans=None) == MAYBE
    assert of_file("x < 11", DOUBLE, 5.0, 10.0, nans=0) == ALL
    assert of_file("x < 11", DOUBLE, 5.0, 10.0, nans=1) == MAYBE


def test_n2_a_null_is_not_different_from_a_value() -> None:
    assert of_file("x <> 4", INT, 5, 10, nulls=1) == MAYBE
    assert of_file("x not in (4)", INT, 5, 10, nulls=1) == MAYBE
    assert of_file("not (x < 5)", INT, 5, 10, nulls=1) == MAYBE
    assert of_file("x <> 4", INT, None, None, nulls=10) == NO


@pytest.mark.parametrize("text", ["x > 20", "x >= 20", "x <> 7", "not (x < 20)", "not (x <= 20)", "x = double('nan')"])
def test_n3_a_file_that_may_hold_nan_is_kept_for_what_nan_satisfies(text: str) -> None:
    assert of_file(text, DOUBLE, 5.0, 10.0, nans=None)[0]
    assert of_file(text, DOUBLE, 5.0, 10.0, nans=3)[0]
    if text != "x <> 7":
        assert not of_file(text, DOUBLE, 5.0, 10.0, nans=0)[0]


def test_n3_a_nan_literal_is_above_every_number() -> None:
    assert of_file("x in (double('nan'))", DOUBLE, 5.0, 10.0, nans=0) == NO
    assert of_file("x < double('nan')", DOUBLE, 5.0, 10.0, nans=0) == ALL
    assert of_file("x <= double('nan')", DOUBLE, 5.0, 10.0, nans=2) == ALL
    assert of_file("x > double('nan')", DOUBLE, 5.0, 10.0) == NO
    assert of_file("isnan(x)", DOUBLE, None, None, nans=10) == ALL
    assert of_file("not isnan(x)", DOUBLE, None, None, nans=10) == NO
    assert of_file("not isnan(x)", DOUBLE, None, None, nulls=10, nans=0) == ALL


def test_n3_a_nan_literal_made_by_hand_settles_nothing() -> None:
    field = schema_of(DOUBLE).fields[0]
    known = Statistics(schema=schema_of(DOUBLE), rows=1, metrics={1: metrics([None], [None], nans=10)})
    for term in (Compare(field, Op.EQ, math.nan), OneOf(field, frozenset([math.nan]))):
        assert (judge(term, known).some.tolist(), judge(term, known).every.tolist()) == ([True], [False])


def test_n4_c3_the_two_zeros_are_one() -> None:
    for low, high in ((0.0, 0.0), (-0.0, -0.0), (-0.0, 0.0)):
        assert of_file("x = 0.0", DOUBLE, low, high, nans=0) == ALL
        assert of_file("x >= -0.0D", DOUBLE, low, high, nans=0) == ALL
        assert of_file("x < 0", DOUBLE, low, high, nans=0) == NO


def test_n4_f10_a_zero_of_either_sign_is_found_in_a_float_partition() -> None:
    values = pa.array([0.0, -0.0, math.nan, 1.0, None], pa.float32())
    assert of_partition("x = 0", FLOAT, IDENTITY, values) == [ALL, ALL, NO, NO, NO]
    assert of_partition("x in (-0.0D, 5)", FLOAT, IDENTITY, values) == [ALL, ALL, NO, NO, NO]
    assert of_partition("x > 0.5", FLOAT, IDENTITY, values) == [NO, NO, ALL, ALL, NO]
    assert of_partition("isnan(x)", FLOAT, IDENTITY, values) == [NO, NO, ALL, NO, NO]


def test_n5_e4_a_column_without_metrics_is_unknown() -> None:
    schema = Schema(fields=(Field(id=1, name="x", type=INT, initial_default=7), Field(id=2, name="y", type=INT)))
    known = Statistics(schema=schema, rows=2, metrics={2: metrics([None, None], [None, None], count=None, nulls=None)})
    for text in ("x = 7", "x is null", "y = 7", "y is null", "x <> 7 or y <> 7"):
        verdict = judge(bind(parse(text), schema), known)
        assert verdict.some.tolist() == [True, True]
        assert verdict.every.tolist() == [False, False]


def test_n6_strings_are_ordered_by_code_point_and_not_by_utf_16() -> None:
    assert of_file("x > '\uffff'", STRING, "a", "😀") == MAYBE
    assert of_file("x = '\uffff'", STRING, "a", "😀") == MAYBE
    assert of_file("x > '😀'", STRING, "a", "\uffff") == NO


def test_n7_a_prefix_is_compared_as_far_as_a_shortened_bound_reaches() -> None:
    assert of_file("x like 'abcdef%'", STRING, "abc", "abd") == MAYBE
    assert of_file("x like 'abcdef%'", STRING, "abc", "abc") == MAYBE
    assert of_file("x like 'b%'", STRING, "abc", "abd") == NO
    assert of_file("x like 'aa%'", STRING, "abc", "abd") == NO
    assert of_file("x like 'ab%'", STRING, "abc", "abd") == ALL
    assert of_file("x like 'a%z'", STRING, "b", "c") == NO
    assert of_file("x like 'b%z'", STRING, "b", "c") == MAYBE


def test_n7_not_starting_so_is_ruled_out_only_where_both_bounds_carry_the_prefix() -> None:
    assert of_file("x not like 'ab%'", STRING, "abc", "abd") == NO
    assert of_file("x not like 'abc%'", STRING, "abc", "abd") == MAYBE
    assert of_file("x not like 'abc%'", STRING, "ab", "abc") == MAYBE
    assert of_file("x not like 'z%'", STRING, "abc", "abd") == ALL


def test_n8_e6_bounds_of_before_a_promotion_are_decoded_by_their_length() -> None:
    four = struct.pack("<i", 5)
    both = [four, struct.pack("<q", 5)]
    assert ask("x = 5", LONG, rows=2, metrics={1: metrics(both, both[::-1])}).every.tolist() == [True, True]
    assert ask("x > 5", LONG, rows=2, metrics={1: metrics(both, both)}).some.tolist() == [False, False]
    half = struct.pack("<f", 0.5)
    assert ask("x = 0.5", DOUBLE, rows=1, metrics={1: metrics([half], [half], nans=0)}).every.tolist() == [True]
    assert ask("x = DATE '1970-01-06'", TIMESTAMP, rows=1, metrics={1: metrics([four], [four])}).every.tolist() == [
        True
    ]
    short = b"\x05"
    assert ask("x = 0.05", DecimalType(38, 2), rows=1, metrics={1: metrics([short], [short])}).every.tolist() == [True]


def test_g3_nan_is_no_bound() -> None:
    assert of_file("x > 5", DOUBLE, math.nan, math.nan, nans=0) == MAYBE
    assert of_file("x < 5", DOUBLE, 7.0, math.nan, nans=0) == NO


def test_g4_an_all_null_column_has_no_bounds_and_matches_nothing_but_null() -> None:
    for text in ("x = 5", "x <> 5", "x not in (5, 6)", "x is not null"):
        assert of_file(text, INT, None, None, nulls=10) == NO
    assert of_file("x is null", INT, None, None, nulls=10) == ALL


def test_g4_a_count_of_values_that_leaves_nulls_out_is_not_believed() -> None:
    known = metrics([None], [None], count=5, nulls=5)  # ten rows: five values, five nulls
    verdict = ask("x = 5", INT, rows=1, metrics={1: known}, record_count=pa.array([10], pa.int64()))
    assert verdict.some.tolist() == [True]
    assert of_file("x = 5", INT, None, None, count=None, nulls=10) == MAYBE


def test_counts_that_contradict_each_other_are_not_believed() -> None:
    assert of_file("x is null", INT, 5, 10, count=3, nulls=-1) == MAYBE
    assert of_file("isnan(x)", DOUBLE, 5.0, 10.0, count=3, nulls=3, nans=3) == MAYBE


def test_g6_a_shortened_bound_is_a_bound_and_not_a_value() -> None:
    assert of_file("x = 'abc'", STRING, "abc", "abd") == MAYBE
    assert of_file("x >= 'abd'", STRING, "abc", "abd") == MAYBE
    assert of_file("x <> 'abd'", STRING, "abc", "abd") == MAYBE


def test_g7_a_lower_bound_above_the_upper_says_nothing() -> None:
    for text in ("x = 1", "x = 7", "x = 20", "x < 0"):
        assert of_file(text, INT, 10, 5) == MAYBE
    assert of_summary("x = 1", INT, IDENTITY, lower=to_bytes(INT, 10), upper=to_bytes(INT, 5)) == MAYBE


@pytest.mark.parametrize(
    ("type_", "bad"),
    [(INT, b"abc"), (DOUBLE, b""), (STRING, b"\xff"), (UUID, b"x"), (DecimalType(9, 2), b""), (TIMESTAMP, b"x" * 9)],
)
def test_bounds_that_cannot_be_read_say_nothing(type_: Type, bad: bytes) -> None:
    verdict = ask("x is not null", type_, rows=1, metrics={1: metrics([bad], [bad])})
    assert (verdict.some[0], verdict.every[0]) in ((True, True), (True, False))
    column = schema_of(type_).fields[0]
    literal = {INT: 1, DOUBLE: 1.0, STRING: "a", UUID: b"a" * 16, TIMESTAMP: 1}.get(type_)
    if literal is not None:
        known = Statistics(schema=schema_of(type_), rows=1, metrics={1: metrics([bad], [bad], nans=0)})
        assert judge(Compare(column, Op.LT, literal), known).some.tolist() == [True]
        assert judge(Compare(column, Op.GT, literal), known).some.tolist() == [True]


def test_g10_nothing_is_pruned_on_a_field_under_a_list() -> None:
    inner = Field(id=3, name="x", type=INT)
    schema = Schema(fields=(Field(id=1, name="l", type=ListType(element_id=2, element=StructType((inner,)))),))
    known = Statistics(schema=schema, rows=1, metrics={3: metrics([to_bytes(INT, 5)], [to_bytes(INT, 5)])})
    verdict = judge(Compare(inner, Op.EQ, 7), known)
    assert (verdict.some.tolist(), verdict.every.tolist()) == ([True], [False])


def test_a_member_may_be_null_with_its_struct_though_none_was_counted() -> None:
    inner = Field(id=2, name="x", type=INT)
    known = metrics([to_bytes(INT, 5)], [to_bytes(INT, 9)], nulls=0)
    for required, expected in ((False, MAYBE), (True, ALL)):
        schema = Schema(fields=(Field(id=1, name="s", type=StructType((inner,)), required=required),))
        verdict = judge(bind(parse("s.x > 4"), schema), Statistics(schema=schema, rows=1, metrics={2: known}))
        assert (verdict.some[0], verdict.every[0]) == expected
    schema = Schema(fields=(Field(id=1, name="s", type=StructType((inner,))),))
    verdict = judge(bind(parse("s.x > 9"), schema), Statistics(schema=schema, rows=1, metrics={2: known}))
    assert not verdict.some[0]


# ---------------------------------------------------------------- partitions


def test_c1_a_missing_summary_says_nothing() -> None:
    assert of_summary("x = 5", INT, IDENTITY, null=None) == MAYBE
    assert of_summary("x is null", INT, IDENTITY, null=None, lower=to_bytes(INT, 1), upper=to_bytes(INT, 2)) == MAYBE


def test_c3_a_summary_without_bounds_holds_only_null_and_nan() -> None:
    assert of_summary("x = 5", INT, IDENTITY, null=True) == NO
    assert of_summary("x is null", INT, IDENTITY, null=True) == ALL
    assert of_summary("x > 5", DOUBLE, IDENTITY, nan=True) == ALL
    assert of_summary("x < 5", DOUBLE, IDENTITY, nan=True) == NO
    assert of_summary("x = 5", INT, IDENTITY) == MAYBE


def test_c3_summaries_are_read_in_the_transforms_result_type() -> None:
    days = {"lower": to_bytes(INT, 10), "upper": to_bytes(INT, 12)}
    assert of_summary("x < TIMESTAMP_NTZ '1970-01-11'", TIMESTAMP, DAY, **days) == NO
    assert of_summary("x >= TIMESTAMP_NTZ '1970-01-11' and x < '1970-01-14'", TIMESTAMP, DAY, **days) == ALL
    assert of_summary("x = TIMESTAMP_NTZ '1970-01-13 23:59:59.999999'", TIMESTAMP, DAY, **days) == MAYBE
    assert of_summary("x >= TIMESTAMP_NTZ '1970-01-14'", TIMESTAMP, DAY, **days) == NO


@pytest.mark.parametrize("transform", [HOUR, DAY, MONTH, YEAR])
def test_f3_what_old_writers_cut_towards_1970_is_still_found(transform: Transform) -> None:
    """A microsecond before 1970 lies in unit -1, and Iceberg once wrote 0."""
    assert apply_transform(transform, TIMESTAMP, -1) == -1
    units = pa.array([-2, -1, 0, 1], pa.int32())
    found = of_partition("x = TIMESTAMP_NTZ '1969-12-31 23:59:59.999999'", TIMESTAMP, transform, units)
    assert [some for some, _ in found] == [False, True, True, False]
    assert [every for _, every in of_partition("x >= TIMESTAMP_NTZ '1970-01-01'", TIMESTAMP, transform, units)] == [
        False,
        False,
        False,
        True,
    ]
    summary = {"lower": to_bytes(INT, 0), "upper": to_bytes(INT, 0)}
    assert of_summary("x < TIMESTAMP_NTZ '1970-01-01'", TIMESTAMP, transform, **summary) == MAYBE


def test_f4_days_may_be_dates_or_plain_integers() -> None:
    for kind in (pa.int32(), pa.date32(), pa.int64()):
        days = pa.array([10, None], pa.int32()).cast(kind) if kind != pa.date32() else pa.array([10, None], pa.date32())
        assert of_partition("x = DATE '1970-01-11'", DATE, DAY, days) == [ALL, NO]
        assert of_partition("x < TIMESTAMP_NTZ '1970-01-11'", TIMESTAMP, DAY, days) == [NO, NO]


def test_f5_a_bucket_is_asked_of_equality_alone() -> None:
    transform = BucketTransform(16)
    values = pa.array([3, 4, None], pa.int32())
    assert of_partition("x = 34", INT, transform, values) == [MAYBE, NO, NO]
    assert of_partition("x in (34, 35)", INT, transform, values)[0] == MAYBE
    assert of_partition("x <> 34", INT, transform, values) == [MAYBE, ALL, NO]
    assert of_partition("x > 1000", INT, transform, values) == [MAYBE, MAYBE, NO]
    assert of_partition("x is null", INT, transform, values) == [NO, NO, ALL]
    assert of_summary("x = 34", INT, transform, lower=to_bytes(INT, 4), upper=to_bytes(INT, 9)) == NO
    assert of_summary("x = 34", INT, transform, lower=to_bytes(INT, 1), upper=to_bytes(INT, 9)) == MAYBE


def test_f6_a_truncated_number_stands_for_its_multiple() -> None:
    values = pa.array([-10, 0, 10], pa.int32())
    assert of_partition("x < 0", INT, TruncateTransform(10), values) == [ALL, NO, NO]
    assert of_partition("x = 9", INT, TruncateTransform(10), values) == [NO, MAYBE, NO]
    assert of_partition("x >= 10", INT, TruncateTransform(10), values) == [NO, NO, ALL]
    decimals = pa.array(["10.50", "-0.50"]).cast(pa.decimal128(9, 2))
    assert of_partition("x = 10.99", DecimalType(9, 2), TruncateTransform(50), decimals) == [MAYBE, NO]
    assert of_partition("x < 0", DecimalType(9, 2), TruncateTransform(50), decimals) == [NO, ALL]


def test_f6_where_truncation_would_leave_the_type_nothing_is_believed() -> None:
    """Java wraps the least integers around to the greatest multiple."""
    values = pa.array([2147483646], pa.int32())
    assert of_partition("x = -2147483648", INT, TruncateTransform(10), values) == [MAYBE]
    assert of_partition("x = -2147483648", LONG, TruncateTransform(10), values.cast(pa.int64())) == [MAYBE]


def test_f6_f8_a_truncated_string_stands_for_all_that_begin_so_unless_it_was_too_short() -> None:
    values = pa.array(["ice", "ic", "", None])
    three = TruncateTransform(3)
    assert of_partition("x = 'iceberg'", STRING, three, values) == [MAYBE, NO, NO, NO]
    assert of_partition("x = 'ic'", STRING, three, values) == [NO, ALL, NO, NO]
    assert of_partition("x like 'ic%'", STRING, three, values) == [ALL, ALL, NO, NO]
    assert of_partition("x like 'iceb%'", STRING, three, values) == [MAYBE, NO, NO, NO]
    assert of_partition("x not like 'ice%'", STRING, three, values) == [NO, ALL, ALL, NO]
    assert of_partition("x not like 'iceb%'", STRING, three, values) == [MAYBE, ALL, ALL, NO]
    assert of_partition("x > 'icz'", STRING, three, values) == [NO, NO, NO, NO]
    blobs = pa.array([b"\x01\xff", b"\xff\xff"], pa.binary())
    assert of_partition("x > X'0200'", BINARY, TruncateTransform(2), blobs) == [NO, ALL]
    assert of_partition("x > X'ffffff'", BINARY, TruncateTransform(2), blobs) == [NO, MAYBE]


def test_f6_text_cut_by_bytes_or_utf_16_units_is_still_found() -> None:
    assert of_partition("x = 'a😀bcd'", STRING, TruncateTransform(3), pa.array(["a😀", "a😀b"])) == [MAYBE, MAYBE]


def test_f7_a_null_partition_value_means_that_every_row_is_null() -> None:
    for transform, kind in (
        (IDENTITY, pa.int32()),
        (TruncateTransform(10), pa.int32()),
        (BucketTransform(4), pa.int32()),
    ):
        assert of_partition("x is null", INT, transform, pa.array([None, 0], kind)) == [ALL, NO]
        assert of_partition("x = 5", INT, transform, pa.array([None], kind)) == [NO]


def test_f8_each_spec_is_judged_by_its_own_transform() -> None:
    text = "x >= TIMESTAMP_NTZ '1971-02-01' and x < TIMESTAMP_NTZ '1971-03-01'"
    assert of_partition(text, TIMESTAMP, YEAR, pa.array([0, 1], pa.int32())) == [NO, MAYBE]
    assert of_partition(text, TIMESTAMP, MONTH, pa.array([12, 13], pa.int32())) == [NO, ALL]
    assert of_partition(text, TIMESTAMP, DAY, pa.array([395, 396], pa.int32())) == [NO, ALL]
    assert of_partition(text, TIMESTAMP, HOUR, pa.array([396 * 24 - 1, 396 * 24], pa.int32())) == [NO, ALL]


def test_f9_void_and_unknown_transforms_say_nothing() -> None:
    for transform in (VOID, UnknownTransform("zorder[3]")):
        assert of_partition("x = 5", INT, transform, pa.array([None], pa.int32())) == [MAYBE]
        assert of_partition("x is null", INT, transform, pa.array([None], pa.int32())) == [MAYBE]


def test_a_transform_the_column_cannot_have_says_nothing() -> None:
    assert of_partition("x = 'a'", STRING, DAY, pa.array([5], pa.int32())) == [MAYBE]


@pytest.mark.parametrize("ordinal", [2**31 - 1, -(2**31) + 1])
def test_partition_values_beyond_all_time_say_nothing(ordinal: int) -> None:
    for transform in (YEAR, MONTH, DAY):
        some = of_partition("x = TIMESTAMP_NTZ '2020-01-01'", TIMESTAMP, transform, pa.array([ordinal], pa.int32()))
        assert some in ([MAYBE], [NO])


def test_evidence_of_two_kinds_that_leaves_no_row_possible_is_not_believed() -> None:
    evidence = PartitionValues(transform=IDENTITY, values=pa.array([5], pa.int32()))
    verdict = ask("x = 5", INT, rows=1, partitions={1: (evidence,)}, metrics={1: metrics([None], [None], nulls=10)})
    assert verdict.some.tolist() == [True]


def test_nulls_known_from_one_evidence_complete_the_bounds_of_another() -> None:
    evidence = PartitionValues(transform=DAY, values=pa.array([10], pa.int32()))
    known = metrics([to_bytes(TIMESTAMP, 10 * DAY_US + 5)], [to_bytes(TIMESTAMP, 10 * DAY_US + 9)], nulls=None)
    verdict = ask(
        "x > TIMESTAMP_NTZ '1970-01-11 00:00:00.000004'",
        TIMESTAMP,
        rows=1,
        partitions={1: (evidence,)},
        metrics={1: known},
    )
    assert verdict.every.tolist() == [True]


# ---------------------------------------------------------------- what is told of a verdict


def test_a_residual_drops_what_holds_for_every_row() -> None:
    schema = Schema(fields=(Field(id=1, name="x", type=INT), Field(id=2, name="y", type=INT)))
    low, high = [to_bytes(INT, value) for value in (0, 5, 0)], [to_bytes(INT, value) for value in (9, 9, 9)]
    known = Statistics(schema=schema, rows=3, metrics={1: metrics(low, high)})
    pattern, residuals = examine(bind(parse("x >= 5 and y = 1"), schema), known).residuals()
    assert [to_sql(residuals[at]) for at in pattern] == ["x >= 5 AND y = 1", "y = 1", "x >= 5 AND y = 1"]
    pattern, residuals = examine(bind(parse("x >= 0"), schema), known).residuals()
    assert [residuals[at] for at in pattern] == [TRUE] * 3
    pattern, residuals = examine(TRUE, known).residuals()
    assert [residuals[at] for at in pattern] == [TRUE] * 3


def test_each_conjunct_tells_how_much_it_alone_rejects() -> None:
    schema = Schema(fields=(Field(id=1, name="x", type=INT), Field(id=2, name="y", type=INT)))
    bounds = [to_bytes(INT, value) for value in range(4)]
    known = Statistics(schema=schema, rows=4, metrics={1: metrics(bounds, bounds), 2: metrics(bounds, bounds)})
    examination = examine(bind(parse("x >= 1 and y = 3"), schema), known)
    assert [(to_sql(part), count) for part, count in examination.rejections()] == [("x >= 1", 1), ("y = 3", 3)]
    assert examination.verdict.some.tolist() == [False, False, False, True]


def test_no_files_get_no_verdicts() -> None:
    empty = pa.array([], pa.binary())
    counts = pa.array([], pa.int64())
    known = ColumnMetrics(lower=empty, upper=empty, value_count=counts, null_count=counts, nan_count=counts)
    for type_, text in ((INT, "x = 1"), (STRING, "x like 'a%b'"), (DecimalType(9, 2), "x in (1, 2)")):
        verdict = ask(text, type_, rows=0, metrics={1: known})
        assert len(verdict.some) == len(verdict.every) == 0


def test_a_hundred_thousand_files_are_judged_in_no_time() -> None:
    numbers = np.arange(100_000)
    encoded = pa.array([struct.pack("<q", number) for number in numbers.tolist()], pa.binary())
    counts = pa.array(np.full(100_000, 10))
    known = ColumnMetrics(
        lower=encoded, upper=encoded, value_count=counts, null_count=pa.array(numbers * 0), nan_count=counts
    )
    schema = schema_of(LONG)
    listed = ", ".join(str(number * 7) for number in range(10_000))
    bound = bind(parse(f"x in ({listed}) and x > 500 and x <= 5000"), schema)
    start = time.process_time()
    verdict = judge(bound, Statistics(schema=schema, rows=100_000, metrics={1: known}))
    assert time.process_time() - start < 1
    assert np.count_nonzero(verdict.some) == 5000 // 7 - 500 // 7
