"""What the spool has answered for is there after every crash; what it has not may be gone."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from esker.errors import Conflict
from esker.otlp.protocol.messages import Signal
from esker.otlp.receive.spool import Spool, SpoolFull, forget, sealed_segments
from esker.otlp.source.read_requests import read_file
from esker.otlp.source.segment import SPOOL_MAGIC, frame
from esker.storage.fsync_and_locks import Disk


def framed(data: bytes, *, refused: bool = False) -> bytes:
    return frame(data, signal=Signal.LOGS, json=False, refused=refused, received_at_ms=5)


def kept(directory: Path) -> list[bytes]:
    found = [one for segment in sealed_segments(directory) for one in read_file(segment)]
    assert all(one.signal is Signal.LOGS for one in found if one.trouble is None)
    return [one.data for one in found if one.trouble is None]


def test_segments_are_read_as_they_were_written(tmp_path: Path) -> None:
    spool = Spool(tmp_path, segment_bytes=200)
    sent = [bytes([at]) * 50 for at in range(10)]
    for one in sent:
        spool.append(framed(one))
    spool.close()
    assert kept(tmp_path) == sent
    assert len(sealed_segments(tmp_path)) > 2


def test_an_open_segment_is_not_seen_until_it_is_old(tmp_path: Path) -> None:
    spool = Spool(tmp_path, segment_age_s=0)
    spool.append(framed(b"one"))
    assert sealed_segments(tmp_path) == []
    spool.seal_if_old()
    assert kept(tmp_path) == [b"one"]
    spool.seal_if_old()
    spool.close()
    young = Spool(tmp_path, segment_age_s=3600)
    young.append(framed(b"two"))
    young.seal_if_old()
    assert kept(tmp_path) == [b"one"]
    young.close()
    assert kept(tmp_path) == [b"one", b"two"]


def test_a_segment_cut_anywhere_gives_its_whole_frames(tmp_path: Path) -> None:
    sent = [b"first", b"second", b"third"]
    whole = SPOOL_MAGIC + b"".join(map(framed, sent))
    ends = [len(SPOOL_MAGIC + b"".join(map(framed, sent[:count]))) for count in range(4)]
    for cut in range(len(whole) + 1):
        directory = tmp_path / str(cut)
        directory.mkdir()
        (directory / ".0000000000001-1-1.open").write_bytes(whole[:cut])
        Spool(directory).close()
        assert kept(directory) == sent[: sum(cut >= end for end in ends[1:])]
        assert not list(directory.glob(".*.open"))


def test_a_frame_overwritten_with_nothing_ends_the_recovery(tmp_path: Path) -> None:
    """A file system may keep a file's length and lose its last blocks."""
    (tmp_path / ".1-1-1.open").write_bytes(SPOOL_MAGIC + framed(b"fine") + bytes(500))
    Spool(tmp_path).close()
    assert kept(tmp_path) == [b"fine"]


def test_many_senders_share_syncs_and_each_waits_for_its_own(tmp_path: Path) -> None:
    synced: list[int] = []
    gate = threading.Event()

    def slow(handle: int) -> None:
        gate.wait(5)
        os.fsync(handle)
        synced.append(os.fstat(handle).st_size)

    class Slow(Disk):
        def sync(self, handle: int) -> None:
            slow(handle)

    spool = Spool(tmp_path, disk=Slow())
    threads = [threading.Thread(target=spool.append, args=(framed(bytes([at])),)) for at in range(20)]
    for thread in threads:
        thread.start()
    gate.set()
    for thread in threads:
        thread.join()
    assert len(synced) < 20
    assert max(synced) == len(SPOOL_MAGIC) + 20 * len(framed(b"x"))
    spool.close()
    assert sorted(kept(tmp_path)) == [bytes([at]) for at in range(20)]


def test_a_full_spool_takes_more_once_something_is_ingested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("esker.otlp.receive.spool._LOOK_AGAIN_S", 0)
    spool = Spool(tmp_path, cap_bytes=400, segment_bytes=100)
    for _ in range(4):
        spool.append(framed(b"x" * 60))
    with pytest.raises(SpoolFull, match=r"The spool .* has \d+ of 400 bytes: ingest it, or raise its cap"):
        spool.append(framed(b"x" * 60))
    segments = sealed_segments(tmp_path)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 400
    with pytest.raises(SpoolFull, match="ingest it"):
        spool.append(framed(b"x" * 100))
    for segment in segments:
        forget(segment)
        forget(segment)
    assert not spool.is_full
    spool.append(framed(b"y" * 60))
    spool.close()
    assert kept(tmp_path)[-1] == b"y" * 60


def test_a_spool_has_one_writer(tmp_path: Path) -> None:
    first = Spool(tmp_path)
    with pytest.raises(
        Conflict, match=r"Cannot write to the spool .*: another process writes to it; give each its own"
    ):
        Spool(tmp_path)
    first.close()
    Spool(tmp_path).close()


def test_a_spool_that_is_closed_takes_nothing_more(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.append(framed(b"in time"))
    spool.close()
    with pytest.raises(SpoolFull, match="is closed: its receiver is stopping"):
        spool.append(framed(b"late"))
    assert kept(tmp_path) == [b"in time"]


def test_what_was_refused_is_kept_and_told_apart(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.append(framed(b"junk", refused=True))
    spool.close()
    [segment] = sealed_segments(tmp_path)
    [found] = read_file(segment)
    assert found.data == b"junk"
    assert found.trouble is not None
    assert found.trouble.word == "refused"
