"""A storage that is made of others: the location of a file decides which of them is used."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import BinaryIO, Protocol

from esker.ports.storage import HadoopFile, RemoteStorage, Storage, StoredFile, hadoop_file


class FencedStorage(Storage, Protocol):
    """A storage that keeps inside the places it was given."""

    def check(self, location: str) -> None:
        """`InvalidInput` for a location that leads outside."""
        ...


class StorageByLocation(ABC):
    """Passes each call on to the storage of the location. `InvalidInput` where no storage has it."""

    @abstractmethod
    def _of(self, location: str) -> FencedStorage:
        """The storage that a file is in, or is to be in."""

    def _to_read(self, location: str) -> FencedStorage:
        """The storage to read a file from, if it is another one."""
        return self._of(location)

    def check(self, location: str) -> None:
        """`InvalidInput` for a location that leads outside."""
        self._of(location).check(location)

    def read(self, location: str) -> bytes:
        return self._to_read(location).read(location)

    def open(self, location: str) -> BinaryIO:
        return self._to_read(location).open(location)

    def size(self, location: str) -> int:
        return self._to_read(location).size(location)

    def exists(self, location: str) -> bool:
        return self._to_read(location).exists(location)

    def local_path(self, location: str) -> str | None:
        return self._of(location).local_path(location)

    def hadoop_file(self, location: str) -> HadoopFile:
        return hadoop_file(self._of(location), location)

    def local_folder(self, location: str) -> str | None:
        return self._of(location).local_folder(location)

    def write_new(self, location: str, data: bytes) -> None:
        self._of(location).write_new(location, data)

    def open_new(self, location: str) -> AbstractContextManager[BinaryIO]:
        return self._of(location).open_new(location)

    def list(self, prefix: str) -> Iterator[StoredFile]:
        return self._of(prefix).list(prefix)

    def delete(self, location: str) -> None:
        self._of(location).delete(location)

    def delete_many(self, locations: Iterable[str]) -> None:
        """Remove files and objects, the latter by few requests to each store."""
        groups: dict[int, tuple[FencedStorage, list[str]]] = {}
        for location in locations:
            store = self._of(location)
            groups.setdefault(id(store), (store, []))[1].append(location)
        for store, places in groups.values():
            if isinstance(store, RemoteStorage):
                store.delete_many(places)
            else:
                for place in places:
                    store.delete(place)
