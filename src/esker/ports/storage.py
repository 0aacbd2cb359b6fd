"""The port of a storage: where files are. Every adapter passes the contract tests in ``tests/contracts``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import BinaryIO, Protocol


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
        """A path that native readers can open, or None if there is none."""
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
