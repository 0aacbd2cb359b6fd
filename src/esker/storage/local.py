"""Files on this machine."""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from uuid import uuid4

from esker.errors import AlreadyExists, EskerError, InvalidInput, NoSuchFile, Unsupported
from esker.ports.storage import Finish, StoredFile, waiting_names
from esker.storage.early_draft import CAN_BEGIN_EARLY, EarlyDraft, write_at_once
from esker.storage.failures import failure_of, naming_failures
from esker.storage.location import Location, folder_and_name, how_to_allow

if TYPE_CHECKING:
    from typing_extensions import Buffer

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)


class LocalStorage:
    """Files by path or ``file:`` URI.

    With ``roots``, only files below one of them are used. The real location decides, after ``..`` and symbolic links
    are resolved. So a recorded path cannot lead outside.
    """

    def __init__(self, roots: Iterable[str | Path] | None = None) -> None:
        self._roots = None if roots is None else tuple(self._real(str(root)) for root in roots)

    @property
    def is_shared(self) -> bool:
        """True: a path means the same file in every process. On several machines, this needs shared folders."""
        return True

    @property
    def tags_last(self) -> bool:
        """True: a path and the file's facts are the same for every process."""
        return True

    def tags(self, locations: Sequence[str]) -> list[str | None]:
        """By the real path, the size, the times of changes and the file's number. A folder is resolved once."""
        folders: dict[str, str] = {}
        return [self._tag(location, folders) for location in locations]

    def _tag(self, location: str, folders: dict[str, str]) -> str | None:
        folder, name = folder_and_name(location)
        if not name:
            return None
        try:
            if folder not in folders:
                folders[folder] = str(self._path(folder))
            place = f"{folders[folder]}/{name}"
            facts = os.lstat(place)
        except (OSError, ValueError, EskerError):
            return None  # reading it tells why
        if not stat.S_ISREG(facts.st_mode):
            return None
        return f"file:{place}:{facts.st_size}:{facts.st_mtime_ns}:{facts.st_ctime_ns}:{facts.st_ino}"

    def check(self, location: str) -> None:
        """Raise `InvalidInput` if the location is outside the roots."""
        self._path(location)

    def read(self, location: str) -> bytes:
        path = self._plain_file(location)
        if path is None:
            with self.open(location) as file:  # which says what is wrong
                return file.read()
        with naming_failures("read", location), io.FileIO(path) as file:
            return file.readall()

    def _plain_file(self, location: str) -> str | None:
        """The real path of a file that may be read. None in all cases that are not plain: `open` decides about them.

        A plan reads many small manifests. `open` takes longer than the system needs to read one.
        """
        text = location.removeprefix("file://")
        if not text.startswith("/") or "\0" in text:
            return None
        real = os.path.realpath(text)
        if self._roots is not None and not any(_is_below(real, str(root)) for root in self._roots):
            return None
        try:
            return real if stat.S_ISREG(os.lstat(real).st_mode) else None
        except OSError:
            return None

    def open(self, location: str) -> BinaryIO:
        path = self._existing(location)
        with naming_failures("open", location):
            return io.BufferedReader(_NamedFile(path, location))

    def size(self, location: str) -> int:
        path = self._existing(location)
        with naming_failures("measure", location):
            return path.stat().st_size

    def exists(self, location: str) -> bool:
        path = self._path(location)
        with naming_failures("look for", location):
            return _is_file(path)

    def local_path(self, location: str) -> str | None:
        return str(self._existing(location))

    def local_folder(self, location: str) -> str | None:
        self.check(location)
        return str(_local(location).absolute())

    def write_new(self, location: str, data: bytes) -> None:
        with self.open_new(location) as file:
            file.write(data)

    def write_pieces(self, location: str, pieces: Sequence[bytes]) -> None:
        with self.open_new(location) as file:
            write_at_once(file.fileno(), pieces)

    @contextmanager
    def open_new(self, location: str) -> Iterator[BinaryIO]:
        path = self._path(location)
        with naming_failures("create", location):
            _make_folders(path.parent)
            # A hard link fails if the name exists. So a file appears complete, once, or not at all.
            draft = _draft_in(path.parent)
            try:
                with draft.open("xb") as file:
                    yield file
                    file.flush()
                    os.fsync(file.fileno())
                _link(draft, path, location)
            finally:
                with suppress(OSError):
                    draft.unlink(missing_ok=True)
            _keep_name(path, location)

    @contextmanager
    def begun(self, folder: str, pieces: Sequence[bytes]) -> Iterator[Finish | None]:
        draft = None
        if CAN_BEGIN_EARLY:
            with suppress(OSError, EskerError):  # writing without it tells why
                draft = EarlyDraft(_draft_in(self._path(folder)), pieces)
        if draft is None:
            yield None
            return
        try:
            yield partial(self._finish, draft, folder)
        finally:
            draft.remove()

    def _finish(self, draft: EarlyDraft, folder: str, location: str, pieces: Sequence[bytes]) -> bool:
        name = _local(location).name
        # The folder was resolved for the draft, and the location must not exist: there is no link to follow.
        path = draft.path.with_name(name) if folder_and_name(location) == (folder, name) else self._path(location)
        with naming_failures("create", location):
            if path.parent != draft.path.parent or not draft.complete(pieces):
                return False
            _link(draft.path, path, location)
            draft.remove()
            _keep_name(path, location)
        return True

    def list(self, prefix: str) -> Iterator[StoredFile]:
        base = self._path(prefix)
        with naming_failures("list", prefix):
            if not base.is_dir():
                return
            # A folder that cannot be read must not look empty: callers decide by what is not in the listing.
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

    def folders(self, prefix: str) -> tuple[Sequence[str], Sequence[StoredFile]]:
        """The names of the folders directly below the prefix, and the files directly below it. Links to folders are
        neither, as in a listing."""
        base = self._path(prefix)
        names: list[str] = []
        files: list[StoredFile] = []
        with naming_failures("list", prefix):
            for path in sorted(base.iterdir()) if base.is_dir() else ():
                if path.is_dir():
                    names += [] if path.is_symlink() else [path.name]
                    continue
                with suppress(FileNotFoundError):
                    facts = path.stat()
                    place = f"{prefix.rstrip('/')}/{path.name}"
                    modified_ms = facts.st_mtime_ns // 1_000_000
                    files.append(StoredFile(location=place, size=facts.st_size, modified_ms=modified_ms))
        return names, files

    def delete(self, location: str) -> None:
        path = _local(location)
        if self._roots is not None:  # a link is deleted, not followed: only its folder is resolved
            path = self._path(str(path.parent)) / path.name
        with naming_failures("delete", location), suppress(FileNotFoundError, NotADirectoryError):
            path.unlink()

    def drop_cached(self, location: str) -> None:
        if not hasattr(os, "posix_fadvise"):
            return
        with suppress(OSError, EskerError):
            handle = os.open(self._plain_file(location) or self._path(location), os.O_RDONLY)
            try:
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(handle)

    def _existing(self, location: str) -> Path:
        path = self._path(location)
        with naming_failures("reach", location):
            if _is_file(path):
                return path
            why = "it is a directory" if path.is_dir() else "there is no such file"
        raise NoSuchFile(f"cannot read {location}: {why}", file=location)

    def _path(self, location: str) -> Path:
        if self._roots is None:
            return _local(location)
        real = self._real(location)
        if not any(_is_below(str(real), str(root)) for root in self._roots):
            raise InvalidInput(
                f"cannot use {location}: it leads outside {', '.join(map(str, self._roots))}; "
                f"{how_to_allow(str(real.parent))}",
                file=location,
            )
        return real

    @staticmethod
    def _real(location: str) -> Path:
        try:
            return _local(location).resolve()
        except OSError as error:
            raise failure_of(error, "follow", location) from error
        except RuntimeError as error:  # symbolic links in a circle
            raise InvalidInput(f"cannot follow {location}: {error}", file=location) from error


