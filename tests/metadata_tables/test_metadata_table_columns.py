"""The sixteen tables have Iceberg's columns, by name, order and type, written down here once."""

from __future__ import annotations

import pyarrow as pa
import pytest
from fake_ports import inspect_of

from esker.metadata_tables.inspect import Inspect
from esker.model.partition_and_sort import PartitionField, PartitionSpec
from esker.model.schema import Schema
from esker.model.transform import DAY
from esker.model.types import LONG, STRING, TIMESTAMPTZ, Field
from esker.tree.table_metadata import TableMetadata

UTC = pa.timestamp("us", tz="UTC")
SCHEMA = Schema(
    fields=(
        Field(id=1, name="id", type=LONG, required=True),
        Field(id=2, name="ts", type=TIMESTAMPTZ),
        Field(id=3, name="note", type=STRING),
    )
)
SPEC = PartitionSpec(spec_id=0, fields=(PartitionField(source_id=2, field_id=1000, name="ts_day", transform=DAY),))
PARTITION = pa.struct([("ts_day", pa.date32())])
FILE_COLUMNS = [
    ("content", pa.int32()),
    ("file_path", pa.string()),
    ("file_format", pa.string()),
    ("spec_id", pa.int32()),
    ("partition", PARTITION),
    ("record_count", pa.int64()),
    ("file_size_in_bytes", pa.int64()),
    ("column_sizes", pa.map_(pa.int32(), pa.int64())),
    ("value_counts", pa.map_(pa.int32(), pa.int64())),
    ("null_value_counts", pa.map_(pa.int32(), pa.int64())),
    ("nan_value_counts", pa.map_(pa.int32(), pa.int64())),
    ("lower_bounds", pa.map_(pa.int32(), pa.binary())),
    ("upper_bounds", pa.map_(pa.int32(), pa.binary())),
    ("key_metadata", pa.binary()),
    ("split_offsets", pa.list_(pa.int64())),
    ("equality_ids", pa.list_(pa.int32())),
    ("sort_order_id", pa.int32()),
    ("first_row_id", pa.int64()),
    ("referenced_data_file", pa.string()),
    ("content_offset", pa.int64()),
    ("content_size_in_bytes", pa.int64()),
]


def _metrics_of(type_: pa.DataType) -> pa.DataType:
    counts = [(name, pa.int64()) for name in ("column_size", "value_count", "null_value_count", "nan_value_count")]
    return pa.struct([*counts, ("lower_bound", type_), ("upper_bound", type_)])


