"""Parquet files as older writers left them: two-level lists, footers that cannot be believed, INT96."""

from __future__ import annotations

import datetime as dt
import io
import math
import struct
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from arrow_tables import Files, column, metadata, read, schema, task
from parquet_footer import (
    BINARY,
    I32,
    LIST,
    NAME,
    REPEATED,
    REPETITION,
    SCHEMA,
    STRUCT,
    column_chunks,
    edited,
    elements,
)

from esker.arrow.arrow_types import to_arrow_schema
from esker.model.predicates.predicate import Compare, Op
from esker.model.types import DOUBLE, INT, LONG, STRING, TIMESTAMP, ListType

LIST_OF_INTS = ListType(element_id=2, element=INT, element_required=True)


def written(table: pa.Table, **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, store_schema=False, **options)
    return out.getvalue()


def two_level(footer: dict[int, Any]) -> None:
    """Take the middle group out of the only list: its levels are the same while the element is required."""
    _, list_, middle, element = elements(footer)
    assert middle[NAME][1] == b"list"
    element[REPETITION] = (I32, REPEATED)
    kept = [elements(footer)[0], list_, element]
    footer[SCHEMA] = (LIST, (STRUCT, kept))
    for chunk in column_chunks(footer):
        chunk[3] = (LIST, (BINARY, [list_[NAME][1], element[NAME][1]]))


def test_a_two_level_list_reads_by_the_id_of_its_repeated_element() -> None:
    table_schema = schema(column(1, "numbers", LIST_OF_INTS))
    rows = [{"numbers": [1, 2]}, {"numbers": None}, {"numbers": []}, {"numbers": [3]}]
    data = written(pa.Table.from_pylist(rows, schema=to_arrow_schema(table_schema)))
    old = edited(data, two_level)
    assert "list" not in str(pq.ParquetFile(io.BytesIO(old)).schema).split("{", 2)[2]
    files = Files()
    promoted = schema(column(1, "numbers", ListType(element_id=2, element=LONG)))
    got = read(files, metadata(table_schema, promoted), task(files.put(old, "parquet", 4)))
    assert got.to_pylist() == rows


def poisoned(footer: dict[int, Any], low: float, high: float) -> None:
    for chunk in column_chunks(footer):
        chunk[12][1][5] = (BINARY, struct.pack("<d", high))
        chunk[12][1][6] = (BINARY, struct.pack("<d", low))


@pytest.mark.parametrize(("low", "high"), [(math.nan, 1.0), (-1.0, math.nan), (math.nan, math.nan)])
def test_a_nan_in_a_footers_bounds_prunes_nothing(low: float, high: float) -> None:
    table_schema = schema(column(1, "x", DOUBLE))
    data = written(pa.table([pa.array([1.0, 500.0])], schema=to_arrow_schema(table_schema)))
    data = edited(data, lambda footer: poisoned(footer, low, high))
    files = Files()
    where = Compare(table_schema.fields[0], Op.GT, 400.0)
    got = read(files, metadata(table_schema), task(files.put(data, "parquet", 2), where=where))
    assert got.to_pylist() == [{"x": 500.0}]


def test_int96_timestamps_beyond_the_reach_of_nanoseconds_read_right() -> None:
    table_schema = schema(column(1, "t", TIMESTAMP))
    times = [dt.datetime(9999, 12, 31, 23, 59, 59, 999999), dt.datetime(1600, 1, 1), dt.datetime(1969, 12, 31, 23, 59)]
    table = pa.table([pa.array(times, pa.timestamp("us"))], schema=to_arrow_schema(table_schema))
    data = written(table, use_deprecated_int96_timestamps=True)
    files = Files()
    assert pq.ParquetFile(io.BytesIO(data)).schema.column(0).physical_type == "INT96"
    assert read(files, metadata(table_schema), task(files.put(data, "parquet", 3)))["t"].to_pylist() == times


def test_int96_columns_are_never_pruned_by() -> None:
    table_schema = schema(column(1, "t", TIMESTAMP))
    table = pa.table([pa.array([dt.datetime(2020, 1, 1)], pa.timestamp("us"))], schema=to_arrow_schema(table_schema))
    files = Files()
    data_file = files.put(written(table, use_deprecated_int96_timestamps=True), "parquet", 1)
    where = Compare(table_schema.fields[0], Op.GE, 0)
    assert read(files, metadata(table_schema), task(data_file, where=where)).num_rows == 1


def test_a_binary_column_without_its_utf8_mark_reads_as_the_string_that_the_table_says() -> None:
    table_schema = schema(column(1, "s", STRING))
    unmarked = to_arrow_schema(table_schema).field(0).with_type(pa.binary())
    table = pa.table([pa.array([b"caf\xc3\xa9", None])], schema=pa.schema([unmarked]))
    files = Files()
    data_file = files.put(written(table), "parquet", 2)
    assert read(files, metadata(table_schema), task(data_file))["s"].to_pylist() == ["café", None]
