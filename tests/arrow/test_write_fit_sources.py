"""Every kind of thing that rows may come in, and that what is larger than memory passes batch by batch."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest

from esker.arrow.input.fit_data import fit
from esker.errors import InvalidInput
from esker.model.schema import Schema
from esker.model.types import DOUBLE, FLOAT, INT, LONG, STRING, Field, ListType, MapType

SCHEMA = Schema(
    fields=(
        Field(id=1, name="id", type=LONG, required=True),
        Field(id=2, name="name", type=STRING),
        Field(id=3, name="tags", type=ListType(element_id=4, element=STRING)),
    )
)
ROWS = [{"id": 1, "name": "a", "tags": ["x", "y"]}, {"id": 2, "name": None, "tags": None}]


def test_arrow_tables_batches_readers_scanners_and_datasets_are_taken() -> None:
    table = pa.Table.from_pylist(ROWS)
    dataset = pyarrow.dataset.dataset(table)
    for data in (table, table.to_batches()[0], table.to_reader(), dataset, dataset.scanner(), ROWS):
        assert fit(SCHEMA, data).read_all().to_pylist() == ROWS


def test_polars_is_taken() -> None:
    assert fit(SCHEMA, pl.DataFrame(ROWS)).read_all().to_pylist() == ROWS


@pytest.mark.interop
def test_a_duckdb_relation_is_taken() -> None:
    import duckdb

    with duckdb.connect() as connection:
        relation = connection.sql("SELECT 1::BIGINT AS id, 'a' AS name, ['x', 'y'] AS tags")
        assert fit(SCHEMA, relation).read_all().to_pylist() == ROWS[:1]
        maps = Schema(fields=(Field(id=1, name="m", type=MapType(key_id=2, key=STRING, value_id=3, value=INT)),))
        assert fit(maps, connection.sql("SELECT MAP {'k': 1} AS m")).read_all().to_pylist() == [{"m": [("k", 1)]}]


def test_pandas_is_taken_without_its_index_and_with_its_floats_for_integers_with_gaps() -> None:
    frame = pd.DataFrame({"id": [1, 2], "name": ["a", None]}, index=[7, 8])
    assert fit(SCHEMA, frame).read_all()["id"].to_pylist() == [1, 2]
    gaps = Schema(fields=(Field(id=1, name="n", type=INT),))
    assert fit(gaps, pd.DataFrame({"n": [1, None]})).read_all()["n"].to_pylist() == [1, None]
    with pytest.raises(InvalidInput, match=r"column 'n' does not fit in row 1: .*1\.5"):
        fit(gaps, pd.DataFrame({"n": [1.0, 1.5]}))


def test_pandas_columns_of_mixed_objects_are_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match=r"cannot read the data as Arrow columns: .*name"):
        fit(SCHEMA, pd.DataFrame({"id": [1, 2], "name": ["a", object()]}))


def test_python_s_own_numbers_take_the_table_s_width() -> None:
    schema = Schema(fields=(Field(id=1, name="f", type=FLOAT), Field(id=2, name="d", type=DOUBLE)))
    assert fit(schema, [{"f": 0.5, "d": 1}]).read_all().to_pylist() == [{"f": 0.5, "d": 1.0}]
    assert fit(schema, {"f": [1], "d": [0.1]}).read_all().to_pylist() == [{"f": 1.0, "d": 0.1}]


def test_rows_may_leave_keys_out_and_no_rows_are_no_rows() -> None:
    assert fit(SCHEMA, [{"id": 1}, {"id": 2, "name": "b"}]).read_all()["name"].to_pylist() == [None, "b"]
    optional = Schema(fields=SCHEMA.fields[1:])
    assert fit(optional, []).read_all().num_rows == 0


def test_a_python_column_of_mixed_types_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="cannot write column 'name': its values do not have one type"):
        fit(SCHEMA, [{"id": 1, "name": "a"}, {"id": 2, "name": 3}])


@pytest.mark.parametrize("data", [None, 5, "text", object(), [1, 2]], ids=lambda data: type(data).__name__)
def test_anything_else_is_refused_with_what_is_taken(data: object) -> None:
    with pytest.raises(InvalidInput, match=r"cannot write rows from a .*: give a pyarrow table or reader"):
        fit(SCHEMA, data)


def test_a_stream_is_read_one_batch_at_a_time_and_only_when_asked() -> None:
    given: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(1000):
            given.append(number)
            yield pa.record_batch({"id": pa.array([number])})

    reader = fit(SCHEMA, pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64())]), batches()))
    assert given == []
    for expected in range(3):
        assert reader.read_next_batch()["id"].to_pylist() == [expected]
    assert len(given) <= 4


def test_a_stream_that_breaks_is_an_error_of_ours() -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": pa.array([1])})
        raise pa.ArrowInvalid("the wire broke")

    reader = fit(SCHEMA, pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64())]), batches()))
    with pytest.raises(InvalidInput, match="cannot read the rows to write: the wire broke"):
        reader.read_all()


def test_one_huge_batch_comes_out_in_small_ones() -> None:
    batch = pa.record_batch({"id": pa.array(range(200_000))})
    sizes = [b.num_rows for b in fit(SCHEMA, batch)]
    assert sum(sizes) == 200_000
    assert max(sizes) <= 1 << 16
