"""Where files lie. Every adapter passes the conformance suite in ``tests/contracts``."""

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
    """Objects by location. A missing one raises ``NoSuchFile``; nothing here ever overwrites."""

    @property
    def is_shared(self) -> bool:
        """Whether a copy of this storage that was sent to another process, such as a worker of a cluster, reads and
        writes the same objects."""
        ...

    def read(self, location: str) -> bytes:
        """The whole object."""
        ...

    def open(self, location: str) -> BinaryIO:
        """The object as a seekable file, for readers that want parts of it."""
        ...

    def size(self, location: str) -> int:
        """The object's length in bytes."""
        ...

    def exists(self, location: str) -> bool:
        """Whether the object is there."""
        ...

    def local_path(self, location: str) -> str | None:
        """A path that native readers can open themselves, where there is one."""
        ...

    def local_folder(self, location: str) -> str | None:
        """A folder, which need not be there yet, as an absolute path that native programs can write to themselves,
        where there is one. `InvalidInput` for a location that may not be used."""
        ...

    def write_new(self, location: str, data: bytes) -> None:
        """Create the object whole and durable; ``AlreadyExists`` when the location is taken."""
        ...

    def open_new(self, location: str) -> AbstractContextManager[BinaryIO]:
        """A file to write a large object through. Leaving the block well creates the object, whole and durable,
        or raises ``AlreadyExists``; leaving it by an exception leaves nothing behind."""
        ...

    def list(self, prefix: str) -> Iterator[StoredFile]:
        """Every object below the prefix."""
        ...

    def delete(self, location: str) -> None:
        """Remove the object; one that is gone already is no error."""
        ...
