"""Pointers in this process, for tests and for tables that need not last."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from esker.catalogs.pointer import PointerCatalog
from esker.catalogs.refusals import (
    dotted,
    namespace_exists,
    namespace_in_use,
    no_such_namespace,
    no_such_table,
    table_exists,
)
from esker.catalogs.warehouse import Warehouse
from esker.model.naming import Namespace, TableName
from esker.ports.catalog import Rejected, Unanswered
from esker.storage.memory import MemoryStorage


def memory_catalog() -> PointerCatalog:
    """A catalog that lives and dies with the process, files and all."""
    return PointerCatalog(MemoryPointers(), Warehouse("memory://warehouse", MemoryStorage()))


class MemoryPointers:
    """Pointers in a dict, under one lock."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._namespaces: dict[Namespace, dict[str, str]] = {}
        self._tables: dict[TableName, str] = {}

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

    def drop_namespace(self, namespace: Namespace) -> None:
        with self._lock:
            self.properties(namespace)
            depth = len(namespace)
            held = [str(name) for name in self._tables if name.namespace == namespace]
            held += [dotted(other) for other in self._namespaces if other[:depth] == namespace and len(other) > depth]
            if held:
                raise namespace_in_use(namespace, held)
            del self._namespaces[namespace]

    def tables(self, namespace: Namespace) -> tuple[TableName, ...]:
        with self._lock:
            self.properties(namespace)
            return tuple(sorted(name for name in self._tables if name.namespace == namespace))

    def get(self, name: TableName) -> str | None:
        with self._lock:
            return self._tables.get(name)

    def put_new(self, name: TableName, location: str) -> None:
        with self._lock:
            self.properties(name.namespace)
            if name in self._tables:
                raise table_exists(name)
            self._tables[name] = location

    def move(self, name: TableName, old: str, new: str) -> Rejected | Unanswered | None:
        with self._lock:
            if self._tables.get(name) != old:
                return Rejected(f"another writer moved {name} first")
            self._tables[name] = new
            return None

    def remove(self, name: TableName) -> None:
        with self._lock:
            if self._tables.pop(name, None) is None:
                raise no_such_table(name)

    def rename(self, old: TableName, new: TableName) -> None:
        with self._lock:
            if old not in self._tables:
                raise no_such_table(old)
            self.put_new(new, self._tables[old])
            del self._tables[old]
