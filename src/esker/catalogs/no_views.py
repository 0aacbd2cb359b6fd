"""A catalog without views. It has none, says so where one is asked for, and makes none."""

from __future__ import annotations

from typing import NoReturn

from esker.catalogs.refusals import no_such_view
from esker.errors import Unsupported
from esker.model.naming import Namespace, TableName
from esker.ports.catalog import Catalog
from esker.ports.view_catalog import ViewState, ViewSwap
from esker.tree.view_metadata import ViewMetadata


class NoViews:
    """Keeps the contract of ``ports.view_catalog.ViewCatalog`` for a catalog that cannot hold a view."""

    def __init__(self, catalog: Catalog, why: str) -> None:
        self._catalog = catalog
        self._why = why

    def catalog_name(self) -> str | None:
        return None

    def views(self, namespace: Namespace) -> tuple[TableName, ...]:
        self._catalog.namespace_properties(namespace)  # says so where there is no such namespace
        return ()

    def load_view(self, name: TableName) -> ViewState:
        raise no_such_view(name, self._why)

    def create_view(self, name: TableName, metadata: ViewMetadata) -> ViewState:
        raise Unsupported(f"cannot create view {name}: {self._why}", feature="views")

    def swap_view(self, name: TableName, base: ViewState, new: ViewMetadata) -> ViewSwap:
        self._missing(name)

    def drop_view(self, name: TableName) -> None:
        self._missing(name)

    def rename_view(self, old: TableName, new: TableName) -> None:
        self._missing(old)

    def _missing(self, name: TableName) -> NoReturn:
        raise no_such_view(name, self._why)
