"""A log of numbered records, and the ways in which its file is rotated."""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import zstandard
from telemetry_samples import logs


class RotatedLog:
    """``app.log`` in a folder, of records that are numbered from 0."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.path = folder / "app.log"
        self.written = 0
        self.day = 0

    def append(self, records: int = 1) -> None:
        """Write so many records, a line each."""
        with self.path.open("ab") as file:
            for _ in range(records):
                file.write(logs([self.written]))
                self.written += 1

    def rename(self) -> None:
        """``app.log`` → ``app.log.1`` → ``app.log.2``; the next record makes the file again."""
        self._shift()
        self._rename(self.path, self.folder / "app.log.1")

    def rename_and_create(self) -> None:
        self.rename()
        self.path.touch()

    def copy_and_truncate(self) -> None:
        self._shift()
        shutil.copyfile(self.path, self.folder / "app.log.1")
        os.truncate(self.path, 0)

    def compress_at_once(self) -> None:
        """``app.log`` → ``app.log.1.gz`` → ``app.log.2.gz``."""
        self._shift()
        _pack(self.path, self.folder / "app.log.1.gz")

    def compress_the_second(self) -> None:
        """``app.log`` → ``app.log.1`` → ``app.log.2.gz``: what rotates next is compressed."""
        first = self.folder / "app.log.1"
        if first.exists():
            _pack(first, self.folder / "app.log.0.gz")
            self._shift()
            self._rename(self.folder / "app.log.1.gz", self.folder / "app.log.2.gz")
        self._rename(self.path, first)

    def date(self) -> None:
        """``app.log`` → ``app.log-20240101``, and what was rotated before to ``….zst``."""
        for path in self.folder.glob("app.log-????????"):
            _pack(path, path.with_name(f"{path.name}.zst"))
        self.day += 1
        self._rename(self.path, self.folder / f"app.log-202401{self.day:02d}")

    def stamp(self) -> None:
        """As the collector's file exporter does: ``app-2024-01-01T00-00-00.000.log``."""
        self.day += 1
        self._rename(self.path, self.folder / f"app-2024-01-{self.day:02d}T00-00-00.000.log")

    def into_a_folder(self) -> None:
        """An ``olddir``, where it is compressed."""
        self.day += 1
        (self.folder / "old").mkdir(exist_ok=True)
        _pack(self.path, self.folder / f"old/app.log-202401{self.day:02d}.gz")

    def _shift(self) -> None:
        for number in range(20, -1, -1):
            for ending in ("", ".gz"):
                self._rename(self.folder / f"app.log.{number}{ending}", self.folder / f"app.log.{number + 1}{ending}")

    @staticmethod
    def _rename(old: Path, new: Path) -> None:
        if old.exists():
            old.rename(new)


def _pack(old: Path, new: Path) -> None:
    """As gzip and zstd do: another file, of the same times, in place of the old one."""
    if not old.exists():
        return
    times = old.stat()
    pack = zstandard.compress if new.suffix == ".zst" else gzip.compress
    new.write_bytes(pack(old.read_bytes()))
    os.utime(new, ns=(times.st_atime_ns, times.st_mtime_ns))
    old.unlink()


Rotation = Callable[[RotatedLog], None]
ROTATIONS: list[Rotation] = [
    RotatedLog.rename,
    RotatedLog.rename_and_create,
    RotatedLog.copy_and_truncate,
    RotatedLog.compress_at_once,
    RotatedLog.compress_the_second,
    RotatedLog.date,
    RotatedLog.stamp,
    RotatedLog.into_a_folder,
]
