"""Files that are to be ingested: which there are, and what tells one from another."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import BinaryIO, Protocol

from esker.errors import InvalidInput, StorageFailed
from esker.otlp.framing import ends_in_mid_request
from esker.otlp.requests import MAX_REQUEST
from esker.storage.failures import failure_of, is_failure

# Names of files that somebody is still writing; rename-in is how a file becomes complete.
_UNFINISHED = (".tmp", ".part", ".open", ".crdownload", ".swp", "~")


class Digest(Protocol):
    """What ``hashlib`` makes."""

    def update(self, data: bytes, /) -> None: ...

    def hexdigest(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file as it was when its batch was planned. Path, size and digest make it what it is."""

    path: str
    size: int
    modified_ns: int
    digest: str  # SHA-256
    start: int = 0  # where it had ended when it was ingested before: it has grown, and only what is new counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A file that lies there; nobody has read it yet."""

    path: Path
    size: int
    modified_ns: int


def find_files(paths: Iterable[Path], *, pattern: str = "*") -> Iterator[Found]:
    """The files themselves, and what directories hold, at any depth; hidden and unfinished files are passed over."""
    for path in paths:
        try:
            mode = path.stat().st_mode
        except OSError as error:
            if is_failure(error):
                raise failure_of(error, "ingest", path) from error
            raise InvalidInput(f"cannot ingest {path}: {error.strerror or error}", path=str(path)) from error
        if stat.S_ISDIR(mode):
            yield from _below(path, pattern)
        elif stat.S_ISREG(mode):
            found = _look(path)
            if found is not None:
                yield found
        else:
            raise InvalidInput(f"cannot ingest {path}: it is neither a file nor a directory", path=str(path))


def oldest_first(found: Iterable[Found]) -> list[Found]:
    """In the order they were finished in, as a stream wants them."""
    return sorted(found, key=lambda one: (one.modified_ns, one.path))


def examine(found: Found, before: tuple[int, str] | None = None) -> SourceFile | None:
    """The file with its digest; None where it is gone, or changed while it was read. Given size and digest of what
    was ingested under its name before, a file that only grew is known to have."""
    try:
        with found.path.open("rb") as file:
            start = 0
            whole = hashlib.sha256()
            if before is not None:
                _digest(file, whole, before[0])
                start = before[0] if whole.hexdigest() == before[1] else 0
            _digest(file, whole, None)
            after = os.fstat(file.fileno())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise failure_of(error, "read", found.path) from error
    if (after.st_size, after.st_mtime_ns) != (found.size, found.modified_ns):
        return None
    return SourceFile(
        path=str(found.path), size=found.size, modified_ns=found.modified_ns, digest=whole.hexdigest(), start=start
    )


def _digest(file: BinaryIO, digest: Digest, size: int | None) -> None:
    left = sys.maxsize if size is None else size
    while left > 0 and (block := file.read(min(left, 1 << 20))):
        digest.update(block)
        left -= len(block)


def is_compressed(path: Path) -> bool:
    """Whether a file is gzip or zstd as a whole: places in it are not those of its bytes."""
    with path.open("rb") as file:
        return file.read(4).startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd"))


def may_be_cut(path: Path, size: int) -> bool:
    """Whether a file that was written to lately may be in the middle of its last line or frame."""
    try:
        if not size or is_compressed(path):
            return False
        with path.open("rb") as file:
            return ends_in_mid_request(file, size, MAX_REQUEST)
    except FileNotFoundError:
        return False


def trouble_with(source: SourceFile) -> str | None:
    """Why a file is no longer what was planned; None where it is. A batch that is done again must find the same."""
    path = Path(source.path)
    try:
        now = path.stat()
        if (now.st_size, now.st_mtime_ns) == (source.size, source.modified_ns):
            return None
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() == source.digest:
                return None
    except OSError as error:
        failure = failure_of(error, "read", path)
        if isinstance(failure, StorageFailed) and failure.retryable:  # the file may be as it was
            raise failure from error
        return f"its batch was planned, and now it cannot be read: {error.strerror or error}"
    return "it was changed after its batch was planned"


def groups(
    files: Iterable[SourceFile], *, most_bytes: Callable[[], int], most_files: int = 10_000
) -> Iterator[list[SourceFile]]:
    """Files in batches: of so many new bytes at most, unless one file alone has more. ``most_bytes`` is asked for each
    batch, when the one before it is done."""
    group: list[SourceFile] = []
    size, room = 0, most_bytes()
    for file in files:
        new = file.size - file.start
        if group and (size + new > room or len(group) >= most_files):
            yield group
            group, size, room = [], 0, most_bytes()
        group.append(file)
        size += new
    if group:
        yield group


def _below(directory: Path, pattern: str) -> Iterator[Found]:
    def refuse(error: OSError) -> None:
        if isinstance(error, FileNotFoundError):  # it went while we looked
            return
        raise failure_of(error, "ingest", error.filename or directory) from error

    for folder, folders, names in os.walk(directory, onerror=refuse):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        for name in sorted(names):
            if name.startswith((".", "_")) or name.endswith(_UNFINISHED) or not fnmatch(name, pattern):
                continue
            found = _look(Path(folder, name))
            if found is not None:
                yield found


def _look(path: Path) -> Found | None:
    shown = str(path).encode(errors="backslashreplace").decode()
    if shown != str(path):
        raise InvalidInput(f"cannot ingest {shown}: its name is not UTF-8, and could not be written down; rename it")
    try:
        seen = path.stat()
    except FileNotFoundError:  # ingested and released this moment
        return None
    if not stat.S_ISREG(seen.st_mode):
        return None
    return Found(path=path.resolve(), size=seen.st_size, modified_ns=seen.st_mtime_ns)
