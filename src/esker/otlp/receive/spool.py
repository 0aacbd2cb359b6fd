"""The spool: what the receiver has answered for, on disk, until it is ingested.

A directory of segments. One is being written (``.<name>.open``, which readers of directories pass over); the others
are sealed (``<name>.otlp``), complete and never changed again. Names sort by time. Whoever ingests a segment removes it
with ``forget`` once its rows are committed; what is still there is pending.

A request counts as kept when ``append`` returns: its frame is written and the file synced. Requests that come at the
same time share one sync. A disk that fails at any step costs only requests that were not answered for: see
``open_segment``. A segment that cannot be sealed stays open on disk, and is tried again twice a second and at the next
start.
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

_LOG = logging.getLogger(__name__)
_LOOK_AGAIN_S = 0.5  # how often the directory is counted while it is full
_MOST_UNSETTLED = 64


class SpoolFull(StorageFailed):
    """There is no room for more until something is ingested, or the receiver is stopping."""

    def __init__(self, message: str, *, retryable: bool = True, **facts: Any) -> None:
        super().__init__(message, retryable=retryable, **facts)


@dataclass(frozen=True, slots=True)
class _Unsettled:
    """A segment that is written no more and is not sealed yet."""

    path: Path
    kept: int | None  # how many of its bytes are answered for; None: another process wrote it, look into it


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
        disk: Disk | None = None,
    ) -> None:
        """Open the spool and seal what an earlier process left open. ``Conflict`` if another process writes to it,
        ``StorageFailed`` if the directory cannot be used."""
        self._directory, self._disk = directory, disk or Disk()
        self._cap, self._segment_bytes, self._segment_age = cap_bytes, segment_bytes, segment_age_s
        self._writing, self._settling = threading.Lock(), threading.RLock()  # to be taken in the other order
        self._open: OpenSegment | None = None
        self._unsettled: list[_Unsettled] = []
        self._complaints: set[str] = set()
        self._number = 0
        self._closed = False
        self.set_aside: list[Path] = []  # files with bytes of earlier segments that are no request
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(directory)
            self._recover()
            self._used, self._looked = self._count(), time.monotonic()
        except OSError as error:
            raise self._failure("use", error, "look at its disk, or give another --spool") from error

    # ---- writing ----

    def append(self, *parts: bytes | bytearray) -> None:
        """Keep a frame, given in one or more parts; when this returns it is on disk.

        Raises ``SpoolFull`` if there is no room, ``StorageFailed`` if the disk fails. The frame is not kept then, or
        not surely: whoever sent it has to send it again."""
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
            raise self._failure("write to", error, "make room on its disk, or look at its state") from error
        finally:
            if segment is not None and (not segment.takes_more or segment.size >= self._segment_bytes):
                self._retire(segment)

    def seal_if_old(self) -> None:
        """Let readers have the open segment when it has waited long enough, and others that could not be sealed."""
        segment = self._open
        if segment is not None and time.monotonic() - segment.begun >= self._segment_age:
            self._retire(segment)
        self._settle()

    def seal(self) -> None:
        """Let readers have the open segment."""
        segment = self._open
        if segment is not None:
            self._retire(segment)

    def close(self) -> None:
        """Seal what is open and let another process have the spool; who comes later is told that there is no room."""
        with self._writing:
            self._closed = True
        self.seal()
        with self._settling:
            self._settle()
            os.close(self._lock)

    @property
    def is_full(self) -> bool:
        """Whether there is no room for even a small request."""
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
            if not (self._directory / f"{name}{SEALED}").exists():  # a clock that was set back makes names again
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
        """Write no more to a segment, and seal it. Only the first caller does it, and no one holds a lock meanwhile
        that a request needs."""
        with self._writing:
            if self._open is segment:
                self._open = None
        with self._settling:
            if segment.finish():
                self._unsettled.append(_Unsettled(segment.path, segment.kept))
            self._settle()

    def _settle(self) -> None:
        """Seal what is written no more. What cannot be sealed now is tried again later: its bytes are on disk."""
        with self._settling:
            for one in list(self._unsettled):
                try:
                    self._settle_one(one)
                except FileNotFoundError:
                    _LOG.warning("%s is gone: somebody else has removed or sealed it", one.path)
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
            _LOG.warning("%s has bytes that are no request; they are kept in %s", one.path, aside)

    def _complain(self, text: str) -> None:
        if text not in self._complaints:  # twice a second would be too often
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
            raise SpoolFull(f"The spool {self._directory} takes no more: {min(self._complaints, default=OPEN)}")
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
        """The bytes of all segments, and of what was set aside."""
        total = 0
        for path in (*self._directory.iterdir(), *self._directory.glob(f"{ASIDE}/*")):
            if path.name.endswith((SEALED, OPEN)) or path.parent.name == ASIDE:
                try:
                    total += path.stat().st_size
                except FileNotFoundError:  # ingested this moment
                    continue
        return total


def _locked(directory: Path) -> int:
    handle = locked(directory / ".lock", mode=0o600)
    if handle is None:
        raise Conflict(f"Cannot write to the spool {directory}: another process does; give each its own")
    return handle
