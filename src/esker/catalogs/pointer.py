"""Catalogs that hold nothing of a table but a pointer to its metadata file.

Where the pointers are kept (a dict, a database) is behind `Pointers`; everything else about such a catalog is here,
once. A commit writes a new metadata file first and then moves the pointer, so the pointer names a whole file always.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from esker.catalogs.kinds import Kind
from esker.catalogs.metadata_files import MetadataFiles, check_same_table
from esker.catalogs.pointer_views import PointerViews
from esker.catalogs.pointers import Pointers, fitting
from esker.catalogs.refusals import checked_name, checked_namespace, missing, table_exists
from esker.catalogs.warehouse import Warehouse
from esker.errors import EskerError, OutcomeUnknown
from esker.model.naming import Namespace, TableName
from esker.ports.catalog import Accepted, Rejected, Swap, TableState, Unanswered
from esker.ports.storage import Storage
from esker.ports.view_catalog import ViewCatalog
from esker.tree.table_metadata import TableMetadata


class PointerCatalog:
    """A catalog over `Pointers`; keeps the contract of ``ports.catalog.Catalog``."""

    def __init__(self, pointers: Pointers, warehouse: Warehouse, *, name: str | None = None) -> None:
        self._name = name
        self._pointers = pointers
        self._warehouse = warehouse
        self._files = MetadataFiles(warehouse)

    def namespaces(self) -> tuple[Namespace, ...]:
        return self._pointers.namespaces()

    def namespace_properties(self, namespace: Namespace) -> Mapping[str, str]:
        return self._pointers.properties(checked_namespace(namespace))

    def create_namespace(self, namespace: Namespace, properties: Mapping[str, str]) -> None:
        self._pointers.create_namespace(checked_namespace(namespace), properties)

    def update_namespace_properties(
        self, namespace: Namespace, updates: Mapping[str, str], removals: Sequence[str]
    ) -> None:
        self._pointers.update_properties(checked_namespace(namespace), updates, removals)

    def drop_namespace(self, namespace: Namespace) -> None:
        self._pointers.drop_namespace(checked_namespace(namespace))

    def tables(self, namespace: Namespace) -> tuple[TableName, ...]:
        return self._pointers.tables(checked_namespace(namespace))

    def location_for(self, name: TableName) -> str:
        base = self._pointers.properties(checked_name(name).namespace).get("location")
        return self._warehouse.home_of(name, base)

    def load(self, name: TableName, known: TableState | None = None) -> TableState:
        location = self._pointers.get(checked_name(name))
        if location is None:
            is_view = self._pointers.get(name, Kind.VIEW) is not None
            raise missing(name, Kind.TABLE, Kind.VIEW if is_view else None)
        # No two files share a name, so a pointer that has not moved points at what was read before.
        if known is not None and known.metadata_location == location:
            return known
        return self._files.read(location)

    def check_place(self, name: TableName, metadata: TableMetadata) -> None:
        checked_name(name)
        self._warehouse.check_table(metadata)

    def create(self, name: TableName, metadata: TableMetadata) -> TableState:
        self._check_free(name)
        self._warehouse.check_table(metadata)
        self._warehouse.remember()
        state = self._files.write_first(metadata)
        try:
            self._pointers.put_new(name, fitting(state.metadata_location))
        except OutcomeUnknown:
            raise
        except EskerError:
            self._files.discard(state)
            raise
        return state

    def swap(self, name: TableName, base: TableState, new: TableMetadata) -> Swap:
        check_same_table(base.metadata, new)
        self._warehouse.check_table(new, base.metadata)
        current = self._pointers.get(checked_name(name))
        if current != base.metadata_location:
            return Rejected(_moved(name, current))
        state = self._files.write_next(base, new)
        try:
            outcome = self._pointers.move(name, base.metadata_location, fitting(state.metadata_location))
        except EskerError:
            self._files.discard(state)
            raise
        match outcome:
            case None:
                self._files.tidy(base, state)
                return Accepted(state)
            case Rejected():
                self._files.discard(state)
                return outcome
            case Unanswered(why):
                return Unanswered(why, state.metadata_location)

    def register(self, name: TableName, metadata_location: str) -> TableState:
        self._check_free(name)
        state = self._files.read(fitting(metadata_location))
        self._warehouse.check_table(state.metadata)  # its next commit must have somewhere to go
        self._warehouse.remember()
        self._pointers.put_new(name, metadata_location)
        return state

    def drop(self, name: TableName) -> None:
        self._pointers.remove(checked_name(name))

    def rename(self, old: TableName, new: TableName) -> None:
        self._pointers.rename(checked_name(old), checked_name(new))

    def storage(self) -> Storage:
        return self._warehouse.storage

    def view_catalog(self) -> ViewCatalog:
        return PointerViews(self._pointers, self._warehouse, self._name)

    def _check_free(self, name: TableName) -> None:
        """Refuse before anything is written what would be refused after."""
        self._pointers.properties(checked_name(name).namespace)
        if self._pointers.get(name) is not None:
            raise table_exists(name)


def _moved(name: TableName, current: str | None) -> str:
    if current is None:
        return f"table {name} was dropped or renamed"
    return f"table {name} has moved on to {current}"
