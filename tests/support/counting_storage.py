"""A storage that remembers which objects were opened, to prove that others were not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import BinaryIO

from esker.ports.storage import Storage, StoredFile


class CountingStorage:
    """Passes everything on, and counts per location how often its content was asked for."""

    def __init__(self, inner: Storage) -> None:
        self.inner = inner
        self.opened: Counter[str] = Counter()

    def opened_like(self, part: str) -> list[str]:
        """The opened locations that hold ``part``, each once."""
        return sorted(location for location in self.opened if part in location)

    @property
    def is_shared(self) -> bool:
        return False  # what is counted here would not be counted in a copy

    def local_folder(self, location: str) -> str | None:
        return self.inner.local_folder(location)

    def read(self, location: str) -> bytes:
        self.opened[location] += 1
        return self.inner.read(location)

    def open(self, location: str) -> BinaryIO:
        self.opened[location] += 1
        return self.inner.open(location)

    def local_path(self, location: str) -> str | None:
        path = self.inner.local_path(location)
        if path is not None:  # a native reader opens it behind our back
            self.opened[location] += 1
        return path

    def size(self, location: str) -> int:
        return self.inner.size(location)

    def exists(self, location: str) -> bool:
        return self.inner.exists(location)

    def write_new(self, location: str, data: bytes) -> None:
        self.inner.write_new(location, data)

    def open_new(self, location: str) -> AbstractContextManager[BinaryIO]:
        return self.inner.open_new(location)

    def list(self, prefix: str) -> Iterator[StoredFile]:
        return self.inner.list(prefix)

    def delete(self, location: str) -> None:
        self.inner.delete(location)
