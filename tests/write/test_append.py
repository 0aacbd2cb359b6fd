"""Appending: one snapshot each, at a cost that follows the change, and nothing at all where it is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from doors import Door, MemoryLake
from orders import NAME, orders, rows
from sound_tables import check_sound, live_files, manifests_of, rows_of

import esker
from esker.errors import EskerError, InvalidInput, NoSuchSnapshot
from esker.iceberg.format import IcebergFormat
from esker.tree.manifest import EntryStatus
from esker.tree.manifest_list import ManifestContent


@pytest.fixture
def memory() -> MemoryLake:
    return MemoryLake()


def test_an_append_to_a_fresh_table_lists_one_manifest_with_exactly_its_files(memory: MemoryLake) -> None:
    table = orders(memory.lake(), partition_by=["region"])
    snapshot = table.append(pa.concat_tables([rows([1, 2], "eu"), rows([3], "us")]))
    [manifest] = manifests_of(table)
    assert (manifest.added_files, manifest.existing_files, manifest.deleted_files) == (2, 0, 0)
    assert sorted(file.partition for file in live_files(table)) == [("eu",), ("us",)]
    assert {file.path for file in live_files(table)} == {p for p in memory.files() if p.endswith(".parquet")}
    assert snapshot == table.current_snapshot
    assert snapshot.parent_snapshot_id is None
    assert table.scan().to_arrow().num_rows == 3
    check_sound(memory.lake(), NAME)


def test_ten_appends_are_ten_snapshots_with_the_right_parents(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    made = [table.append(rows([at])) for at in range(10)]
    assert [s.snapshot_id for s in table.snapshots] == [s.snapshot_id for s in made]
    assert [s.parent_snapshot_id for s in made] == [None, *(s.snapshot_id for s in made[:-1])]
    assert [s.sequence_number for s in made] == list(range(1, 11))
    assert [entry.snapshot_id for entry in table.history] == [s.snapshot_id for s in made]
    assert [len(manifests_of(table, s)) for s in made] == list(range(1, 11))
    for at, snapshot in enumerate(made):
        assert rows_of(table, snapshot_id=snapshot.snapshot_id) == list(range(at + 1))
    check_sound(memory.lake(), NAME)


def test_an_append_of_twelve_files_to_a_hundred_manifests_writes_one_manifest_one_list_and_one_metadata_file(
    memory: MemoryLake,
) -> None:
    orders(memory.lake(), partition_by=["region"])
    before = memory.lake().table(NAME)
    for at in range(100):
        before.append(rows([at], "old"))
    there = {file: memory.storage.read(file) for file in memory.files()}
    door = Door()
    table = memory.lake(door).table(NAME)
    door.calls.clear()

    snapshot = table.append(pa.concat_tables([rows([1000 + at], f"r{at}") for at in range(12)]))

    written = door.of("write")
    assert sum(w.endswith(".parquet") for w in written) == 12
    assert [w.rpartition("/")[2].partition("-")[0] for w in written if w.endswith(".avro")].count("snap") == 1
    assert sum(w.endswith(".avro") for w in written) == 2
    assert sum(w.endswith(".metadata.json") for w in written) == 1
    assert len(written) == 15
    assert len(door.of("move")) == 1
    assert door.of("delete", "list") == []
    # of what is there it reads the parent's list alone: no manifest, no metadata, no data
    assert door.of("read", "open", "size", "exists") == [before.snapshots[-1].manifest_list]
    assert {file: memory.storage.read(file) for file in there} == there
    listed = manifests_of(table)
    assert len(listed) == 101
    assert listed[0].added_files == 12
    assert [m.path for m in listed[1:]] == [m.path for m in manifests_of(before.refresh(), before.snapshots[99])]
    assert snapshot.summary["manifests-created"] == "1"
    assert snapshot.summary["manifests-kept"] == "100"
    check_sound(memory.lake(), NAME, deep=False)


def test_an_append_does_not_decode_the_parents_list(memory: MemoryLake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = orders(memory.lake())
    for at in range(3):
        table.append(rows([at]))

    def fail(*_: object) -> None:
        raise AssertionError("the list was decoded")

    with monkeypatch.context() as patch:
        patch.setattr(IcebergFormat, "manifests", fail)
        table.append(rows([3]))
    assert rows_of(table) == [0, 1, 2, 3]


def test_a_reader_that_started_before_a_hundred_commits_reads_its_own_snapshot(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    table.append(rows([1, 2, 3]))
    reader = memory.lake().table(NAME)
    scan = reader.scan()
    batches = reader.scan().to_batches()
    for at in range(100):
        if at % 10 == 9:
            table.delete(f"id in ({99 + at}, {at // 30})")
        else:
            table.append(rows([100 + at]))
    assert sorted(scan.to_arrow().column("id").to_pylist()) == [1, 2, 3]
    assert sorted(id_ for batch in batches for id_ in batch.column("id").to_pylist()) == [1, 2, 3]
    assert rows_of(reader) == [1, 2, 3]
    assert rows_of(table, snapshot_id=reader.current_snapshot.snapshot_id) == [1, 2, 3]  # type: ignore[union-attr]
    assert len(reader.refresh().snapshots) == 101
    assert len(rows_of(reader)) == 90 - 10 + 3 - len({1, 2, 3})


def test_a_snapshot_fifty_commits_back_still_has_its_own_files(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    kept: dict[int, list[int]] = {}
    for at in range(60):
        snapshot = table.overwrite(rows([at]), where=f"id = {at - 3}")
        kept[snapshot.snapshot_id] = rows_of(table)
    for snapshot_id, expected in kept.items():
        assert rows_of(table, snapshot_id=snapshot_id) == expected


BAD: list[tuple[str, Any, str]] = [
    ("a required column is missing", {"region": ["eu"]}, "id"),
    ("a required value is null", {"id": pa.array([1, None], pa.int64())}, "id"),
    ("a type is wrong", {"id": [1], "region": [5]}, "region"),
    ("a column is unknown", {"id": [1], "colour": ["red"]}, "colour"),
    ("a cast would lose", {"id": [1], "n": pa.array([1 << 40], pa.int64())}, "n"),
    ("a cast would round", {"id": [1], "n": [1.5]}, "n"),
]


@pytest.mark.parametrize(("why", "data", "column"), BAD, ids=[why for why, _, _ in BAD])
@pytest.mark.parametrize("verb", ["append", "overwrite", "overwrite_partitions"])
def test_what_does_not_fit_is_refused_by_the_name_of_its_column_and_leaves_nothing(
    memory: MemoryLake, verb: str, why: str, data: Any, column: str
) -> None:
    table = orders(memory.lake())
    table.append(rows([1, 2]))
    there, location = memory.files(), table.metadata_location
    door = Door()
    with pytest.raises(InvalidInput, match=repr(column)) as raised:
        getattr(memory.lake(door).table(NAME), verb)(pa.table(data))
    assert raised.value.column == column
    assert memory.files() == there
    assert memory.lake().table(NAME).metadata_location == location
    if "null" not in why and "lose" not in why and "round" not in why:  # said by the schema alone
        assert door.of("write", "begin") == []


def test_a_null_found_late_in_a_stream_takes_back_the_files_before_it(memory: MemoryLake) -> None:
    table = orders(memory.lake(), partition_by=["region"], properties={"write.target-file-size-bytes": "1"})
    schema = rows([1]).schema
    there = memory.files()

    def batches() -> Any:
        for at in range(20):
            yield from rows([at], f"r{at}").to_batches()
        yield pa.record_batch([pa.array([None], pa.int64()), pa.array(["x"]), pa.array([1], pa.int32())], schema=schema)

    with pytest.raises(InvalidInput, match="'id'"):
        table.append(pa.RecordBatchReader.from_batches(schema, batches()))
    assert memory.files() == there
    assert table.refresh().current_snapshot is None


def test_a_stream_that_breaks_raises_its_own_error_and_leaves_nothing(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    there = memory.files()

    def batches() -> Any:
        yield from rows([1]).to_batches()
        raise ZeroDivisionError("the source broke")

    with pytest.raises(ZeroDivisionError, match="the source broke"):
        table.append(pa.RecordBatchReader.from_batches(rows([1]).schema, batches()))
    assert memory.files() == there


def test_an_append_to_a_branch_that_is_not_there_writes_nothing(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    there = memory.files()
    with pytest.raises(NoSuchSnapshot, match="branch 'dev': it does not exist"):
        table.append(rows([1]), ref="dev")
    assert memory.files() == there


@pytest.mark.parametrize(
    ("summary", "said"),
    [({"wap.id": "w1"}, r"write\.wap\.enabled"), ({"a": 1}, "keys and values must be text")],
)
def test_an_append_that_cannot_be_committed_is_refused_before_anything_is_written(
    memory: MemoryLake, summary: Any, said: str
) -> None:
    table = orders(memory.lake())
    there = memory.files()
    door = Door()
    with pytest.raises(InvalidInput, match=said):
        memory.lake(door).table(NAME).append(rows([1]), summary=summary)
    assert door.of("begin", "write") == []
    assert memory.files() == there
    assert table.refresh().current_snapshot is None


def test_an_append_of_no_rows_is_a_snapshot_without_files(memory: MemoryLake) -> None:
    table = orders(memory.lake())
    assert table.append(rows([])).summary["total-records"] == "0"
    table.append(rows([1]))
    table.append(rows([]))
    assert rows_of(table) == [1]
    check_sound(memory.lake(), NAME)


def test_b3_new_entries_carry_no_sequence_numbers(memory: MemoryLake) -> None:
    import fastavro

    table = orders(memory.lake())
    table.append(rows([1]))
    [manifest] = manifests_of(table)
    with memory.storage.open(manifest.path) as file:
        [record] = list(fastavro.reader(file))
    assert record["status"] == EntryStatus.ADDED
    assert record["sequence_number"] is None
    assert record["file_sequence_number"] is None
    assert record["snapshot_id"] == table.current_snapshot.snapshot_id  # type: ignore[union-attr]
    [file_] = live_files(table)
    assert (file_.sequence_number, file_.file_sequence_number) == (1, 1)


def test_c5_an_append_carries_delete_manifests_forward(memory: MemoryLake) -> None:
    from with_deletes import commit_deletes, position_delete

    table = orders(memory.lake())
    table.append(rows([1, 2, 3]))
    [file] = live_files(table)
    commit_deletes(table, position_delete(table, file, [1]))
    assert rows_of(table) == [1, 3]
    table.append(rows([4]))
    table.append(rows([5]))
    assert rows_of(table) == [1, 3, 4, 5]
    assert [m.content for m in manifests_of(table)].count(ManifestContent.DELETES) == 1
    check_sound(memory.lake(), NAME)


def test_d8_snapshot_ids_are_random_over_63_bits(memory: MemoryLake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = orders(memory.lake())
    ids = [table.append(rows([at])).snapshot_id for at in range(20)]
    assert all(0 < id_ < 1 << 63 for id_ in ids)
    assert len({id_ >> 40 for id_ in ids}) == 20
    drawn = iter([ids[3], 0, ids[19], 4_242_424_242_424_242_424])
    monkeypatch.setattr("esker.write.context.secrets.randbits", lambda bits: next(drawn))
    assert memory.lake().table(NAME).append(rows([21])).snapshot_id == 4_242_424_242_424_242_424


def test_d8_no_id_is_taken_for_used_because_its_digits_are_in_another(
    memory: MemoryLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A false alarm is only one more draw, yet small ids must not draw for ever."""
    table = orders(memory.lake())
    for at in range(3):
        table.append(rows([at]))
    drawn = iter([1, 2, 99_999_999_999])
    monkeypatch.setattr("esker.write.context.secrets.randbits", lambda bits: next(drawn))
    assert memory.lake().table(NAME).append(rows([4])).snapshot_id in (1, 2, 99_999_999_999)


