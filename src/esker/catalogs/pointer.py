"""Catalogs that hold nothing of a table but a pointer to its metadata file.

Where the pointers are kept (a dict, a database) is behind `Pointers`; everything else about such a catalog is here,
once. A commit writes a new metadata file first and then moves the pointer, so the pointer names a whole file always.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from esker.catalogs.metadata_files import MetadataFiles, check_same_table
from esker.catalogs.refusals import checked_name, checked_namespace, no_such_table, table_exists
from esker.catalogs.warehouse import Warehouse
from esker.errors import EskerError, InvalidInput, OutcomeUnknown
from esker.model.naming import Namespace, TableName
from esker.ports.catalog import Accepted, Rejected, Swap, TableState, Unanswered
from esker.ports.storage import Storage
from esker.tree.table_metadata import TableMetadata

LONGEST_LOCATION = 1000  # what the SQL layout that engines share has room for


class Pointers(Protocol):
    """Names and the metadata location each points at. Every method is atomic and seen by all at once."""

    def namespaces(self) -> tuple[Namespace, ...]:
        """Every namespace and its ancestors, sorted."""
        ...

    def properties(self, namespace: Namespace) -> Mapping[str, str]:
        """Settings; `NoSuchNamespace` where there is none."""
        ...

    def create_namespace(self, namespace: Namespace, properties: Mapping[str, str]) -> None:
        """`AlreadyExists` when it is there."""
        ...

    def drop_namespace(self, namespace: Namespace) -> None:
        """`InvalidInput` while it holds anything."""
        ...

    def tables(self, namespace: Namespace) -> tuple[TableName, ...]:
        """Sorted; `NoSuchNamespace` where there is none."""
        ...

    def get(self, name: TableName) -> str | None:
        """Where the table's metadata is; None where there is no such table."""
        ...

    def put_new(self, name: TableName, location: str) -> None:
        """`AlreadyExists`, `NoSuchNamespace`; `OutcomeUnknown` when nobody said whether it happened."""
        ...

    def move(self, name: TableName, old: str, new: str) -> Rejected | Unanswered | None:
        """Point at ``new`` if it still points at ``old``; None says that it does. An error says that it does not."""
        ...

    def remove(self, name: TableName) -> None:
        """`NoSuchTable` where there is none."""
        ...

    def rename(self, old: TableName, new: TableName) -> None:
        """`NoSuchTable`, `NoSuchNamespace`, `AlreadyExists`."""
        ...


class PointerCatalog:
    """A catalog over `Pointers`; keeps the contract of ``ports.catalog.Catalog``."""

    def __init__(self, pointers: Pointers, warehouse: Warehouse) -> None:
        self._pointers = pointers
        self._warehouse = warehouse
        self._files = MetadataFiles(warehouse)

    def namespaces(self) -> tuple[Namespace, ...]:
        return self._pointers.namespaces()

    def namespace_properties(self, namespace: Namespace) -> Mapping[str, str]:
        return self._pointers.properties(checked_namespace(namespace))

    def create_namespace(self, namespace: Namespace, properties: Mapping[str, str]) -> None:
        self._pointers.create_namespace(checked_namespace(namespace), properties)

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
            raise no_such_table(name)
        # No two files share a name, so a pointer that has not moved points at what was read before.
        if known is not None and known.metadata_location == location:
            return known
        return self._files.read(location)

    def create(self, name: TableName, metadata: TableMetadata) -> TableState:
        self._check_free(name)
        # A location other than `location_for` gives is one that the caller named, which opens it.
        self._warehouse.admit(metadata.location)
        state = self._files.write_first(metadata)
        try:
            self._pointers.put_new(name, _fitting(state.metadata_location))
        except OutcomeUnknown:
            raise
        except EskerError:
            self._files.discard(state)
            raise
        return state

    def swap(self, name: TableName, base: TableState, new: TableMetadata) -> Swap:
        check_same_table(base.metadata, new)
        current = self._pointers.get(checked_name(name))
        if current != base.metadata_location:
            return Rejected(_moved(name, current))
        state = self._files.write_next(base, new)
        try:
            outcome = self._pointers.move(name, base.metadata_location, _fitting(state.metadata_location))
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
        state = self._files.read(_fitting(metadata_location))
        self._files.folder_of(state.metadata)  # its next commit must have somewhere to go
        self._pointers.put_new(name, metadata_location)
        return state

    def drop(self, name: TableName) -> None:
        self._pointers.remove(checked_name(name))

    def rename(self, old: TableName, new: TableName) -> None:
        self._pointers.rename(checked_name(old), checked_name(new))

    def storage(self) -> Storage:
        return self._warehouse.storage

    def _check_free(self, name: TableName) -> None:
        """Refuse before anything is written what would be refused after."""
        self._pointers.properties(checked_name(name).namespace)
        if self._pointers.get(name) is not None:
            raise table_exists(name)


def _moved(name: TableName, current: str | None) -> str:
    if current is None:
        return f"table {name} was dropped or renamed"
    return f"table {name} has moved on to {current}"


def _fitting(location: str) -> str:
    if len(location) > LONGEST_LOCATION:
        raise InvalidInput(
            f"cannot point at {location[:60]}…: it is longer than {LONGEST_LOCATION} characters", location=location
        )
    return location
