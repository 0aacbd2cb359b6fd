"""The views of a catalog that holds pointers: beside its tables, under the same set of names."""

from __future__ import annotations

from esker.catalogs.kinds import Kind
from esker.catalogs.pointers import Pointers, fitting
from esker.catalogs.refusals import checked_name, checked_namespace, missing, table_exists
from esker.catalogs.view_files import ViewFiles
from esker.catalogs.warehouse import Warehouse
from esker.errors import EskerError, InvalidInput, OutcomeUnknown
from esker.model.naming import Namespace, TableName
from esker.ports.catalog import Rejected, Unanswered
from esker.ports.view_catalog import ViewAccepted, ViewState, ViewSwap
from esker.tree.view_metadata import ViewMetadata


class PointerViews:
    """Views over `Pointers`; keeps the contract of ``ports.view_catalog.ViewCatalog``."""

    def __init__(self, pointers: Pointers, warehouse: Warehouse, name: str | None) -> None:
        self._pointers = pointers
        self._warehouse = warehouse
        self._files = ViewFiles(warehouse)
        self._name = name

    def catalog_name(self) -> str | None:
        return self._name

    def views(self, namespace: Namespace) -> tuple[TableName, ...]:
        return self._pointers.tables(checked_namespace(namespace), Kind.VIEW)

    def load_view(self, name: TableName) -> ViewState:
        location = self._pointers.get(checked_name(name), Kind.VIEW)
        if location is None:
            is_table = self._pointers.get(name) is not None
            raise missing(name, Kind.VIEW, Kind.TABLE if is_table else None)
        return self._files.read(location)

    def create_view(self, name: TableName, metadata: ViewMetadata) -> ViewState:
        self._check_free(name)
        self._warehouse.check(metadata.location, "the view's location")
        self._warehouse.remember()
        state = self._files.write(metadata)
        try:
            self._pointers.put_new(name, fitting(state.metadata_location), Kind.VIEW)
        except OutcomeUnknown:
            raise
        except EskerError:
            self._files.discard(state)
            raise
        return state

    def swap_view(self, name: TableName, base: ViewState, new: ViewMetadata) -> ViewSwap:
        if new.uuid.lower() != base.metadata.uuid.lower():
            raise InvalidInput(f"cannot change view {name}: its uuid is {base.metadata.uuid}, the new one's {new.uuid}")
        if self._pointers.get(checked_name(name), Kind.VIEW) != base.metadata_location:
            return Rejected(f"view {name} was changed, dropped or renamed")
        state = self._files.write(new, base)
        try:
            outcome = self._pointers.move(name, base.metadata_location, fitting(state.metadata_location), Kind.VIEW)
        except EskerError:
            self._files.discard(state)
            raise
        match outcome:
            case None:
                return ViewAccepted(state)
            case Rejected():
                self._files.discard(state)
                return outcome
            case Unanswered(why):
                return Unanswered(why, state.metadata_location)

    def drop_view(self, name: TableName) -> None:
        self._pointers.remove(checked_name(name), Kind.VIEW)

    def rename_view(self, old: TableName, new: TableName) -> None:
        self._pointers.rename(checked_name(old), checked_name(new), Kind.VIEW)

    def _check_free(self, name: TableName) -> None:
        """Refuse before anything is written what would be refused after."""
        self._pointers.properties(checked_name(name).namespace)
        for there in Kind:
            if self._pointers.get(name, there) is not None:
                raise table_exists(name, there, new=Kind.VIEW)
