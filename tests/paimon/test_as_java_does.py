"""Rules of Java's Paimon that are easy to miss: deletes where columns are merged, sums, buckets, directories."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date, time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from paimon_tables import PaimonTable, schema, versions

import esker
from esker.errors import InvalidInput, Unsupported
from esker.model.table_names import TableName
from esker.paimon.manifests.index_manifest import VECTORS, IndexEntry, encode_index_manifest
from esker.paimon.metadata.table_schema import decode_schema, encode_schema
from esker.paimon.metadata.types import DataField, DataType
from esker.paimon.rows.binary_row import NO_FIELDS
from esker.paimon.rows.deletion_vector import encode_vector_file
from esker.paimon.rows.partition_path import partition_path

COLUMNS = {"k": "BIGINT NOT NULL", "a": "TINYINT", "b": "STRING"}
REMOVES = {"merge_engine": "partial-update", "partial_update__remove_record_on_delete": "true"}
SUMS = {"merge_engine": "aggregation", "fields__a__aggregate_function": "sum"}
GROUPS = {"merge_engine": "partial-update", "fields__a__sequence_group": "b"}


def made(path: Path, batches: list[list[tuple[Any, ...]]], **options: str) -> PaimonTable:
    """A table of versions ``(kind, k, a, b)``, one file for each batch."""
    chosen = {name: options.pop(name) for name in list(options) if "aggregation" in name}
    given = schema(COLUMNS, keys=["k"], bucket="1", **options)
    table = PaimonTable(path / "t", replace(given, options={**given.options, **chosen}))
    for number, batch in enumerate(batches):
        kinds, keys, a, b = zip(*batch, strict=True)
        table.append(versions(keys, 10 * number, list(kinds), a=pa.array(a, pa.int8()), b=pa.array(b, pa.string())))
    return table


def rows(table: PaimonTable, **how: Any) -> list[tuple[Any, ...]]:
    found = esker.open_table(table.path, **how).to_arrow()
    return sorted(tuple(row.values()) for row in found.to_pylist())


# ---------------------------------------------------------------- Merging


def test_a_delete_removes_a_row_and_gives_the_first_values_of_the_next(tmp_path: Path) -> None:
    batches = [[(0, 1, 10, "x"), (0, 2, 20, "y")], [(3, 1, 10, "x"), (3, 2, 20, "y")], [(0, 1, None, "z")]]
    assert rows(made(tmp_path, batches, **REMOVES)) == [(1, 10, "z")]


def test_an_aggregate_goes_on_from_the_values_of_a_delete(tmp_path: Path) -> None:
    batches = [[(0, 1, 10, "x"), (0, 2, 1, "q")], [(3, 1, 10, "x"), (3, 2, 1, "q")], [(0, 1, 5, None)]]
    assert rows(made(tmp_path, batches, **SUMS, **{"aggregation.remove-record-on-delete": "true"})) == [(1, 15, "x")]


def test_a_first_value_after_a_delete_is_refused(tmp_path: Path) -> None:
    options = SUMS | {"fields__b__aggregate_function": "first_value", "aggregation.remove-record-on-delete": "true"}
    table = made(tmp_path, [[(0, 1, 10, "x")], [(3, 1, 10, "x")], [(0, 1, 5, None)]], **options)
    with pytest.raises(Unsupported, match="first_value after rows that delete"):
        rows(table)


@pytest.mark.parametrize("options", [REMOVES, SUMS | {"aggregation.remove-record-on-delete": "true"}], ids=str)
def test_the_row_before_an_update_is_no_delete(tmp_path: Path, options: dict[str, str]) -> None:
    table = made(tmp_path, [[(0, 1, 10, "x")], [(1, 1, 10, "x")], [(2, 1, 12, "z")]], **options)
    with pytest.raises(Unsupported, match="rows that delete, which the merge engine"):
        rows(table)


def test_an_aggregation_does_not_ignore_deletes(tmp_path: Path) -> None:
    table = made(tmp_path, [[(0, 1, 10, "x")], [(3, 1, 10, "x")]], ignore_delete="true", **SUMS)
    with pytest.raises(Unsupported, match="which the merge engine aggregation cannot merge"):
        rows(table)


def test_a_delete_that_comes_first_gives_its_values(tmp_path: Path) -> None:
    table = made(tmp_path, [[(3, 1, None, "x"), (3, 2, 1, "y")], [(0, 1, None, None), (0, 2, None, None)]], **GROUPS)
    assert rows(table) == [(1, None, "x"), (2, 1, None)]


def test_the_only_version_of_a_key_keeps_the_columns_of_a_group_without_an_order(tmp_path: Path) -> None:
    """Java merges only keys that have several versions, also versions that it then ignores."""
    first = [(0, 1, None, "x"), (0, 2, None, "y"), (0, 3, None, "z")]
    table = made(tmp_path, [first, [(0, 2, None, None), (3, 3, None, None)]], ignore_delete="true", **GROUPS)
    assert rows(table) == [(1, None, "x"), (2, None, None), (3, None, None)]


DESCENDING = {"sequence__field": "a", "sequence__field__sort_order": "descending"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [(1, 3, "x"), (2, 5, "z")]),
        ({"merge_engine": "partial-update"}, [(1, 3, "x"), (2, 5, "z")]),
        (SUMS | {"fields__a__aggregate_function": "last_value"}, [(1, 3, "x"), (2, 5, "z")]),
        (SUMS | {"fields__b__aggregate_function": "first_value"}, [(1, 3, "n"), (2, 5, "n")]),
    ],
    ids=str,
)
def test_a_sequence_may_be_descending(tmp_path: Path, options: dict[str, str], expected: list[Any]) -> None:
    """The smallest value is the newest, but null is the oldest."""
    batches = [
        [(0, 1, 3, "x"), (0, 2, 7, "y")],
        [(0, 1, 5, "w"), (0, 2, 5, "z")],
        [(0, 1, None, "n"), (0, 2, None, "n")],
    ]
    assert rows(made(tmp_path, batches, **DESCENDING, **options)) == expected


def test_a_sum_wraps_around_as_its_type_does(tmp_path: Path) -> None:
    assert rows(made(tmp_path, [[(0, 1, 100, None)], [(0, 1, 100, None)]], **SUMS)) == [(1, -56, None)]


@pytest.mark.parametrize(
    "option",
    ["scan.primary-branch", "scan.fallback-delta-branch", "branch", "batch-scan-mode", "fields.v.default-value"],
)
def test_an_option_that_newer_or_older_readers_follow_is_refused(tmp_path: Path, option: str) -> None:
    table = made(tmp_path, [[(0, 1, 1, "x")]])
    table.define(replace(table.schema, id=1, options={**table.schema.options, option: "other"}))
    with pytest.raises(Unsupported, match=option):
        rows(table)


# ---------------------------------------------------------------- Types and places


def int96(path: Path, moments: list[int]) -> PaimonTable:
    table = PaimonTable(path / "t", schema({"ts": "TIMESTAMP(9)"}))
    entry = table.file(pa.table({"ts": pa.array(moments, pa.timestamp("ns"))}))
    file = table.path / "bucket-0" / entry.file.name
    pq.write_table(pq.read_table(file), file, use_deprecated_int96_timestamps=True)
    table.commit(entry)
    return table


def test_a_timestamp_of_96_bits_keeps_its_nanoseconds(tmp_path: Path) -> None:
    moments = [1_782_961_445_123_456_789, -1, 0]
    found = esker.open_table(int96(tmp_path, moments).path).to_arrow()["ts"]
    assert found.cast(pa.int64()).to_pylist() == moments


def test_a_timestamp_outside_of_nanoseconds_is_refused(tmp_path: Path) -> None:
    table = int96(tmp_path, [0])
    [file] = (table.path / "bucket-0").iterdir()
    far = pa.table({"ts": pa.array([253_402_300_799_000_000], pa.timestamp("us"))})  # the year 9999
    pq.write_table(far, file, use_deprecated_int96_timestamps=True)
    with pytest.raises(Unsupported, match="after 2261"):
        rows(table)


def test_a_time_in_an_orc_file_is_a_number_of_milliseconds(tmp_path: Path) -> None:
    table = PaimonTable(tmp_path / "t", schema({"at": "TIME(3)"}))
    table.append(pa.table({"at": pa.array([3_723_004, None], pa.int32())}), file_format="orc")
    assert esker.open_table(table.path).to_arrow()["at"].to_pylist() == [time(1, 2, 3, 4000), None]


@pytest.mark.parametrize(
    ("millis", "text"), [(3_723_004, "01%3A02%3A03.004"), (3_723_100, "01%3A02%3A03.1"), (0, "00%3A00%3A00.0")]
)
def test_a_time_is_spelt_in_a_directory_as_java_casts_it(millis: int, text: str) -> None:
    field = DataField(id=0, name="p", type=DataType(root="TIME", precision=3))
    assert partition_path([field], [millis * 1000], {"partition.legacy-name": "false"}) == f"p={text}/"


def test_a_partition_may_have_files_in_both_spellings(tmp_path: Path) -> None:
    """pypaimon 2.0 spelt dates in its own way; other writers add files to the right directory."""
    lake = esker.connect(f"paimon://{tmp_path}")
    table = lake.create_table("db.t", "id bigint, day date", partition_by=["day"])
    table.append(pa.table({"id": [1], "day": [date(2026, 1, 2)]}))
    [folder] = Path(table.location).glob("day=*")
    assert folder.name == "day=20455"
    folder.rename(folder.with_name("day=2026-01-02"))
    table.append(pa.table({"id": [2], "day": [date(2026, 1, 2)]}))
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2]
    table.compact()
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2]
    assert table.inspect.files().num_rows == 1


def test_a_vector_hides_rows_of_a_file_outside_of_the_table(tmp_path: Path) -> None:
    table = PaimonTable(tmp_path / "t", schema({"a": "BIGINT"}, data_file__external_paths=f"file://{tmp_path}/other"))
    entry = table.file(pa.table({"a": pa.array([1, 2, 3], pa.int64())}))
    other = tmp_path / "other" / entry.file.name
    other.parent.mkdir()
    (table.path / "bucket-0" / entry.file.name).rename(other)
    data, ranges = encode_vector_file({entry.file.name: [1]})
    (table.path / "index").mkdir()
    (table.path / "index" / "index-1").write_bytes(data)
    index = IndexEntry(
        partition=NO_FIELDS, bucket=0, index_type=VECTORS, name="index-1", size=len(data), rows=1, ranges=ranges
    )
    (table.path / "manifest").mkdir()
    (table.path / "manifest" / "index-manifest-1").write_bytes(encode_index_manifest([index]))
    table.commit(replace(entry, file=replace(entry.file, external_path=f"file:{other}")), index="index-manifest-1")
    assert rows(table, allowed_roots=[tmp_path / "other"]) == [(1,), (3,)]


# ---------------------------------------------------------------- Writing


def with_options(table: Any, **options: str) -> Any:
    """The table with a second schema that has other options."""
    folder = Path(table.location) / "schema"
    first = decode_schema("schema-0", (folder / "schema-0").read_bytes())
    more = {name.replace("_", "-"): value for name, value in options.items()}
    (folder / "schema-1").write_bytes(encode_schema(replace(first, id=1, options={**first.options, **more})))
    return esker.open_table(table.location)


@pytest.fixture
def keyed(tmp_path: Path) -> Any:
    lake = esker.connect(f"paimon://{tmp_path}")
    table = lake.create_table(
        "db.t",
        "p int not null, id bigint not null, v string",
        partition_by=["p"],
        identifier_fields=["p", "id"],
        properties={"bucket": "2"},
    )
    table.append([{"p": 1, "id": number, "v": "a"} for number in range(9)])
    return table


CHANGES: list[Callable[[Any], Any]] = [
    lambda table: table.append([{"p": 1, "id": 3, "v": "b"}]),
    lambda table: table.upsert([{"p": 1, "id": 3, "v": "b"}]),
    lambda table: table.delete("id = 3"),
]


@pytest.mark.parametrize("change", CHANGES, ids=["append", "upsert", "delete"])
def test_a_partition_with_another_number_of_buckets_is_not_written(keyed: Any, change: Callable[[Any], Any]) -> None:
    table = with_options(keyed, bucket="4")
    with pytest.raises(Unsupported, match="overwrite the partition first"):
        change(table)
    assert table.refresh().scan().count() == 9


def test_a_catalog_sees_a_schema_and_a_tag_without_a_new_snapshot(tmp_path: Path) -> None:
    lake = esker.connect(f"paimon://{tmp_path}")
    table = lake.create_table("db.t", "id bigint")
    table.append({"id": [1]})
    known = lake.catalog.load(TableName(("db",), "t"))
    with_options(table, comment="new")
    (Path(table.location) / "tag").mkdir()
    (Path(table.location) / "tag/tag-first").write_bytes((Path(table.location) / "snapshot/snapshot-1").read_bytes())
    now = lake.catalog.load(TableName(("db",), "t"), known).metadata
    assert now.properties["comment"] == "new"
    assert list(now.refs) == ["first"]


def test_an_overwrite_gives_a_partition_its_new_number_of_buckets(keyed: Any) -> None:
    table = with_options(keyed, bucket="4")
    table.append([{"p": 2, "id": 1, "v": "x"}])  # a new partition
    table.compact()
    assert set(table.inspect.files()["totalBuckets"].to_pylist()) == {2, 4}
    table.overwrite_partitions([{"p": 1, "id": 3, "v": "b"}])
    table.upsert([{"p": 1, "id": 3, "v": "c"}])
    assert set(table.inspect.files()["totalBuckets"].to_pylist()) == {4}
    assert sorted(row["v"] for row in table.to_arrow().to_pylist()) == ["c", "x"]


def test_a_table_that_ignores_deletes_keeps_its_rows(keyed: Any) -> None:
    keyed.delete("id = 3")
    table = with_options(keyed, ignore_delete="true")
    assert table.scan().count() == 9
    with pytest.raises(Unsupported, match="ignore-delete"):
        table.delete("id = 4")
    table.compact()
    assert table.scan().count() == 9


def test_a_column_default_is_not_written_over(keyed: Any) -> None:
    table = with_options(keyed)
    folder = Path(table.location) / "schema"
    found = decode_schema("schema-1", (folder / "schema-1").read_bytes())
    fields = (*found.fields[:-1], replace(found.fields[-1], default="x"))
    (folder / "schema-1").write_bytes(encode_schema(replace(found, fields=fields)))
    table = esker.open_table(table.location)
    assert table.scan().count() == 9
    with pytest.raises(Unsupported, match="column default"):
        table.append([{"p": 1, "id": 30}])


@pytest.mark.parametrize(
    ("columns", "how", "match"),
    [
        ("id bigint, _KEY_id bigint", {}, "_KEY_id"),
        ("id bigint, _VALUE_KIND int", {}, "_VALUE_KIND"),
        ("id bigint", {"properties": {"bucket": "2"}}, "bucket-key"),
        ("id bigint", {"properties": {"bucket": "2", "bucket-key": "no"}}, "bucket-key"),
        ("id bigint", {"properties": {"bucket": "0"}}, "bucket"),
        (
            "p int not null, id bigint not null",
            {"identifier_fields": ["p"], "partition_by": ["p"], "properties": {"bucket": "1"}},
            "primary-key",
        ),
    ],
)
def test_a_table_that_java_could_not_open_is_not_made(
    tmp_path: Path, columns: str, how: dict[str, Any], match: str
) -> None:
    lake = esker.connect(f"paimon://{tmp_path}")
    with pytest.raises((InvalidInput, Unsupported), match=match):
        lake.create_table("db.t", columns, **how)
    assert not (tmp_path / "db.db/t/schema/schema-0").exists()


def test_a_tag_is_no_branch_to_write_to(keyed: Any) -> None:
    root = Path(keyed.location)
    (root / "tag").mkdir()
    (root / "tag/tag-first").write_bytes((root / "snapshot/snapshot-1").read_bytes())
    with pytest.raises(InvalidInput, match="no such branch"):
        keyed.refresh().append([{"p": 1, "id": 3, "v": "b"}], ref="first")
