"""The files to ingest: finds them, and identifies them by digests of their content."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Literal, Protocol

from esker.errors import InvalidInput, StorageFailed
from esker.otlp.source.decompress import Damaged, Readable, Stream, content_of, is_packed
from esker.otlp.source.framing import Begin
from esker.storage.failures import failure_of, is_failure

# Names of files that are still being written. A file becomes complete when it is renamed.
_UNFINISHED = (".tmp", ".part", ".open", ".crdownload", ".swp", "~")
_HEAD = 1 << 12
_SAMPLE = 1 << 16  # bytes at the start of a file, and before a place, that show that it was not written again


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file as it was when its batch was planned, identified by path, size and digest."""

    path: str
    size: int
    modified_ns: int
    digest: str  # SHA-256
    start: int = 0  # so much of its content was read before, under this name or another: only what follows counts
    identity: str | None = None  # device and inode
    length: int | None = None  # of its content, unpacked; None: not compressed, or not measured
    content: str | None = None  # SHA-256 of its content, where ``length`` is known
    head: str | None = None  # SHA-256 of the first bytes of a long content
    track: int | None = None  # which content this is, whatever its name; None: not compared with others
    begin: Begin | None = None  # where reading begins, to find the requests behind ``start``; None: at the start

    @property
    def end(self) -> int:
        """Where its content ends, counted like ``start``."""
        return self.size if self.length is None else self.length

    @property
    def new_bytes(self) -> int:
        """How much there is to read; for a compressed file that is read from its start, the compressed bytes."""
        return self.end - self.start if self.start else self.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An existing file that was not read yet."""

    path: Path
    size: int
    modified_ns: int
    identity: str = ""  # device and inode


class _Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...

    def copy(self) -> _Hash: ...

    def hexdigest(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a file was hashed, so that hashing can continue there when the file has grown."""

    size: int
    digest: _Hash  # of so many bytes; copied, never changed
    marks: Mapping[int, str]
    sample: str  # digest of the first bytes and of those before ``size``


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Digests of a file: of the whole, and of its first bytes, as many as were asked for."""

    digest: str
    marks: Mapping[int, str]  # of the file's own bytes
    length: int | None = None  # of the content, where the file is compressed and could be unpacked
    content: str | None = None
    content_marks: Mapping[int, str] = field(default_factory=dict)
    progress: Progress | None = None  # of a file that is not compressed

    @property
    def head(self) -> str | None:
        """The digest of the first bytes of a long content, which quickly shows that contents differ."""
        return (self.marks if self.length is None else self.content_marks).get(_HEAD)


PassOver = Callable[[str, str], None]  # gets a path, and why it cannot be read


def find_files(
    paths: Iterable[Path],
    *,
    pattern: str = "*",
    pass_over: PassOver | None = None,
    before: Mapping[str, Found] = MappingProxyType({}),
) -> Iterator[Found]:
    """The files themselves, and the files in directories at any depth, except hidden and unfinished ones. Files that
    may not be read are reported to ``pass_over``; without it, and if a disk fails, this raises ``StorageFailed``. A
    file that has not changed since it was found ``before``, by its path, is returned as the same object."""
    for path in paths:
        try:
            mode = path.stat().st_mode
        except OSError as error:
            if is_failure(error):
                raise failure_of(error, "ingest", path) from error
            raise InvalidInput(f"cannot ingest {path}: {error.strerror or error}", path=str(path)) from error
        if stat.S_ISDIR(mode):
            yield from _below(path, pattern, pass_over, before)
        elif stat.S_ISREG(mode):
            found = _look(path)
            if found is not None:
                yield found
        else:
            raise InvalidInput(f"cannot ingest {path}: it is neither a file nor a directory", path=str(path))


class Lookout:
    """Directories that are read repeatedly. A look is one pass over their entries, and opens no file."""

    def __init__(self, paths: Iterable[Path], *, pattern: str = "*") -> None:
        self._paths = tuple(paths)
        self._pattern = pattern
        self._before: dict[str, Found] = {}

    def find(self, pass_over: PassOver | None = None) -> list[Found]:
        """Like ``find_files``. Files that have not changed since the last look are the same objects."""
        found = list(find_files(self._paths, pattern=self._pattern, pass_over=pass_over, before=self._before))
        self._before = {str(one.path): one for one in found}
        return found


def oldest_first(found: Iterable[Found]) -> list[Found]:
    """The files in the order in which they were completed."""
    return sorted(found, key=lambda one: (one.modified_ns, one.path))


def examine(found: Found) -> SourceFile | None:
    """The file with its digest, as a new one; None if it is gone, or changed while it was read."""
    measured = measure(found)
    if measured is None:
        return None
    return SourceFile(
        path=str(found.path),
        size=found.size,
        modified_ns=found.modified_ns,
        digest=measured.digest,
        identity=found.identity or None,
        head=measured.head,
    )


def measure(
    found: Found, marks: Iterable[int] = (), *, unpack: bool = False, before: Progress | None = None
) -> Measured | None:
    """Read a file once, or twice if it is compressed and must be decompressed; of a file that has grown since
    ``before``, only the new part. None if it is gone, or changed while it was read. Raises ``StorageFailed`` if it
    cannot be read."""
    wanted = sorted({*marks, _HEAD})
    if before is not None and any(mark < before.size and mark not in before.marks for mark in wanted):
        before = None  # how it began up to there was not asked for before
    packed = sample = None
    try:
        with found.path.open("rb") as file:
            file.seek(0 if before is None else before.size)
            digest, at = _digests(file, wanted, before=before)
            file.seek(0)
            if not is_packed(file.read(4)):
                sample = _sample(file, found.size)
            elif unpack:
                file.seek(0)
                packed = _unpacked_digests(file, wanted)
            after = os.fstat(file.fileno())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise failure_of(error, "read", found.path) from error
    if (after.st_size, after.st_mtime_ns) != (found.size, found.modified_ns):
        return None
    whole = digest.hexdigest()
    if packed is not None:
        length, content, content_marks = packed
        return Measured(digest=whole, marks=at, length=length, content=content, content_marks=content_marks)
    if sample is None:
        return Measured(digest=whole, marks=at)
    progress = Progress(size=found.size, digest=digest, marks=at | {found.size: whole}, sample=sample)
    return Measured(digest=whole, marks=at, progress=progress)


def holds_still(path: Path, before: Progress) -> bool:
    """Whether a sample shows that the hashed part of a file has not been rewritten since."""
    try:
        with path.open("rb") as file:
            return _sample(file, before.size) == before.sample
    except OSError as error:
        return is_not_there(error, path)


def _sample(file: BinaryIO, size: int) -> str:
    file.seek(0)
    digest = hashlib.sha256(file.read(min(_SAMPLE, size)))
    file.seek(max(0, size - _SAMPLE))
    digest.update(file.read(min(_SAMPLE, size)))
    return digest.hexdigest()


def begins_with(path: Path, length: int, content: str) -> bool:
    """Whether an uncompressed file begins with ``length`` bytes of this digest."""
    try:
        with path.open("rb") as file:
            return _digests(file, [length], first_only=True)[1].get(length) == content
    except OSError as error:
        return is_not_there(error, path)


def holds_first(path: Path, length: int, content: str) -> bool:
    """Whether a file, decompressed, begins with ``length`` bytes of this digest."""
    try:
        with path.open("rb") as file:
            unpacked = _unpacked_digests(file, [length], first_only=True)
    except OSError as error:
        return is_not_there(error, path)
    return unpacked is not None and unpacked[2].get(length) == content


def is_not_there(error: OSError, path: Path) -> Literal[False]:
    """Return False for a missing or unreadable file. Raises ``StorageFailed`` for a file that may be readable later."""
    failure = failure_of(error, "read", path)
    if isinstance(failure, StorageFailed) and failure.retryable:
        raise failure from error
    return False


def _digests(
    file: Readable, marks: Sequence[int], *, first_only: bool = False, before: Progress | None = None
) -> tuple[_Hash, dict[int, str]]:
    """The digest of everything that can be read, or of the first bytes only, and of the bytes up to each mark."""
    whole: _Hash = hashlib.sha256()
    at, found = 0, {}
    if before is not None:
        whole, at = before.digest.copy(), before.size
        found = {mark: before.marks[mark] for mark in marks if mark in before.marks}
    for mark in marks if first_only else (*marks, sys.maxsize):
        while at < mark and (block := file.read(min(mark - at, 1 << 20))):
            whole.update(block)
            at += len(block)
        if at == mark:
            found[mark] = whole.hexdigest()
    return whole, found


def _unpacked_digests(
    file: BinaryIO, marks: Sequence[int], *, first_only: bool = False
) -> tuple[int, str, dict[int, str]] | None:
    """Length and digests of a compressed file's content; None if it is damaged."""
    try:
        stream = content_of(Stream(file))
        digest, found = _digests(stream, marks, first_only=first_only)
    except Damaged:
        return None
    return stream.offset, digest.hexdigest(), found


