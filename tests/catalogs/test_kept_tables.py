"""A lake reads a table's metadata once for each version, and keeps a bounded number of tables."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import esker
from esker import lake as lakes
from esker.catalogs import metadata_files
from esker.lake import Lake

Connect = Callable[[], Lake]


@pytest.fixture
def connect(tmp_path: Path) -> Connect:
    def made() -> Lake:
        return esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))

    lake = made()
    lake.create_namespace("a")
    for name in ("a.t", "a.u"):
        lake.create_table(name, "id bigint").append([{"id": 1}])
    return made


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The metadata files that are decoded."""
    found: list[str] = []
    decode = metadata_files.decode_table_metadata

    def noted(location: str, content: bytes) -> Any:
        found.append(location)
        return decode(location, content)

    monkeypatch.setattr(metadata_files, "decode_table_metadata", noted)
    return found


def test_a_table_is_read_once_while_its_pointer_stays(connect: Connect, reads: list[str]) -> None:
    lake = connect()
    tables = [lake.table("a.t") for _ in range(5)]
    assert reads == [tables[0].metadata_location]
    assert [table.scan().count() for table in tables] == [1] * 5


def test_a_commit_of_another_lake_is_seen_at_once(connect: Connect, reads: list[str]) -> None:
    lake, other = connect(), connect()
    before = lake.table("a.t")
    other.table("a.t").append([{"id": 2}])
    assert lake.table("a.t").scan().count() == 2
    assert before.scan().count() == 1
    other.drop_table("a.t")
    with pytest.raises(esker.errors.NoSuchTable):
        lake.table("a.t")
    other.create_table("a.t", "name string")
    assert [field.name for field in lake.table("a.t").schema] == ["name"]


def test_the_kept_tables_are_bounded(connect: Connect, reads: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    lake = connect()
    monkeypatch.setattr(lakes, "_MOST_TABLES", 1)
    for name in ("a.t", "a.t", "a.u", "a.u", "a.t"):
        lake.table(name)
    assert len(reads) == 3
    monkeypatch.setattr(lakes, "_MOST_SNAPSHOTS", 1)
    lake.table("a.t").append([{"id": 2}])
    del reads[:]
    for _ in range(3):  # its history is too long now
        lake.table("a.t")
    assert len(reads) == 3


def test_threads_share_what_is_kept(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lakes, "_MOST_TABLES", 1)
    lake = connect()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda at: lake.table("a.t" if at % 2 else "a.u").scan().count(), range(200)))
    assert found == [1] * 200
