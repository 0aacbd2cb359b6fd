"""The port of a storage: where files are. Every adapter passes the contract tests in ``tests/contracts``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import BinaryIO, Protocol, TypeAlias, runtime_checkable

from esker.errors import EskerError


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """One object in a listing."""

    location: str
    size: int
    modified_ms: int


class Storage(Protocol):
    """Objects by location. A missing object raises ``NoSuchFile``. No method overwrites an object."""

    @property
    def is_shared(self) -> bool:
        """Whether a copy of this storage in another process, such as a worker of a cluster, reads and writes the
        same objects."""
        ...

    def read(self, location: str) -> bytes:
        """The whole object."""
        ...

    def open(self, location: str) -> BinaryIO:
        """The object as a seekable file, for readers that need parts of it."""
        ...

    def size(self, location: str) -> int:
        """The length of the object in bytes."""
        ...

    def exists(self, location: str) -> bool:
        """Whether the object exists."""
        ...

    def local_path(self, location: str) -> str | None:
        """A path that native readers can open, or None if there is none. A storage without paths need not look whether
        the object exists."""
        ...

    def local_folder(self, location: str) -> str | None:
        """The absolute path of a folder that native programs can write to, or None if there is none.

        The folder need not exist yet. Raises `InvalidInput` if the location may not be used.
        """
        ...

    def write_new(self, location: str, data: bytes) -> None:
        """Create the object, complete and safe against a crash. Raises ``AlreadyExists`` if the location is taken."""
        ...

    def open_new(self, location: str) -> AbstractContextManager[BinaryIO]:
        """A file for writing a large object.

        When the block ends, the object is created, complete and safe against a crash, or ``AlreadyExists`` is raised.
        If the block ends by an exception, nothing is created.
        """
        ...

    def list(self, prefix: str) -> Iterator[StoredFile]:
        """Every object below the prefix."""
        ...

    def delete(self, location: str) -> None:
        """Remove the object. It is no error if it does not exist."""
        ...


@runtime_checkable
class RemoteStorage(Protocol):
    """What a storage behind a network offers besides: each request takes long, and many may be under way."""

    @property
    def parallel_reads(self) -> int:
        """How many reads at a time are worth while."""
        ...

    def delete_many(self, locations: Iterable[str]) -> None:
        """Remove objects by few requests; those that are gone already are no error."""
        ...


@runtime_checkable
class FolderStorage(Protocol):
    """What a storage offers besides whose folders can be listed one by one, for example by several machines."""

    def folders(self, prefix: str) -> tuple[Sequence[str], Sequence[StoredFile]]:
        """The names of the folders directly below the prefix, and the objects directly below it."""
        ...


class FileLister(Protocol):
    """Lists large folders with the help of several machines."""

    def spread(self, prefix: str) -> Iterator[StoredFile]:
        """Every object below the prefix, in any order. The folders are listed by Spark's workers.

        Raises ``Unsupported`` if Spark is not installed. If one folder cannot be listed, an error is raised.
        """
        ...


@runtime_checkable
class WritesPieces(Protocol):
    """What a storage offers besides if it writes pieces of memory without joining them first."""

    def write_pieces(self, location: str, pieces: Sequence[bytes]) -> None:
        """As ``write_new``, of the pieces one after the other."""
        ...


def write_pieces(storage: Storage, location: str, pieces: Sequence[bytes]) -> None:
    """Create an object from pieces, as ``write_new`` does."""
    if isinstance(storage, WritesPieces):
        storage.write_pieces(location, pieces)
    else:
        storage.write_new(location, b"".join(pieces))


Finish: TypeAlias = Callable[[str, Sequence[bytes]], bool]
"""Creates an object from all its pieces, as ``write_new`` does. Returns False, and creates nothing, if they do not
begin with the pieces that were written early."""


@runtime_checkable
class BeginsFiles(Protocol):
    """What a storage offers besides if it can write the beginning of an object before the rest is known."""

    def begun(self, folder: str, pieces: Sequence[bytes]) -> AbstractContextManager[Finish | None]:
        """Begin to write an object in the folder while the block runs. None if that is not possible.

        If it is not finished when the block ends, it is removed.
        """
        ...


@runtime_checkable
class CachedFiles(Protocol):
    """What a storage offers besides if the system keeps the content of files in memory."""

    def drop_cached(self, location: str) -> None:
        """Let the system use the memory that holds the file's content for other files. The file stays. Never raises."""
        ...


def drop_cached(storage: Storage, location: str) -> None:
    """Let the memory that holds a file's content be used again, for a file that will hardly be read. Never raises."""
    if isinstance(storage, CachedFiles):
        storage.drop_cached(location)


def parallel_reads(storage: Storage) -> int:
    """How many reads at a time are worth while; 1 where the files are near."""
    return storage.parallel_reads if isinstance(storage, RemoteStorage) else 1