def _local(location: str) -> Path:
    if "\0" in location:
        raise InvalidInput(f"cannot use the location {location!r}: it contains a zero byte", file=location)
    parsed = Location.parse(location)
    if parsed.scheme != "file" or parsed.authority not in ("", "localhost"):
        raise Unsupported(
            f"cannot reach {location}: {parsed.scheme} locations are not local files", feature=parsed.scheme
        )
    return Path(parsed.path or ".")


def _is_below(path: str, root: str) -> bool:
    """Whether a resolved path is a resolved root or below it. ``Path.is_relative_to`` takes ten times as long."""
    return path == root or path.startswith(root if root.endswith(os.sep) else root + os.sep)


class _NamedFile(io.FileIO):
    """A file that is being read. Its errors name the file."""

    def __init__(self, path: Path, location: str) -> None:
        super().__init__(path, "rb")
        self._location = location

    def readinto(self, buffer: Buffer, /) -> int | None:
        with naming_failures("read", self._location):
            return super().readinto(buffer)

    def readall(self) -> bytes:
        with naming_failures("read", self._location):
            return super().readall()


def _is_file(path: Path) -> bool:
    """Whether the file exists. ``Path.is_file`` of newer Python versions returns False if a file cannot be reached."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        if error.errno == errno.ELOOP:
            return False
        raise


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
            f"cannot create {location}: this file system has no hard links, so two writers could both succeed",
            feature="hard links",
            file=location,
        ) from error


def _draft_in(folder: Path) -> Path:
    return folder / f".{uuid4().hex}.tmp"


def _keep_name(path: Path, location: str) -> None:
    """Make the name of a new file survive a crash: with others, if it may wait for them."""
    if (names := waiting_names()) is not None:
        names.add(str(path.parent), partial(_sync_names, path.parent, location))
        return
    try:
        sync_folder(path.parent)
    except OSError:  # the name is new and may not survive a crash: report that nothing was created
        with suppress(OSError):
            path.unlink()
        raise


def _make_folders(folder: Path) -> None:
    """Create a folder and the missing folders above it, and make each name survive a crash."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for place in reversed(missing):
        place.mkdir(exist_ok=True)
        sync_folder(place.parent)


def _sync_names(folder: Path, location: str) -> None:
    with naming_failures("create", location):
        sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Make a new name in a folder survive a power failure, if the system supports it."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
