"""Files on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from esker.errors import AlreadyExists, InvalidInput, NoSuchFile, Unsupported
from esker.ports.storage import StoredFile
from esker.storage.location import Location


class LocalStorage:
    """Files by path or ``file:`` URI.

    With ``roots``, whatever the way there (``..``, a symbolic link, an absolute path in someone's manifest), only
    files that really lie below one of them are touched.
    """

    def __init__(self, roots: Iterable[str | Path] | None = None) -> None:
        self._roots = None if roots is None else tuple(Path(root).resolve() for root in roots)

    def read(self, location: str) -> bytes:
        with self.open(location) as file:
            return file.read()

    def open(self, location: str) -> BinaryIO:
        path = self._path(location)
        try:
            if not path.is_file():
                raise self._missing(location, path)
            return path.open("rb")
        except FileNotFoundError as error:
            raise self._missing(location, path) from error
        except OSError as error:
            raise InvalidInput(f"cannot open {location}: {error.strerror}", file=location) from error

    def size(self, location: str) -> int:
        path = self._path(location)
        try:
            return path.stat().st_size
        except FileNotFoundError as error:
            raise self._missing(location, path) from error

    def exists(self, location: str) -> bool:
        return self._path(location).is_file()

    def local_path(self, location: str) -> str | None:
        path = self._path(location)
        if not path.is_file():
            raise self._missing(location, path)
        return str(path)

    def write_new(self, location: str, data: bytes) -> None:
        path = self._path(location)
        path.parent.mkdir(parents=True, exist_ok=True)
        # A hard link fails when the name is taken, so the file appears whole, once, or not at all.
        draft = path.with_name(f".{path.name}.{uuid4().hex}.tmp")
        try:
            with draft.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(draft, path)
            except FileExistsError as error:
                raise AlreadyExists(f"cannot create {location}: the file exists", file=location) from error
        finally:
            draft.unlink(missing_ok=True)
        _sync_directory(path.parent)

    def list(self, prefix: str) -> Iterator[StoredFile]:
        base = self._path(prefix)
        for folder, folders, files in os.walk(base):
            folders.sort()
            for name in sorted(files):
                path = Path(folder, name)
                try:
                    facts = path.stat()
                except FileNotFoundError:
                    continue
                way = path.relative_to(base).as_posix()
                yield StoredFile(
                    location=f"{prefix.rstrip('/')}/{way}",
                    size=facts.st_size,
                    modified_ms=facts.st_mtime_ns // 1_000_000,
                )

    def delete(self, location: str) -> None:
        self._path(location).unlink(missing_ok=True)

    def _path(self, location: str) -> Path:
        if "\0" in location:
            raise InvalidInput(f"cannot use the location {location!r}: it holds a zero byte", file=location)
        parsed = Location.parse(location)
        if parsed.scheme != "file" or parsed.authority not in ("", "localhost"):
            raise Unsupported(
                f"cannot reach {location}: {parsed.scheme} locations are not local files", feature=parsed.scheme
            )
        path = Path(parsed.path or ".")
        if self._roots is None:
            return path
        try:
            real = path.resolve()
        except (OSError, RuntimeError) as error:
            raise InvalidInput(f"cannot follow {location}: {error}", file=location) from error
        if not any(real.is_relative_to(root) for root in self._roots):
            raise InvalidInput(
                f"refused to touch {location}: it leads outside {', '.join(map(str, self._roots))}", file=location
            )
        return real

    @staticmethod
    def _missing(location: str, path: Path) -> NoSuchFile:
        why = "it is a directory" if path.is_dir() else "there is no such file"
        return NoSuchFile(f"cannot read {location}: {why}", file=location)


def _sync_directory(folder: Path) -> None:
    """Make a new name in a folder survive a power cut, where the system lets us."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
