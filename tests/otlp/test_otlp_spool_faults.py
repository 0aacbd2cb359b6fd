"""Whatever step of the disk fails, and at whatever byte: a request that was answered for is found again.

Every step of a spool's life is counted, and each is made to fail once, in every way; then the spool is read in three
ways: as its receiver leaves it, as a killed process leaves it, and as a power cut leaves it.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from failing_disk import FailingDisk, Fault

from esker.errors import StorageFailed
from esker.otlp.protocol.messages import Signal
from esker.otlp.receive.spool import Spool, SpoolFull, sealed_segments
from esker.otlp.source.read_requests import read_file
from esker.otlp.source.segment import SPOOL_MAGIC, frame
from esker.storage.fsync_and_locks import Disk

SENT = [b"first", b"second request", b"3", b"the fourth", b"5th"]
EVER = 1 << 30


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def framed(data: bytes) -> bytes:
    return frame(data, signal=Signal.LOGS, json=False, refused=False, received_at_ms=5)


def live(directory: Path, disk: Disk, *, close: bool = True) -> list[bytes]:
    """A spool's life of two segments and an age; returns what it answered for."""
    answered = []
    spool = Spool(directory, disk=disk, segment_bytes=90, segment_age_s=3600)
    for at, data in enumerate(SENT):
        try:
            spool.append(framed(data))
            answered.append(data)
        except StorageFailed:
            pass
        if at == 3:
            spool.seal()
        spool.seal_if_old()
    if close:
        spool.close()
    else:
        os.close(spool._lock)  # as a kill does
        if spool._open is not None:
            os.close(spool._open._handle)
    return answered


def check(directory: Path, answered: list[bytes]) -> None:
    """Recovered, the spool has every request that was answered for, whole ones only, and nothing that was not sent."""
    Spool(directory).close()
    found = [one for segment in sealed_segments(directory) for one in read_file(segment)]
    assert [one.trouble for one in found if one.trouble] == []
    kept = [one.data for one in found]
    assert len(kept) == len(set(kept))
    assert set(answered) <= set(kept) <= set(SENT)
    assert not list(directory.glob(".*.open"))


def rounds(fault_at: Callable[[int, str, int], Iterator[Fault]], tmp_path: Path) -> Iterator[tuple[Fault, Path]]:
    """Each fault there can be, with a directory to try it in."""
    sound = FailingDisk()
    assert live(tmp_path / "sound", sound) == SENT
    assert {name for name, _ in sound.steps} >= {"create", "write", "sync", "close", "rename", "sync_names"}
    for step, (name, size) in enumerate(sound.steps):
        for number, fault in enumerate(fault_at(step, name, size)):
            directory = tmp_path / f"{step}-{number}"
            yield fault, directory
            shutil.rmtree(directory)


def every_way(step: int, name: str, size: int) -> Iterator[Fault]:
    for code, lasts in ((errno.ENOSPC, 1), (errno.EIO, 2), (errno.EDQUOT, 3), (errno.EIO, EVER)):
        yield Fault(step, code, lasts)
        if name != "write":
            yield Fault(step, code, lasts, done=True)


def every_byte(step: int, name: str, size: int) -> Iterator[Fault]:
    if name == "write":
        for length in range(1, size + 1):
            yield Fault(step, errno.ENOSPC, bytes=length)
            yield Fault(step, errno.ENOSPC, 2, bytes=length)  # nor can the bytes be cut off again


@pytest.mark.slow
@pytest.mark.parametrize("fault_at", [every_way, every_byte])
@pytest.mark.parametrize("close", [True, False], ids=["closed", "killed"])
def test_a_fault_at_any_step_loses_nothing_that_was_answered_for(
    tmp_path: Path, fault_at: Callable[[int, str, int], Iterator[Fault]], close: bool
) -> None:
    tried = 0
    for fault, directory in rounds(fault_at, tmp_path):
        disk = FailingDisk(fault)
        answered = live(directory, disk, close=close)
        dark = disk.after_a_power_cut(directory, directory / "dark")
        check(dark, answered)
        check(directory, answered)
        if fault.lasts < EVER:
            assert len(answered) >= len(SENT) - fault.lasts  # the spool goes on when the disk does
        tried += 1
    assert tried > 100


def test_a_segment_whose_beginning_could_not_be_written_takes_no_request(tmp_path: Path) -> None:
    """The disk is full, and then it is not: what is answered for then must not stand in a file without a magic."""
    names = [name for name, _ in sound_steps(tmp_path / "sound")]
    for length in range(len(SPOOL_MAGIC)):
        disk = FailingDisk(Fault(names.index("write"), bytes=length))
        directory = tmp_path / str(length)
        answered = live(directory, disk, close=False)
        assert answered == SENT[1:]
        check(directory, answered)


def sound_steps(directory: Path) -> list[tuple[str, int]]:
    disk = FailingDisk()
    live(directory, disk)
    return disk.steps


def test_a_segment_that_cannot_be_renamed_is_sealed_later(tmp_path: Path) -> None:
    disk = FailingDisk(Fault(lasts=EVER, only="rename"))
    spool = Spool(tmp_path, disk=disk, segment_bytes=1)
    spool.append(framed(b"first"))
    spool.seal_if_old()
    assert sealed_segments(tmp_path) == []
    disk.broken = False
    spool.seal_if_old()
    [segment] = sealed_segments(tmp_path)
    assert [one.data for one in read_file(segment)] == [b"first"]
    spool.close()


