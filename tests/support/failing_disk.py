"""A disk that fails at one step, or from one step on, and that can lose its power."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from esker.storage.fsync_and_locks import Disk


@dataclass(frozen=True, slots=True)
class Fault:
    """The step that fails, counted from 0 over all steps."""

    step: int = 0
    code: int = errno.ENOSPC
    lasts: int = 1  # how many steps fail
    bytes: int = 0  # that a failing write still writes
    done: bool = False  # the step is done, and fails all the same
    only: str | None = None  # fails steps of this name alone

    def hits(self, at: int, name: str) -> bool:
        """Whether a step fails."""
        return self.step <= at < self.step + self.lasts and self.only in (None, name)


class FailingDisk(Disk):
    """The real disk under a spool. What a sync has not covered is gone when the power is cut."""

    def __init__(self, fault: Fault | None = None) -> None:
        self.fault = fault
        self.steps: list[tuple[str, int]] = []  # what was asked for, and the length of what was to be written
        self._failed: set[int] = set()  # files whose sync failed once: later ones claim success and write nothing
        self._contents: dict[int, bytes] = {}  # by inode, as of the last sync
        self._names: dict[Path, dict[str, int]] = {}  # by directory, as of the last sync
        self.broken = True

    def _do(self, name: str, act: Callable[[], int | None], size: int = 0) -> int | None:
        at, fault = len(self.steps), self.fault
        self.steps.append((name, size))
        if not self.broken or fault is None or not fault.hits(at, name):
            return act()
        if fault.done:
            act()
        raise OSError(fault.code, os.strerror(fault.code))

    def create(self, path: Path) -> int:
        made = self._do("create", lambda: Disk.create(self, path))
        assert made is not None
        self._failed.discard(os.fstat(made).st_ino)
        self._contents.pop(os.fstat(made).st_ino, None)
        return made

    def write(self, handle: int, data: memoryview) -> int:
        fault = self.fault
        if fault is not None and fault.step == len(self.steps) and fault.bytes and self.broken:
            os.write(handle, data[: fault.bytes])
        written = self._do("write", lambda: os.write(handle, data), len(data))
        assert written is not None
        return written

    def sync(self, handle: int) -> None:
        inode = os.fstat(handle).st_ino

        def act() -> None:
            now = Path(f"/proc/self/fd/{handle}").read_bytes()
            before = self._contents.get(inode, b"")
            self._contents[inode] = before[: len(now)].ljust(len(now), b"\0") if inode in self._failed else now

        try:
            self._do("sync", act)
        except OSError:
            self._failed.add(inode)
            raise

    def cut(self, handle: int, length: int) -> None:
        self._do("cut", lambda: os.ftruncate(handle, length))

    def close(self, handle: int) -> None:
        os.close(handle)
        self._do("close", lambda: None)

    def rename(self, path: Path, to: Path) -> None:
        self._do("rename", lambda: Disk.rename(self, path, to))

    def remove(self, path: Path) -> None:
        self._do("remove", lambda: Disk.remove(self, path))

    def sync_names(self, directory: Path) -> None:
        def act() -> None:
            self._names[directory] = {path.name: path.stat().st_ino for path in directory.iterdir() if path.is_file()}

        self._do("sync_names", act)

    def after_a_power_cut(self, directory: Path, to: Path) -> Path:
        """A copy of the directory with nothing but what was synced."""
        to.mkdir(parents=True)
        for name, inode in self._names.get(directory, {}).items():
            (to / name).write_bytes(self._contents.get(inode, b""))
        return to
