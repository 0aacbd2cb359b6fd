"""Decoded files in a folder of this machine, for later processes.

Several processes may use one folder. An entry is written under another name and renamed, so it is complete or absent.
It has a checksum: an entry that was changed or cut is removed and made again. No error of the file system is raised,
and nothing depends on an entry.
"""

from __future__ import annotations

import os
import stat
import threading
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

FOLDER, SIZE = "ESKER_MANIFEST_CACHE", "ESKER_MANIFEST_CACHE_MB"
DEFAULT_MB = 1024
_MAGIC = b"EskerC01"
_PREFIX = len(_MAGIC) + 8  # then the checksum of the rest, and the length of the head
_SUFFIX = ".entry"
_LONGEST_HEAD = 8 << 20


def cache_folder(environ: Mapping[str, str] | None = None) -> CacheFolder | None:
    """The folder that the environment names, by default ``esker`` in the user's cache directory. None if it is off."""
    found = os.environ if environ is None else environ
    named = found.get(FOLDER, "").strip()
    megabytes = found.get(SIZE, "").strip()
    limit = (int(megabytes) if megabytes.isdecimal() else DEFAULT_MB) << 20
    if named.lower() == "off" or not limit:
        return None
    if named:
        return CacheFolder(Path(named), limit)
    base = found.get("XDG_CACHE_HOME", "").strip()
    home = found.get("HOME", "").strip()
    if not base.startswith("/") and not home.startswith("/"):
        return None
    return CacheFolder((Path(base) if base.startswith("/") else Path(home, ".cache")) / "esker" / "manifests", limit)


class CacheFolder:
    """Entries below ``root``, of at most ``limit`` bytes together."""

    def __init__(self, root: Path, limit: int) -> None:
        self._root = root
        self._limit = limit
        self._lock = threading.Lock()
        self._heads: dict[str, tuple[int, dict[str, bytes]]] = {}  # by folder: when it changed, and what it has

    def __reduce__(self) -> tuple[type[CacheFolder], tuple[Path, int]]:
        """For another process, which reads the folder itself."""
        return CacheFolder, (self._root, self._limit)

    def heads(self, folder: str) -> dict[str, bytes]:
        """The heads of all entries of a folder. Only new entries are read."""
        place = self._root / folder
        try:
            changed = place.stat().st_mtime_ns
            if not (_is_ours(self._root) and _is_ours(place)):
                return {}
            with self._lock:
                before, known = self._heads.get(folder, (0, {}))
            if before == changed:
                return dict(known)
            names = [entry.name for entry in os.scandir(place) if entry.name.endswith(_SUFFIX)]
        except OSError:
            return {}
        found = {name: known[name] if name in known else _head(place / name) for name in names}
        heads = {name: head for name, head in found.items() if head is not None}
        with self._lock:
            self._heads[folder] = changed, heads
        return dict(heads)

    def read(self, folder: str, name: str) -> tuple[bytes, memoryview] | None:
        """The head and the body of an entry. A damaged one is removed."""
        place = self._root / folder / name
        try:
            data = place.read_bytes()
            os.utime(place)  # the entries that were not used for longest go first
        except OSError:
            return None
        size = int.from_bytes(data[_PREFIX - 4 : _PREFIX], "little")
        whole = len(data) >= _PREFIX + size and data.startswith(_MAGIC)
        view = memoryview(data)
        if not whole or zlib.crc32(view[len(_MAGIC) + 4 :]) != int.from_bytes(data[len(_MAGIC) :][:4], "little"):
            self.discard(folder, name)
            return None
        return data[_PREFIX : _PREFIX + size], view[_PREFIX + size :]

    def write(self, folder: str, head: bytes, body: bytes) -> None:
        """Add an entry under a new name."""
        size = _PREFIX + len(head) + len(body)
        if size > self._limit or len(head) > _LONGEST_HEAD:
            return
        rest = len(head).to_bytes(4, "little") + head
        check = zlib.crc32(body, zlib.crc32(rest)).to_bytes(4, "little")
        place = self._root / folder
        draft = place / f".{uuid4().hex}.tmp"
        try:
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_ours(self._root):
                return
            place.mkdir(mode=0o700, exist_ok=True)
            if not _is_ours(place):
                return
            self._make_room(size)
            with draft.open("xb") as file:
                file.writelines((_MAGIC, check, rest, body))
            draft.rename(place / f"{uuid4().hex}{_SUFFIX}")
        except OSError:
            with suppress(OSError):
                draft.unlink(missing_ok=True)

    def discard(self, folder: str, name: str) -> None:
        """Remove an entry."""
        with suppress(OSError):
            (self._root / folder / name).unlink()

    def _make_room(self, size: int) -> None:
        """Remove the entries that were not used for longest, and drafts that a dead process left, until it fits."""
        found: list[tuple[float, int, Path]] = []
        for folder in os.scandir(self._root):
            with suppress(OSError):  # another process removes too
                for entry in os.scandir(folder.path):
                    facts = entry.stat()
                    found.append((facts.st_mtime, facts.st_size, Path(entry.path)))
        total = size + sum(held for _, held, _ in found)
        for _, held, path in sorted(found):
            if total <= self._limit:
                return
            with suppress(OSError):
                path.unlink()
            total -= held


def _is_ours(place: Path) -> bool:
    """Whether only this user can add files: another one could have put anything here."""
    facts = place.stat()
    return facts.st_uid == os.getuid() and not facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _head(place: Path) -> bytes | None:
    try:
        with place.open("rb") as file:
            prefix = file.read(_PREFIX)
            size = int.from_bytes(prefix[_PREFIX - 4 :], "little")
            if not prefix.startswith(_MAGIC) or size > _LONGEST_HEAD:
                return None
            return file.read(size)
    except OSError:
        return None
