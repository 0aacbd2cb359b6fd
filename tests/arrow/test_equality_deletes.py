"""Rows deleted by the values of some columns."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import pyarrow as pa
import pytest
from arrow_tables import Files, column, metadata, read, schema, task
from hypothesis import given
from hypothesis import strategies as st

from esker.arrow.equal_rows import KeySet
from esker.errors import Corrupt, Unsupported
from esker.model.partition_and_sort import PartitionField, PartitionSpec
from esker.model.transform import IdentityTransform
from esker.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    UUID,
    DecimalType,
    ListType,
    StructType,
)

A, B = column(1, "a", INT), column(2, "b", STRING)
AB = schema(A, B)


def test_rows_whose_key_is_listed_are_gone() -> None:
    files = Files()
    data_file = files.rows(AB, [{"a": n, "b": "x"} for n in range(5)])
    deletes = files.equality_deletes(schema(A), [{"a": 1}, {"a": 3}, {"a": 9}])
    assert read(files, metadata(AB), task(data_file, deletes))["a"].to_pylist() == [0, 2, 4]


def test_h3_a_null_key_deletes_rows_whose_value_is_null_and_no_others() -> None:
    files = Files()
    rows = [{"a": None, "b": None}, {"a": None, "b": "x"}, {"a": 1, "b": None}, {"a": 1, "b": "x"}]
    data_file = files.rows(AB, rows)
    both = files.equality_deletes(AB, [{"a": None, "b": None}, {"a": 1, "b": "x"}])
    assert read(files, metadata(AB), task(data_file, both)).to_pylist() == rows[1:3]
    one = files.equality_deletes(schema(A), [{"a": None}])
    assert read(files, metadata(AB), task(data_file, one)).to_pylist() == rows[2:]


def test_h4_a_file_written_after_a_required_key_column_was_dropped_has_null_for_it() -> None:
    key = column(3, "key", INT, required=True)
    files = Files()
    before = files.rows(schema(A, key), [{"a": 1, "key": 7}, {"a": 2, "key": 8}])
    after = files.rows(schema(A), [{"a": 3}, {"a": 4}])
    deletes = files.equality_deletes(schema(key), [{"key": 7}])
    table = metadata(schema(A, key), schema(A))
    assert read(files, table, task(before, deletes), task(after, deletes))["a"].to_pylist() == [2, 3, 4]


def test_h3_nan_equals_nan_and_minus_zero_is_not_zero() -> None:
    x = column(1, "x", DOUBLE)
    files = Files()
    data_file = files.rows(schema(x), [{"x": v} for v in (math.nan, -0.0, 0.0, 1.0, None)])
    deletes = files.equality_deletes(schema(x), [{"x": -math.nan}, {"x": -0.0}])
    got = read(files, metadata(schema(x)), task(data_file, deletes))["x"].to_pylist()
    assert [str(v) for v in got] == ["0.0", "1.0", "None"]


def test_several_choices_of_columns_apply_at_once() -> None:
    files = Files()
    rows = [{"a": n, "b": b} for n in range(3) for b in "xy"]
    by_a = files.equality_deletes(schema(A), [{"a": 0}])
    by_b_and_a = files.equality_deletes(schema(B, A), [{"b": "x", "a": 1}])
    more_by_a = files.equality_deletes(schema(A), [{"a": 2}])
    got = read(files, metadata(AB), task(files.rows(AB, rows), by_a, by_b_and_a, more_by_a))
    assert got.to_pylist() == [{"a": 1, "b": "y"}]


def test_only_the_columns_that_the_manifest_names_are_compared() -> None:
    files = Files()
    data_file = files.rows(AB, [{"a": 1, "b": "x"}, {"a": 2, "b": "x"}])
    deletes = files.equality_deletes(AB, [{"a": 1, "b": "another"}], 1)
    assert read(files, metadata(AB), task(data_file, deletes))["a"].to_pylist() == [2]


def test_key_columns_that_nobody_asked_for_are_read_and_not_handed_out() -> None:
    files = Files()
    data_file = files.rows(AB, [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}])
    deletes = files.equality_deletes(schema(A), [{"a": 1}])
    got = read(files, metadata(AB), task(data_file, deletes), projection=schema(B))
    assert got.to_pylist() == [{"b": "y"}]


def test_h4_a_column_dropped_since_still_decides() -> None:
    files = Files()
    data_file = files.rows(AB, [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}])
    deletes = files.equality_deletes(schema(A), [{"a": 1}])
    now = schema(B)
    assert read(files, metadata(AB, now), task(data_file, deletes)).to_pylist() == [{"b": "y"}]


def test_h4_a_column_renamed_since_is_known_by_its_id() -> None:
    files = Files()
    data_file = files.rows(AB, [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}])
    deletes = files.equality_deletes(schema(A), [{"a": 1}])
    now = schema(column(1, "b", INT), column(2, "a", STRING))
    assert read(files, metadata(AB, now), task(data_file, deletes)).to_pylist() == [{"b": 2, "a": "y"}]


def test_h4_a_column_added_later_reads_by_normal_projection_in_older_files() -> None:
    files = Files()
    data_file = files.rows(schema(A), [{"a": 1}])
    with_default = schema(A, column(2, "b", STRING, initial_default="x"))
    without = schema(A, B)
    by_default, by_null = (files.equality_deletes(schema(B), [{"b": value}]) for value in ("x", None))
    assert read(files, metadata(with_default), task(data_file, by_default)).num_rows == 0
    assert read(files, metadata(with_default), task(data_file, by_null)).num_rows == 1
    assert read(files, metadata(without), task(data_file, by_null)).num_rows == 0


def test_h4_a_partition_column_missing_from_the_file_takes_its_partition_value() -> None:
    spec = PartitionSpec(
        spec_id=1, fields=(PartitionField(source_id=2, field_id=1000, name="b", transform=IdentityTransform()),)
    )
    files = Files()
    data_file = files.rows(schema(A), [{"a": 1}], spec_id=1, partition=("x",))
    deletes = files.equality_deletes(schema(B), [{"b": "x"}])
    assert read(files, metadata(AB, specs=(PartitionSpec(), spec)), task(data_file, deletes)).num_rows == 0


def test_keys_written_before_a_promotion_match_data_written_after_and_the_other_way() -> None:
    narrow, wide = schema(column(1, "a", INT)), schema(column(1, "a", LONG))
    files = Files()
    old, new = files.rows(narrow, [{"a": 1}, {"a": 2}]), files.rows(wide, [{"a": 1}, {"a": 2}])
    deletes = [files.equality_deletes(of, [{"a": 1}]) for of in (narrow, wide)]
    of = metadata(narrow, wide)
    for data_file in (old, new):
        for delete in deletes:
            assert read(files, of, task(data_file, delete))["a"].to_pylist() == [2]


@pytest.mark.parametrize("at_top", [True, False])
def test_a_key_inside_a_struct_is_null_where_the_struct_is(at_top: bool) -> None:
    x = column(3, "x", INT)
    of = schema(column(1, "a", INT), column(2, "s", StructType((x, column(4, "y", INT)))))
    files = Files()
    rows = [
        {"a": 0, "s": None},
        {"a": 1, "s": {"x": None, "y": 1}},
        {"a": 2, "s": {"x": 5, "y": 1}},
        {"a": 3, "s": {"x": 6, "y": 5}},
    ]
    data_file = files.rows(of, rows)
    if at_top:
        deletes = files.equality_deletes(schema(x), [{"x": 5}, {"x": None}])
    else:
        inside = schema(column(2, "s", StructType((x,))))
        deletes = files.equality_deletes(inside, [{"s": {"x": 5}}, {"s": {"x": None}}], 3)
    assert read(files, metadata(of), task(data_file, deletes))["a"].to_pylist() == [3]


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (BOOLEAN, [True, False]),
        (DATE, [dt.date(2020, 1, 1), dt.date(1969, 1, 1)]),
        (TIMESTAMP, [dt.datetime(2020, 1, 1), dt.datetime(1969, 1, 1)]),
        (UUID, [b"0" * 16, b"1" * 16]),
        (BINARY, [b"", b"\xff"]),
        (DecimalType(38, 2), [0, 1]),
        (STRING, ["", "ä"]),
    ],
)
def test_keys_may_be_of_any_primitive_type(type_: Any, values: list[Any]) -> None:
    of = schema(column(1, "k", type_))
    files = Files()
    data_file = files.rows(of, [{"k": v} for v in (*values, None)])
    deletes = files.equality_deletes(of, [{"k": values[0]}])
    got = read(files, metadata(of), task(data_file, deletes))["k"]
    assert got.null_count == 1
    assert len(got) == 2


@pytest.mark.parametrize("format", ["parquet", "orc"])
def test_an_empty_delete_file_deletes_nothing(format: str) -> None:
    files = Files()
    data_file = files.rows(AB, [{"a": 1, "b": "x"}])
    deletes = files.equality_deletes(AB, [], format=format)
    assert read(files, metadata(AB), task(data_file, deletes)).num_rows == 1


def test_a_delete_file_that_cannot_be_meant_is_corrupt_and_named() -> None:
    files = Files()
    data_file = files.rows(AB, [{"a": 1, "b": "x"}])
    of = metadata(AB)
    unknown = files.equality_deletes(schema(column(77, "z", INT)), [{"z": 1}])
    with pytest.raises(Corrupt, match=r"00002.parquet is corrupt: it deletes by the field 77, which no schema"):
        read(files, of, task(data_file, unknown))
    lacking = files.equality_deletes(schema(A), [{"a": 1}], 1, 2)
    with pytest.raises(Corrupt, match="it does not have the column 'b' that its equality deletes compare"):
        read(files, of, task(data_file, lacking))
    from dataclasses import replace

    with pytest.raises(Corrupt, match="does not record which columns"):
        read(files, of, task(data_file, replace(lacking, equality_ids=())))


def test_a_key_inside_a_list_is_refused_by_name() -> None:
    of = schema(column(1, "l", ListType(element_id=2, element=INT)))
    files = Files()
    data_file = files.rows(of, [{"l": [1]}])
    with pytest.raises(Unsupported, match=r"cannot compare 'l.element': a row has many values of it"):
        read(files, metadata(of), task(data_file, files.equality_deletes(of, [{"l": [1]}], 2)))


cells = st.one_of(st.none(), st.integers(0, 3))
keys = st.lists(st.tuples(cells, st.one_of(st.none(), st.sampled_from(["", "a", "b", "c", "d"])), cells), max_size=12)


@given(keys, keys)
def test_a_key_set_hits_just_the_rows_that_it_holds(held: list[Any], asked: list[Any]) -> None:
    def columns(rows: list[Any]) -> list[pa.Array]:
        kinds = (pa.int64(), pa.string(), pa.int32())
        return [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(kinds)]

    assert KeySet(columns(held)).hits(columns(asked)).tolist() == [row in held for row in asked]