def is_compressed(path: Path) -> bool:
    """Whether a file is gzip or zstd as a whole: then places in it are not places of its bytes."""
    with path.open("rb") as file:
        return is_packed(file.read(4))


def trouble_with(source: SourceFile, *, may_grow: bool) -> str | None:
    """Why a file is no longer what was planned; None if it is. A batch that is repeated must find the same. With
    ``may_grow``, a file may have more than was planned."""
    path = Path(source.path)
    try:
        now = path.stat()
        if (now.st_size, now.st_mtime_ns) == (source.size, source.modified_ns):
            return None
        if may_grow or now.st_size <= source.size:
            with path.open("rb") as file:
                if _digests(file, [source.size], first_only=True)[1].get(source.size) == source.digest:
                    return None
    except OSError as error:
        failure = failure_of(error, "read", path)
        if isinstance(failure, StorageFailed) and failure.retryable:  # the file may be as it was
            raise failure from error
        return f"its batch was planned, and now it cannot be read: {error.strerror or error}"
    return "it was changed after its batch was planned"


def groups(
    files: Iterable[SourceFile], *, most_bytes: Callable[[], int], most_files: int
) -> Iterator[list[SourceFile]]:
    """Files in batches of at most so many new bytes, unless one file alone has more. ``most_bytes`` is called for each
    batch, when the one before it is done."""
    group: list[SourceFile] = []
    size, room = 0, most_bytes()
    for file in files:
        new = file.new_bytes
        if group and size + new > room:
            yield group
            group, size, room = [], 0, most_bytes()
        group.append(file)
        size += new
        if len(group) >= most_files:  # before the next file is asked for: it would be read for nothing
            yield group
            group, size, room = [], 0, most_bytes()
    if group:
        yield group


