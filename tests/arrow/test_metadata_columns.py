"""Columns that no file needs to hold (checklist T10), and row lineage (I7, I8)."""

from __future__ import annotations

from typing import Any

import pytest
from arrow_tables import Files, column, metadata, read, schema, task

from esker.model.partition_and_sort import PartitionField, PartitionSpec
from esker.model.predicates.predicate import Compare, Op
from esker.model.transform import IdentityTransform
from esker.model.types import BOOLEAN, INT, LONG, STRING, StructType

A = column(1, "a", INT)
FILE = column(2147483646, "_file", STRING, required=True)
POS = column(2147483645, "_pos", LONG, required=True)
DELETED = column(2147483644, "_deleted", BOOLEAN, required=True)
SPEC_ID = column(2147483643, "_spec_id", INT, required=True)
ROW_ID = column(2147483540, "_row_id", LONG)
UPDATED = column(2147483539, "_last_updated_sequence_number", LONG)


def test_t10_where_a_row_lies_can_be_asked_for_in_any_place_of_the_projection() -> None:
    files = Files()
    data_file = files.rows(schema(A), [{"a": 1}, {"a": 2}], spec_id=0)
    got = read(files, metadata(schema(A)), task(data_file), projection=schema(POS, A, FILE, SPEC_ID, DELETED))
    assert got.column_names == ["_pos", "a", "_file", "_spec_id", "_deleted"]
    assert got.to_pylist()[1] == {"_pos": 1, "a": 2, "_file": data_file.path, "_spec_id": 0, "_deleted": False}


@pytest.mark.parametrize("format", ["parquet", "orc"])
def test_t10_positions_count_rows_that_deletes_filters_and_pruned_row_groups_took_out(format: str) -> None:
    files = Files()
    options: dict[str, Any] = {"row_group_size": 10} if format == "parquet" else {}
    data_file = files.rows(schema(A), [{"a": n} for n in range(100)], format=format, **options)
    deletes = files.position_deletes([(data_file.path, 55)])
    where = Compare(A, Op.GE, 54)
    got = read(files, metadata(schema(A)), task(data_file, deletes, where=where), projection=schema(A, POS), limit=3)
    assert got.to_pylist() == [{"a": n, "_pos": n} for n in (54, 56, 57)]


def test_t10_only_metadata_columns_need_no_column_of_the_file() -> None:
    files = Files()
    for format in ("parquet", "orc"):
        data_file = files.rows(schema(A), [{"a": 1}, {"a": 2}], format=format)
        assert read(files, metadata(schema(A)), task(data_file), projection=schema(POS))["_pos"].to_pylist() == [0, 1]


def test_t10_the_partition_column_is_null_in_fields_of_other_specs() -> None:
    field = PartitionField(source_id=1, field_id=1001, name="a", transform=IdentityTransform())
    partition = column(2147483642, "_partition", StructType((column(1000, "old", STRING), column(1001, "a", INT))))
    files = Files()
    data_file = files.rows(schema(A), [{"a": 7}], spec_id=1, partition=(7,))
    of = metadata(schema(A), specs=(PartitionSpec(), PartitionSpec(spec_id=1, fields=(field,))))
    got = read(files, of, task(data_file), projection=schema(partition))
    assert got.to_pylist() == [{"_partition": {"old": None, "a": 7}}]


def test_i8_rows_inherit_their_lineage_from_file_and_position() -> None:
    files = Files()
    data_file = files.rows(schema(A), [{"a": 1}, {"a": 2}, {"a": 3}], first_row_id=1000, sequence_number=7)
    gone = files.position_deletes([(data_file.path, 1)])
    got = read(files, metadata(schema(A)), task(data_file, gone), projection=schema(ROW_ID, UPDATED))
    assert got.to_pylist() == [
        {"_row_id": 1000, "_last_updated_sequence_number": 7},
        {"_row_id": 1002, "_last_updated_sequence_number": 7},
    ]


def test_i8_a_file_without_a_first_row_id_has_no_lineage_even_where_it_holds_the_columns() -> None:
    files = Files()
    row = {"a": 1, "_row_id": 5, "_last_updated_sequence_number": 2}
    data_file = files.rows(schema(A, ROW_ID, UPDATED), [row], sequence_number=7)
    got = read(files, metadata(schema(A)), task(data_file), projection=schema(ROW_ID, UPDATED))
    assert got.to_pylist() == [{"_row_id": None, "_last_updated_sequence_number": None}]


def test_i7_a_rewritten_row_keeps_the_lineage_its_file_holds_and_a_changed_one_inherits_its_sequence() -> None:
    files = Files()
    rows = [
        {"a": 1, "_row_id": 5, "_last_updated_sequence_number": 2},
        {"a": 2, "_row_id": 6, "_last_updated_sequence_number": None},
        {"a": 3, "_row_id": None, "_last_updated_sequence_number": None},
    ]
    data_file = files.rows(schema(A, ROW_ID, UPDATED), rows, first_row_id=100, sequence_number=7)
    got = read(files, metadata(schema(A)), task(data_file), projection=schema(ROW_ID, UPDATED))
    assert [tuple(row.values()) for row in got.to_pylist()] == [(5, 2), (6, 7), (102, 7)]


def test_lineage_columns_can_be_filtered_on() -> None:
    files = Files()
    data_file = files.rows(schema(A), [{"a": 1}, {"a": 2}], first_row_id=10)
    where = Compare(ROW_ID, Op.EQ, 11)
    assert read(files, metadata(schema(A)), task(data_file, where=where)).to_pylist() == [{"a": 2}]