def test_e9_every_column_is_in_the_data_file_partition_columns_too(tmp_path: Path) -> None:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db")
    table = orders(lake, partition_by=["region", "bucket(4, id)"])
    table.append(rows([1, 2, 3]))
    for file in live_files(table):
        assert pq.read_schema(file.path).names == ["id", "region", "n"]


def test_d12_time_never_steps_back(memory: MemoryLake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = orders(memory.lake())
    first = table.append(rows([1]))
    monkeypatch.setattr("esker.write.table_changes.time.time_ns", lambda: (first.timestamp_ms - 3_600_000) * 1_000_000)
    second = table.append(rows([2]))
    third = table.append(rows([3]))
    assert first.timestamp_ms < second.timestamp_ms < third.timestamp_ms
    assert [e.timestamp_ms for e in table.history] == [s.timestamp_ms for s in (first, second, third)]
    assert rows_of(table, as_of=second.timestamp_ms) == [1, 2]


def test_data_is_taken_from_pandas_polars_readers_and_anything_with_a_stream(memory: MemoryLake) -> None:
    import polars as pl

    table = orders(memory.lake())
    data = rows([1])
    table.append(data)
    table.append(data.to_batches()[0])
    table.append(data.to_reader())
    table.append(data.to_pandas())
    table.append(pl.from_arrow(data))
    assert rows_of(table) == [1] * 5
    with pytest.raises(EskerError, match="cannot"):
        table.append(object())


def test_a_table_opened_by_its_path_is_read_only(tmp_path: Path) -> None:
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db")
    place = orders(lake).location
    with pytest.raises(InvalidInput, match="opened by its path is read-only; register it"):
        esker.open_table(place).append(rows([1]))
