"""Files that are to be ingested: which there are, and what tells one from another."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from esker.errors import InvalidInput

# Names of files that somebody is still writing; rename-in is how a file becomes complete.
_UNFINISHED = (".tmp", ".part", ".open", ".crdownload", ".swp", "~")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file as it was when its batch was planned. Path, size and digest make it what it is."""

    path: str
    size: int
    modified_ns: int
    digest: str  # SHA-256


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


def examine(found: Found) -> SourceFile | None:
    """The file with its digest; None where it is gone, or changed while it was read."""
    try:
        with found.path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            after = os.fstat(file.fileno())
    except FileNotFoundError:
        return None
    if (after.st_size, after.st_mtime_ns) != (found.size, found.modified_ns):
        return None
    return SourceFile(path=str(found.path), size=found.size, modified_ns=found.modified_ns, digest=digest)


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
        return f"its batch was planned, and now it cannot be read: {error.strerror or error}"
    return "it was changed after its batch was planned"


def groups(files: Iterable[SourceFile], *, most_bytes: int, most_files: int = 10_000) -> Iterator[list[SourceFile]]:
    """Files in batches: of so many bytes at most, unless one file alone has more."""
    group: list[SourceFile] = []
    size = 0
    for file in files:
        if group and (size + file.size > most_bytes or len(group) >= most_files):
            yield group
            group, size = [], 0
        group.append(file)
        size += file.size
    if group:
        yield group


def _below(directory: Path, pattern: str) -> Iterator[Found]:
    def refuse(error: OSError) -> None:
        raise InvalidInput(f"cannot ingest {directory}: {error.strerror or error}: {error.filename}") from error

    for folder, folders, names in os.walk(directory, onerror=refuse):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        for name in sorted(names):
            if name.startswith((".", "_")) or name.endswith(_UNFINISHED) or not fnmatch(name, pattern):
                continue
            found = _look(Path(folder, name))
            if found is not None:
                yield found


def _look(path: Path) -> Found | None:
    try:
        seen = path.stat()
    except FileNotFoundError:  # ingested and released this moment
        return None
    if not stat.S_ISREG(seen.st_mode):
        return None
    return Found(path=path.resolve(), size=seen.st_size, modified_ns=seen.st_mtime_ns)


Known = Callable[[Found], bool]


def examine_new(
    found: Iterable[Found], is_known: Known, is_taken: Callable[[SourceFile], bool]
) -> Iterator[SourceFile]:
    """Those that were never planned before, with their digests."""
    for one in found:
        if is_known(one):
            continue
        source = examine(one)
        if source is not None and not is_taken(source):
            yield source
