"""Manifests as Esker writes them: the spec's layout, and what other readers see."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from manifest_makers import (
    BY_REGION,
    SCHEMA,
    a_delete,
    a_file,
    a_manifest,
    kept,
    one_field,
    removed,
    written_header,
    written_rows,
    written_schema,
)

from esker.errors import InvalidInput
from esker.iceberg.manifests.manifest_list import encode_manifest_list
from esker.iceberg.manifests.partition_values import summarise_partitions
from esker.model.partition_and_sort import PartitionSpec
from esker.model.transform import DAY, VOID
from esker.model.types import DATE, DOUBLE, FLOAT, INT, STRING, TIMESTAMP, DecimalType, Type
from esker.tree.data_file import FileContent, Metrics
from esker.tree.manifest import EntryStatus, ManifestEntry
from esker.tree.manifest_list import FieldSummary, ManifestContent

METRICS = Metrics(
    column_sizes={1: 40},
    value_counts={1: 10},
    null_counts={1: 0},
    lower_bounds={1: bytes(8)},
    upper_bounds={1: bytes(8)},
)


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Every object of a schema, its fields included."""
    match schema:
        case dict():
            yield schema
            for value in schema.values():
                yield from nodes(value)
        case list():
            for value in schema:
                yield from nodes(value)


def file_fields(data: bytes) -> dict[str, dict[str, Any]]:
    [data_file] = [field for field in written_schema(data)["fields"] if field["name"] == "data_file"]
    return {field["name"]: field for field in data_file["type"]["fields"]}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a1_every_node_carries_its_id(version: int) -> None:
    _, data = a_manifest([a_file(spec_id=3, partition=("eu",))], spec=BY_REGION, version=version)
    row, _ = a_manifest([])
    for schema in (written_schema(data), written_schema(encode_manifest_list([row], snapshot_id=1))):
        for node in nodes(schema):
            if node.get("type") == "record":
                assert all(isinstance(field.get("field-id"), int) for field in node["fields"])
            if node.get("type") == "array":
                assert "element-id" in node or node["logicalType"] == "map"


def test_a2_a_map_is_an_array_of_pairs_under_their_ids() -> None:
    _, data = a_manifest([a_file()])
    assert file_fields(data)["lower_bounds"]["type"][1] == {
        "type": "array",
        "logicalType": "map",
        "items": {
            "type": "record",
            "name": "k126_v127",
            "fields": [
                {"name": "key", "type": "int", "field-id": 126},
                {"name": "value", "type": "bytes", "field-id": 127},
            ],
        },
    }


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a3_an_optional_node_is_a_union_with_null_first(version: int) -> None:
    _, data = a_manifest([a_file(spec_id=3, partition=("eu",))], spec=BY_REGION, version=version)
    for node in nodes(written_schema(data)):
        for field in node.get("fields", []):
            if isinstance(field["type"], list):
                assert field["type"][0] == "null"
                assert len(field["type"]) == 2
                assert field["default"] is None
            else:
                assert "default" not in field


def test_a4_the_partition_is_a_required_record_of_optional_members() -> None:
    _, data = a_manifest([a_file(spec_id=3, partition=("eu",))], spec=BY_REGION)
    assert file_fields(data)["partition"] == {
        "name": "partition",
        "field-id": 102,
        "type": {
            "type": "record",
            "name": "r102",
            "fields": [{"name": "region", "type": ["null", "string"], "default": None, "field-id": 1000}],
        },
    }


def test_a4_an_unpartitioned_manifest_still_has_the_record() -> None:
    _, data = a_manifest([a_file()])
    assert file_fields(data)["partition"]["type"] == {"type": "record", "name": "r102", "fields": []}


def test_a5_the_header_has_every_key_and_the_bare_fields_of_the_spec() -> None:
    _, data = a_manifest([a_file(spec_id=3, partition=("eu",))], spec=BY_REGION)
    header = written_header(data)
    assert json.loads(header.pop("partition-spec")) == [
        {"source-id": 2, "field-id": 1000, "name": "region", "transform": "identity"}
    ]
    assert [field["id"] for field in json.loads(header.pop("schema"))["fields"]] == [1, 2]
    assert header == {"schema-id": "0", "partition-spec-id": "3", "format-version": "2", "content": "data"}


def test_a5_a_delete_manifest_says_so() -> None:
    _, data = a_manifest([a_delete()], content=ManifestContent.DELETES)
    assert written_header(data)["content"] == "deletes"


