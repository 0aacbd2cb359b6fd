"""The segment that is being written, and how segments are published to readers, also after a failure.

A frame counts as kept after a sync has covered it. Everything before ``kept`` is kept. The bytes after it belong to
senders who still wait, or who were asked to send again. So a segment may always be cut to ``kept``, but never before
it.

- A write that fails is cut off, and the segment is continued. If it cannot be cut off, the segment accepts no more.
- After a sync that fails, it is unknown what is on disk, and a second sync of the same file may report success for
  bytes that the system has dropped. The segment accepts no more, and is not synced again.
"""

from __future__ import annotations

import errno
import itertools
import logging
import os
import threading
import time
from pathlib import Path
from typing import IO

from esker.otlp.source.decompress import Stream
from esker.otlp.source.framing import SPOOL_MAGIC
from esker.otlp.source.requests import MAX_REQUEST
from esker.otlp.source.segment import whole_length
from esker.storage.fsync_and_locks import Disk, hold, write_all

SEALED, OPEN = ".otlp", ".open"
ASIDE = ".aside"  # hidden, so that readers of the spool ignore it
_COPIED = 1 << 20
_LOG = logging.getLogger(__name__)


class OpenSegment:
    """One file to which frames are appended. Call ``write`` from one thread at a time, the rest from any."""

    def __init__(self, disk: Disk, path: Path) -> None:
        """Create the file. After an ``OSError`` no file with content is left."""
        self._disk, self.path = disk, path
        self.begun = time.monotonic()
        self.size = self.kept = len(SPOOL_MAGIC)  # of whole frames, and of those that a sync has covered
        self.takes_more = True
        self._syncing = threading.Lock()
        self._unsynced: OSError | None = None
        self._closed = False
        self._handle = disk.create(path)
        try:
            hold(self._handle)  # a process that recovers the spool does not touch the file
            write_all(disk, self._handle, SPOOL_MAGIC)
            disk.sync_names(path.parent)
        except OSError:
            self._close()
            raise

    def write(self, *parts: bytes | bytearray) -> int:
        """Append a frame. Returns the length of the segment with it. After an ``OSError`` nothing of the frame is
        left."""
        try:
            for part in parts:
                write_all(self._disk, self._handle, part)
        except BaseException:
            self._cut_off()
            raise
        self.size += sum(map(len, parts))
        return self.size

    def _cut_off(self) -> None:
        """Cut off a partial frame: no whole frame may follow it."""
        try:
            self._disk.cut(self._handle, self.size)
        except OSError as error:
            self.takes_more = False
            _LOG.error("cannot cut %s after its last whole request: %s", self.path, error)

    def sync_up_to(self, end: int) -> None:
        """Return when the first ``end`` bytes are on disk. Raises ``OSError`` if this is not certain."""
        with self._syncing:
            if self.kept >= end:  # a sync of another thread has covered it
                return
            if self._unsynced is not None:
                raise self._unsynced
            upto = self.size
            try:
                self._disk.sync(self._handle)
            except OSError as error:
                self._unsynced, self.takes_more = error, False
                raise
            self.kept = upto

    def finish(self) -> bool:
        """Sync what is written and close the file. True for the first caller, who has to publish it."""
        try:
            self.sync_up_to(self.size)
        except OSError as error:
            _LOG.error("cannot sync %s; its last requests are not acknowledged: %s", self.path, error)
        return self._close()

    def _close(self) -> bool:
        with self._syncing:
            if self._closed:
                return False
            self._closed = True
            try:
                self._disk.close(self._handle)
            except OSError as error:  # what counts was synced before
                _LOG.error("cannot close %s: %s", self.path, error)
            return True


def publish(disk: Disk, path: Path, kept: int) -> None:
    """Publish the first ``kept`` bytes of a closed segment to readers; remove it if it has no frame. Raises ``OSError``
    if that is not possible now: nothing is lost, and it may be tried again."""
    if kept <= len(SPOOL_MAGIC):
        disk.remove(path)
    elif path.exists():  # otherwise another process has recovered it
        _shorten(disk, path, kept)
        disk.rename(path, path.with_name(path.name.removeprefix(".").removesuffix(OPEN) + SEALED))
    disk.sync_names(path.parent)


def recover(disk: Disk, path: Path) -> list[Path]:
    """Publish the whole frames of a segment that another process left open. Bytes that are not a frame are moved to the
    folder ``.aside`` and never deleted; returns their files. Raises ``OSError`` as ``publish``."""
    with path.open("r+b", buffering=0) as file:
        if not hold(file.fileno()):
            raise BlockingIOError(errno.EWOULDBLOCK, "another process is writing to it")
        head, size = file.read(len(SPOOL_MAGIC)), os.fstat(file.fileno()).st_size
        file.seek(0)
        whole = whole_length(Stream(file), MAX_REQUEST) if head == SPOOL_MAGIC else 0
        has_frames = whole > len(SPOOL_MAGIC)
        aside = [_copy_aside(disk, path, file, whole)] if has_frames and whole < size else []
    if has_frames or (
        size == len(head) and SPOOL_MAGIC.startswith(head)
    ):  # frames are only written after a whole magic
        publish(disk, path, whole)
        return aside
    return [_move_aside(disk, path)]


def _shorten(disk: Disk, path: Path, length: int) -> None:
    if path.stat().st_size == length:
        return
    handle = os.open(path, os.O_WRONLY)
    try:
        disk.cut(handle, length)
        try:
            disk.sync(handle)
        except OSError as error:  # a power cut may restore the end: readers detect it by its checksum
            _LOG.error("cannot sync %s: %s", path, error)
    finally:
        os.close(handle)


def _folder_aside(disk: Disk, path: Path) -> Path:
    folder = path.parent / ASIDE
    if not folder.exists():
        folder.mkdir(exist_ok=True)
        disk.sync_names(path.parent)
    return folder


def _move_aside(disk: Disk, path: Path) -> Path:
    folder, name = _folder_aside(disk, path), path.name.removeprefix(".").removesuffix(OPEN)
    to = next(to for to in (folder / f"{name}.{count}" for count in itertools.count(1)) if not to.exists())
    disk.rename(path, to)
    disk.sync_names(folder)
    disk.sync_names(path.parent)
    return to


def _copy_aside(disk: Disk, path: Path, source: IO[bytes], start: int) -> Path:
    """Copy the bytes of a segment from ``start`` on to a file of their own. A copy that failed before is replaced."""
    to = _folder_aside(disk, path) / f"{path.name.removeprefix('.').removesuffix(OPEN)}-from-{start}"
    disk.remove(to)
    handle = disk.create(to)
    try:
        source.seek(start)
        while block := source.read(_COPIED):
            write_all(disk, handle, block)
        disk.sync(handle)
    finally:
        disk.close(handle)
    disk.sync_names(to.parent)
    return to
