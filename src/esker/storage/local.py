"""Files on this machine."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from esker.errors import AlreadyExists, InvalidInput, NoSuchFile, Unsupported
from esker.ports.storage import StoredFile
from esker.storage.location import Location

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)


class LocalStorage:
    """Files by path or ``file:`` URI.

    With ``roots``, whatever the way there (``..``, a symbolic link, an absolute path in someone's manifest), only
    files that really lie below one of them are touched. ``remembered`` is a file of further roots, one a line, that
    were admitted for good.
    """

    def __init__(self, roots: Iterable[str | Path] | None = None, *, remembered: Path | None = None) -> None:
        known = remembered.read_text().splitlines() if remembered is not None and remembered.is_file() else ()
        self._roots = None if roots is None else tuple(Path(root).resolve() for root in (*roots, *known))
        self._remembered = remembered

    def admit(self, place: str, *, for_good: bool = False) -> None:
        """One more root, where the storage has any: somebody who may say so named this place."""
        if self._roots is None:
            return
        root = self._real(place)
        if any(root.is_relative_to(known) for known in self._roots):
            return
        self._roots = (*self._roots, root)
        if for_good and self._remembered is not None:
            with self._remembered.open("a") as file:
                file.write(f"{root}\n")

    def check(self, location: str) -> None:
        """`InvalidInput` for a location that leads outside the roots."""
        self._path(location)

    def read(self, location: str) -> bytes:
        with self.open(location) as file:
            return file.read()

    def open(self, location: str) -> BinaryIO:
        path = self._existing(location)
        with _told("open", location):
            return path.open("rb")

    def size(self, location: str) -> int:
        path = self._existing(location)
        with _told("measure", location):
            return path.stat().st_size

    def exists(self, location: str) -> bool:
        path = self._path(location)
        with _told("look for", location):
            return path.is_file()

    def local_path(self, location: str) -> str | None:
        return str(self._existing(location))

    def write_new(self, location: str, data: bytes) -> None:
        with self.open_new(location) as file:
            file.write(data)

    @contextmanager
    def open_new(self, location: str) -> Iterator[BinaryIO]:
        path = self._path(location)
        with _told("create", location):
            _make_folders(path.parent)
            # A hard link fails when the name is taken, so the file appears whole, once, or not at all.
            draft = path.with_name(f".{uuid4().hex}.tmp")
            try:
                with draft.open("xb") as file:
                    yield file
                    file.flush()
                    os.fsync(file.fileno())
                _link(draft, path, location)
            finally:
                with suppress(OSError):
                    draft.unlink(missing_ok=True)
            sync_folder(path.parent)

    def list(self, prefix: str) -> Iterator[StoredFile]:
        base = self._path(prefix)
        with _told("list", prefix):
            if not base.is_dir():
                return
            # A folder that cannot be read must not pass for an empty one: callers conclude from what is not listed.
            for folder, folders, files in os.walk(base, onerror=_raise):
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
        path = _local(location)
        if self._roots is not None:  # the entry itself goes, be it a link: only the way to it is followed
            path = self._path(str(path.parent)) / path.name
        with _told("delete", location), suppress(FileNotFoundError, NotADirectoryError):
            path.unlink()

    def _existing(self, location: str) -> Path:
        path = self._path(location)
        with _told("reach", location):
            if path.is_file():
                return path
            why = "it is a directory" if path.is_dir() else "there is no such file"
        raise NoSuchFile(f"cannot read {location}: {why}", file=location)

    def _path(self, location: str) -> Path:
        if self._roots is None:
            return _local(location)
        real = self._real(location)
        if not any(real.is_relative_to(root) for root in self._roots):
            raise InvalidInput(
                f"refused to touch {location}: it leads outside {', '.join(map(str, self._roots))}", file=location
            )
        return real

    @staticmethod
    def _real(location: str) -> Path:
        try:
            return _local(location).resolve()
        except (OSError, RuntimeError) as error:
            raise InvalidInput(f"cannot follow {location}: {error}", file=location) from error


def _local(location: str) -> Path:
    if "\0" in location:
        raise InvalidInput(f"cannot use the location {location!r}: it holds a zero byte", file=location)
    parsed = Location.parse(location)
    if parsed.scheme != "file" or parsed.authority not in ("", "localhost"):
        raise Unsupported(
            f"cannot reach {location}: {parsed.scheme} locations are not local files", feature=parsed.scheme
        )
    return Path(parsed.path or ".")


@contextmanager
def _told(act: str, location: str) -> Iterator[None]:
    """What the system refuses, as an error of ours that names the file."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NoSuchFile(f"cannot {act} {location}: there is no such file", file=location) from error
    except OSError as error:
        raise InvalidInput(f"cannot {act} {location}: {error.strerror or error}", file=location) from error


def _raise(error: OSError) -> None:
    raise error


def _link(draft: Path, path: Path, location: str) -> None:
    try:
        os.link(draft, path)
    except FileExistsError as error:
        raise AlreadyExists(f"cannot create {location}: the file exists", file=location) from error
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        raise Unsupported(
            f"cannot create {location}: this file system has no hard links, so two writers could both win",
            feature="hard links",
            file=location,
        ) from error


def _make_folders(folder: Path) -> None:
    """The folder and what is missing above it, each name as durable as the file that will lie below."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for place in reversed(missing):
        place.mkdir(exist_ok=True)
        sync_folder(place.parent)


def sync_folder(folder: Path) -> None:
    """Make a new name in a folder survive a power cut, where the system lets us."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