def test_a9_the_file_format_is_written_as_java_spells_it() -> None:
    _, data = a_manifest([a_file()])
    [row] = written_rows(data)
    assert row["data_file"]["file_format"] == "PARQUET"


def test_b3_new_files_have_no_numbers_of_their_own() -> None:
    _, data = a_manifest([a_file(sequence_number=4, file_sequence_number=4, first_row_id=9)], version=3)
    [row] = written_rows(data)
    assert (row["sequence_number"], row["file_sequence_number"], row["data_file"]["first_row_id"]) == (None,) * 3


def test_b5_a_kept_or_removed_file_must_name_a_snapshot() -> None:
    with pytest.raises(InvalidInput, match="cannot list a: its entry must name a snapshot"):
        a_manifest([ManifestEntry(data_file=a_file("a"), status=EntryStatus.DELETED)])


def test_b6_a_manifest_lists_a_live_path_once() -> None:
    with pytest.raises(InvalidInput, match="cannot list a twice"):
        a_manifest([a_file("a"), kept(a_file("a"))])


def test_b6_a_removed_path_may_stand_beside_others_and_vectors_may_share_a_file() -> None:
    vectors = [a_delete("v.puffin", file_format="puffin", content_offset=at, content_size=9) for at in (4, 50)]
    row, _ = a_manifest(vectors, content=ManifestContent.DELETES, version=3)
    assert row.added_files == 2


def test_b7_a_manifest_holds_one_kind_and_one_spec() -> None:
    with pytest.raises(InvalidInput, match="a manifest has data files or delete files, not both"):
        a_manifest([a_delete()])
    with pytest.raises(InvalidInput, match=r"cannot list .*: it is of spec 0, its manifest of 3"):
        a_manifest([a_file(partition=("eu",))], spec=BY_REGION)


def test_v1_has_no_delete_manifests() -> None:
    with pytest.raises(InvalidInput, match="cannot write a delete manifest in format version 1"):
        a_manifest([a_delete()], content=ManifestContent.DELETES, version=1)


def test_c2_the_least_number_is_that_of_live_entries() -> None:
    row, _ = a_manifest([a_file("a"), kept(a_file("b"), number=5), removed(a_file("c"), number=1)])
    assert row.min_sequence_number == 5
    assert a_manifest([a_file("a")])[0].min_sequence_number == 7
    assert a_manifest([removed(a_file("c"), number=1)])[0].min_sequence_number == 7


def test_c2_counts_are_by_status() -> None:
    row, _ = a_manifest([a_file("a", record_count=1), kept(a_file("b", record_count=2)), removed(a_file("c"))])
    assert (row.added_files, row.existing_files, row.deleted_files) == (1, 1, 1)
    assert (row.added_rows, row.existing_rows, row.deleted_rows) == (1, 2, 10)


def summary_of(type_: Type, values: list[Any], **field: Any) -> FieldSummary:
    schema, spec = one_field(type_, **field)
    [summary] = summarise_partitions(spec.partition_type(schema.by_id), [(value,) for value in values])
    return summary


def test_c3_bounds_leave_out_null_and_nan() -> None:
    summary = summary_of(DOUBLE, [1.5, None, math.nan, -2.0])
    assert summary == FieldSummary(
        contains_null=True, contains_nan=True, lower_bound=struct.pack("<d", -2.0), upper_bound=struct.pack("<d", 1.5)
    )


@pytest.mark.parametrize("values", [[None], [math.nan], [None, math.nan, math.nan], []])
def test_c3_nothing_else_means_no_bounds(values: list[Any]) -> None:
    summary = summary_of(FLOAT, values)
    assert (summary.lower_bound, summary.upper_bound) == (None, None)
    assert summary.contains_nan is any(isinstance(value, float) for value in values)


@pytest.mark.parametrize("values", [[0.0, -0.0], [-0.0, 0.0]])
def test_c3_both_zeros_lie_within_the_bounds(values: list[float]) -> None:
    summary = summary_of(DOUBLE, values)
    assert (summary.lower_bound, summary.upper_bound) == (struct.pack("<d", -0.0), struct.pack("<d", 0.0))


def test_c3_bounds_are_of_the_transforms_result() -> None:
    assert summary_of(TIMESTAMP, [19000, 19001], transform=DAY).upper_bound == struct.pack("<i", 19001)


def test_c3_a_dropped_field_is_all_null() -> None:
    assert summary_of(INT, [None], transform=VOID) == FieldSummary(contains_null=True, contains_nan=False)


