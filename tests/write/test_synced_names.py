"""A commit syncs each file and each folder once, and nothing that it leads to could be lost in a power cut."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from power_cut import watch_disk

import esker
from esker.errors import StorageFailed
from esker.ports.storage import NewNames, join_names, names_in, names_together, sync_names
from esker.storage.local import LocalStorage


def lake_of(kind: str, folder: Path) -> esker.Lake:
    uri = f"sqlite:///{folder}/catalog.db" if kind == "sqlite" else f"file://{folder}/warehouse"
    lake = esker.connect(uri, warehouse=f"{folder}/warehouse") if kind == "sqlite" else esker.connect(uri)
    lake.create_namespace("a")
    return lake


@pytest.fixture
def fsyncs(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    count = 0
    fsync = os.fsync

    def counted(handle: int) -> None:
        nonlocal count
        count += 1
        fsync(handle)

    monkeypatch.setattr(os, "fsync", counted)
    return lambda: count


@pytest.mark.parametrize(("kind", "most"), [("sqlite", 6), ("directory", 7)])
def test_an_append_syncs_four_files_and_their_folders_once(
    tmp_path: Path, kind: str, most: int, fsyncs: Callable[[], int]
) -> None:
    table = lake_of(kind, tmp_path).create_table("a.t", "id bigint")
    table.append([{"id": 1}])
    before = fsyncs()
    table.append([{"id": 2}])
    assert fsyncs() - before <= most


def test_data_files_of_one_folder_share_its_sync(tmp_path: Path, fsyncs: Callable[[], int]) -> None:
    properties = {"write.target-file-size-bytes": "1", "write.parquet.row-group-limit": "1"}
    table = lake_of("sqlite", tmp_path).create_table("a.t", "id bigint", properties=properties)
    table.append([{"id": 0}])
    before = fsyncs()
    with table.transaction() as tx:
        tx.append([{"id": n} for n in range(8)])
        written = fsyncs() - before
    files = table.inspect.files().num_rows - 1
    assert files >= 8
    assert written == files  # their folder is synced with the commit
    assert fsyncs() - before == files + 5  # two folders, the manifest, the list and the metadata


def test_f42_nothing_is_at_risk_when_the_pointer_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = lake_of("sqlite", tmp_path)
    table = lake.create_table("a.t", "part int, id bigint", partition_by=["part"])
    disk = watch_disk(monkeypatch)
    pointers: Any = lake.catalog._pointers  # type: ignore[attr-defined]
    at_risk: list[Any] = []
    move = type(pointers).move

    def watched(self: Any, *given: Any) -> Any:
        at_risk.append(disk.at_risk())
        return move(self, *given)

    put_new = type(pointers).put_new

    def watched_first(self: Any, *given: Any) -> Any:
        at_risk.append(disk.at_risk())
        return put_new(self, *given)

    monkeypatch.setattr(type(pointers), "move", watched)
    monkeypatch.setattr(type(pointers), "put_new", watched_first)
    table.append([{"part": n % 3, "id": n} for n in range(6)])
    table.delete("id = 1")
    lake.create_table_as("a.u", "id bigint", [{"id": 1}])
    lake.replace_table("a.u", "id bigint", [{"id": 2}])
    assert len(disk.named) > 16
    assert at_risk == [frozenset()] * 4
    assert not disk.at_risk()


def test_f42_nothing_is_at_risk_when_the_next_version_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake_of("directory", tmp_path).create_table("a.t", "id bigint")
    disk = watch_disk(monkeypatch)
    versions: list[Any] = []
    link = os.link

    def watched(source: Any, target: Any, **how: Any) -> None:
        if how:  # by a handle of the folder: the name of a version
            versions.append(disk.at_risk())
        link(source, target, **how)

    monkeypatch.setattr(os, "link", watched)
    table.append([{"id": 1}])
    table.append([{"id": 2}])
    assert versions == [frozenset(), frozenset()]
    assert not disk.at_risk()


@pytest.mark.parametrize("kind", ["sqlite", "directory"])
@pytest.mark.parametrize("at", range(6))  # a directory has a seventh, after the commit
def test_a_sync_that_fails_commits_nothing(tmp_path: Path, kind: str, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake_of(kind, tmp_path).create_table("a.t", "id bigint")
    table.append([{"id": 1}])
    files = {path for path in tmp_path.rglob("*") if path.is_file() and path.suffix in (".parquet", ".avro", ".json")}
    calls = 0
    fsync = os.fsync

    def failing(handle: int) -> None:
        nonlocal calls
        calls += 1
        if calls == at + 1:
            raise OSError(5, "input/output error")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(StorageFailed):
        table.append([{"id": 2}])
    monkeypatch.setattr(os, "fsync", fsync)
    assert table.refresh().scan().count() == 1
    left = {path for path in tmp_path.rglob("*") if path.is_file() and path.suffix in (".parquet", ".avro", ".json")}
    assert left == files
    table.append([{"id": 3}])
    assert table.scan().count() == 2


def test_names_wait_only_in_the_block(tmp_path: Path, fsyncs: Callable[[], int]) -> None:
    storage = LocalStorage()
    with names_together() as names:
        storage.write_new(f"{tmp_path}/a", b"1")
        storage.write_new(f"{tmp_path}/b", b"2")
        assert fsyncs() == 2
        sync_names()
        assert fsyncs() == 3
        names.end()
        storage.write_new(f"{tmp_path}/c", b"3")
        assert fsyncs() == 5
    storage.write_new(f"{tmp_path}/d", b"4")
    assert fsyncs() == 7


def test_names_may_wait_for_a_later_block(tmp_path: Path, fsyncs: Callable[[], int]) -> None:
    storage = LocalStorage()
    names = NewNames()
    for file in ("a", "b"):
        with names_in(names):
            storage.write_new(f"{tmp_path}/{file}", b"1")
    assert fsyncs() == 2
    with names_together():
        join_names(names)
        storage.write_new(f"{tmp_path}/c", b"3")
        assert fsyncs() == 3
    assert fsyncs() == 4  # one folder, once
    join_names(names)  # outside of a block they are made safe at once
    assert fsyncs() == 5
    join_names(names)
    assert fsyncs() == 5


@pytest.mark.parametrize("kind", ["sqlite", "directory"])
def test_f42_appends_of_a_group_share_the_syncs_of_folders_and_of_the_metadata(
    tmp_path: Path, kind: str, fsyncs: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = lake_of(kind, tmp_path)
    table = lake.create_table("a.t", "id bigint")
    table.append([{"id": 0}])
    disk = watch_disk(monkeypatch)
    at_risk: list[Any] = []
    catalog: Any = lake.catalog
    is_held, may_go = threading.Event(), threading.Event()
    swap = type(catalog).swap

    def held(self: Any, *given: Any) -> Any:
        if not is_held.is_set():
            is_held.set()
            assert may_go.wait(60)
        return swap(self, *given)

    def watched(step: Any) -> Any:
        def call(*given: Any, **how: Any) -> Any:
            at_risk.append(disk.at_risk())
            return step(*given, **how)

        return call

    monkeypatch.setattr(type(catalog), "swap", held)
    if kind == "sqlite":
        monkeypatch.setattr(type(catalog._pointers), "move", watched(type(catalog._pointers).move))
    threads = [threading.Thread(target=lambda at=at: lake.table("a.t").append([{"id": at}])) for at in range(9)]
    threads[0].start()
    assert is_held.wait(60)
    commits = table._at_home().commits
    before = fsyncs()
    for number, thread in enumerate(threads[1:], 1):
        thread.start()
        while sum(len(queue.waiting) for queue in commits._queues.values()) < number:
            time.sleep(0.001)
    assert fsyncs() - before == 8 * 2  # the data and the manifest of each
    before = fsyncs()
    may_go.set()
    for thread in threads:
        thread.join(60)
    first, together = (3, 3) if kind == "sqlite" else (2, 4)  # the metadata, and the folders that were not synced yet
    assert fsyncs() - before == first + 8 + together  # and a list for each
    assert table.refresh().scan().count() == 10
    assert not disk.at_risk()
    if kind == "sqlite":
        assert at_risk == [frozenset()] * 2
