"""Pointers in the memory of this process, for tests and for tables that need not last."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence

from esker.catalogs.pointer_catalog import Move, PointerCatalog, folder_of, pending_places
from esker.catalogs.refusals import (
    Kind,
    dotted,
    missing,
    namespace_exists,
    namespace_in_use,
    no_such_namespace,
    table_exists,
)
from esker.catalogs.warehouse import Warehouse
from esker.model.table_names import Namespace, TableName
from esker.ports.catalog import Folder, Rejected, Unanswered
from esker.storage.memory import MemoryStorage

MEMORY = "memory://warehouse"


def memory_catalog(roots: Iterable[str] = ()) -> PointerCatalog:
    """A catalog in memory. It and its files end with the process."""
    storage = MemoryStorage(roots=(MEMORY, *roots))
    return PointerCatalog(MemoryPointers(), Warehouse(MEMORY, storage, fence=storage))


class MemoryPointers:
    """Pointers in a dict, under one lock."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._namespaces: dict[Namespace, dict[str, str]] = {}
        self._tables: dict[TableName, tuple[Kind, str]] = {}  # tables and views
        self._places: dict[TableName, set[str]] = {}  # folders that the metadata file does not show

    def namespaces(self) -> tuple[Namespace, ...]:
        with self._lock:
            return tuple(sorted(self._namespaces))

    def properties(self, namespace: Namespace) -> Mapping[str, str]:
        with self._lock:
            if namespace not in self._namespaces:
                raise no_such_namespace(namespace)
            return dict(self._namespaces[namespace])

    def create_namespace(self, namespace: Namespace, properties: Mapping[str, str]) -> None:
        with self._lock:
            if namespace in self._namespaces:
                raise namespace_exists(namespace)
            for depth in range(1, len(namespace)):
                self._namespaces.setdefault(namespace[:depth], {})
            self._namespaces[namespace] = dict(properties)

    def update_properties(self, namespace: Namespace, updates: Mapping[str, str], removals: Sequence[str]) -> None:
        with self._lock:
            kept = {key: value for key, value in self.properties(namespace).items() if key not in removals}
            self._namespaces[namespace] = {**kept, **updates}

    def drop_namespace(self, namespace: Namespace) -> None:
        with self._lock:
            self.properties(namespace)
            depth = len(namespace)
            held = [str(name) for name in self._tables if name.namespace == namespace]
            held += [dotted(other) for other in self._namespaces if other[:depth] == namespace and len(other) > depth]
            if held:
                raise namespace_in_use(namespace, held)
            del self._namespaces[namespace]

    def tables(self, namespace: Namespace, kind: Kind = Kind.TABLE) -> tuple[TableName, ...]:
        with self._lock:
            self.properties(namespace)
            here = (name for name, (of, _) in self._tables.items() if of is kind and name.namespace == namespace)
            return tuple(sorted(here))

    def get(self, name: TableName, kind: Kind = Kind.TABLE) -> str | None:
        with self._lock:
            of, location = self._tables.get(name, (None, None))
            return location if of is kind else None

    def get_at_once(self, name: TableName) -> str | None:
        return self.get(name)

    def put_new(self, name: TableName, location: str, kind: Kind = Kind.TABLE) -> None:
        with self._lock:
            self.properties(name.namespace)
            if name in self._tables:
                raise table_exists(name, self._tables[name][0], new=kind)
            self._check_places()
            self._tables[name] = (kind, location)

    def move(self, moves: Sequence[Move], kind: Kind = Kind.TABLE) -> Rejected | Unanswered | None:
        with self._lock:
            for move in moves:
                if move.old is None:
                    self.properties(move.name.namespace)
                    if move.name in self._tables:
                        raise table_exists(move.name, self._tables[move.name][0], new=kind)
                elif self._tables.get(move.name) != (kind, move.old):
                    return Rejected(f"another writer moved {move.name} first")
            self._check_places()
            self._tables.update({move.name: (kind, move.new) for move in moves})
            return None

    def _check_places(self) -> None:
        if (pending := pending_places()) is not None:
            pending.check(self.folders())
            for name, gained in pending.gains.items():
                self._places.setdefault(name, set()).update(gained)

    def folders(self) -> tuple[Folder, ...]:
        with self._lock:
            shown = [Folder(name, folder_of(location)) for name, (_, location) in self._tables.items()]
            recorded = [Folder(name, place) for name in self._tables for place in self._places.get(name, ())]
            return (*shown, *recorded)

    def remove(self, name: TableName, kind: Kind = Kind.TABLE) -> str:
        with self._lock:
            location = self._held(name, kind)
            del self._tables[name]
            self._places.pop(name, None)
            return location

    def rename(self, old: TableName, new: TableName, kind: Kind = Kind.TABLE) -> None:
        with self._lock:
            self.put_new(new, self._held(old, kind), kind)
            del self._tables[old]
            self._places[new] = self._places.pop(old, set())

    def _held(self, name: TableName, kind: Kind) -> str:
        of, location = self._tables.get(name, (None, ""))
        if of is not kind:
            raise missing(name, kind, of)
        return location
