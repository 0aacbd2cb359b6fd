"""Partition transforms over columns equal the model's, value for value; rows are grouped by what they give."""

from __future__ import annotations

import math
import struct
from typing import Any

import mmh3
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from write_tables import PRIMITIVES, held_values, table_of, write

from esker.arrow.column_transforms import hash_longs, transformed
from esker.arrow.value_arrays import array_of
from esker.arrow.write.partition_and_sort_rows import partition_key, partitioner
from esker.errors import InvalidInput
from esker.model.partition_and_sort import PartitionField, PartitionSpec
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
    accepts,
    apply_transform,
)
from esker.model.types import (
    BINARY,
    DATE,
    DOUBLE,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    UUID,
    DecimalType,
    Field,
    StructType,
    Type,
)

TRANSFORMS = (IDENTITY, BucketTransform(16), TruncateTransform(7), YEAR, MONTH, DAY, HOUR, VOID)


def same(one: Any, other: Any) -> bool:
    return partition_key((one,)) == partition_key((other,))


@given(st.data())
def test_a_transformed_column_equals_the_transform_of_each_value(data: st.DataObject) -> None:
    type_ = data.draw(st.sampled_from(PRIMITIVES))
    transform: Transform = data.draw(st.sampled_from([t for t in TRANSFORMS if accepts(t, type_)]))
    values = data.draw(st.lists(st.none() | held_values(type_), max_size=20))
    expected = [apply_transform(transform, type_, value) for value in values]
    low = -(2**63) if type_ == LONG else -(2**31)
    numbers = (
        [value for value in expected if isinstance(value, int)] if transform in (TruncateTransform(7), HOUR) else []
    )
    if any(not low <= number < -low for number in numbers):  # more than partition values of that type can say
        with pytest.raises(InvalidInput, match="outside of its type"):
            transformed(transform, type_, array_of(type_, values), "c")
        return
    coded = transformed(transform, type_, array_of(type_, values), "c")
    assert len(coded.codes) == len(values)
    assert all(same(coded.values[code], value) for code, value in zip(coded.codes, expected, strict=True))


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_f5_longs_are_hashed_as_eight_little_endian_bytes(numbers: list[int]) -> None:
    found = hash_longs(np.array(numbers, dtype=np.int64))
    assert found.tolist() == [mmh3.hash(struct.pack("<q", number), 0, signed=False) for number in numbers]


def test_f5_the_spec_s_bucket_vectors_hold_for_columns() -> None:
    def bucket(type_: Type, value: Any) -> Any:
        coded = transformed(BucketTransform(2**31 - 1), type_, array_of(type_, [value]), "c")
        return coded.values[coded.codes[0]]

    def masked(number: int) -> int:
        return (number & 0x7FFFFFFF) % (2**31 - 1)

    assert bucket(INT, 34) == bucket(LONG, 34) == masked(2017239379)
    assert bucket(DATE, 17486) == masked(-653330422)
    assert bucket(STRING, "iceberg") == masked(1210000089)
    assert bucket(UUID, bytes.fromhex("f79c3e09677c4bbda4793f349cb785e7")) == masked(1488055340)
    assert bucket(BINARY, b"\0\1\2\3") == masked(-188683207)
    micros = 1510871468000000
    assert bucket(TIMESTAMP, micros) == bucket(TIMESTAMPTZ, micros) == bucket(TIMESTAMP_NS, micros * 1000)
    assert bucket(TIMESTAMP_NS, 1510871468000001001) == masked(-1207196810)


def test_f3_time_transforms_floor_before_1970() -> None:
    array = array_of(TIMESTAMP, [-1, 0, -86_400_000_001])
    for transform, expected in ((HOUR, [-1, 0, -25]), (DAY, [-1, 0, -2]), (MONTH, [-1, 0, -1]), (YEAR, [-1, 0, -1])):
        coded = transformed(transform, TIMESTAMP, array, "c")
        assert [coded.values[code] for code in coded.codes] == expected


