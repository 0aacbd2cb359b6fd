"""The ``metadata`` folder of a table in a directory catalog: ``v1.metadata.json``, ``v2.metadata.json`` and so on.

Making the next version's file is the compare-and-swap: a hard link fails when the name is taken. All names are
looked up from one open handle of the folder, so a folder that is dropped meanwhile takes a late file with it, and no
commit lands in a table made anew under the old name (D10).
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from uuid import uuid4

from esker.errors import AlreadyExists, OutcomeUnknown, Unsupported

Mark = tuple[int, int, int, int]

_NAME = re.compile(r"v(\d{1,18})(?:\.gz)?\.metadata\.json(?:\.gz)?")
_HINT = "version-hint.text"
# What a system says before it does anything; after any other error a network file system may still do it.
_REFUSED = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EMLINK, errno.ENOENT}
)
_HANDLES = os.link in os.supports_dir_fd
_LONGEST_HINT = 32
_LONGEST_PROBE = 64


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
        """The current version: from the hint as far up as versions go, or by a listing where the hint is no good."""
        found = self._find(self._hint())
        for _ in range(_LONGEST_PROBE):
            after = None if found is None else self._find(found.version + 1)
            if after is None:
                break
            found = after
        else:
            found = None  # far behind: one listing is cheaper than walking up to it
        return found or self._last_listed()

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

    def leave_hint(self, version: int) -> None:
        """Say where to begin looking. Only a hint: it may be late, lost or overtaken."""
        draft = f".{uuid4().hex}.tmp"
        try:
            self._write(draft, str(version).encode(), durable=False)
            os.rename(draft, _HINT, src_dir_fd=self._handle, dst_dir_fd=self._handle)
        except OSError:
            self.remove(draft)

    def _hint(self) -> int | None:
        try:
            text = self.read(_HINT)
        except OSError:
            return None
        digits = text.strip()
        return int(digits) if len(text) <= _LONGEST_HINT and digits.isdigit() and len(digits) <= 18 else None

    def _find(self, version: int | None) -> VersionFile | None:
        if version is None:
            return None
        stem = f"v{version}"
        names = (f"{stem}.metadata.json", f"{stem}.gz.metadata.json", f"{stem}.metadata.json.gz")
        return next((VersionFile(version, name) for name in names if self.has(name)), None)

    def _last_listed(self) -> VersionFile | None:
        matches = (_NAME.fullmatch(name) for name in os.listdir(self._handle))  # noqa: PTH208  # a handle, not a path
        found = (VersionFile(int(match[1]), match[0]) for match in matches if match)
        return max(found, key=lambda file: file.version, default=None)

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
