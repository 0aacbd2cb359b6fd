"""Files that survive a crash, and locks that end with the process: fsync of files and directories, and file locks."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def sync_directory(directory: Path) -> None:
    """Make new names in a directory survive a crash."""
    if os.name == "nt":
        return  # this system cannot open directories
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def locked(file: Path, *, mode: int) -> int | None:
    """Open a file and lock it. Returns a handle, or None if another process has the lock.

    The lock ends with the process, so a crash leaves no lock behind.
    """
    handle = os.open(file, os.O_RDWR | os.O_CREAT, mode)
    if not hold(handle):
        os.close(handle)
        return None
    return handle


def hold(handle: int) -> bool:
    """Lock an open file. Returns False if another process has the lock. Always True on a system without file locks."""
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
    """The disk operations of the spool. Every method raises the ``OSError`` of the operating system."""

    def create(self, path: Path) -> int:
        """Create a file and return a handle to append to it."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o666)

    def write(self, handle: int, data: memoryview) -> int:
        """Write bytes, from the first one on. Returns how many were written."""
        return os.write(handle, data)

    def sync(self, handle: int) -> None:
        """Write everything to the disk (fsync)."""
        os.fsync(handle)

    def cut(self, handle: int, length: int) -> None:
        """Truncate a file to ``length`` bytes."""
        os.ftruncate(handle, length)

    def close(self, handle: int) -> None:
        """Close a handle. It is closed even if this call fails."""
        os.close(handle)

    def rename(self, path: Path, to: Path) -> None:
        """Give a file another name."""
        path.rename(to)

    def remove(self, path: Path) -> None:
        """Remove a file."""
        path.unlink(missing_ok=True)

    def sync_names(self, directory: Path) -> None:
        """Write the names in a directory to the disk (fsync)."""
        sync_directory(directory)


def write_all(disk: Disk, handle: int, data: bytes | bytearray) -> None:
    """Write all bytes. After an ``OSError``, any number of them may be written."""
    left = memoryview(data)
    while left:
        written = disk.write(handle, left)
        if written <= 0:
            raise OSError(errno.EIO, "the system wrote nothing")
        left = left[written:]
