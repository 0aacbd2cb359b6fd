"""A draft of a file whose first part is known early: the system brings that part to the disk meanwhile."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

_MOST_PIECES = 1024  # for one call of the system


class EarlyDraft:
    """A file without its own name yet, and the pieces that it begins with. ``remove`` must be called at the end."""

    def __init__(self, path: Path, pieces: Sequence[bytes]) -> None:
        """Create the file, write the pieces, and ask the system to bring them to the disk. Does not wait for the disk.

        Raises ``OSError``; then nothing is left.
        """
        self.path = path
        self._pieces: list[bytes] | None = list(pieces)  # None: more was written
        self._handle: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            _reserve(self._handle, sum(map(len, self._pieces)))
            write_at_once(self._handle, self._pieces)
            _begin_writeback(self._handle)
        except BaseException:
            self.remove()
            raise

    def complete(self, pieces: Sequence[bytes]) -> bool:
        """Write the other pieces and sync the file, all of it.

        Returns False, and writes nothing, if the file does not begin as ``pieces`` do, or is complete already. Raises
        ``OSError``.
        """
        begun, handle = self._pieces, self._handle
        if handle is None or begun is None or list(pieces[: len(begun)]) != begun:
            return False
        self._pieces = None
        write_at_once(handle, pieces[len(begun) :])
        os.fsync(handle)
        return True

    def remove(self) -> None:
        """Delete the draft. The file stays if it has another name. Never raises; may be called twice."""
        if self._handle is None:
            return
        with suppress(OSError):
            os.close(self._handle)
        self._handle = None
        with suppress(OSError):
            self.path.unlink(missing_ok=True)


def _sync_file_range() -> Callable[[int, int, int, int], int] | None:
    """The system's call; None for systems without it. It promises nothing about the disk, so its answer is not used."""
    try:
        call = ctypes.CDLL(None).sync_file_range
    except (AttributeError, OSError, TypeError):
        return None
    call.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return call


_SYNC_FILE_RANGE = _sync_file_range()
_WRITE = 2  # SYNC_FILE_RANGE_WRITE: begin, and do not wait
CAN_BEGIN_EARLY = _SYNC_FILE_RANGE is not None


def _begin_writeback(handle: int) -> None:
    if _SYNC_FILE_RANGE is not None:
        _SYNC_FILE_RANGE(handle, 0, 0, _WRITE)  # from the start to the end


def _allocate() -> Callable[[int, int, int, int], int] | None:
    """The system's call that takes places on the disk for a file; None for systems without it. It fails on some file
    systems; the write finds the places then. So its answer is not used."""
    try:
        library = ctypes.CDLL(None)
        call = getattr(library, "fallocate64", None) or library.fallocate
    except (AttributeError, OSError, TypeError):
        return None
    call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return call


_FALLOCATE = _allocate()
_KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE: the file does not look longer than what was written


def _reserve(handle: int, size: int) -> None:
    """Take the places of the file on the disk by one call. Otherwise ext4 looks for a place for each 4 KB of it."""
    if _FALLOCATE is not None and size:
        _FALLOCATE(handle, _KEEP_SIZE, 0, size)


def write_at_once(handle: int, pieces: Sequence[bytes]) -> None:
    """Write all pieces with as few calls as possible. A buffered file makes a call for each and takes twice as long.

    Raises ``OSError``.
    """
    if not hasattr(os, "writev"):
        with open(handle, "wb", closefd=False) as file:
            file.writelines(pieces)
        return
    rest: list[bytes | memoryview] = list(pieces)
    at = 0
    while at < len(rest):
        few = rest[at : at + _MOST_PIECES]
        written = os.writev(handle, few)
        for piece in few:
            if written < len(piece):  # the system may write less than it was given
                rest[at] = memoryview(piece)[written:]
                break
            written -= len(piece)
            at += 1
