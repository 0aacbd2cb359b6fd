"""Partition statistics: the columns of the file, its order, how it is registered, and what it is computed from."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import esker
from esker.errors import Conflict, InvalidInput, NoSuchSnapshot
from esker.lake import Lake
from esker.maintain.statistics import partition_counts
from esker.maintain.statistics.partition_statistics import read_partition_statistics
from esker.model.table_names import TableName
from esker.ports.catalog import Swap, TableState
from esker.table import Table
from esker.tree.table_metadata import PartitionStatisticsFile, TableMetadata
from esker.write.refs.retention import without_snapshots
from esker.write.table_changes import with_partition_statistics

NAME = TableName(("db",), "t")


@pytest.fixture
def memory() -> Lake:
    lake = esker.connect("memory:")
    lake.create_namespace("db")
    return lake


def rows(*pairs: tuple[int, str | None]) -> pa.Table:
    return pa.table({"id": pa.array([a for a, _ in pairs], pa.int64()), "place": [b for _, b in pairs]})


def made(lake: Lake, **more: Any) -> Table:
    table = lake.create_table("db.t", "id bigint, place string", **{"partition_by": ["place"], **more})
    table.append(rows((1, "a"), (2, "a"), (3, "b"), (4, None)))
    return table


def shown(table: Table, file: PartitionStatisticsFile | None) -> list[dict[str, Any]]:
    assert file is not None
    return read_partition_statistics(table.metadata, table._workings.engine, file).to_pylist()


def parquet(lake: Lake, file: PartitionStatisticsFile) -> pq.ParquetFile:
    content = lake.catalog.storage().read(file.path)
    assert len(content) == file.file_size
    return pq.ParquetFile(pa.BufferReader(content))


def stats_files(lake: Lake) -> list[str]:
    place = lake.table("db.t").location
    return [file.location for file in lake.catalog.storage().list(place) if "partition-stats-" in file.location]


@pytest.mark.parametrize("uri", ["memory:", "sqlite:///{tmp}/catalog.db", "file://{tmp}/lake"])
def test_counts_per_partition_are_written_and_registered(uri: str, tmp_path: Path) -> None:
    lake = esker.connect(uri.format(tmp=tmp_path))
    lake.create_namespace("db")
    table = made(lake)
    file = table.compute_partition_statistics()
    found = shown(table, file)
    assert [(row["partition"]["place"], row["data_record_count"], row["data_file_count"]) for row in found] == [
        (None, 1, 1),
        ("a", 2, 1),
        ("b", 1, 1),
    ]
    sizes = table.inspect.partitions().select(["partition", "total_data_file_size_in_bytes"]).to_pylist()
    by_place = {row["partition"]["place"]: row["total_data_file_size_in_bytes"] for row in sizes}
    assert {row["partition"]["place"]: row["total_data_file_size_in_bytes"] for row in found} == by_place
    assert list(lake.table("db.t").metadata.partition_statistics) == [file]
    place = table.location
    lake.drop_table("db.t", purge=True)
    assert [f.location for f in lake.catalog.storage().list(place) if "partition-stats" in f.location] == []


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_file_has_the_columns_and_ids_of_the_spec(memory: Lake, version: int) -> None:
    table = made(memory, format_version=version)
    file = table.compute_partition_statistics()
    assert file is not None
    schema = parquet(memory, file).schema_arrow
    ids = {field.name: int(field.metadata[b"PARQUET:field_id"]) for field in schema}
    assert list(ids.values()) == [*range(1, 13), *([13] if version == 3 else [])]
    assert ids["total_record_count"] == 10
    assert schema.field("partition").type.field("place").metadata[b"PARQUET:field_id"] == b"1000"
    optional = {"total_record_count", "last_updated_at", "last_updated_snapshot_id"}
    if version < 3:
        optional |= {name for name in ids if "_delete_" in name}
    assert {field.name for field in schema if field.nullable} == optional


def test_deletes_are_counted_by_kind(memory: Lake) -> None:
    table = made(memory, format_version=3, properties={"write.delete.mode": "merge-on-read"})
    table.delete("id = 1")
    (_, a, b) = shown(table, table.compute_partition_statistics())
    assert (a["position_delete_record_count"], a["position_delete_file_count"], a["dv_count"]) == (1, 0, 1)
    assert a["last_updated_snapshot_id"] == table.metadata.current_snapshot_id
    assert (b["position_delete_record_count"], b["dv_count"]) == (0, 0)
    assert b["last_updated_snapshot_id"] == table.snapshots[0].snapshot_id


def test_position_delete_files_are_no_vectors(memory: Lake) -> None:
    table = made(memory, format_version=2, properties={"write.delete.mode": "merge-on-read"})
    table.delete("id = 1")
    (_, a, _) = shown(table, table.compute_partition_statistics())
    assert (a["position_delete_record_count"], a["position_delete_file_count"]) == (1, 1)
    assert "dv_count" not in a


def test_a_removed_file_updates_its_partition_and_an_empty_partition_goes(memory: Lake) -> None:
    table = made(memory)
    table.append(rows((5, "a")))
    table.compute_partition_statistics()
    table.delete("place = 'b'")
    removed = table.delete("id = 5")  # a whole file
    assert removed is not None
    table.append(rows((9, None)))
    for incremental in (True, False):
        found = shown(table, table.compute_partition_statistics(incremental=incremental))
        assert [row["partition"]["place"] for row in found] == [None, "a"]
        assert found[1]["last_updated_snapshot_id"] == removed.snapshot_id


TYPED: list[tuple[str, list[Any]]] = [
    ("boolean", [None, False, True]),
    ("int", [None, -5, 0, 7]),
    ("bigint", [None, -(2**40), 2**40]),
    ("float", [None, float("-inf"), -1.5, 2.0, float("nan")]),
    ("double", [None, float("-inf"), -1.5, 2.0, float("nan")]),
    ("decimal(9,2)", [None, Decimal("-1.50"), Decimal("0.25"), Decimal("10.00")]),
    ("date", [None, dt.date(1969, 1, 1), dt.date(2026, 1, 1)]),
    ("time", [None, dt.time(1), dt.time(23)]),
    ("timestamp_ntz", [None, dt.datetime(1960, 1, 1), dt.datetime(2026, 1, 1)]),
    ("string", [None, "", "B", "a", "é"]),
    ("uuid", [None, uuid.UUID(int=1), uuid.UUID(int=2**127 + 1)]),
    ("fixed(2)", [None, b"\x00\xff", b"\xff\x00"]),
    ("binary", [None, b"\x00\xff", b"\xff\x00"]),
]


@pytest.mark.parametrize(("type_", "values"), TYPED, ids=[type_ for type_, _ in TYPED])
def test_j3_partitions_of_every_type_ascend_with_null_first(memory: Lake, type_: str, values: list[Any]) -> None:
    table = memory.create_table("db.t", f"id bigint, p {type_}", partition_by=["p"])
    arrow = table.scan().schema.field("p").type
    storage = arrow.storage_type if isinstance(arrow, pa.BaseExtensionType) else arrow
    plain = [value.bytes if isinstance(value, uuid.UUID) else value for value in values]
    column = pa.array(plain[::-1], storage)
    column = arrow.wrap_array(column) if isinstance(arrow, pa.BaseExtensionType) else column
    table.append(pa.table({"id": range(len(values)), "p": column}))
    table.compute_partition_statistics()
    table.append(pa.table({"id": [99], "p": column.slice(0, 1)}))
    found = shown(table, table.compute_partition_statistics())
    assert repr([row["partition"]["p"] for row in found]) == repr(values)
    assert [row["data_file_count"] for row in found] == [1] * (len(values) - 1) + [2], "each is found again"
    full = shown(table, table.compute_partition_statistics(incremental=False))
    assert repr(full) == repr(found)


def test_a_second_computation_reads_only_what_changed(memory: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(memory)
    for number in range(5):
        table.append(rows((number, "c")))
    table.compute_partition_statistics()
    table.append(rows((9, "c")))
    seen: list[int] = []
    entries = partition_counts.Subject.entries
    monkeypatch.setattr(
        partition_counts.Subject,
        "entries",
        lambda self, manifests, columns: seen.append(len(manifests)) or entries(self, manifests, columns),
    )
    table.compute_partition_statistics()
    assert sum(seen) == 1
    table.compute_partition_statistics(incremental=False)
    assert sum(seen) == 8


def test_statistics_that_are_there_are_returned_and_only_replaced_on_demand(memory: Lake) -> None:
    table = made(memory)
    first = table.compute_partition_statistics()
    version = table.metadata_location
    assert table.compute_partition_statistics() == first
    assert table.metadata_location == version, "nothing was committed"
    second = table.compute_partition_statistics(incremental=False)
    assert second != first
    assert list(table.metadata.partition_statistics) == [second]


@pytest.mark.parametrize("damage", ["gone", "no Parquet", "impossible counts"])
def test_earlier_statistics_that_cannot_be_used_are_no_reason_to_fail(memory: Lake, damage: str) -> None:
    table = made(memory)
    file = table.compute_partition_statistics()
    assert file is not None
    storage = memory.catalog.storage()
    old = parquet(memory, file).read()
    storage.delete(file.path)
    if damage == "no Parquet":
        storage.write_new(file.path, b"nothing of the kind")
    if damage == "impossible counts":
        place = old.schema.get_field_index("data_file_count")
        sink = pa.BufferOutputStream()
        wrong = pa.array([-5] * old.num_rows, pa.int32())
        pq.write_table(old.set_column(place, old.schema.field(place), wrong), sink)
        storage.write_new(file.path, sink.getvalue().to_pybytes())
    table.append(rows((9, "a")))
    found = shown(table, table.compute_partition_statistics())
    assert [(row["data_record_count"], row["data_file_count"]) for row in found] == [(1, 1), (3, 2), (1, 1)]


def test_an_earlier_file_of_fewer_fields_and_narrower_types_is_used(memory: Lake) -> None:
    table = memory.create_table("db.t", "id int, place string", partition_by=["place", "id"])
    table.append(pa.table({"id": pa.array([1, 2], pa.int32()), "place": ["a", "b"]}))
    table.compute_partition_statistics()
    with table.alter() as change:
        change.widen_column("id", "bigint")
        change.add_partition("truncate(1, place)")
        change.upgrade_format(3)
    table.append(pa.table({"id": pa.array([2**40], pa.int64()), "place": ["a"]}))
    found = shown(table, table.compute_partition_statistics())
    assert [list(row["partition"].values()) for row in found] == [["a", 1, None], ["a", 2**40, "a"], ["b", 2, None]]
    assert [row["spec_id"] for row in found] == [0, 1, 0]
    assert {row["dv_count"] for row in found} == {0}
    assert found == shown(table, table.compute_partition_statistics(incremental=False))


def test_a_branch_is_computed_from_its_own_ancestors(memory: Lake) -> None:
    table = made(memory)
    table.branch("dev")
    table.append(rows((7, "main only")))
    table.compute_partition_statistics()
    table.append(rows((8, "b")), ref="dev")
    head = table.refs["dev"].snapshot_id
    found = shown(table, table.compute_partition_statistics(head))
    assert [row["partition"]["place"] for row in found] == [None, "a", "b"]


def test_what_has_no_partition_statistics(memory: Lake) -> None:
    table = memory.create_table("db.t", "id bigint, place string", partition_by=["place"])
    assert table.compute_partition_statistics() is None
    table.append(rows((1, "a")))
    table.delete("true")
    assert table.compute_partition_statistics() is None
    assert not table.metadata.partition_statistics
    with pytest.raises(NoSuchSnapshot):
        table.compute_partition_statistics(5)
    plain = memory.create_table("db.plain", "id bigint")
    with pytest.raises(InvalidInput, match=r"of db\.plain: it is not partitioned"):
        plain.compute_partition_statistics()


def test_a_snapshot_that_expires_in_the_meantime_is_a_conflict(memory: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(memory)
    old = table.snapshots[0].snapshot_id
    table.append(rows((9, "a")))
    catalog, swap = memory.catalog, memory.catalog.swap

    def late(name: TableName, base: TableState, new: TableMetadata) -> Swap:
        monkeypatch.setattr(catalog, "swap", swap)
        swap(name, base, without_snapshots(base.metadata, {old}))
        return swap(name, base, new)

    monkeypatch.setattr(catalog, "swap", late)
    with pytest.raises(Conflict, match="has expired"):
        table.compute_partition_statistics(old)
    assert stats_files(memory) == []


def test_expiry_takes_partition_statistics_along(memory: Lake) -> None:
    table = made(memory)
    table.compute_partition_statistics()
    old = table.snapshots[0].snapshot_id
    table.append(rows((9, "a")))
    kept = table.compute_partition_statistics()
    assert kept is not None
    assert list(without_snapshots(table.metadata, {old}).partition_statistics) == [kept]


def test_the_newest_of_two_statistics_of_one_snapshot_counts() -> None:
    one = PartitionStatisticsFile(snapshot_id=1, path="one", file_size=1)
    two = dataclasses.replace(one, path="two")
    base = esker.connect("memory:")
    base.create_namespace("db")
    metadata = base.create_table("db.t", "id int").metadata
    again = with_partition_statistics(with_partition_statistics(metadata, one), two)
    assert list(again.partition_statistics) == [two]
