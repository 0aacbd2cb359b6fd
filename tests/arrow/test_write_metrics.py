"""Metrics of written files: counts right, bounds around every value, nothing where nothing can be said."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from write_tables import PRIMITIVES, held_values, table_of, write

from esker.arrow.value_arrays import array_of
from esker.arrow.write.metrics import lower_bound, upper_bound
from esker.errors import InvalidInput
from esker.model.partition_and_sort import SortField
from esker.model.transform import IDENTITY, BucketTransform
from esker.model.types import (
    BINARY,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMPTZ_NS,
    UUID,
    DecimalType,
    Field,
    GeometryType,
    ListType,
    MapType,
    StructType,
    Type,
    is_floating,
)
from esker.model.values import from_bytes
from esker.tree.data_file import Metrics


def metrics_of(type_: Type, values: list[Any], **properties: str) -> Metrics:
    metadata = table_of(Field(id=1, name="c", type=type_), properties=properties)
    (file,) = write(metadata, pa.table({"c": array_of(type_, values)})).files
    assert file.metrics is not None
    return file.metrics


def below(one: Any, other: Any) -> bool:
    """At or below, as the spec orders: -0.0 under +0.0."""
    if isinstance(one, float) and one == other == 0:
        return math.copysign(1, one) <= math.copysign(1, other)
    return bool(one <= other)


@given(st.data())
def test_g2_bounds_enclose_every_value_and_counts_are_right(data: st.DataObject) -> None:
    type_ = data.draw(st.sampled_from(PRIMITIVES))
    values = data.draw(st.lists(st.none() | held_values(type_), min_size=1, max_size=12))
    mode = data.draw(st.sampled_from(["truncate(16)", "truncate(1)", "full"]))
    found = metrics_of(type_, values, **{"write.metadata.metrics.default": mode})
    nans = [v for v in values if isinstance(v, float) and math.isnan(v)]
    there = [v for v in values if v is not None and not (isinstance(v, float) and math.isnan(v))]
    assert found.value_counts == {1: len(values)}
    assert found.null_counts == {1: values.count(None)}
    assert found.nan_counts == ({1: len(nans)} if is_floating(type_) else {})
    assert (1 in found.lower_bounds) == bool(there)
    if 1 in found.lower_bounds:
        low = from_bytes(type_, found.lower_bounds[1])
        assert all(below(low, value) for value in there)
    if 1 in found.upper_bounds:
        high = from_bytes(type_, found.upper_bounds[1])
        assert all(below(value, high) for value in there)
    else:
        assert not there or isinstance(there[0], str | bytes)  # only a cut bound may have no successor


@given(st.text(st.characters(codec="utf-8"), min_size=1), st.integers(1, 8))
def test_g2_a_cut_upper_bound_is_the_next_text_or_none(text: str, width: int) -> None:
    low, high = lower_bound(STRING, text, width).decode(), upper_bound(STRING, text, width)
    assert low <= text
    assert text.startswith(low)
    if high is None:
        assert set(text[:width]) == {"\U0010ffff"}
    else:
        assert high.decode() >= text
        assert len(high.decode()) <= width or len(text) <= width


def test_g2_surrogates_are_skipped_and_the_last_character_carries() -> None:
    assert upper_bound(STRING, "a" * 15 + "\ud7ff" + "z", 16) == ("a" * 15 + "\ue000").encode()
    assert upper_bound(STRING, "ab\U0010ffff\U0010ffffz", 4) == b"ac"
    assert upper_bound(STRING, "\U0010ffff" * 17, 16) is None
    assert upper_bound(BINARY, b"\x01\xff\xff\x00", 3) == b"\x02"
    assert upper_bound(BINARY, b"\xff" * 4, 3) is None
    assert upper_bound(STRING, "exactly 16 chars", 16) == b"exactly 16 chars"


def test_g2_without_a_successor_the_bound_is_left_out() -> None:
    found = metrics_of(STRING, ["\U0010ffff" * 17, "a"])
    assert (found.lower_bounds, found.upper_bounds) == ({1: b"a"}, {})


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0, "00"), (-1, "ff"), (127, "7f"), (128, "0080"), (-128, "80"), (-129, "ff7f"), (255, "00ff"), (-32768, "8000")],
)
def test_g1_decimal_bounds_are_minimal_big_endian(number: int, expected: str) -> None:
    found = metrics_of(DecimalType(9, 0), [Decimal(number)])
    assert found.lower_bounds[1].hex() == found.upper_bounds[1].hex() == expected


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        (INT, 1, b"\1\0\0\0"),
        (DATE, -1, b"\xff\xff\xff\xff"),
        (LONG, 1, b"\1" + bytes(7)),
        (TIMESTAMPTZ_NS, 256, b"\0\1" + bytes(6)),
        (FLOAT, 1.5, struct.pack("<f", 1.5)),
        (DOUBLE, 1.5, struct.pack("<d", 1.5)),
        (STRING, "é", "é".encode()),
        (UUID, bytes(range(16)), bytes(range(16))),
        (BINARY, b"\0\1", b"\0\1"),
    ],
    ids=str,
)
def test_t8_bounds_are_single_value_bytes(type_: Type, value: Any, expected: bytes) -> None:
    found = metrics_of(type_, [value])
    assert found.lower_bounds == found.upper_bounds == {1: expected}


def test_g3_nan_is_counted_and_is_never_a_bound() -> None:
    found = metrics_of(DOUBLE, [math.nan, 1.0, None, math.nan])
    assert (found.nan_counts, found.value_counts, found.null_counts) == ({1: 2}, {1: 4}, {1: 1})
    assert found.lower_bounds == found.upper_bounds == {1: struct.pack("<d", 1.0)}
    only = metrics_of(FLOAT, [math.nan])
    assert (only.lower_bounds, only.upper_bounds, only.nan_counts) == ({}, {}, {1: 1})


def test_g2_a_zero_bound_lies_outside_both_zeros() -> None:
    for values in ([0.0], [-0.0], [0.0, -0.0]):
        found = metrics_of(DOUBLE, values)
        assert found.lower_bounds == {1: struct.pack("<d", -0.0)}
        assert found.upper_bounds == {1: struct.pack("<d", 0.0)}


def test_g4_an_all_null_column_has_counts_and_no_bounds() -> None:
    found = metrics_of(LONG, [None, None])
    assert (found.value_counts, found.null_counts) == ({1: 2}, {1: 2})
    assert (found.lower_bounds, found.upper_bounds) == ({}, {})


def test_g5_each_file_has_its_own_metrics() -> None:
    metadata = table_of(Field(id=1, name="p", type=INT), Field(id=2, name="v", type=INT), partition=[(1, IDENTITY)])
    written = write(metadata, {"p": [1, 2, 1], "v": [10, 20, 11]})
    bounds = {f.partition: (f.metrics.lower_bounds[2], f.metrics.upper_bounds[2]) for f in written.files if f.metrics}
    pack = struct.Struct("<i").pack
    assert bounds == {(1,): (pack(10), pack(11)), (2,): (pack(20), pack(20))}


def test_g9_split_offsets_ascend_and_begin_row_groups_and_there_are_no_distinct_counts() -> None:
    metadata = table_of(Field(id=1, name="c", type=LONG), properties={"write.parquet.row-group-limit": "100"})
    written = write(metadata, {"c": list(range(1000))})
    (file,) = written.files
    footer = written.parquet().metadata
    assert len(file.split_offsets) == footer.num_row_groups == 10
    assert list(file.split_offsets) == sorted(set(file.split_offsets))
    assert file.split_offsets[0] == 4
    assert not hasattr(file.metrics, "distinct_counts")


def test_g10_below_lists_and_maps_there_are_sizes_only() -> None:
    inner = StructType((Field(id=8, name="x", type=INT),))
    metadata = table_of(
        Field(id=1, name="l", type=ListType(element_id=2, element=INT)),
        Field(id=3, name="m", type=MapType(key_id=4, key=STRING, value_id=5, value=DOUBLE)),
        Field(id=6, name="ls", type=ListType(element_id=7, element=inner)),
        Field(id=9, name="s", type=StructType((Field(id=10, name="y", type=INT),))),
    )
    (file,) = write(metadata, [{"l": [1], "m": {"a": 1.0}, "ls": [{"x": 1}], "s": {"y": 3}}, {"s": None}]).files
    assert file.metrics is not None
    assert set(file.metrics.column_sizes) == {2, 4, 5, 8, 10}
    assert file.metrics.value_counts == {10: 2}
    assert file.metrics.null_counts == {10: 1}
    assert set(file.metrics.lower_bounds) == set(file.metrics.upper_bounds) == {10}
    assert file.metrics.nan_counts == {}


def test_values_too_long_for_parquet_s_statistics_have_bounds_all_the_same() -> None:
    metadata = table_of(Field(id=1, name="c", type=STRING), properties={"write.metadata.metrics.default": "full"})
    written = write(metadata, {"c": ["b" * 9000, "a" * 9000]})
    assert not written.parquet().metadata.row_group(0).column(0).statistics.has_min_max
    metrics = written.files[0].metrics
    assert metrics is not None
    assert (metrics.lower_bounds[1], metrics.upper_bounds[1]) == (b"a" * 9000, b"b" * 9000)


def test_bounds_span_all_row_groups() -> None:
    found = metrics_of(LONG, [5, 3, 9, 1], **{"write.parquet.row-group-limit": "1"})
    assert (from_bytes(LONG, found.lower_bounds[1]), from_bytes(LONG, found.upper_bounds[1])) == (1, 9)
    assert found.value_counts == {1: 4}


def test_features_on_a_map_have_counts_and_no_bounds_of_their_bytes() -> None:
    found = metrics_of(GeometryType(), [b"\1\2", None])
    assert (found.value_counts, found.null_counts, found.lower_bounds) == ({1: 2}, {1: 1}, {})


MODES = "write.metadata.metrics."


def test_modes_say_what_is_kept() -> None:
    fields = [Field(id=at, name=f"c{at}", type=STRING) for at in range(1, 5)]
    metadata = table_of(
        *fields,
        properties={
            f"{MODES}default": "counts",
            f"{MODES}column.c1": "none",
            f"{MODES}column.c2": "truncate(2)",
            f"{MODES}column.c3": "full",
            f"{MODES}column.gone": "full",
        },
    )
    (file,) = write(metadata, {field.name: ["x" * 20] for field in fields}).files
    assert file.metrics is not None
    assert set(file.metrics.value_counts) == set(file.metrics.column_sizes) == {2, 3, 4}
    assert file.metrics.lower_bounds == {2: b"xx", 3: b"x" * 20}
    assert file.metrics.upper_bounds == {2: b"xy", 3: b"x" * 20}


def test_only_the_first_columns_of_a_wide_table_have_metrics_by_default() -> None:
    inner = StructType((Field(id=2, name="x", type=INT),))
    fields = (Field(id=1, name="s", type=inner), Field(id=3, name="a", type=INT), Field(id=4, name="b", type=INT))
    rows = [{"s": {"x": 1}, "a": 1, "b": 1}]
    limit = {f"{MODES}max-inferred-column-defaults": "2"}
    (file,) = write(table_of(*fields, properties=limit), rows).files
    assert file.metrics is not None
    assert set(file.metrics.lower_bounds) == {3, 4}  # a level before what lies below it
    (file,) = write(table_of(*fields, properties={**limit, f"{MODES}default": "truncate(16)"}), rows).files
    assert file.metrics is not None
    assert set(file.metrics.lower_bounds) == {2, 3, 4}


def test_columns_sorted_by_keep_their_bounds() -> None:
    fields = (Field(id=1, name="a", type=INT), Field(id=2, name="b", type=INT))
    keys = [SortField(source_id=1, transform=IDENTITY), SortField(source_id=2, transform=BucketTransform(2))]
    (file,) = write(table_of(*fields, sort=keys, properties={f"{MODES}default": "none"}), {"a": [1], "b": [1]}).files
    assert file.metrics is not None
    assert set(file.metrics.lower_bounds) == {1}


@pytest.mark.parametrize("mode", ["truncate(0)", "truncate", "most", "truncate(-1)"])
def test_a_mode_that_is_none_is_refused_by_its_property(mode: str) -> None:
    with pytest.raises(InvalidInput, match=rf"cannot use {MODES}column\.c = '{mode[:5]}.*it takes none, counts"):
        metrics_of(LONG, [1], **{f"{MODES}column.c": mode})