def test_f6_truncate_floors_numbers_and_counts_code_points_and_bytes() -> None:
    def cut(width: int, type_: Type, *values: Any) -> list[Any]:
        coded = transformed(TruncateTransform(width), type_, array_of(type_, values), "c")
        return [coded.values[code] for code in coded.codes]

    assert cut(10, INT, 1, -1, 10) == [0, -10, 10]
    assert cut(3, STRING, "a😀bcd", "ic") == ["a😀b", "ic"]
    assert cut(3, BINARY, b"\1\2\3\4") == [b"\1\2\3"]
    from decimal import Decimal

    assert cut(50, DecimalType(9, 2), Decimal("10.65"), Decimal("-0.01")) == [Decimal("10.50"), Decimal("-0.50")]


def test_f6_a_truncated_number_that_leaves_its_type_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"cannot partition column 'c' by truncate\[10\].*outside of its type"):
        transformed(TruncateTransform(10), INT, array_of(INT, [-(2**31)]), "c")


@pytest.mark.parametrize("transform", TRANSFORMS, ids=str)
def test_f7_every_transform_maps_null_to_null(transform: Transform) -> None:
    type_ = next(t for t in (TIMESTAMP, LONG) if accepts(transform, t))
    coded = transformed(transform, type_, array_of(type_, [None, 5, None]), "c")
    assert [coded.values[coded.codes[at]] for at in (0, 2)] == [None, None]


def test_f9_an_unknown_transform_blocks_writing() -> None:
    metadata = table_of(Field(id=1, name="a", type=LONG), partition=[(1, UnknownTransform("zorder[3]"))])
    with pytest.raises(InvalidInput, match=r"cannot write with partition field 'a_0': the transform zorder\[3\]"):
        write(metadata, {"a": [1]})


def test_f10_zeros_are_two_partitions_and_every_nan_is_one() -> None:
    other_nan = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000001))[0]
    metadata = table_of(Field(id=1, name="a", type=DOUBLE), partition=[(1, IDENTITY)])
    written = write(metadata, {"a": [0.0, -0.0, math.nan, other_nan, None, 0.0]})
    found = {partition_key(file.partition): file.record_count for file in written.files}
    assert found == {
        partition_key((0.0,)): 2,
        partition_key((-0.0,)): 1,
        partition_key((math.nan,)): 2,
        partition_key((None,)): 1,
    }


@given(st.data())
def test_partitions_hold_just_their_rows_in_order(data: st.DataObject) -> None:
    schema = Schema(fields=(Field(id=1, name="n", type=LONG), Field(id=2, name="s", type=STRING)))
    spec = PartitionSpec(
        fields=(
            PartitionField(source_id=1, field_id=1000, name="a", transform=BucketTransform(3)),
            PartitionField(source_id=2, field_id=1001, name="b", transform=TruncateTransform(1)),
        )
    )
    longs = st.none() | st.integers(-5, 5)
    rows = data.draw(st.lists(st.tuples(longs, st.none() | st.sampled_from(["", "aa", "ab", "b"])), max_size=40))
    batch = pa.record_batch(
        {"n": pa.array([r[0] for r in rows], pa.int64()), "s": pa.array([r[1] for r in rows], pa.string())}
    )
    parts = list(partitioner(schema, spec).split(batch))
    assert len({part.key for part in parts}) == len(parts)

    def key(row: tuple[Any, Any]) -> tuple[Any, ...]:
        return apply_transform(spec.fields[0].transform, LONG, row[0]), row[1] and row[1][:1]

    for part in parts:
        found = list(zip(part.batch["n"].to_pylist(), part.batch["s"].to_pylist(), strict=True))
        assert found == [row for row in rows if key(row) == part.partition]
    assert sum(part.batch.num_rows for part in parts) == len(rows)


def test_a_column_inside_a_struct_can_be_partitioned_by() -> None:
    inner = StructType((Field(id=2, name="x", type=INT),))
    metadata = table_of(Field(id=1, name="s", type=inner), partition=[(2, IDENTITY)])
    written = write(metadata, {"s": [{"x": 1}, {"x": None}, None, {"x": 1}]})
    assert {file.partition: file.record_count for file in written.files} == {(1,): 2, (None,): 2}


def test_a_partition_column_that_is_gone_is_named() -> None:
    metadata = table_of(Field(id=1, name="a", type=LONG), partition=[(9, IDENTITY)])
    with pytest.raises(
        InvalidInput, match=r"cannot write with partition field '9_0': its column \(id 9\) does not exist any more"
    ):
        write(metadata, {"a": [1]})
