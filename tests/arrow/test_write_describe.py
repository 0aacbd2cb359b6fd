"""Files that lie there already: described from their footers, or refused with the reason."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from write_tables import PRIMITIVES, held_values, table_of, write

from esker.arrow.value_arrays import array_of
from esker.arrow.write.arrow_writer import ArrowWriter
from esker.errors import Corrupt, InvalidInput, NoSuchFile
from esker.iceberg.metadata.schema import encode_name_mapping
from esker.model.schema import mapping_of
from esker.model.transform import DAY, IDENTITY, VOID, BucketTransform, Transform, TruncateTransform
from esker.model.types import DATE, DOUBLE, INT, LONG, STRING, TIMESTAMP, Field, ListType, StructType, is_floating
from esker.model.values import from_bytes
from esker.storage.memory import MemoryStorage
from esker.tree.data_file import DataFile
from esker.tree.table_metadata import TableMetadata

ID = Field(id=1, name="id", type=LONG)
P = Field(id=2, name="p", type=STRING)


def mapped(*fields: Field, properties: Mapping[str, str] | None = None, **more: Any) -> TableMetadata:
    mapping = {"schema.name-mapping.default": encode_name_mapping(mapping_of(fields))}
    return table_of(*fields, properties={**mapping, **(properties or {})}, **more)


def describe(metadata: TableMetadata, table: pa.Table, location: str = "mem:/x/f.parquet", **options: Any) -> DataFile:
    storage, sink = MemoryStorage(), io.BytesIO()
    pq.write_table(table, sink, **options)
    storage.write_new(location, sink.getvalue())
    return ArrowWriter(storage).describe(metadata, location)


@given(st.data())
def test_a_file_written_here_is_described_as_it_was_written(data: st.DataObject) -> None:
    type_ = data.draw(st.sampled_from(PRIMITIVES))
    metadata = table_of(Field(id=1, name="c", type=type_), properties={"write.parquet.row-group-limit": "2"})
    values = data.draw(st.lists(st.none() | held_values(type_), min_size=1, max_size=6))
    written = write(metadata, pa.table({"c": array_of(type_, values)}))
    (file,) = written.files
    found = ArrowWriter(written.storage).describe(metadata, file.path)
    assert (found.path, found.record_count, found.file_size) == (file.path, file.record_count, file.file_size)
    assert found.split_offsets == file.split_offsets
    assert found.metrics is not None
    assert file.metrics is not None
    assert found.metrics.column_sizes == file.metrics.column_sizes
    assert found.metrics.value_counts == file.metrics.value_counts
    assert found.metrics.null_counts == file.metrics.null_counts
    assert found.metrics.nan_counts == {}  # a footer does not count them
    if not is_floating(type_) or 1 in found.metrics.lower_bounds:
        assert found.metrics.lower_bounds == file.metrics.lower_bounds
        assert found.metrics.upper_bounds == file.metrics.upper_bounds


def test_names_stand_for_ids_where_the_table_maps_them() -> None:
    found = describe(mapped(ID, P), pa.table({"p": ["a", "b"], "id": [1, None]}))
    assert found.metrics is not None
    assert found.metrics.null_counts == {1: 1, 2: 0}
    assert from_bytes(STRING, found.metrics.upper_bounds[2]) == "b"


def test_a_file_without_ids_needs_a_mapping() -> None:
    with pytest.raises(InvalidInput, match=r"its columns have no field ids, and the table has no name mapping"):
        describe(table_of(ID), pa.table({"id": [1]}))


def test_long_values_without_statistics_have_no_bounds() -> None:
    found = describe(mapped(P), pa.table({"p": ["x" * 9000]}))
    assert found.metrics is not None
    assert (found.metrics.lower_bounds, found.metrics.null_counts) == ({}, {2: 0})


DAY_2 = dt.datetime(2024, 1, 2)
DECIDED = [
    (STRING, IDENTITY, ["a", "a"], "a"),
    (STRING, IDENTITY, [None, None], None),
    (STRING, TruncateTransform(1), ["ab", "ac"], "a"),
    (TIMESTAMP, DAY, [DAY_2, DAY_2 + dt.timedelta(hours=23)], 19724),
    (LONG, BucketTransform(4), [34, 34], 3),
    (LONG, TruncateTransform(10), [11, 19], 10),
    (LONG, VOID, [1, 2], None),
    (DATE, IDENTITY, [dt.date(1969, 12, 31)], -1),
]


@pytest.mark.parametrize(("type_", "transform", "values", "expected"), DECIDED, ids=str)
def test_a_partition_follows_from_bounds_that_fall_together(
    type_: Any, transform: Transform, values: list[Any], expected: Any
) -> None:
    metadata = mapped(ID, Field(id=2, name="p", type=type_), partition=[(2, transform)])
    arrow = pa.string() if type_ == STRING else None
    table = pa.table({"id": list(range(len(values))), "p": pa.array(values, arrow)})
    if type_ == TIMESTAMP:
        table = table.set_column(1, "p", table["p"].cast(pa.timestamp("us")))
    assert describe(metadata, table).partition == (expected,)


UNDECIDED = [
    (STRING, IDENTITY, ["a", "b"], "'p' runs from 'a' to 'b', over several partitions"),
    (STRING, IDENTITY, ["a", None], "column 'p' has both nulls and values"),
    (LONG, BucketTransform(2), [1, 2, 3, 4], "over several partitions"),
    (DOUBLE, IDENTITY, [1.0, 1.0], "do not show NaN"),
    (STRING, IDENTITY, ["x" * 9000] * 2, "its footer has no bounds of 'p'"),
    (STRING, IDENTITY, [], "the file has no rows"),
]


@pytest.mark.parametrize(("type_", "transform", "values", "why"), UNDECIDED, ids=lambda v: str(v)[:40])
def test_a_partition_that_cannot_be_decided_says_why(type_: Any, transform: Any, values: list[Any], why: str) -> None:
    metadata = mapped(ID, Field(id=2, name="p", type=type_), partition=[(2, transform)])
    arrow = pa.string() if type_ == STRING else None
    table = pa.table({"id": list(range(len(values))), "p": pa.array(values, arrow)})
    with pytest.raises(
        InvalidInput, match=rf"its partition 'p_0' \({transform}\) cannot be decided".replace("[", r"\[")
    ) as e:
        describe(metadata, table)
    assert why in e.value.message


def test_two_values_of_one_bucket_are_not_enough_to_decide() -> None:
    metadata = mapped(ID, partition=[(1, BucketTransform(1))])
    with pytest.raises(InvalidInput, match="over several partitions"):
        describe(metadata, pa.table({"id": [1, 2]}))


def test_without_statistics_no_partition_is_decided() -> None:
    metadata = mapped(ID, P, partition=[(2, IDENTITY)])
    with pytest.raises(InvalidInput, match="its footer has no statistics of 'p'"):
        describe(metadata, pa.table({"id": [1], "p": ["a"]}), write_statistics=False)


@pytest.mark.parametrize(
    ("type_", "text", "expected"),
    [
        (STRING, "a%20b", "a b"),
        (STRING, "a+b", "a+b"),
        (STRING, "null", "null"),
        (INT, "-5", -5),
        (INT, "null", None),
        (DATE, "2024-01-02", 19724),
        (TIMESTAMP, "1970-01-01 00%3A00%3A01", 1_000_000),
        (STRING, "__HIVE_DEFAULT_PARTITION__", None),
        (DOUBLE, "1.5", 1.5),
    ],
)
def test_hive_folders_tell_a_column_that_the_file_leaves_out(type_: Any, text: str, expected: Any) -> None:
    metadata = mapped(ID, Field(id=2, name="p", type=type_), partition=[(2, IDENTITY)])
    for name in ("p", "p_0"):
        found = describe(metadata, pa.table({"id": [1]}), f"mem:/x/{name}={text}/f.parquet")
        assert found.partition == (expected,)


@pytest.mark.parametrize(("type_", "text"), [(INT, "x"), (INT, str(2**31)), (DATE, "1.1.2024"), (DOUBLE, "nan")])
def test_a_folder_that_makes_no_sense_is_refused(type_: Any, text: str) -> None:
    metadata = mapped(ID, Field(id=2, name="p", type=type_), partition=[(2, IDENTITY)])
    with pytest.raises(InvalidInput, match=f"the folder's value '{text}' is not a valid {type_}"):
        describe(metadata, pa.table({"id": [1]}), f"mem:/x/p={text}/f.parquet")


def test_a_column_left_out_with_no_folder_is_refused() -> None:
    with pytest.raises(InvalidInput, match="does not have column 'p', nor a folder p_0=… above it"):
        describe(mapped(ID, P, partition=[(2, IDENTITY)]), pa.table({"id": [1]}))
    with pytest.raises(InvalidInput, match="the file does not have column 'p'"):
        describe(mapped(ID, P, partition=[(2, BucketTransform(2))]), pa.table({"id": [1]}), "mem:/p_0=1/f.parquet")


def test_a_column_of_another_type_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="column 'id': it is string in the file and long in the table"):
        describe(mapped(ID), pa.table({"id": ["a"]}))
    nested = Field(id=2, name="s", type=StructType((Field(id=3, name="x", type=INT),)))
    with pytest.raises(InvalidInput, match=r"column 's\.x': it is string in the file and int in the table"):
        describe(mapped(ID, nested), pa.table({"id": [1], "s": [{"x": "a"}]}))
    with pytest.raises(InvalidInput, match="column 'l': it is int64 in the file"):
        describe(mapped(ID, Field(id=2, name="l", type=ListType(element_id=3, element=LONG))), pa.table({"l": [1]}))


def test_a_column_that_the_table_does_not_have_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="column 'z': the table has no such column"):
        describe(mapped(ID), pa.table({"id": [1], "z": [1]}))
    nested = Field(id=2, name="s", type=StructType((Field(id=3, name="x", type=INT),)))
    with pytest.raises(InvalidInput, match="column 'y': the table has no such column"):
        describe(mapped(ID, nested), pa.table({"id": [1], "s": [{"x": 1, "y": 2}]}))


def with_id(name: str, number: int) -> pa.Schema:
    return pa.schema([pa.field(name, pa.int64(), metadata={b"PARQUET:field_id": str(number).encode()})])


def test_ids_of_another_table_are_refused() -> None:
    with pytest.raises(InvalidInput, match="column 'id': the table has no such column"):
        describe(table_of(ID), pa.table([[1]], schema=with_id("id", 77)))
    with pytest.raises(InvalidInput, match="column 'other': its field id 1 is 'id' in the table"):
        describe(table_of(ID), pa.table([[1]], schema=with_id("other", 1)))
    assert describe(table_of(ID), pa.table([[1]], schema=with_id("id", 1))).record_count == 1


def test_required_columns_must_be_there_and_without_nulls() -> None:
    required = Field(id=1, name="id", type=LONG, required=True)
    with pytest.raises(InvalidInput, match="column 'id': it is required, and the file does not have it"):
        describe(mapped(required, P), pa.table({"p": ["a"]}))
    with pytest.raises(InvalidInput, match="column 'id': it is required, and the file's statistics do not rule out"):
        describe(mapped(required, P), pa.table({"id": [1, None]}))
    assert describe(mapped(required, P), pa.table({"id": [1]})).record_count == 1


def test_a_file_that_is_none_is_refused() -> None:
    storage = MemoryStorage()
    storage.write_new("mem:/x", b"no parquet at all")
    with pytest.raises(Corrupt, match="mem:/x is corrupt"):
        ArrowWriter(storage).describe(table_of(ID), "mem:/x")
    with pytest.raises(NoSuchFile, match="mem:/nowhere"):
        ArrowWriter(storage).describe(table_of(ID), "mem:/nowhere")
