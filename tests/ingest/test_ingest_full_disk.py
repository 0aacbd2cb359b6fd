"""A disk that fails under a stream: it waits, says so once, and goes on when the disk works again."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from outages import IMPATIENT
from telemetry_samples import span_names, spans, write

import esker
from esker.errors import Conflict, StorageFailed
from esker.ingest.checkpoint import Checkpoint
from esker.ingest.follow import Pace
from esker.ingest.otlp.ingest_otlp import Asked, follow_otlp, ingest_otlp
from esker.ingest.receipts import Receipts
from esker.lake import Lake

QUICK = Pace(every_s=0.01, settle_s=0, half_line_s=0, idle_s=0, first_wait_s=0.001)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = esker.connect(f"sqlite:///{tmp_path}/lake/catalog.db")
    write(tmp_path / "first", "a.jsonl", spans([0]))
    ingest_otlp(lake, asked(tmp_path, "first"))
    write(tmp_path / "in", "b.jsonl", spans([1]))
    return lake


def asked(folder: Path, name: str = "in") -> Asked:
    return Asked(paths=[folder / name], checkpoint=folder / "checkpoint", properties=IMPATIENT)


def break_calls(monkeypatch: pytest.MonkeyPatch, name: str, code: int, *, first: int, times: int) -> Callable[[], int]:
    """Calls of ``os`` from the one of this number on fail, so many of them; returns how many have."""
    real: Callable[..., Any] = getattr(os, name)
    calls, failed = 0, 0

    def call(*args: Any, **more: Any) -> Any:
        nonlocal calls, failed
        calls += 1
        if calls >= first and failed < times:
            failed += 1
            raise OSError(code, os.strerror(code))
        return real(*args, **more)

    monkeypatch.setattr(os, name, call)
    return lambda: failed


@pytest.mark.parametrize("first", [1, 3, 5])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EMFILE, errno.ESTALE, errno.ETIMEDOUT])
def test_a_stream_waits_says_so_once_and_goes_on(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, first: int
) -> None:
    told: list[str] = []
    failed = break_calls(monkeypatch, "fsync", code, first=first, times=3)
    account = follow_otlp(lake, asked(tmp_path), pace=QUICK, told_trouble=told.append)
    assert failed() == 3
    assert len([text for text in told if os.strerror(code) in text]) == 1, told
    assert told[0].startswith("batch pending, trying again in")
    assert told[-1].startswith("going on after")
    assert (account.received, account.pending, account.lost, account.duplicated, account.holds) == (1, 0, 0, 0, True)
    assert span_names(lake) == Counter(["span 0", "span 1"])


def test_a_stream_on_a_read_only_disk_ends_and_the_next_run_takes_everything(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        break_calls(patch, "fsync", errno.EROFS, first=1, times=1000)
        with pytest.raises(StorageFailed, match="Read-only file system; the file system is read-only") as raised:
            follow_otlp(lake, asked(tmp_path), pace=QUICK)
    assert not raised.value.retryable
    assert follow_otlp(lake, asked(tmp_path), pace=QUICK).received == 1
    assert span_names(lake) == Counter(["span 0", "span 1"])


def test_a_source_that_cannot_be_read_for_now_is_not_refused(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.open
    left = [3]

    def call(path: Path, *args: Any, **more: Any) -> Any:
        if path.name == "b.jsonl" and left[0]:
            left[0] -= 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))
        return real(path, *args, **more)

    monkeypatch.setattr(Path, "open", call)
    account = follow_otlp(lake, asked(tmp_path), pace=QUICK)
    assert (account.received, account.refused) == (1, [])


class Failing(sqlite3.Connection):
    """A database whose disk fails when something is written."""

    code = sqlite3.SQLITE_FULL

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        if statement.startswith("BEGIN"):
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = self.code
            raise error
        return super().execute(statement, *values)


class Locked(Failing):
    code = sqlite3.SQLITE_BUSY


@pytest.mark.parametrize(("kind", "error"), [(Failing, StorageFailed), (Locked, Conflict)])
def test_a_checkpoint_on_a_full_disk_is_no_conflict(
    tmp_path: Path, kind: type[sqlite3.Connection], error: type[Exception]
) -> None:
    with pytest.raises(error, match=r"cannot use the checkpoint.*checkpoint\.db: database or disk is full"):
        Checkpoint(tmp_path, kind="otlp", connection=kind)


def test_a_folder_of_receipts_that_cannot_be_read_does_not_pass_for_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_calls(monkeypatch, "listdir", errno.EMFILE, first=1, times=1)
    with pytest.raises(StorageFailed, match="cannot list the receipts in"):
        Receipts(tmp_path).numbers()
