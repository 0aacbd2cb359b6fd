"""A lake that can be read but not written, such as one on a read-only mount, is read; a write says why it fails."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

import esker
from esker.errors import StorageFailed

NOBODY = 65534


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that another user can reach too."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    yield made
    for path in (made, *made.rglob("*")):
        path.chmod(0o755)
    shutil.rmtree(made)


@contextmanager
def without_rights(*places: Path) -> Iterator[None]:
    """Nothing at those places can be written; root, who may write anything, is another user meanwhile."""
    for path in places:
        path.chmod(0o555 if path.is_dir() else 0o444)
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def _filled(place: Path) -> None:
    lake = esker.connect(f"sqlite:///{place}/catalog.db")
    lake.create_namespace("sales")
    lake.create_table("sales.orders", "id int").append(pa.table({"id": pa.array([1, 2], pa.int32())}))
    lake.create_view("sales.v", "SELECT 1 AS x", schema="x int")


def _everything(place: Path) -> list[Path]:
    return [place, *place.rglob("*")]


def _file_alone(place: Path) -> list[Path]:
    return [place / "catalog.db"]


@pytest.mark.parametrize("which", [_everything, _file_alone])
def test_a_read_only_lake_is_read(place: Path, which: Callable[[Path], list[Path]]) -> None:
    _filled(place)
    with without_rights(*which(place)):
        lake = esker.connect(f"sqlite:///{place}/catalog.db")
        for _ in range(2):  # whatever the first look left open
            assert lake.tables() == ["sales.orders"]
            assert lake.views() == ["sales.v"]
            assert sorted(lake.table("sales.orders").to_arrow()["id"].to_pylist()) == [1, 2]
        assert not list(place.glob("*-wal")) or which is _file_alone


@pytest.mark.parametrize("which", [_everything, _file_alone])
def test_f25_writing_to_it_says_that_it_is_read_only(place: Path, which: Callable[[Path], list[Path]]) -> None:
    _filled(place)
    with without_rights(*which(place)):
        lake = esker.connect(f"sqlite:///{place}/catalog.db")
        with pytest.raises(StorageFailed, match=r"cannot create namespace b: .*catalog\.db is read-only") as raised:
            lake.create_namespace("b")
        assert raised.value.retryable is False
        with pytest.raises(StorageFailed, match="read-only"):
            lake.drop_view("sales.v")
        assert lake.tables() == ["sales.orders"]


def test_changes_that_are_in_a_journal_only_are_not_left_out_in_silence(place: Path) -> None:
    _filled(place)
    file = place / "catalog.db"
    writer = sqlite3.connect(file)
    try:
        writer.execute("PRAGMA wal_autocheckpoint = 0")
        writer.execute("DELETE FROM iceberg_tables")
        writer.commit()
        copy = place / "copy"
        copy.mkdir()
        for name in ("catalog.db", "catalog.db-wal"):  # what a backup may hold
            shutil.copyfile(place / name, copy / name)
    finally:
        writer.close()
    with without_rights(*_everything(copy)):
        lake = esker.connect(f"sqlite:///{copy}/catalog.db")
        with pytest.raises(StorageFailed, match=r"catalog\.db-wal beside it has changes"):
            lake.tables()


def test_a_read_only_directory_is_read(place: Path) -> None:
    lake = esker.connect(f"file://{place}/lake")
    lake.create_namespace("sales")
    lake.create_table("sales.orders", "id int").append(pa.table({"id": pa.array([1], pa.int32())}))
    with without_rights(*_everything(place / "lake")):
        found = esker.connect(f"file://{place}/lake")
        assert found.tables() == ["sales.orders"]
        assert found.table("sales.orders").to_arrow().num_rows == 1
        with pytest.raises(StorageFailed, match=r"ermission|read-only") as raised:
            found.table("sales.orders").append(pa.table({"id": pa.array([2], pa.int32())}))
        assert raised.value.retryable is False
