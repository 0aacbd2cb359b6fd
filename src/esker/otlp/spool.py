"""The spool: what the receiver has answered for, on disk, until it is ingested.

A directory of segments. One is being written (``.<name>.open``, which readers of directories pass over); the others
are sealed (``<name>.otlp``), complete and never changed again. Names sort by time. Whoever ingests a segment removes it
with ``forget`` once its rows are committed; what is still there is pending.

A request counts as kept when ``append`` returns: its frame is written and the file synced. Requests that come at the
same time share one sync. After a crash the open segment is cut behind its last whole frame and sealed; what is cut off
was never answered for.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from esker.errors import Conflict, EskerError
from esker.otlp.durable import locked, sync_directory
from esker.otlp.framing import SPOOL_MAGIC
from esker.otlp.requests import MAX_REQUEST
from esker.otlp.segment import whole_length
from esker.otlp.unpack import Stream

SEALED, OPEN = ".otlp", ".open"
_LOG = logging.getLogger(__name__)
_LOOK_AGAIN_S = 0.5  # how often the directory is counted while it is full


class SpoolFull(EskerError):
    """There is no room for more until something is ingested."""


def sealed_segments(directory: Path) -> list[Path]:
    """The segments to ingest, oldest first."""
    return sorted(path for path in directory.glob(f"*{SEALED}") if not path.name.startswith("."))


def forget(segment: Path) -> None:
    """Remove a segment whose rows are committed; one that is gone already is fine."""
    segment.unlink(missing_ok=True)
    sync_directory(segment.parent)


class Spool:
    """The one writer of a spool. Safe to use from many threads."""

    def __init__(
        self,
        directory: Path,
        *,
        cap_bytes: int = 4 << 30,
        segment_bytes: int = 16 << 20,
        segment_age_s: float = 5.0,
        sync: Callable[[int], None] = os.fsync,
    ) -> None:
        self._directory = directory
        self._cap, self._segment_bytes, self._segment_age = cap_bytes, segment_bytes, segment_age_s
        self._sync = sync
        self._writing, self._syncing = threading.Lock(), threading.Lock()
        self._file: BinaryIO | None = None
        self._path = directory
        self._begun = 0.0
        self._size = 0  # of the open segment
        self._written = self._synced = 0  # bytes over all segments
        self._lost: list[tuple[int, int]] = []  # which of them a failed sync has left in doubt
        self._number = 0
        self._closed = False
        directory.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(directory)
        self._recover()
        self._used, self._looked = self._count(), time.monotonic()

    # ---- writing ----

    def append(self, frame: bytes) -> None:
        """Keep a frame; when this returns it is on disk. ``SpoolFull`` if there is no room."""
        with self._writing:
            self._check_room(len(frame))
            file = self._file or self._begin()
            self._write(file, frame)
            mine = self._written
        self._sync_up_to(mine)
        if self._size >= self._segment_bytes:
            self.seal(at_least=self._segment_bytes)

    def seal_if_old(self) -> None:
        """Let readers have the open segment when it has waited long enough."""
        with self._writing:  # else a segment might be seen that has begun, but not its time
            old = self._file is not None and time.monotonic() - self._begun >= self._segment_age
        if old:
            self.seal()

    def seal(self, *, at_least: int = 0) -> None:
        """Let readers have the open segment, if it holds that many bytes."""
        with self._syncing, self._writing:
            if self._file is None or self._size < at_least:
                return
            self._finish(self._file)

    def close(self) -> None:
        """Seal what is open and let another process have the spool; who comes later is told that there is no room."""
        with self._writing:
            self._closed = True
        self.seal()
        os.close(self._lock)

    @property
    def is_full(self) -> bool:
        """Whether there is no room for even a small request."""
        with self._writing:
            return not self._has_room(1)

    def _begin(self) -> BinaryIO:
        self._number += 1
        name = f"{time.time_ns() // 1_000_000:013d}-{os.getpid():07d}-{self._number:06d}"
        self._path = self._directory / f".{name}{OPEN}"
        self._file = self._path.open("xb", buffering=0)
        self._file.write(SPOOL_MAGIC)
        sync_directory(self._directory)
        self._begun, self._size = time.monotonic(), len(SPOOL_MAGIC)
        self._used += self._size
        return self._file

    def _write(self, file: BinaryIO, frame: bytes) -> None:
        before = self._size
        left = memoryview(frame)
        try:
            while left:
                left = left[file.write(left) :]
        except OSError as error:
            os.ftruncate(file.fileno(), before)  # half a frame must not stand before a whole one
            file.seek(before)
            raise SpoolFull(f"Cannot write to the spool {self._directory}: {error}; make room on its disk") from error
        self._size += len(frame)
        self._used += len(frame)
        self._written += len(frame)

    def _sync_up_to(self, mine: int) -> None:
        with self._syncing:
            if self._synced < mine:  # else somebody else's sync has covered it, or failed
                with self._writing:
                    file, upto = self._file, self._written
                assert file is not None, "a segment is sealed with all its frames synced"
                try:
                    self._sync(file.fileno())
                    self._synced = upto
                except OSError as error:
                    _LOG.error("cannot sync the spool %s: %s", self._directory, error)
                    with self._writing:
                        self._abandon(file)
            if any(after < mine <= upto for after, upto in self._lost):
                raise SpoolFull(f"Cannot sync the spool {self._directory}: look at its disk, and at the log")

    def _finish(self, file: BinaryIO) -> None:
        try:
            self._sync(file.fileno())
        except OSError as error:
            _LOG.error("cannot sync the spool %s: %s", self._directory, error)
            self._abandon(file)
            return
        self._synced = self._written
        self._hand_over(file)

    def _abandon(self, file: BinaryIO) -> None:
        """After a failed sync nobody knows what is on disk. Frames synced before are, and readers check the others."""
        self._lost = [*self._lost[-99:], (self._synced, self._written)]
        self._synced = self._written
        self._hand_over(file)

    def _hand_over(self, file: BinaryIO) -> None:
        self._file = None
        file.close()
        _publish(self._path)

    # ---- room ----

    def _check_room(self, size: int) -> None:
        if self._closed:
            raise SpoolFull(f"The spool {self._directory} is closed: its receiver is stopping")
        if not self._has_room(size):
            raise SpoolFull(
                f"The spool {self._directory} holds {self._used} of {self._cap} bytes: ingest it, or raise its cap",
                used=self._used,
                cap=self._cap,
            )

    def _has_room(self, size: int) -> bool:
        if self._used + size <= self._cap:
            return True
        now = time.monotonic()
        if now - self._looked >= _LOOK_AGAIN_S:  # others remove segments
            self._used, self._looked = self._count(), now
        return self._used + size <= self._cap

    def _count(self) -> int:
        total = 0
        for path in self._directory.iterdir():
            if path.name.endswith((SEALED, OPEN)):
                try:
                    total += path.stat().st_size
                except FileNotFoundError:  # ingested this moment
                    continue
        return total

    # ---- after a crash ----

    def _recover(self) -> None:
        for path in sorted(self._directory.glob(f".*{OPEN}")):
            with path.open("r+b") as file:
                whole = whole_length(Stream(file), MAX_REQUEST)
                if whole > len(SPOOL_MAGIC):
                    file.truncate(whole)
                    self._sync(file.fileno())
            if whole > len(SPOOL_MAGIC):
                _publish(path)
            else:
                path.unlink()


def _publish(path: Path) -> None:
    path.rename(path.with_name(path.name.removeprefix(".").removesuffix(OPEN) + SEALED))
    sync_directory(path.parent)


def _locked(directory: Path) -> int:
    handle = locked(directory / ".lock", mode=0o600)
    if handle is None:
        raise Conflict(f"Cannot write to the spool {directory}: another process does; give each its own")
    return handle
