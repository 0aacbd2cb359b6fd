"""The ``metadata`` folder of a table in a directory catalog: ``v1.metadata.json``, ``v2.metadata.json`` and so on.

Creating the file of the next version is the compare-and-swap: a hard link fails if the name exists. This is safe only
if no name becomes free again. So a version that is cleaned up leaves an empty file under its name
(``docs/decisions/0018-a-version-number-is-used-once.md``). All names are resolved from one open handle of the folder.
If the folder is dropped meanwhile, a late file is dropped with it, and no commit goes to a table that was recreated
under the old name (D10).
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

_NAME = re.compile(r"v(0|[1-9][0-9]{0,17})(?:\.gz\.metadata\.json|\.metadata\.json(?:\.gz)?)")  # as in `names_of`
_HINT = "version-hint.text"
# The system reports these errors before it does anything. After any other error, a network file system may still
# complete the call.
_REFUSED = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EMLINK, errno.ENOENT}
)
_NO_LOCKS = frozenset({errno.ENOTSUP, errno.ENOSYS, errno.ENOLCK, errno.EINVAL})
_HANDLES = os.link in os.supports_dir_fd
_LONGEST_HINT = 32
_HINTS = 3  # how many times one commit writes the hint while other commits continue
NAMES_KEPT = 1000  # versions whose names stay taken after cleanup; each listing reads all of them


@dataclass(frozen=True, slots=True)
class VersionFile:
    """One version of the table: its number and its file name."""

    version: int
    name: str


class VersionFolder:
    """An open handle of the folder. Use it in a ``with`` block."""

    def __init__(self, path: Path) -> None:
        if not _HANDLES:
            raise Unsupported(
                "cannot use a directory as a catalog: this needs a POSIX system; use sqlite:///",
                feature="directory catalog",
            )
        self._path = path
        self._handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)

    def newest(self) -> VersionFile | None:
        """The current version: the highest number in the folder, or None if there is no version.

        Neither the hint nor a gap in the numbers is trusted. A slow writer may leave an old hint, and other engines
        delete versions. A listing contains every name that exists when it begins, and names stay for a long time.
        """
        listed = self._listed()
        highest = max(listed.values(), default=0)
        return next((VersionFile(highest, name) for name in names_of(highest) if name in listed), None)

    def versions(self, least: int = 0) -> list[VersionFile]:
        """The versions from number ``least`` on, in no order. Includes versions that were cleaned up."""
        return [VersionFile(number, name) for name, number in self._listed().items() if number >= least]

    def first(self) -> VersionFile | None:
        """The version that a new table starts with; None where there is a table. A dropped table left no version."""
        return VersionFile(1, "v1.metadata.json") if self.newest() is None else None

    def has(self, name: str) -> bool:
        """Whether a file of that name exists."""
        try:
            os.stat(name, dir_fd=self._handle)
        except FileNotFoundError:
            return False
        return True

    def mark(self, name: str) -> Mark:
        """A value that identifies this file among all files that ever have its name."""
        facts = os.stat(name, dir_fd=self._handle)
        return facts.st_dev, facts.st_ino, facts.st_mtime_ns, facts.st_size

    def read(self, name: str) -> bytes:
        """The whole content of the file."""
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=self._handle)
        with os.fdopen(handle, "rb") as file:
            return file.read()

    def create(self, name: str, data: bytes) -> None:
        """Create a complete file that survives a crash. Raises `AlreadyExists` if the name exists.

        After an ``OSError`` the file was not created. After `OutcomeUnknown` it may have been created.
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
            raise OutcomeUnknown(
                f"cannot make sure that {file} survives a power failure: it was created, then: {error}", made=file
            ) from error

    def remove(self, name: str) -> None:
        """Remove the file, if it exists and this user may remove it."""
        with suppress(OSError):
            os.unlink(name, dir_fd=self._handle)

    def tidy(self, version: VersionFile) -> None:
        """Empty the file of an old version, and keep its name taken. Never raises."""
        draft = f".{uuid4().hex}.tmp"
        try:
            self._write(draft, b"", durable=False)
            os.rename(draft, version.name, src_dir_fd=self._handle, dst_dir_fd=self._handle)
        except OSError:
            self.remove(draft)

    def free_old_names(self, current: int) -> None:
        """Remove the oldest name that need not stay taken any more. Never raises."""
        for name in names_of(current - NAMES_KEPT):
            with suppress(OSError):
                if os.stat(name, dir_fd=self._handle).st_size == 0:
                    self.remove(name)

    def leave_hint(self) -> None:
        """Write the newest version number to the hint file, where other engines start to look. Never raises.

        The number never decreases: a writer holds a lock and reads the folder first. If the lock is taken, this writer
        leaves the hint to the holder of the lock, or to the next commit. An old hint does no harm: readers search
        upwards from it.
        """
        with suppress(OSError), self._hint_lock():
            for _ in range(_HINTS):
                hint, newest = self._hint(), self.newest()  # in this order: a version exists before its hint
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
        import fcntl  # only on POSIX, like the whole class

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
        """The file names of all versions, each with its number."""
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
            # A network file system may lose the answer and report a success as a failure. The file itself decides.
            try:
                links = os.stat(draft, dir_fd=self._handle).st_nlink
            except OSError:
                raise OutcomeUnknown(f"cannot tell whether {self._path / name} was created: {error}") from error
            if links > 1:
                return
            if isinstance(error, FileExistsError):
                raise AlreadyExists(f"{self._path / name} exists", file=str(self._path / name)) from error
            if error.errno not in _REFUSED:
                raise OutcomeUnknown(f"cannot tell whether {self._path / name} was created: {error}") from error
            raise


def version_file(name: str) -> VersionFile | None:
    """The version that a file name means. None if the name is of another kind."""
    match = _NAME.fullmatch(name)
    return None if match is None else VersionFile(int(match[1]), name)


def names_of(version: int) -> tuple[str, ...]:
    """The possible file names of a version, in the order in which readers try them."""
    stem = f"v{version}"
    return f"{stem}.metadata.json", f"{stem}.gz.metadata.json", f"{stem}.metadata.json.gz"
