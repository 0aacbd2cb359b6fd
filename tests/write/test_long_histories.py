"""A commit to a long history writes its old snapshots early, and the file is as if it was written at once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from power_cut import watch_disk

import esker
from esker.catalogs import metadata_files
from esker.errors import Conflict, EskerError, StorageFailed
from esker.ports.catalog import Rejected
from esker.storage import local
from esker.storage.early_draft import CAN_BEGIN_EARLY, EarlyDraft
from esker.table import Table
from esker.tree import snapshot as history

pytestmark = pytest.mark.skipif(not CAN_BEGIN_EARLY, reason="the system cannot begin to write a file to the disk")


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> esker.Lake:
    """A lake where a history is long from 4 snapshots on, and has a piece for each two."""
    monkeypatch.setattr(metadata_files, "LONG_HISTORY", 4)
    monkeypatch.setattr(history, "_PIECE", 2)
    lake = esker.connect(f"sqlite:///{tmp_path}/catalog.db", warehouse=f"{tmp_path}/warehouse")
    lake.create_namespace("a")
    return lake


@pytest.fixture
def completed(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What became of each draft that a commit wanted to use."""
    found: list[bool] = []
    complete = EarlyDraft.complete

    def watched(self: EarlyDraft, pieces: Any) -> bool:
        found.append(complete(self, pieces))
        return found[-1]

    monkeypatch.setattr(EarlyDraft, "complete", watched)
    return found


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes each draft began with."""
    found: list[int] = []

    class Watched(EarlyDraft):
        def __init__(self, path: Path, pieces: Any) -> None:
            found.append(sum(map(len, pieces)))
            super().__init__(path, pieces)

    monkeypatch.setattr(local, "EarlyDraft", Watched)
    return found


def grown(lake: esker.Lake, snapshots: int, **how: Any) -> Table:
    table = lake.create_table("a.t", "id bigint", **how)
    for at in range(snapshots):
        table.append([{"id": at}])
    return table


def drafts(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.name.endswith(".tmp")]


def document(table: Table) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(Path(table.metadata_location).read_bytes())
    return found


def test_a_short_history_has_no_draft(lake: esker.Lake, begun: list[int]) -> None:
    table = grown(lake, 4)
    assert begun == []
    table.append([{"id": 4}])
    assert len(begun) == 1


def test_old_snapshots_are_in_the_draft_and_the_file_has_all(
    lake: esker.Lake, tmp_path: Path, begun: list[int], completed: list[bool]
) -> None:
    table = grown(lake, 12)
    assert completed == [True] * 8
    assert begun[-1] > Path(table.metadata_location).stat().st_size / 3
    found = document(table)
    assert [one["sequence-number"] for one in found["snapshots"]] == list(range(1, 13))
    assert len(found["snapshot-log"]) == 12
    other = esker.connect(f"sqlite:///{tmp_path}/catalog.db").table("a.t")
    for at in range(12, 15):  # its history was read from the file
        other.append([{"id": at}])
    assert completed == [True] * 11
    assert [one["sequence-number"] for one in document(other)["snapshots"]] == list(range(1, 16))
    assert sorted(row["id"] for row in table.refresh().scan().to_arrow().to_pylist()) == list(range(15))
    assert not drafts(tmp_path)


def test_a_commit_that_changes_what_was_begun_writes_its_own_file(
    lake: esker.Lake, tmp_path: Path, completed: list[bool]
) -> None:
    table = grown(lake, 8, format_version=2)
    with table.alter() as change:
        change.upgrade_format(3)
    assert completed == [True] * 4 + [False]
    assert document(table)["format-version"] == 3
    completed.clear()
    table.expire_snapshots(retain_last=5, older_than=timedelta(0))
    assert completed == [False]
    assert len(document(table)["snapshots"]) == 5
    assert table.scan().count() == 8
    assert not drafts(tmp_path)


def test_a_commit_that_names_another_folder_writes_its_file_there(
    lake: esker.Lake, tmp_path: Path, completed: list[bool]
) -> None:
    table = grown(lake, 6)
    completed.clear()
    usual, other = Path(table.metadata_location).parent, tmp_path / "warehouse" / "other"
    with table.alter() as change:
        change.set_properties({"write.metadata.path": str(other)})
    assert Path(table.metadata_location).parent == other
    table.append([{"id": 6}])
    with table.alter() as change:
        change.remove_properties("write.metadata.path")
    assert Path(table.metadata_location).parent == usual
    table.append([{"id": 7}])
    assert completed == [True, True]
    assert table.scan().count() == 8
    assert not drafts(tmp_path)


def test_a_table_whose_properties_are_wrong_can_be_mended(lake: esker.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = grown(lake, 6)
    codec_of = metadata_files.codec_of
    wrong = iter([True])

    def at_first_wrong(properties: Any) -> str:
        return codec_of({metadata_files.CODEC: "lzma"} if next(wrong, False) else properties)

    monkeypatch.setattr(metadata_files, "codec_of", at_first_wrong)
    table.append([{"id": 6}])
    assert next(wrong, None) is None
    assert table.scan().count() == 7


def test_compressed_metadata_is_written_at_once(lake: esker.Lake, tmp_path: Path, begun: list[int]) -> None:
    table = grown(lake, 6, properties={"write.metadata.compression-codec": "gzip"})
    assert begun == []
    assert table.metadata_location.endswith(".gz.metadata.json")
    assert esker.connect(f"sqlite:///{tmp_path}/catalog.db").table("a.t").scan().count() == 6


def test_f42_nothing_is_at_risk_when_the_pointer_moves(
    lake: esker.Lake, completed: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = grown(lake, 8)
    completed.clear()
    disk = watch_disk(monkeypatch)
    syncs = 0
    fsync = os.fsync

    def counted(handle: int) -> None:
        nonlocal syncs
        syncs += 1
        fsync(handle)

    monkeypatch.setattr(os, "fsync", counted)
    pointers: Any = lake.catalog._pointers  # type: ignore[attr-defined]
    at_risk: list[Any] = []
    move = type(pointers).move

    def watched(self: Any, *given: Any) -> Any:
        at_risk.append(disk.at_risk())
        return move(self, *given)

    monkeypatch.setattr(type(pointers), "move", watched)
    table.append([{"id": 8}])
    assert completed == [True]
    assert at_risk == [frozenset()]
    assert Path(table.metadata_location) in disk.named
    assert syncs == 6  # four files and two folders, as for a short history


@pytest.mark.parametrize("at", range(1, 7))
def test_a_sync_that_fails_leaves_no_draft(
    lake: esker.Lake, tmp_path: Path, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = grown(lake, 6)
    calls = 0
    fsync = os.fsync

    def failing(handle: int) -> None:
        nonlocal calls
        calls += 1
        if calls == at:
            raise OSError(5, "input/output error")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", failing)
    files = {path for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(StorageFailed):
        table.append([{"id": 6}])
    monkeypatch.setattr(os, "fsync", fsync)
    assert {path for path in tmp_path.rglob("*") if path.is_file()} - files == set()
    assert table.refresh().scan().count() == 6


def losing(lake: esker.Lake, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    catalog: Any = type(lake.catalog)
    swap = catalog.swap
    left = [times]

    def lost(self: Any, *given: Any) -> Any:
        left[0] -= 1
        return swap(self, *given) if left[0] < 0 else Rejected("lost")

    monkeypatch.setattr(catalog, "swap", lost)


def test_a_lost_race_removes_the_draft_and_begins_no_other(
    lake: esker.Lake, tmp_path: Path, begun: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = grown(lake, 6, properties={"commit.retry.min-wait-ms": "1", "commit.retry.num-retries": "2"})
    begun.clear()
    losing(lake, monkeypatch, 2)
    table.append([{"id": 6}])
    assert len(begun) == 1
    losing(lake, monkeypatch, 9)
    with pytest.raises(Conflict):
        table.append([{"id": 7}])
    assert len(begun) == 2
    assert not drafts(tmp_path)
    assert table.refresh().scan().count() == 7


def test_a_change_that_cannot_be_proposed_removes_the_draft(lake: esker.Lake, tmp_path: Path, begun: list[int]) -> None:
    table = grown(lake, 6)
    begun.clear()
    stale = lake.table("a.t")
    with table.alter() as change:
        change.drop_column("id")
        change.add_column("other", "string")
    with pytest.raises(EskerError):
        stale.delete("id = 1")
    table.delete("other = 'nothing'")
    assert len(begun) >= 2
    assert not drafts(tmp_path)


# ---------------------------------------------------------------- memory


@pytest.fixture
def dropped(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The files whose content the system was asked to forget."""
    found: list[str] = []

    def advised(handle: int, start: int, length: int, advice: int) -> None:
        assert advice == os.POSIX_FADV_DONTNEED
        found.append(str(Path(f"/proc/self/fd/{handle}").readlink()))

    monkeypatch.setattr(os, "posix_fadvise", advised)
    return found


def test_the_file_before_a_commit_leaves_the_memory_of_the_system(lake: esker.Lake, dropped: list[str]) -> None:
    table = grown(lake, 4)
    assert dropped == []
    before = table.metadata_location
    table.append([{"id": 4}])
    assert dropped == [before]


def test_the_current_file_stays_in_memory_if_a_commit_fails(
    lake: esker.Lake, dropped: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = grown(lake, 6, properties={"commit.retry.num-retries": "0"})
    dropped.clear()
    losing(lake, monkeypatch, 1)
    with pytest.raises(Conflict):
        table.append([{"id": 6}])
    assert dropped == []


def test_memory_that_cannot_be_dropped_fails_no_commit(lake: esker.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*given: Any) -> None:
        raise OSError(22, "invalid argument")

    monkeypatch.setattr(os, "posix_fadvise", refused)
    assert grown(lake, 6).scan().count() == 6
    monkeypatch.delattr(os, "posix_fadvise")
    table = lake.table("a.t")
    table.append([{"id": 6}])
    assert table.scan().count() == 7
