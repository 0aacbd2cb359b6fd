"""Objects in this process, for tests and for tables that need not last."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from esker.errors import AlreadyExists, NoSuchFile
from esker.ports.storage import StoredFile


class MemoryStorage:
    """Bytes by location, kept as long as this object lives."""

    def __init__(self) -> None:
        self._objects: dict[str, tuple[bytes, int]] = {}
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, tuple[bytes, int]]:
        """A copy for another process: what is written here afterwards is not seen there."""
        return dict(self._objects)

    def __setstate__(self, objects: dict[str, tuple[bytes, int]]) -> None:
        self._objects = objects
        self._lock = threading.Lock()

    def admit(self, place: str, *, for_good: bool = False) -> None:
        """There is no outside."""

    def read(self, location: str) -> bytes:
        try:
            return self._objects[location][0]
        except KeyError:
            raise NoSuchFile(f"cannot read {location}: there is no such object", file=location) from None

    def open(self, location: str) -> BinaryIO:
        return io.BytesIO(self.read(location))

    def size(self, location: str) -> int:
        return len(self.read(location))

    def exists(self, location: str) -> bool:
        return location in self._objects

    def local_path(self, location: str) -> str | None:
        self.read(location)
        return None

    def write_new(self, location: str, data: bytes) -> None:
        with self._lock:
            if location in self._objects:
                raise AlreadyExists(f"cannot create {location}: the object exists", file=location)
            self._objects[location] = (bytes(data), time.time_ns() // 1_000_000)

    @contextmanager
    def open_new(self, location: str) -> Iterator[BinaryIO]:
        draft = io.BytesIO()
        yield draft
        self.write_new(location, draft.getvalue())

    def list(self, prefix: str) -> Iterator[StoredFile]:
        below = prefix.rstrip("/") + "/"
        with self._lock:
            found = sorted((place, len(data), ms) for place, (data, ms) in self._objects.items())
        for location, size, modified_ms in found:
            if location.startswith(below):
                yield StoredFile(location=location, size=size, modified_ms=modified_ms)

    def delete(self, location: str) -> None:
        with self._lock:
            self._objects.pop(location, None)