def delete_each(storage: Storage, locations: Iterable[str]) -> list[tuple[str, Exception]]:
    """Delete objects, by few requests where the storage can. What will not go is returned, each with the reason, and
    keeps none of the others."""
    places = list(locations)
    if isinstance(storage, RemoteStorage):
        try:
            storage.delete_many(places)
        except EskerError:
            pass  # one by one tells which
        else:
            return []
    failed: list[tuple[str, Exception]] = []
    for place in places:
        try:
            storage.delete(place)
        except (EskerError, OSError) as error:
            failed.append((place, error))
    return failed


# ---------------------------------------------------------------- the same file again
#
# What was decoded from a file may be kept if it is certain that the file is the same.


@runtime_checkable
class TaggedFiles(Protocol):
    """What a storage offers besides if its files can be recognised without reading them."""

    @property
    def tags_last(self) -> bool:
        """Whether another process of this user gets the same tags for the same files."""
        ...

    def tags(self, locations: Sequence[str]) -> list[str | None]:
        """A text for each file that no other file has, in this store or another. A local file that was changed gets
        another one. None for a file that is missing, or about which nothing is known."""
        ...


def file_tags(storage: Storage, locations: Sequence[str]) -> list[str | None]:
    """The tags of files. None for each if the storage cannot tell."""
    return storage.tags(locations) if isinstance(storage, TaggedFiles) else [None] * len(locations)


def tags_last(storage: Storage) -> bool:
    """Whether tags mean the same in another process."""
    return isinstance(storage, TaggedFiles) and storage.tags_last


# ---------------------------------------------------------------- the same files for Hadoop


@dataclass(frozen=True, slots=True, kw_only=True)
class HadoopAccess:
    """How Hadoop's file systems, which Spark's own readers use, reach a store. The settings contain secrets."""

    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    obstacle: str = ""  # why they cannot reach it as Esker does, if they cannot


@dataclass(frozen=True, slots=True, kw_only=True)
class HadoopFile:
    """A file under the name that Hadoop has for it."""

    uri: str
    access: HadoopAccess = HadoopAccess()


@runtime_checkable
class HadoopNames(Protocol):
    """What a storage offers besides if Hadoop has another name for its files, or needs settings to reach them."""

    def hadoop_file(self, location: str) -> HadoopFile:
        """The file as Hadoop finds it. Raises ``InvalidInput`` for a location that may not be used."""
        ...


def hadoop_file(storage: Storage, location: str) -> HadoopFile:
    """The file as Hadoop finds it; under its own location if the storage knows no other name."""
    return storage.hadoop_file(location) if isinstance(storage, HadoopNames) else HadoopFile(uri=location)


# ---------------------------------------------------------------- names of new files
#
# On a local disk, the name of a new file is safe against a crash only after its folder is synced. Several files of one
# commit share a folder, and none of them matters before the commit. So their folders are synced once, before it.


class NewNames:
    """Folders with new names that are not safe yet, and how to make the names in each safe."""

    def __init__(self) -> None:
        self._folders: dict[str, Callable[[], None]] = {}
        self.waits = True  # whether further names wait too

    def add(self, folder: str, sync: Callable[[], None]) -> None:
        """Let the names in a folder wait. The content of the files is on the disk already."""
        self._folders.setdefault(folder, sync)

    def take(self, others: NewNames) -> None:
        """Let the names that wait elsewhere wait here too."""
        for folder, sync in others._folders.items():
            self.add(folder, sync)

    def sync(self) -> None:
        """Make every name safe that waits. Raises ``StorageFailed``."""
        while self._folders:
            folder = next(iter(self._folders))
            self._folders[folder]()
            del self._folders[folder]

    def end(self) -> None:
        """Make every name safe. From now on, each name is safe when its file is written."""
        self.waits = False
        self.sync()


_new_names: ContextVar[NewNames | None] = ContextVar("new_names", default=None)


@contextmanager
def names_together() -> Iterator[NewNames]:
    """Let the names of files that the block writes wait, in this thread. They are safe when the block ends.

    If the block ends by an exception, they may not be: what it wrote must not be used.
    """
    names = NewNames()
    before = _new_names.set(names)
    try:
        yield names
        names.sync()
    finally:
        _new_names.reset(before)


@contextmanager
def names_in(names: NewNames) -> Iterator[None]:
    """Let the names of files that the block writes wait in ``names``, in this thread, also after the block.

    ``join_names`` must be called before the files are used.
    """
    before = _new_names.set(names)
    try:
        yield
    finally:
        _new_names.reset(before)


def join_names(names: NewNames) -> None:
    """Let names wait with those of this thread; make them safe now if none may wait. Raises ``StorageFailed``."""
    waiting = waiting_names()
    if waiting is None:
        names.sync()
    elif waiting is not names:
        waiting.take(names)


def waiting_names() -> NewNames | None:
    """Where a storage adds a new name that may wait. None if it must be safe at once."""
    names = _new_names.get()
    return names if names is not None and names.waits else None


def sync_names() -> None:
    """Make the names safe that wait in this thread. Raises ``StorageFailed``."""
    if (names := _new_names.get()) is not None:
        names.sync()
