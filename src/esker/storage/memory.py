"""Objects in the memory of this process, for tests and for tables that need not last."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import BinaryIO
from uuid import uuid4

from esker.errors import AlreadyExists, InvalidInput, NoSuchFile
from esker.ports.storage import StoredFile
from esker.storage.location import Location, how_to_allow


class MemoryStorage:
    """Bytes by location. They exist as long as this object. With ``roots``, only locations below a root are used."""

    def __init__(self, roots: Iterable[str] | None = None) -> None:
        self._roots = None if roots is None else tuple(Location.parse(root) for root in roots)
        self._objects: dict[str, tuple[bytes, int]] = {}
        self._lock = threading.Lock()
        self._token = uuid4().hex

    def __getstate__(self) -> tuple[dict[str, tuple[bytes, int]], tuple[Location, ...] | None]:
        """A copy for another process. Later writes in this process do not appear in the copy."""
        return dict(self._objects), self._roots

    def __setstate__(self, state: tuple[dict[str, tuple[bytes, int]], tuple[Location, ...] | None]) -> None:
        self._objects, self._roots = state
        self._lock = threading.Lock()
        self._token = uuid4().hex

    @property
    def is_shared(self) -> bool:
        """False: another process gets a copy of the objects."""
        return False

    @property
    def tags_last(self) -> bool:
        """False: the objects end with this process."""
        return False

    def tags(self, locations: Sequence[str]) -> list[str | None]:
        """By this store, the location and the object. Nothing about a location outside the roots."""
        found: list[str | None] = []
        for location in locations:
            held = self._objects.get(location)
            with suppress(InvalidInput):
                self.check(location)
                found.append(None if held is None else f"memory:{self._token}:{location}:{len(held[0])}:{held[1]}")
                continue
            found.append(None)
        return found

    def check(self, location: str) -> None:
        """Raise `InvalidInput` if the location is outside the roots."""
        if self._roots is not None and not any(Location.parse(location).is_within(root) for root in self._roots):
            folder = location.rpartition("/")[0] or location
            raise InvalidInput(
                f"cannot use {location}: it is outside of the places that this lake may use; {how_to_allow(folder)}",
                file=location,
            )

    def read(self, location: str) -> bytes:
        self.check(location)
        try:
            return self._objects[location][0]
        except KeyError:
            raise NoSuchFile(f"cannot read {location}: there is no such object", file=location) from None

    def open(self, location: str) -> BinaryIO:
        return io.BytesIO(self.read(location))

    def size(self, location: str) -> int:
        return len(self.read(location))

    def exists(self, location: str) -> bool:
        self.check(location)
        return location in self._objects

    def local_path(self, location: str) -> str | None:
        self.read(location)
        return None

    def local_folder(self, location: str) -> str | None:
        return None

    def write_new(self, location: str, data: bytes) -> None:
        self.check(location)
        with self._lock:
            if location in self._objects:
                raise AlreadyExists(f"cannot create {location}: the object exists", file=location)
            self._objects[location] = (bytes(data), time.time_ns() // 1_000_000)

    @contextmanager
    def open_new(self, location: str) -> Iterator[BinaryIO]:
        self.check(location)
        draft = io.BytesIO()
        yield draft
        self.write_new(location, draft.getvalue())

    def list(self, prefix: str) -> Iterator[StoredFile]:
        self.check(prefix)
        below = prefix.rstrip("/") + "/"
        with self._lock:
            found = sorted((place, len(data), ms) for place, (data, ms) in self._objects.items())
        for location, size, modified_ms in found:
            if location.startswith(below):
                yield StoredFile(location=location, size=size, modified_ms=modified_ms)

    def delete(self, location: str) -> None:
        self.check(location)
        with self._lock:
            self._objects.pop(location, None)
