"""Files that survive a crash, and locks that end with the process: fsync of files and directories, and file locks."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def sync_directory(directory: Path) -> None:
    """Let a new name in a directory outlast a crash."""
    if os.name == "nt":
        return  # directories cannot be opened there
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def locked(file: Path, *, mode: int) -> int | None:
    """A handle to a file that no other process holds; None where one does. The lock goes with the process, so that
    none is left behind by a crash."""
    handle = os.open(file, os.O_RDWR | os.O_CREAT, mode)
    if not hold(handle):
        os.close(handle)
        return None
    return handle


def hold(handle: int) -> bool:
    """Take the lock of an open file; False if another process has it. Where files have no locks, it is always taken."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


class Disk:
    """Each step of the spool that the system may refuse. Every method raises the ``OSError`` of the system."""

    def create(self, path: Path) -> int:
        """A handle to a new file, to append to."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o666)

    def write(self, handle: int, data: memoryview) -> int:
        """How many of the bytes were written, from the first on."""
        return os.write(handle, data)

    def sync(self, handle: int) -> None:
        """Bring what was written to the disk."""
        os.fsync(handle)

    def cut(self, handle: int, length: int) -> None:
        """Make a file that short."""
        os.ftruncate(handle, length)

    def close(self, handle: int) -> None:
        """Give a handle back. It is closed even if this fails."""
        os.close(handle)

    def rename(self, path: Path, to: Path) -> None:
        """Give a file another name."""
        path.rename(to)

    def remove(self, path: Path) -> None:
        """Remove a file."""
        path.unlink(missing_ok=True)

    def sync_names(self, directory: Path) -> None:
        """Bring the names in a directory to the disk."""
        sync_directory(directory)


def write_all(disk: Disk, handle: int, data: bytes | bytearray) -> None:
    """Write every byte; after an ``OSError``, any number of them may be written."""
    left = memoryview(data)
    while left:
        written = disk.write(handle, left)
        if written <= 0:
            raise OSError(errno.EIO, "the system wrote nothing")
        left = left[written:]
