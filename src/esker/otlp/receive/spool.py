"""The spool: requests that the receiver has acknowledged, on disk until they are ingested.

A spool is a directory of segments. One is being written (``.<name>.open``, which readers of directories ignore). The
others are sealed (``<name>.otlp``): complete and never changed. Names sort by time. The ingest removes a segment with
``forget`` after its rows are committed, so every segment that still exists is pending.

A request is kept when ``append`` returns: its frame is written and the file is synced. Requests that arrive at the same
time share one sync. A disk that fails at any step loses only requests that were not acknowledged: see ``open_segment``.
A segment that cannot be sealed stays open on disk. Sealing is tried again twice a second and at the next start.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from esker.errors import Conflict, StorageFailed
from esker.otlp.receive.open_segment import ASIDE, OPEN, SEALED, OpenSegment, publish, recover
from esker.storage.fsync_and_locks import Disk, locked, sync_directory
from esker.storage.location import check_local_folder

_LOG = logging.getLogger(__name__)
_LOOK_AGAIN_S = 0.5  # how often the directory is counted while it is full
_MOST_UNSETTLED = 64


class SpoolFull(StorageFailed):
    """There is no room until something is ingested, or the receiver is stopping."""

    def __init__(self, message: str, *, retryable: bool = True, **facts: Any) -> None:
        super().__init__(message, retryable=retryable, **facts)


@dataclass(frozen=True, slots=True)
class _Unsettled:
    """A segment that is closed but not sealed yet."""

    path: Path
    kept: int | None  # how many of its bytes are acknowledged; None: another process wrote it, read it to find out


def sealed_segments(directory: Path) -> list[Path]:
    """The segments to ingest, the oldest first."""
    return sorted(path for path in directory.glob(f"*{SEALED}") if not path.name.startswith("."))


def forget(segment: Path) -> None:
    """Remove a segment whose rows are committed. It may be removed already."""
    segment.unlink(missing_ok=True)
    sync_directory(segment.parent)


class Spool:
    """The only writer of a spool. Can be used from many threads."""

    def __init__(
        self,
        directory: Path,
        *,
        cap_bytes: int = 4 << 30,
        segment_bytes: int = 16 << 20,
        segment_age_s: float = 5.0,
        disk: Disk | None = None,
    ) -> None:
        """Open the spool and seal what an earlier process left open. Raises ``Conflict`` if another process writes to
        it, and ``StorageFailed`` if the directory cannot be used."""
        check_local_folder(directory, "a spool")
        self._directory, self._disk = directory, disk or Disk()
        self._cap, self._segment_bytes, self._segment_age = cap_bytes, segment_bytes, segment_age_s
        self._writing, self._settling = threading.Lock(), threading.RLock()  # always acquired in the other order
        self._open: OpenSegment | None = None
        self._unsettled: list[_Unsettled] = []
        self._complaints: set[str] = set()
        self._number = 0
        self._closed = False
        self.set_aside: list[Path] = []  # files with bytes of earlier segments that are not a request
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(directory)
            self._recover()
            self._used, self._looked = self._count(), time.monotonic()
        except OSError as error:
            raise self._failure("use", error, "check its disk, or give another --spool") from error

    # ---- writing ----

    def append(self, *parts: bytes | bytearray) -> None:
        """Keep a frame, given in one or more parts. When this returns, the frame is on disk.

        Raises ``SpoolFull`` if there is no room, ``StorageFailed`` if the disk fails. Then it is not certain that the
        frame is kept, and the sender has to send it again.
        """
        size = sum(map(len, parts))
        segment: OpenSegment | None = None
        try:
            with self._writing:
                self._check_room(size)
                segment = self._open = self._open if self._open and self._open.takes_more else self._begin()
                end = segment.write(*parts)
                self._used += size
            segment.sync_up_to(end)
        except OSError as error:
            raise self._failure("write to", error, "make room on its disk, or check it") from error
        finally:
            if segment is not None and (not segment.takes_more or segment.size >= self._segment_bytes):
                self._retire(segment)

    def seal_if_old(self) -> None:
        """Seal the open segment if it is old enough, and others that could not be sealed before."""
        segment = self._open
        if segment is not None and time.monotonic() - segment.begun >= self._segment_age:
            self._retire(segment)
        self._settle()

    def seal(self) -> None:
        """Seal the open segment, so that readers can have it."""
        segment = self._open
        if segment is not None:
            self._retire(segment)

    def close(self) -> None:
        """Seal what is open and release the spool for another process. Later requests get ``SpoolFull``."""
        with self._writing:
            self._closed = True
        self.seal()
        with self._settling:
            self._settle()
            os.close(self._lock)

    @property
    def is_full(self) -> bool:
        """Whether there is no room even for a small request."""
        with self._writing:
            return not self._has_room(1)

    def _begin(self) -> OpenSegment:
        path = self._next_path()
        try:
            made = OpenSegment(self._disk, path)
        except OSError:
            try:
                self._disk.remove(path)
            except OSError:
                self._unsettled.append(_Unsettled(path, 0))
            raise
        self._used += made.size
        return made

    def _next_path(self) -> Path:
        while True:
            self._number += 1
            name = f"{time.time_ns() // 1_000_000:013d}-{os.getpid():07d}-{self._number:06d}"
            # a clock that was set back makes the same names again
            if not (self._directory / f"{name}{SEALED}").exists():
                return self._directory / f".{name}{OPEN}"

    def _failure(self, operation: str, error: OSError, advice: str) -> StorageFailed:
        return StorageFailed(
            f"Cannot {operation} the spool {self._directory}: {error}; {advice}",
            retryable=True,
            operation=operation,
            file=str(self._directory),
            reason=str(error),
        )

    # ---- sealing ----

    def _retire(self, segment: OpenSegment) -> None:
        """Close a segment and seal it. Only the first caller does it. No lock is held meanwhile that a request
        needs."""
        with self._writing:
            if self._open is segment:
                self._open = None
        with self._settling:
            if segment.finish():
                self._unsettled.append(_Unsettled(segment.path, segment.kept))
            self._settle()

    def _settle(self) -> None:
        """Seal closed segments. A segment that cannot be sealed now is tried again later: its bytes are on disk."""
        with self._settling:
            for one in list(self._unsettled):
                try:
                    self._settle_one(one)
                except FileNotFoundError:
                    _LOG.warning("%s is gone: another process has removed or sealed it", one.path)
                except OSError as error:
                    self._complain(f"cannot seal {one.path}, and will try again: {error}")
                    continue
                self._unsettled.remove(one)
            if not self._unsettled:
                self._complaints.clear()

    def _settle_one(self, one: _Unsettled) -> None:
        if one.kept is not None:
            publish(self._disk, one.path, one.kept)
            return
        for aside in recover(self._disk, one.path):
            self.set_aside.append(aside)
            _LOG.warning("%s has bytes that are not a request; they are kept in %s", one.path, aside)

    def _complain(self, text: str) -> None:
        if text not in self._complaints:  # the same complaint twice a second would be too often
            self._complaints.add(text)
            _LOG.error("%s", text)

    def _recover(self) -> None:
        self._unsettled = [_Unsettled(path, None) for path in sorted(self._directory.glob(f".*{OPEN}"))]
        self._settle()

    # ---- room ----

    def _check_room(self, size: int) -> None:
        if self._closed:
            raise SpoolFull(f"The spool {self._directory} is closed: its receiver is stopping")
        if len(self._unsettled) >= _MOST_UNSETTLED:
            raise SpoolFull(f"The spool {self._directory} accepts no more: {min(self._complaints, default=OPEN)}")
        if not self._has_room(size):
            raise SpoolFull(
                f"The spool {self._directory} has {self._used} of {self._cap} bytes: ingest it, or raise its cap",
                used=self._used,
                cap=self._cap,
            )

    def _has_room(self, size: int) -> bool:
        if self._used + size <= self._cap:
            return True
        now = time.monotonic()
        if now - self._looked >= _LOOK_AGAIN_S:  # other processes remove segments
            self._used, self._looked = self._count(), now
        return self._used + size <= self._cap

    def _count(self) -> int:
        """The bytes of all segments, and of files that were set aside."""
        total = 0
        for path in (*self._directory.iterdir(), *self._directory.glob(f"{ASIDE}/*")):
            if path.name.endswith((SEALED, OPEN)) or path.parent.name == ASIDE:
                try:
                    total += path.stat().st_size
                except FileNotFoundError:  # ingested at this moment
                    continue
        return total


def _locked(directory: Path) -> int:
    handle = locked(directory / ".lock", mode=0o600)
    if handle is None:
        raise Conflict(f"Cannot write to the spool {directory}: another process writes to it; give each its own")
    return handle
