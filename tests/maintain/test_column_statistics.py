"""Sketches of columns: what they count, what the file contains, and how it is registered beside other writers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import esker
from esker.errors import Conflict, InvalidInput, NoSuchSnapshot, OutcomeUnknown
from esker.iceberg.puffin import NewBlob, encode_puffin, read_blob, read_footer
from esker.iceberg.theta_sketch import decode_theta_sketch
from esker.lake import Lake
from esker.model.table_names import TableName
from esker.ports.catalog import Swap, TableState, Unanswered
from esker.table import Table
from esker.tree.table_metadata import StatisticsFile, TableMetadata
from esker.write.refs.retention import without_snapshots
from esker.write.table_changes import with_statistics

NAME = TableName(("db",), "t")
SCHEMA = "id bigint, name string, st struct<a: int, l: array<int>>, tags array<string>"


@pytest.fixture(params=["memory:", "sqlite:///{tmp}/catalog.db", "file://{tmp}/lake"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    lake = esker.connect(request.param.format(tmp=tmp_path))
    lake.create_namespace("db")
    return lake


@pytest.fixture
def memory() -> Lake:
    lake = esker.connect("memory:")
    lake.create_namespace("db")
    return lake


def rows(*ids: int) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": [None if id_ % 5 == 0 else f"n{id_ % 3}" for id_ in ids],
            "st": [{"a": id_ % 4, "l": [id_]} for id_ in ids],
            "tags": [["x"] for _ in ids],
        }
    )


def made(lake: Lake, **more: Any) -> Table:
    table = lake.create_table("db.t", SCHEMA, **more)
    table.append(rows(*range(20)))
    return table


def counts(file: StatisticsFile | None) -> dict[int, int]:
    assert file is not None
    return {blob["fields"][0]: int(blob["properties"]["ndv"]) for blob in file.blobs}


def stored(lake: Lake, file: StatisticsFile) -> dict[int, int]:
    """The estimates of the sketches in the file itself."""
    content = lake.catalog.storage().read(file.path)

    def read(offset: int, length: int) -> bytes:
        return content[offset : offset + length]

    footer = read_footer(file.path, len(content), read)
    assert (file.file_size, file.footer_size) == (len(content), footer.size)
    assert [(b.type, b.snapshot_id, b.sequence_number) for b in footer.blobs] == [
        (b["type"], b["snapshot-id"], b["sequence-number"]) for b in file.blobs
    ]
    return {
        blob.fields[0]: decode_theta_sketch(file.path, read_blob(file.path, blob, read)).estimate
        for blob in footer.blobs
    }


def stats_files(lake: Lake) -> list[str]:
    place = lake.table("db.t").location
    return [file.location for file in lake.catalog.storage().list(place) if file.location.endswith(".stats")]


@pytest.fixture
def rival(memory: Lake, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[TableMetadata], TableMetadata]], None]:
    """Lets another writer commit just before the next swap."""
    catalog = memory.catalog
    swap = catalog.swap

    def arrange(change: Callable[[TableMetadata], TableMetadata]) -> None:
        def late(name: TableName, base: TableState, new: TableMetadata) -> Swap:
            monkeypatch.setattr(catalog, "swap", swap)
            now = catalog.load(name)
            swap(name, now, change(now.metadata))
            return swap(name, base, new)

        monkeypatch.setattr(catalog, "swap", late)

    return arrange


def test_every_primitive_column_is_counted_and_the_file_is_registered(lake: Lake) -> None:
    table = made(lake)
    file = table.compute_statistics()
    assert file is not None
    assert counts(file) == {1: 20, 2: 3}
    assert stored(lake, file) == {1: 20, 2: 3}
    again = lake.table("db.t")
    assert list(again.metadata.statistics) == [file]
    assert file.snapshot_id == again.metadata.current_snapshot_id
    assert table.metadata.statistics == again.metadata.statistics
    assert again.current_snapshot == table.current_snapshot, "no snapshot is added"
    assert again.metadata.last_updated_ms > again.snapshots[-1].timestamp_ms


def test_chosen_columns_may_be_in_structs_and_are_counted_once(memory: Lake) -> None:
    table = made(memory)
    assert counts(table.compute_statistics(["st.a", "NAME", "name"])) == {5: 4, 2: 3}


def test_statistics_of_other_columns_are_kept(memory: Lake) -> None:
    table = made(memory)
    first = table.compute_statistics(["id"])
    second = table.compute_statistics(["name"])
    assert first is not None
    assert second is not None
    assert counts(second) == {2: 3, 1: 20}
    assert stored(memory, second) == counts(second)
    assert list(table.metadata.statistics) == [second]


def test_a_newer_sketch_replaces_the_one_of_the_same_column(memory: Lake) -> None:
    table = made(memory)
    table.compute_statistics(["id"])
    assert len(getattr(table.compute_statistics(["id"]), "blobs")) == 1  # noqa: B009  # it may be None


def test_blobs_of_other_kinds_are_kept(memory: Lake) -> None:
    table = made(memory)
    snapshot = table.current_snapshot
    assert snapshot is not None
    other = NewBlob(type="histogram", content=b"h", fields=(1,), snapshot_id=snapshot.snapshot_id, sequence_number=1)
    content, footer = encode_puffin([other])
    path = f"{table.location}/metadata/other.stats"
    memory.catalog.storage().write_new(path, content)
    entry = {"type": "histogram", "snapshot-id": snapshot.snapshot_id, "sequence-number": 1, "fields": [1]}
    file = StatisticsFile(
        snapshot_id=snapshot.snapshot_id,
        path=path,
        file_size=len(content),
        footer_size=footer.size,
        blobs=(entry,),
    )
    state = memory.catalog.load(NAME)
    memory.catalog.swap(NAME, state, with_statistics(state.metadata, file))
    found = memory.table("db.t").compute_statistics(["id"])
    assert found is not None
    assert [blob["type"] for blob in found.blobs] == ["apache-datasketches-theta-v1", "histogram"]


def test_a_replaced_file_that_is_gone_is_no_reason_to_fail(memory: Lake) -> None:
    table = made(memory)
    first = table.compute_statistics(["id"])
    assert first is not None
    memory.catalog.storage().delete(first.path)
    assert counts(table.compute_statistics(["name"])) == {2: 3}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_deleted_rows_are_not_counted_and_each_snapshot_has_its_own(memory: Lake, version: int) -> None:
    table = made(memory, format_version=version, properties={"write.delete.mode": "merge-on-read"})
    old = table.current_snapshot
    assert old is not None
    table.delete("id >= 5")
    table.append(rows(1, 2, 100))
    assert counts(table.compute_statistics(["id"])) == {1: 6}
    assert counts(table.compute_statistics(["id"], old.snapshot_id)) == {1: 20}
    assert len(table.metadata.statistics) == 2


def test_an_old_snapshot_is_read_with_its_own_columns(memory: Lake) -> None:
    table = made(memory)
    old = table.current_snapshot
    assert old is not None
    with table.alter() as change:
        change.add_column("later", "int")
    table.append(rows(50))
    assert set(counts(table.compute_statistics(None, old.snapshot_id))) == {1, 2}
    assert len(counts(table.compute_statistics())) == 3


def test_an_empty_table_has_no_statistics(memory: Lake) -> None:
    table = memory.create_table("db.t", SCHEMA)
    assert table.compute_statistics() is None
    assert not table.metadata.statistics


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        (["nobody"], "nobody"),
        (["st"], "'st': its type"),
        (["tags"], "not primitive"),
        (["st.l.element"], "a list or a map"),
        ("id", "give a list of names"),
        ([], "give a list of names"),
    ],
)
def test_columns_that_cannot_be_counted_are_refused(memory: Lake, columns: Any, why: str) -> None:
    table = made(memory)
    with pytest.raises(InvalidInput, match=why):
        table.compute_statistics(columns)
    assert stats_files(memory) == []


def test_a_table_without_primitive_columns_is_refused(memory: Lake) -> None:
    table = memory.create_table("db.t", "tags array<int>")
    table.append(pa.table({"tags": [[1]]}))
    with pytest.raises(InvalidInput, match="no column of a primitive type"):
        table.compute_statistics()


def test_an_unknown_snapshot_is_refused(memory: Lake) -> None:
    with pytest.raises(NoSuchSnapshot):
        made(memory).compute_statistics(snapshot_id=5)


def test_a_table_opened_by_its_path_is_read_only(tmp_path: Path) -> None:
    lake = esker.connect(f"file://{tmp_path}/lake")
    lake.create_namespace("db")
    table = made(lake)
    with pytest.raises(InvalidInput, match="read-only"):
        esker.open_table(table.location).compute_statistics()


def test_an_append_in_the_meantime_does_not_disturb(memory: Lake, rival: Callable[..., None]) -> None:
    table = made(memory)
    rival(lambda metadata: dataclasses.replace(metadata, properties={"by": "another"}))
    file = table.compute_statistics(["id"])
    assert table.properties["by"] == "another"
    assert list(memory.table("db.t").metadata.statistics) == [file]
    assert len(stats_files(memory)) == 1, "the file is written once"


def test_statistics_of_another_writer_in_the_meantime_are_kept(memory: Lake, rival: Callable[..., None]) -> None:
    table = made(memory)
    other = memory.table("db.t").compute_statistics(["name"])
    assert other is not None
    state = memory.catalog.load(NAME)
    memory.catalog.swap(NAME, state, dataclasses.replace(state.metadata, statistics=()))
    rival(lambda metadata: with_statistics(metadata, other))
    file = table.compute_statistics(["id"])
    assert counts(file) == {1: 20, 2: 3}
    assert sorted(stats_files(memory)) == sorted([other.path, getattr(file, "path", "")]), "the first attempt is gone"


def test_statistics_of_a_snapshot_that_expires_in_the_meantime_are_refused(
    memory: Lake, rival: Callable[..., None]
) -> None:
    table = made(memory)
    old = table.current_snapshot
    assert old is not None
    table.append(rows(30))
    rival(lambda metadata: without_snapshots(metadata, {old.snapshot_id}))
    with pytest.raises(Conflict, match=f"snapshot {old.snapshot_id} has expired"):
        table.compute_statistics(["id"], old.snapshot_id)
    assert stats_files(memory) == [], "nothing is left of it"


def test_an_answer_that_never_came_keeps_the_file(memory: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(memory, properties={"commit.status-check.num-retries": "0"})
    monkeypatch.setattr(memory.catalog, "swap", lambda *_: Unanswered("the line is dead"))
    with pytest.raises(OutcomeUnknown):
        table.compute_statistics(["id"])
    assert len(stats_files(memory)) == 1


def test_expiry_removes_the_statistics_and_purge_the_files(lake: Lake) -> None:
    table = made(lake)
    old = table.current_snapshot
    assert old is not None
    table.compute_statistics(["id"])
    table.append(rows(30))
    table.compute_statistics(["id"])
    assert len(table.metadata.statistics) == 2
    kept = without_snapshots(table.metadata, {old.snapshot_id})
    assert [file.snapshot_id for file in kept.statistics] == [table.metadata.current_snapshot_id]
    place = table.location
    lake.drop_table("db.t", purge=True)
    left = [file.location for file in lake.catalog.storage().list(place)]
    assert [location for location in left if location.endswith(".stats")] == []