def _below(directory: Path, pattern: str, pass_over: PassOver | None, before: Mapping[str, Found]) -> Iterator[Found]:
    def refuse(error: OSError) -> None:
        if isinstance(error, FileNotFoundError):  # it went while we looked
            return
        place = Path(error.filename or directory)
        failure = failure_of(error, "ingest", place)
        may_pass = isinstance(failure, StorageFailed) and failure.retryable
        if pass_over is None or place == directory or may_pass:
            raise failure from error
        pass_over(str(place), error.strerror or str(error))

    for folder, entries in _folders(directory, refuse):
        real = os.path.realpath(folder)
        for entry in entries:
            if entry.name.endswith(_UNFINISHED) or not fnmatch(entry.name, pattern):
                continue
            try:
                found = _still(entry, real, before) or _look(Path(entry.path))
            except OSError as error:
                error.filename = error.filename or entry.path
                refuse(error)
                continue
            if found is not None:
                yield found


def _folders(directory: Path, refuse: Callable[[OSError], None]) -> Iterator[tuple[str, list[os.DirEntry[str]]]]:
    """A directory and all below it, each with its entries that are not directories, by name. Links to directories are
    not followed."""
    waiting = [str(directory)]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as listed:
                entries = sorted(
                    (entry for entry in listed if not entry.name.startswith((".", "_"))), key=lambda entry: entry.name
                )
        except OSError as error:
            refuse(error)
            continue
        folders: list[os.DirEntry[str]] = []
        others: list[os.DirEntry[str]] = []
        for entry in entries:
            (folders if _is_folder(entry) else others).append(entry)
        yield folder, others
        waiting.extend(entry.path for entry in reversed(folders) if not entry.is_symlink())


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _still(entry: os.DirEntry[str], folder: str, before: Mapping[str, Found]) -> Found | None:
    """What was found of a file before, if it was not written to since."""
    was = before.get(f"{folder}/{entry.name}")
    if was is None or entry.is_symlink():
        return None
    now = entry.stat()
    is_same = was.size == now.st_size and was.modified_ns == now.st_mtime_ns and was.identity == _identity(now)
    return was if is_same else None


def _identity(seen: os.stat_result) -> str:
    return f"{seen.st_dev}:{seen.st_ino}"


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
    return Found(path=path.resolve(), size=seen.st_size, modified_ns=seen.st_mtime_ns, identity=_identity(seen))
