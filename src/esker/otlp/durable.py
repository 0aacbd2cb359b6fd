"""What outlasts a crash, and what goes with it: names in a directory, and a lock."""

from __future__ import annotations

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
    try:
        import fcntl
    except ImportError:
        return handle
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle
