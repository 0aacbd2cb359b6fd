"""A Paimon warehouse as a catalog: ``<warehouse>/<database>.db/<table>``. Directories are the only record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from esker.errors import AlreadyExists, NoSuchNamespace, NoSuchTable, NoSuchView, Unsupported
from esker.model.table_names import Namespace, TableName
from esker.paimon.read_table import definition_of, is_paimon_table, load_metadata
from esker.ports.catalog import Swap, SwapAll, TableState, TableSwap, ViewCatalog, ViewState, ViewSwap
from esker.ports.storage import Storage
from esker.tree.table_metadata import TableMetadata
from esker.tree.view_metadata import ViewMetadata

ListFolders = Callable[[str], Sequence[str]]
"""The names of the folders in a folder. Empty if it does not exist."""

_END = ".db"


def load_table(storage: Storage, root: str) -> TableState:
    """The table in a directory as it is now. Raises ``NoSuchTable``."""
    metadata = load_metadata(storage, root)
    layout = definition_of(metadata).layout
    current = metadata.current_snapshot_id
    place = layout.schema(metadata.current_schema_id) if current is None else layout.snapshot(current)
    return TableState(metadata=metadata, metadata_location=place)


class PaimonWarehouse:
    """Implements ``Catalog`` for the tables of a warehouse. Tables commit by themselves, so it swaps nothing."""

    def __init__(self, storage: Storage, root: str, list_folders: ListFolders) -> None:
        self._storage = storage
        self._root = root.rstrip("/")
        self._folders = list_folders

    def namespaces(self) -> tuple[Namespace, ...]:
        """Every database, sorted."""
        names = (name for name in self._folders(self._root) if name.endswith(_END) and name != _END)
        return tuple((name.removesuffix(_END),) for name in sorted(names))

    def namespace_properties(self, namespace: Namespace) -> Mapping[str, str]:
        """Empty: a directory has no properties. Raises ``NoSuchNamespace``."""
        if namespace not in self.namespaces():
            raise NoSuchNamespace(f"no namespace {'.'.join(namespace)}", namespace=".".join(namespace))
        return {}

    def tables(self, namespace: Namespace) -> tuple[TableName, ...]:
        """The tables of a database, sorted. Raises ``NoSuchNamespace``."""
        self.namespace_properties(namespace)
        folder = f"{self._root}/{namespace[0]}{_END}"
        names = (name for name in sorted(self._folders(folder)) if is_paimon_table(self._storage, f"{folder}/{name}"))
        return tuple(TableName(namespace, name) for name in names)

    def location_for(self, name: TableName) -> str:
        """The directory of a table."""
        return f"{self._root}/{'.'.join(name.namespace)}{_END}/{name.name}"

    def load(self, name: TableName, known: TableState | None = None) -> TableState:
        """The table as it is now. Raises ``NoSuchTable``. ``known`` is not used: schemas and tags change without a new
        snapshot."""
        place = self.location_for(name)
        try:
            return load_table(self._storage, place)
        except NoSuchTable:
            raise NoSuchTable(f"no table {name}: {place} has no schema", table=str(name)) from None

    def storage(self) -> Storage:
        """The storage of the warehouse."""
        return self._storage

    def view_catalog(self) -> ViewCatalog:
        """No views."""
        return _NoViews(self)

    def check_place(self, name: TableName, metadata: TableMetadata) -> None:
        """Refuse a table with rows from the start: its schema and its first snapshot are two files."""
        _refuse("create a table with its first rows in one step")

    def create(self, name: TableName, metadata: TableMetadata) -> TableState:
        """Write the first schema of a table. Raises ``AlreadyExists`` and ``Unsupported``."""
        from esker.paimon.write.first_schema import create_table

        place = self.location_for(name)
        if metadata.location.rstrip("/") != place:
            _refuse("create a table at a location of its own")
        create_table(self._storage, place, metadata)
        return load_table(self._storage, place)

    def create_namespace(self, namespace: Namespace, properties: Mapping[str, str]) -> None:
        """Create the directory of a database. Raises ``AlreadyExists``. In an object store there are no empty
        directories: a database exists there with its first table."""
        if properties:
            _refuse("store properties of a namespace")
        if len(namespace) != 1:
            _refuse("create a namespace inside of another")
        if namespace in self.namespaces():
            raise AlreadyExists(f"cannot create namespace {namespace[0]}: it exists", namespace=namespace[0])
        folder = self._storage.local_folder(f"{self._root}/{namespace[0]}{_END}")
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)

    def update_namespace_properties(
        self, namespace: Namespace, updates: Mapping[str, str], removals: Sequence[str]
    ) -> None:
        """Refuse."""
        _refuse("store properties of a namespace")

    def drop_namespace(self, namespace: Namespace) -> None:
        """Refuse."""
        _refuse("drop a namespace")

    def swap(self, name: TableName, base: TableState, new: TableMetadata) -> Swap:
        """Refuse."""
        _refuse("change a table")

    def check_swaps_all(self) -> None:
        """Refuse."""
        _refuse("change several tables in one step")

    def swap_all(self, swaps: Sequence[TableSwap]) -> SwapAll:
        """Refuse."""
        _refuse("change several tables in one step")

    def register(self, name: TableName, metadata_location: str) -> TableState:
        """Refuse."""
        _refuse("register a table")

    def drop(self, name: TableName) -> None:
        """Refuse."""
        _refuse("drop a table")

    def rename(self, old: TableName, new: TableName) -> None:
        """Refuse."""
        _refuse("rename a table")


class _NoViews:
    """Implements ``ViewCatalog``: there are no views."""

    def __init__(self, catalog: PaimonWarehouse) -> None:
        self._catalog = catalog

    def catalog_name(self) -> str | None:
        return None

    def views(self, namespace: Namespace) -> tuple[TableName, ...]:
        self._catalog.namespace_properties(namespace)
        return ()

    def load_view(self, name: TableName) -> ViewState:
        raise NoSuchView(f"no view {name}: a Paimon warehouse has no views", view=str(name))

    def create_view(self, name: TableName, metadata: ViewMetadata) -> ViewState:
        _refuse("create a view")

    def swap_view(self, name: TableName, base: ViewState, new: ViewMetadata) -> ViewSwap:
        _refuse("change a view")

    def drop_view(self, name: TableName) -> None:
        raise NoSuchView(f"no view {name}: a Paimon warehouse has no views", view=str(name))

    def rename_view(self, old: TableName, new: TableName) -> None:
        raise NoSuchView(f"no view {old}: a Paimon warehouse has no views", view=str(old))


def _refuse(what: str) -> NoReturn:
    raise Unsupported(f"cannot {what} in a Paimon warehouse: Esker does not have this yet", feature=what)
