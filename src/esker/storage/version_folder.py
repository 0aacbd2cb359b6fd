"""The ``metadata`` folder of a table in a directory catalog: ``v1.metadata.json``, ``v2.metadata.json`` and so on.

Making the next version's file is the compare-and-swap: a hard link fails when the name is taken. That means something
only while no name becomes free again, so a version that is tidied away leaves an empty file under its name
(``docs/decisions/0018-a-version-number-is-used-once.md``). All names are looked up from one open handle of the folder,
so a folder that is dropped meanwhile takes a late file with it, and no commit lands in a table created again under
the old name (D10).
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from uuid import uuid4

from esker.errors import AlreadyExists, OutcomeUnknown, Unsupported

Mark = tuple[int, int, int, int]

_NAME = re.compile(r"v(0|[1-9][0-9]{0,17})(?:\.gz\.metadata\.json|\.metadata\.json(?:\.gz)?)")  # as in `_names`
_HINT = "version-hint.text"
# What a system says before it does anything; after any other error a network file system may still do it.
_REFUSED = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EMLINK, errno.ENOENT}
)
_NO_LOCKS = frozenset({errno.ENOTSUP, errno.ENOSYS, errno.ENOLCK, errno.EINVAL})
_HANDLES = os.link in os.supports_dir_fd
_LONGEST_HINT = 32
_HINTS = 3  # how often one commit writes the hint while others go on
NAMES_KEPT = 1000  # versions for which a tidied name stays taken; a listing has to go through all of them


@dataclass(frozen=True, slots=True)
class VersionFile:
    """One version of the table, by number and file name."""

    version: int
    name: str


class VersionFolder:
    """An open handle of the folder; use it in a ``with``."""

    def __init__(self, path: Path) -> None:
        if not _HANDLES:
            raise Unsupported("a directory can be a catalog only on a POSIX system", feature="directory catalog")
        self._path = path
        self._handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)

    def newest(self) -> VersionFile | None:
        """The current version: the highest number in the folder.

        Neither the hint nor a gap in the numbers is trusted: a slow writer may leave an old hint, and other engines
        delete versions. A name that is there when a listing begins is in the listing, and names stay for long.
        """
        listed = self._listed()
        highest = max(listed.values(), default=0)
        return next((VersionFile(highest, name) for name in _names(highest) if name in listed), None)

    def versions(self, least: int = 0) -> list[VersionFile]:
        """The versions from a number on, in no order, those tidied away too."""
        return [VersionFile(number, name) for name, number in self._listed().items() if number >= least]

    def has(self, name: str) -> bool:
        """Whether a file of that name is there."""
        try:
            os.stat(name, dir_fd=self._handle)
        except FileNotFoundError:
            return False
        return True

    def mark(self, name: str) -> Mark:
        """What tells this file from any other that ever has its name."""
        facts = os.stat(name, dir_fd=self._handle)
        return facts.st_dev, facts.st_ino, facts.st_mtime_ns, facts.st_size

    def read(self, name: str) -> bytes:
        """The whole file."""
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=self._handle)
        with os.fdopen(handle, "rb") as file:
            return file.read()

    def create(self, name: str, data: bytes) -> None:
        """The file, whole and durable; `AlreadyExists` when the name is taken.

        An ``OSError`` says that the name was not made, `OutcomeUnknown` that it may have been.
        """
        draft = f".{uuid4().hex}.tmp"
        try:
            self._write(draft, data, durable=True)
            self._link(draft, name)
        finally:
            self.remove(draft)
        try:
            os.fsync(self._handle)
        except OSError as error:
            file = str(self._path / name)
            raise OutcomeUnknown(f"{file} is there but may not survive a power cut: {error}", made=file) from error

    def remove(self, name: str) -> None:
        """The file goes, if it is there and may."""
        with suppress(OSError):
            os.unlink(name, dir_fd=self._handle)

    def tidy(self, version: VersionFile) -> None:
        """The content of an old version goes, its name stays taken. Never raises."""
        draft = f".{uuid4().hex}.tmp"
        try:
            self._write(draft, b"", durable=False)
            os.rename(draft, version.name, src_dir_fd=self._handle, dst_dir_fd=self._handle)
        except OSError:
            self.remove(draft)

    def free_old_names(self, current: int) -> None:
        """Remove the name of the version tidied so long ago that it need not stay taken. Never raises."""
        for name in _names(current - NAMES_KEPT):
            with suppress(OSError):
                if os.stat(name, dir_fd=self._handle).st_size == 0:
                    self.remove(name)

    def leave_hint(self) -> None:
        """Write the newest version's number for readers of other engines, who begin to look there. Never raises.

        The number never goes back: who writes it holds a lock and looks at the folder first. A writer that finds the
        lock taken leaves the hint to its holder, or to the next commit: a reader goes up from an old number.
        """
        with suppress(OSError), self._hint_lock():
            for _ in range(_HINTS):
                hint, newest = self._hint(), self.newest()  # in this order: a version is there before its hint
                if newest is None or hint == newest.version:
                    break
                draft = f".{uuid4().hex}.tmp"
                try:
                    self._write(draft, str(newest.version).encode(), durable=False)
                    os.rename(draft, _HINT, src_dir_fd=self._handle, dst_dir_fd=self._handle)
                finally:
                    self.remove(draft)

    @contextmanager
    def _hint_lock(self) -> Iterator[None]:
        import fcntl  # POSIX alone, as the whole class

        own = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=self._handle)
        try:
            try:
                fcntl.flock(own, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
            yield
        finally:
            os.close(own)

    def _listed(self) -> dict[str, int]:
        """The names of all versions, each with its number."""
        names = os.listdir(self._handle)  # noqa: PTH208  # a handle, not a path
        matches = (_NAME.fullmatch(name) for name in names if name[0] == "v")
        return {match[0]: int(match[1]) for match in matches if match}

    def _hint(self) -> int | None:
        try:
            text = self.read(_HINT)
        except OSError:
            return None
        digits = text.strip()
        return int(digits) if len(text) <= _LONGEST_HINT and digits.isdigit() and len(digits) <= 18 else None

    def _write(self, name: str, data: bytes, *, durable: bool) -> None:
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666, dir_fd=self._handle)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())

    def _link(self, draft: str, name: str) -> None:
        try:
            os.link(draft, name, src_dir_fd=self._handle, dst_dir_fd=self._handle)
        except OSError as error:
            # A network file system may lose the answer and report its own success as a failure: the file knows.
            try:
                links = os.stat(draft, dir_fd=self._handle).st_nlink
            except OSError:
                raise OutcomeUnknown(f"cannot tell whether {self._path / name} was made: {error}") from error
            if links > 1:
                return
            if isinstance(error, FileExistsError):
                raise AlreadyExists(f"{self._path / name} exists", file=str(self._path / name)) from error
            if error.errno not in _REFUSED:
                raise OutcomeUnknown(f"cannot tell whether {self._path / name} was made: {error}") from error
            raise


def version_file(name: str) -> VersionFile | None:
    """The version that a file name stands for; None for a name of another kind."""
    match = _NAME.fullmatch(name)
    return None if match is None else VersionFile(int(match[1]), name)


def _names(version: int) -> tuple[str, ...]:
    """What the file of a version may be called, in the order in which readers look."""
    stem = f"v{version}"
    return f"{stem}.metadata.json", f"{stem}.gz.metadata.json", f"{stem}.metadata.json.gz"