READABLE = pa.struct([("id", _metrics_of(pa.int64())), ("note", _metrics_of(pa.string())), ("ts", _metrics_of(UTC))])
FILES = [*FILE_COLUMNS, ("readable_metrics", READABLE)]
ENTRIES = [
    ("status", pa.int32()),
    ("snapshot_id", pa.int64()),
    ("sequence_number", pa.int64()),
    ("file_sequence_number", pa.int64()),
    ("data_file", pa.struct(FILE_COLUMNS)),
    ("readable_metrics", READABLE),
]
SUMMARY = pa.struct(
    [
        ("contains_null", pa.bool_()),
        ("contains_nan", pa.bool_()),
        ("lower_bound", pa.string()),
        ("upper_bound", pa.string()),
    ]
)
MANIFESTS = [
    ("content", pa.int32()),
    ("path", pa.string()),
    ("length", pa.int64()),
    ("partition_spec_id", pa.int32()),
    ("added_snapshot_id", pa.int64()),
    ("added_data_files_count", pa.int32()),
    ("existing_data_files_count", pa.int32()),
    ("deleted_data_files_count", pa.int32()),
    ("added_delete_files_count", pa.int32()),
    ("existing_delete_files_count", pa.int32()),
    ("deleted_delete_files_count", pa.int32()),
    ("partition_summaries", pa.list_(SUMMARY)),
]
PARTITION_COUNTS = [
    ("record_count", pa.int64()),
    ("file_count", pa.int32()),
    ("total_data_file_size_in_bytes", pa.int64()),
    ("position_delete_record_count", pa.int64()),
    ("position_delete_file_count", pa.int32()),
    ("equality_delete_record_count", pa.int64()),
    ("equality_delete_file_count", pa.int32()),
    ("last_updated_at", UTC),
    ("last_updated_snapshot_id", pa.int64()),
]
POSITIONS = [
    ("file_path", pa.string()),
    ("pos", pa.int64()),
    ("row", pa.struct([("id", pa.int64()), ("ts", UTC), ("note", pa.string())])),
    ("partition", PARTITION),
    ("spec_id", pa.int32()),
    ("delete_file_path", pa.string()),
]
EXPECTED = {
    "entries": ENTRIES,
    "files": FILES,
    "data_files": FILES,
    "delete_files": FILES,
    "history": [
        ("made_current_at", UTC),
        ("snapshot_id", pa.int64()),
        ("parent_id", pa.int64()),
        ("is_current_ancestor", pa.bool_()),
    ],
    "metadata_log_entries": [
        ("timestamp", UTC),
        ("file", pa.string()),
        ("latest_snapshot_id", pa.int64()),
        ("latest_schema_id", pa.int32()),
        ("latest_sequence_number", pa.int64()),
    ],
    "snapshots": [
        ("committed_at", UTC),
        ("snapshot_id", pa.int64()),
        ("parent_id", pa.int64()),
        ("operation", pa.string()),
        ("manifest_list", pa.string()),
        ("summary", pa.map_(pa.string(), pa.string())),
    ],
    "refs": [
        ("name", pa.string()),
        ("type", pa.string()),
        ("snapshot_id", pa.int64()),
        ("max_reference_age_in_ms", pa.int64()),
        ("min_snapshots_to_keep", pa.int32()),
        ("max_snapshot_age_in_ms", pa.int64()),
    ],
    "manifests": MANIFESTS,
    "partitions": [("partition", PARTITION), ("spec_id", pa.int32()), *PARTITION_COUNTS],
    "all_entries": ENTRIES,
    "all_files": FILES,
    "all_data_files": FILES,
    "all_delete_files": FILES,
    "all_manifests": [*MANIFESTS, ("reference_snapshot_id", pa.int64()), ("key_metadata", pa.binary())],
    "position_deletes": POSITIONS,
}


def _metadata(version: int = 2, spec: PartitionSpec = SPEC) -> TableMetadata:
    return TableMetadata(
        format_version=version,
        uuid="0" * 32,
        location="memory:t",
        last_updated_ms=1_700_000_000_000,
        last_column_id=3,
        schemas=(SCHEMA,),
        current_schema_id=0,
        specs=(spec,),
    )


def _bare(type_: pa.DataType) -> pa.DataType:
    """The type without nullability, which the written-down list leaves out."""
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(f.name, _bare(f.type)) for f in type_])
    if pa.types.is_list(type_):
        return pa.list_(_bare(type_.value_type))
    return type_


@pytest.mark.parametrize("name", EXPECTED)
def test_a_metadata_table_of_an_empty_table_has_icebergs_columns_and_no_rows(name: str) -> None:
    table = getattr(inspect_of(_metadata()), name)()
    assert [(f.name, _bare(f.type)) for f in table.schema] == [(n, _bare(t)) for n, t in EXPECTED[name]]
    assert table.num_rows == (1 if name == "metadata_log_entries" else 0)


def test_all_sixteen_are_there() -> None:
    methods = {name for name, value in vars(Inspect).items() if callable(value) and not name.startswith("_")}
    assert methods == set(EXPECTED) | {"file_changes", "tree"}
    assert Inspect.tables == set(EXPECTED)
    assert len(EXPECTED) == 16


def test_from_format_version_3_position_deletes_say_where_in_the_file_a_vector_lies() -> None:
    names = inspect_of(_metadata(version=3)).position_deletes().schema.names
    assert names == [*(name for name, _ in POSITIONS), "content_offset", "content_size_in_bytes"]


@pytest.mark.parametrize("name", ["files", "all_delete_files", "partitions", "position_deletes"])
def test_an_unpartitioned_table_has_no_partition_column(name: str) -> None:
    table = getattr(inspect_of(_metadata(spec=PartitionSpec())), name)()
    expected = [column for column, _ in EXPECTED[name] if column != "partition"]
    if name == "partitions":
        expected.remove("spec_id")
    assert table.schema.names == expected


def test_an_unpartitioned_tables_entries_have_no_partition_either() -> None:
    entries = inspect_of(_metadata(spec=PartitionSpec())).entries()
    assert "partition" not in [f.name for f in entries.schema.field("data_file").type]
