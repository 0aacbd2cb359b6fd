"""One door that every call of storage and catalog goes through, so that a test can count it, break it or stop at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, BinaryIO, TypeVar

from esker.catalogs.memory import MemoryPointers
from esker.catalogs.pointer_catalog import Move, PointerCatalog, Pointers
from esker.catalogs.refusals import Kind
from esker.catalogs.warehouse import Warehouse
from esker.lake import Lake
from esker.model.table_names import TableName
from esker.ports.catalog import Catalog, Swap, TableState
from esker.ports.storage import Storage, StoredFile
from esker.storage.memory import MemoryStorage
from esker.tree.table_metadata import TableMetadata
from esker.wiring import lake_over

T = TypeVar("T")


class Door:
    """Lets every call through and remembers it: ``calls`` holds pairs of a verb and what it was about."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def go(self, verb: str, what: str, do: Callable[[], T]) -> T:
        """Do it."""
        self.calls.append((verb, what))
        return do()

    def of(self, *verbs: str) -> list[str]:
        """What these verbs were about, in order."""
        return [what for verb, what in self.calls if verb in verbs]


class WatchedStorage:
    """A storage behind a door. A file written in parts is one call when it is begun and one when it is published."""

    def __init__(self, inner: Storage, door: Door) -> None:
        self.inner = inner
        self.door = door

    @property
    def is_shared(self) -> bool:
        return False  # what is counted here would not be counted in a copy

    def local_folder(self, location: str) -> str | None:
        return self.inner.local_folder(location)

    def read(self, location: str) -> bytes:
        return self.door.go("read", location, lambda: self.inner.read(location))

    def open(self, location: str) -> BinaryIO:
        return self.door.go("open", location, lambda: self.inner.open(location))

    def local_path(self, location: str) -> str | None:
        return self.door.go("open", location, lambda: self.inner.local_path(location))

    def size(self, location: str) -> int:
        return self.door.go("size", location, lambda: self.inner.size(location))

    def exists(self, location: str) -> bool:
        return self.door.go("exists", location, lambda: self.inner.exists(location))

    def write_new(self, location: str, data: bytes) -> None:
        self.door.go("write", location, lambda: self.inner.write_new(location, data))

    @contextmanager
    def open_new(self, location: str) -> Iterator[BinaryIO]:
        held: AbstractContextManager[BinaryIO] = self.door.go("begin", location, lambda: self.inner.open_new(location))
        file = held.__enter__()
        try:
            yield file
        except BaseException as error:
            held.__exit__(type(error), error, error.__traceback__)
            raise
        published = False

        def publish() -> None:
            nonlocal published
            published = True
            held.__exit__(None, None, None)

        try:
            self.door.go("write", location, publish)
        except BaseException as error:
            if not published:
                held.__exit__(type(error), error, error.__traceback__)
            raise

    def list(self, prefix: str) -> Iterator[StoredFile]:
        return self.door.go("list", prefix, lambda: self.inner.list(prefix))

    def delete(self, location: str) -> None:
        self.door.go("delete", location, lambda: self.inner.delete(location))


class WatchedPointers:
    """Pointers behind a door: where a table is, and the one swap."""

    def __init__(self, inner: Pointers, door: Door) -> None:
        self.inner = inner
        self.door = door

    def get(self, name: TableName, *kind: Kind) -> str | None:
        return self.door.go("get", str(name), lambda: self.inner.get(name, *kind))

    def move(self, moves: Sequence[Move], *kind: Kind) -> Any:
        return self.door.go("move", moves[-1].new, lambda: self.inner.move(moves, *kind))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class WatchedCatalog:
    """Any catalog behind a door: loads, swaps, and the storage it hands out."""

    def __init__(self, inner: Catalog, door: Door) -> None:
        self.inner = inner
        self.door = door

    def load(self, name: TableName, known: TableState | None = None) -> TableState:
        return self.door.go("load", str(name), lambda: self.inner.load(name, known))

    def swap(self, name: TableName, base: TableState, new: TableMetadata) -> Swap:
        return self.door.go("swap", str(name), lambda: self.inner.swap(name, base, new))

    def storage(self) -> Storage:
        return WatchedStorage(self.inner.storage(), self.door)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class MemoryLake:
    """One memory catalog that any number of lakes look into, each through a door of its own."""

    def __init__(self) -> None:
        self.storage = MemoryStorage()
        self.pointers = MemoryPointers()

    def catalog(self, door: Door | None = None) -> PointerCatalog:
        """The catalog, behind a door if one is given."""
        if door is None:
            return PointerCatalog(self.pointers, Warehouse("memory://warehouse", self.storage))
        storage = WatchedStorage(self.storage, door)
        return PointerCatalog(WatchedPointers(self.pointers, door), Warehouse("memory://warehouse", storage))

    def lake(self, door: Door | None = None) -> Lake:
        """The lake, behind a door if one is given."""
        return lake_over(self.catalog(door))

    def files(self) -> set[str]:
        """Everything that is stored."""
        return {file.location for file in self.storage.list("memory://warehouse")}
