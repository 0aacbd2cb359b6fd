"""A file whose beginning is written early: complete and synced as any other, or not there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from esker.errors import AlreadyExists, StorageFailed
from esker.storage import early_draft, local
from esker.storage.early_draft import CAN_BEGIN_EARLY
from esker.storage.local import LocalStorage

pytestmark = pytest.mark.skipif(not CAN_BEGIN_EARLY, reason="the system cannot begin to write a file to the disk")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_rest_follows_what_was_begun(tmp_path: Path) -> None:
    with LocalStorage().begun(str(tmp_path), [b"one,", b"two,"]) as finish:
        [draft] = names(tmp_path)
        assert draft.endswith(".tmp")
        assert (tmp_path / draft).read_bytes() == b"one,two,"
        assert finish is not None
        assert finish(f"{tmp_path}/file", [b"one,", b"two,", b"three"])
        assert names(tmp_path) == ["file"]
    assert (tmp_path / "file").read_bytes() == b"one,two,three"
    assert names(tmp_path) == ["file"]


def test_all_of_the_file_is_synced_before_it_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[Any] = []
    fsync, link = os.fsync, os.link
    monkeypatch.setattr(os, "fsync", lambda handle: (steps.append(os.fstat(handle).st_size), fsync(handle)))
    monkeypatch.setattr(os, "link", lambda *given: (steps.append("link"), link(*given)))
    with LocalStorage().begun(str(tmp_path), [b"12345"]) as finish:
        assert finish is not None
        assert finish(f"{tmp_path}/file", [b"12345", b"678"])
    assert steps[:2] == [8, "link"]
    assert len(steps) == 3  # and the folder


@pytest.mark.parametrize("pieces", [[b"one,", b"TWO,", b"three"], [b"one,"], []])
def test_a_file_that_begins_otherwise_is_not_created(tmp_path: Path, pieces: list[bytes]) -> None:
    with LocalStorage().begun(str(tmp_path), [b"one,", b"two,"]) as finish:
        assert finish is not None
        assert not finish(f"{tmp_path}/file", pieces)
    assert names(tmp_path) == []


def test_what_was_begun_is_used_once_and_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with LocalStorage().begun(str(tmp_path), [b"one,"]) as finish:
        assert finish is not None
        assert not finish(f"{tmp_path}/other/file", [b"one,", b"two"])
        assert finish(f"{tmp_path}/file", [b"one,", b"two"])
        assert not finish(f"{tmp_path}/again", [b"one,", b"two"])
    assert names(tmp_path) == ["file", "other"]


def test_a_block_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), LocalStorage().begun(str(tmp_path), [b"one,"]):
        raise KeyboardInterrupt
    assert names(tmp_path) == []


def test_a_name_that_is_taken_is_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    with LocalStorage().begun(str(tmp_path), [b"one,"]) as finish:
        assert finish is not None
        with pytest.raises(AlreadyExists):
            finish(f"{tmp_path}/file", [b"one,", b"two"])
    assert names(tmp_path) == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


def test_a_sync_that_fails_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(handle: int) -> None:
        raise OSError(5, "input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with LocalStorage().begun(str(tmp_path), [b"one,"]) as finish:
        assert finish is not None
        with pytest.raises(StorageFailed, match=r"create .*file"):
            finish(f"{tmp_path}/file", [b"one,", b"two"])
    assert names(tmp_path) == []


def test_a_beginning_that_cannot_be_written_is_left_to_the_usual_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LocalStorage().begun(f"{tmp_path}/missing", [b"one,"]) as finish:
        assert finish is None

    def full(*given: Any) -> int:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(os, "writev", full)
    with LocalStorage().begun(str(tmp_path), [b"one,"]) as finish:
        assert finish is None
    assert names(tmp_path) == []


def test_the_places_on_the_disk_are_taken_before_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[tuple[int, ...]] = []
    reserve = early_draft._FALLOCATE
    assert reserve is not None

    def watched(handle: int, *given: int) -> int:
        taken.append((os.fstat(handle).st_size, *given))
        return reserve(handle, *given)

    monkeypatch.setattr(early_draft, "_FALLOCATE", watched)
    with LocalStorage().begun(str(tmp_path), [b"1" * 9000, b"2" * 1000]) as finish:
        [draft] = names(tmp_path)
        assert (tmp_path / draft).stat().st_size == 10_000
        assert finish is not None
        assert finish(f"{tmp_path}/file", [b"1" * 9000, b"2" * 1000, b"3"])
    assert taken == [(0, early_draft._KEEP_SIZE, 0, 10_000)]
    assert (tmp_path / "file").stat().st_size == 10_001


@pytest.mark.parametrize("reserve", [None, lambda *given: -1])
def test_a_disk_that_gives_no_places_early_has_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reserve: Any
) -> None:
    monkeypatch.setattr(early_draft, "_FALLOCATE", reserve)
    with LocalStorage().begun(str(tmp_path), [b"one,"]) as finish:
        assert finish is not None
        assert finish(f"{tmp_path}/file", [b"one,", b"two"])
    assert (tmp_path / "file").read_bytes() == b"one,two"


def test_a_system_that_cannot_begin_early_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "CAN_BEGIN_EARLY", False)
    with LocalStorage().begun(str(tmp_path), [b"one,"]) as finish:
        assert finish is None
        assert names(tmp_path) == []


def test_a_draft_whose_rest_could_not_be_written_is_not_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: Any) -> int:
        raise OSError(28, "no space left on device")

    with LocalStorage().begun(str(tmp_path), [b"one,"]) as finish:
        assert finish is not None
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)  # after the rest was written
            with pytest.raises(StorageFailed):
                finish(f"{tmp_path}/file", [b"one,", b"two"])
        assert not finish(f"{tmp_path}/file", [b"one,", b"two"])
    assert names(tmp_path) == []
