"""Orphans found by a listing on Spark: the same as by one in this process, and none if a folder cannot be listed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import esker
from esker.errors import EskerError
from esker.ports.storage import StoredFile
from esker.spark.scan import spread_jobs
from esker.storage.local import LocalStorage
from esker.table import Table

WEEK = timedelta(days=7)


@pytest.fixture
def table(spark: Any, tmp_path: Path) -> Table:
    """Twelve partitions, each with an old stray file and a young one; another stray beside the folders."""
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "w"), spark=spark)
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint, part int", partition_by=["part"])
    table.append(pa.table({"id": pa.array(range(12), pa.int64()), "part": pa.array(range(12), pa.int32())}))
    root = folder_of(table)
    for part in range(12):
        (root / f"data/part={part}/old.parquet").write_bytes(b"123")
        (root / f"data/part={part}/deep/er").mkdir(parents=True)
        (root / f"data/part={part}/deep/er/old.parquet").write_bytes(b"1")
    (root / "stray").write_bytes(b"1")
    for folder, _, names in os.walk(root):
        for name in names:
            os.utime(Path(folder, name), (1_600_000_000, 1_600_000_000))
    (root / "data/part=3/young.parquet").write_bytes(b"12")
    return table


def folder_of(table: Table) -> Path:
    return Path(table.location.removeprefix("file://"))


def test_the_answer_is_that_of_a_plain_listing(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = table.remove_orphans(older_than=WEEK, dry_run=True)
    assert (len(plain.files), plain.young) == (25, 1)
    for enough in (1, 5, 10_000):  # the table's folder, those of the second level, and down to the last
        monkeypatch.setattr(spread_jobs, "_FOLDERS", enough)
        found = table.remove_orphans(older_than=WEEK, engine="spark", dry_run=True)
        assert (found.files, found.listed, found.reached, found.young, found.total_bytes) == (
            plain.files,
            plain.listed,
            plain.reached,
            plain.young,
            plain.total_bytes,
        )
    done = table.remove_orphans(older_than=WEEK, engine="spark")
    assert (done.files, done.failed) == (plain.files, ())
    assert not (folder_of(table) / "stray").exists()
    assert table.refresh().scan().count() == 12
    assert table.remove_orphans(older_than=WEEK, dry_run=True).files == ()


def test_a_folder_that_a_worker_cannot_list_keeps_every_file(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    real = LocalStorage.folders

    def folders(self: LocalStorage, prefix: str) -> tuple[Sequence[str], Sequence[StoredFile]]:
        names, files = real(self, prefix)
        return [*names, "x" * 300], files  # no folder can have this name

    monkeypatch.setattr(LocalStorage, "folders", folders)
    monkeypatch.setattr(spread_jobs, "_FOLDERS", 2)
    before = sorted(folder_of(table).rglob("*.parquet"))
    with pytest.raises(EskerError, match="cannot list"):
        table.remove_orphans(older_than=WEEK, engine="spark")
    assert sorted(folder_of(table).rglob("*.parquet")) == before