def test_a_disk_that_seals_nothing_is_not_filled_with_open_segments(tmp_path: Path) -> None:
    disk = FailingDisk(Fault(lasts=EVER, only="rename"))
    spool = Spool(tmp_path, disk=disk, segment_bytes=1)
    for at in range(64):
        spool.append(framed(bytes([at])))
    with pytest.raises(SpoolFull, match=r"accepts no more: cannot seal .*, and will try again: .*No space left"):
        spool.append(framed(b"one more"))
    disk.broken = False
    spool.seal_if_old()
    spool.append(framed(b"one more"))
    spool.close()
    assert len(sealed_segments(tmp_path)) == 65


def test_a_sync_that_failed_is_not_tried_again_on_the_same_file(tmp_path: Path) -> None:
    disk = FailingDisk()
    spool = Spool(tmp_path, disk=disk, segment_age_s=3600)
    spool.append(framed(b"kept"))
    disk.fault = Fault(step=len(disk.steps) + 1, code=errno.EIO)
    with pytest.raises(StorageFailed, match=r"Cannot write to the spool .*Input/output error; make room on its disk"):
        spool.append(framed(b"in doubt"))
    [segment] = sealed_segments(tmp_path)
    assert [one.data for one in read_file(segment)] == [b"kept"]
    spool.append(framed(b"after"))
    spool.close()
    assert [one.data for path in sealed_segments(tmp_path) for one in read_file(path)] == [b"kept", b"after"]


# ---- bytes that are no request ----


@pytest.mark.parametrize(
    "junk",
    [b"\0" * 8, b"ESKSPL9\n" + framed(b"of another version"), framed(b"without a magic"), SPOOL_MAGIC + b"junk"],
    ids=["zeros", "other magic", "no magic", "no frame"],
)
def test_recovery_moves_aside_what_it_does_not_understand(
    tmp_path: Path, junk: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    logging.disable(logging.NOTSET)
    for name in (".0000000000001-1-1.open", ".0000000000001-1-1.open"):  # the same name twice: nothing is overwritten
        (tmp_path / name).write_bytes(junk)
        spool = Spool(tmp_path)
        [aside] = spool.set_aside
        assert f"has bytes that are not a request; they are kept in {aside}" in caplog.text
        spool.close()
    assert [path.read_bytes() for path in (tmp_path / ".aside").iterdir()] == [junk, junk]
    assert sealed_segments(tmp_path) == []


def test_recovery_keeps_what_follows_a_damaged_request(tmp_path: Path) -> None:
    """A request that was answered for may stand behind bytes that the disk has spoilt."""
    spoilt = framed(b"spoilt")[:-1] + b"?" + framed(b"answered for")
    (tmp_path / ".0000000000001-1-1.open").write_bytes(SPOOL_MAGIC + framed(b"fine") + spoilt)
    spool = Spool(tmp_path)
    [aside] = spool.set_aside
    assert aside.read_bytes() == spoilt
    spool.close()
    [segment] = sealed_segments(tmp_path)
    assert [one.data for one in read_file(segment)] == [b"fine"]


@pytest.mark.parametrize("beginning", [SPOOL_MAGIC[:length] for length in range(9)])
def test_recovery_removes_a_segment_that_holds_nothing(tmp_path: Path, beginning: bytes) -> None:
    (tmp_path / ".0000000000001-1-1.open").write_bytes(beginning)
    Spool(tmp_path).close()
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


@pytest.mark.parametrize("name", ["create", "write", "sync", "cut", "rename", "sync_names", "close"])
def test_a_recovery_that_fails_is_tried_again(tmp_path: Path, name: str) -> None:
    tail = framed(b"half")[:-1]
    (tmp_path / ".0000000000001-1-1.open").write_bytes(SPOOL_MAGIC + framed(b"fine") + tail)
    disk = FailingDisk(Fault(lasts=EVER, only=name))
    spool = Spool(tmp_path, disk=disk)
    disk.broken = False
    spool.seal_if_old()
    spool.close()
    [segment] = sealed_segments(tmp_path)
    assert [(one.data, one.trouble) for one in read_file(segment)] == [(b"fine", None)]
    assert [path.read_bytes() for path in (tmp_path / ".aside").iterdir()] == [tail]


def test_a_segment_that_a_living_process_writes_is_left_alone(tmp_path: Path) -> None:
    """Somebody has removed the lock of the spool, and a second receiver was started."""
    first = Spool(tmp_path)
    first.append(framed(b"one"))
    (tmp_path / ".lock").unlink()
    second = Spool(tmp_path)
    second.close()
    first.append(framed(b"two"))
    first.close()
    [segment] = sealed_segments(tmp_path)
    assert [one.data for one in read_file(segment)] == [b"one", b"two"]


# ---- a real limit of the system ----

_CHILD = """
import resource, signal, sys
from pathlib import Path
from esker.errors import StorageFailed
from esker.otlp.protocol.messages import Signal
from esker.otlp.source.segment import frame
from esker.otlp.receive.spool import Spool

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
spool = Spool(Path(sys.argv[1]))
for at in range(40):
    limit = at if at < 20 else 400  # the system lets no file grow beyond
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    data = b"request %02d" % at
    try:
        spool.append(frame(data, signal=Signal.LOGS, json=False, refused=False, received_at_ms=5))
        print(data.decode(), flush=True)
    except StorageFailed:
        pass
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
import os
os._exit(9)
"""


def test_a_limit_of_the_system_loses_nothing_that_was_answered_for(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 9, done.stderr
    answered = done.stdout.splitlines()
    assert len(answered) > 10
    Spool(tmp_path).close()
    kept = [one.data.decode() for path in sealed_segments(tmp_path) for one in read_file(path)]
    assert kept == answered