@pytest.mark.parametrize(
    ("type_", "values", "lower", "upper"),
    [
        (DATE, [-1, 5], b"\xff\xff\xff\xff", b"\x05\0\0\0"),
        (DecimalType(9, 2), [Decimal("1.28"), Decimal("-1.28")], b"\x80", b"\x00\x80"),
        (STRING, ["\U0001f600", "\ue000"], "\ue000".encode(), "\U0001f600".encode()),
    ],
)
def test_c3_bounds_follow_the_order_of_the_type(type_: Type, values: list[Any], lower: bytes, upper: bytes) -> None:
    summary = summary_of(type_, values)
    assert (summary.lower_bound, summary.upper_bound) == (lower, upper)


def test_c4_a_long_bound_is_not_shortened() -> None:
    assert summary_of(STRING, ["z" * 500]).upper_bound == b"z" * 500


def test_c5_a_manifest_carries_its_specs_id() -> None:
    row, _ = a_manifest([], spec=PartitionSpec(spec_id=8))
    assert row.spec_id == 8


def test_g9_column_sizes_and_distinct_counts_are_not_invented() -> None:
    _, data = a_manifest([a_file()])
    assert "distinct_counts" not in file_fields(data)


def test_h11_a_position_delete_is_written_without_a_sort_order() -> None:
    _, data = a_manifest([a_delete(sort_order_id=3)], content=ManifestContent.DELETES)
    [row] = written_rows(data)
    assert row["data_file"]["sort_order_id"] is None


def test_i4_a_kept_file_carries_its_row_id() -> None:
    _, data = a_manifest([kept(a_file("a", first_row_id=800)), removed(a_file("b", first_row_id=900))], version=3)
    assert [row["data_file"]["first_row_id"] for row in written_rows(data)] == [800, 900]


def test_the_same_entries_make_the_same_bytes() -> None:
    assert a_manifest([a_file(metrics=METRICS)]) == a_manifest([a_file(metrics=METRICS)])


@pytest.mark.interop
@pytest.mark.parametrize("version", [1, 2, 3])
def test_pyiceberg_reads_what_is_written(tmp_path: Path, version: int) -> None:
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.manifest import DataFileContent, read_manifest_list

    path = tmp_path / "m.avro"
    kind = {"spec": BY_REGION, "version": version, "path": str(path)}
    file = a_file(spec_id=3, partition=("eu",), metrics=METRICS, split_offsets=(4, 9))
    entry = kept(replace(file, path="b", partition=(None,)))
    row, data = a_manifest([file, entry], **kind)
    path.write_bytes(data)
    listed = tmp_path / "list.avro"
    listed.write_bytes(encode_manifest_list([row], snapshot_id=77, sequence_number=7, format_version=version))

    io = PyArrowFileIO()
    [manifest] = read_manifest_list(io.new_input(str(listed)))
    assert (manifest.manifest_path, manifest.added_files_count, manifest.partition_spec_id) == (str(path), 1, 3)
    assert [(s.contains_null, s.lower_bound) for s in manifest.partitions or []] == [(True, b"eu")]
    first, second = manifest.fetch_manifest_entry(io, discard_deleted=False)
    assert first.sequence_number == (7 if version > 1 else 0)
    assert (first.data_file.content, first.data_file.partition[0]) == (DataFileContent.DATA, "eu")
    assert first.data_file.lower_bounds == METRICS.lower_bounds
    assert first.data_file.split_offsets == [4, 9]
    assert (second.data_file.file_path, second.data_file.partition[0]) == ("b", None)


@pytest.mark.interop
def test_pyiceberg_reads_delete_manifests(tmp_path: Path) -> None:
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.manifest import ManifestContent as TheirContent
    from pyiceberg.manifest import read_manifest_list

    path = tmp_path / "m.avro"
    delete = a_delete(content=FileContent.EQUALITY_DELETES, equality_ids=(1,))
    row, data = a_manifest([delete], schema=SCHEMA, content=ManifestContent.DELETES, path=str(path))
    path.write_bytes(data)
    listed = tmp_path / "list.avro"
    listed.write_bytes(encode_manifest_list([row], snapshot_id=77, sequence_number=7))
    io = PyArrowFileIO()
    [manifest] = read_manifest_list(io.new_input(str(listed)))
    [entry] = manifest.fetch_manifest_entry(io)
    assert manifest.content is TheirContent.DELETES
    assert entry.data_file.equality_ids == [1]
