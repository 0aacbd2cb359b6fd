"""Errors about the names in a catalog, worded once for all catalogs, and `NoViews` for a catalog that has no views."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NoReturn

from esker.errors import AlreadyExists, InvalidInput, NoSuchNamespace, NoSuchTable, NoSuchView, Unsupported
from esker.model.table_names import Namespace, TableName, parse_namespace
from esker.ports.catalog import Catalog, ViewState, ViewSwap
from esker.tree.view_metadata import ViewMetadata

# ---------------------------------------------------------------- What a name of a catalog may stand for


class Kind(Enum):
    """A table or a view; the values are those of ``iceberg_type`` in a catalog of SQL."""

    TABLE = "TABLE"
    VIEW = "VIEW"

    @property
    def word(self) -> str:
        """The kind in a sentence."""
        return self.value.lower()


# ---------------------------------------------------------------- refusals
#
# What a catalog says when it cannot do as asked, worded once for all of them.


_NONE = "the catalog has none of that name"
_LONGEST_NAMESPACE = 255  # what the SQL layout that engines share has room for


def dotted(namespace: Namespace) -> str:
    """A namespace as a user writes it."""
    return ".".join(namespace)


def checked_namespace(namespace: Namespace) -> Namespace:
    """The namespace, if every level can be a folder and a word between dots."""
    if not namespace:
        raise InvalidInput("a namespace needs at least one level", name="")
    for level in parse_namespace(tuple(namespace)):
        if "." in level:
            raise InvalidInput(f"{level!r} is not a name: a dot parts two levels of a namespace", name=level)
    if len(dotted(namespace).encode()) > _LONGEST_NAMESPACE:
        raise InvalidInput(f"the namespace {dotted(namespace)} is longer than {_LONGEST_NAMESPACE} bytes")
    return namespace


def checked_name(name: TableName) -> TableName:
    """The table's name, if it can be a folder and a word after the last dot."""
    checked_namespace(name.namespace)
    checked_namespace((name.name,))
    return name


def no_such_table(name: TableName, why: str = _NONE) -> NoSuchTable:
    """There is no such table."""
    return NoSuchTable(f"no table {name}: {why}", table=str(name))


def no_such_view(name: TableName, why: str = _NONE) -> NoSuchView:
    """There is no such view."""
    return NoSuchView(f"no view {name}: {why}", view=str(name))


def missing(name: TableName, wanted: Kind, there: Kind | None = None) -> NoSuchTable | NoSuchView:
    """There is nothing of that name, or it is of the other kind."""
    found = no_such_table if wanted is Kind.TABLE else no_such_view
    if there is None:
        return found(name)
    hint = "lake.sql reads it and lake.view opens it" if there is Kind.VIEW else "lake.table opens it"
    return found(name, f"it is a {there.word}; {hint}").with_facts(there=there.word)


def no_such_namespace(namespace: Namespace) -> NoSuchNamespace:
    """There is no such namespace."""
    return NoSuchNamespace(f"no namespace {dotted(namespace)}", namespace=dotted(namespace))


def table_exists(name: TableName, there: Kind = Kind.TABLE, *, new: Kind = Kind.TABLE) -> AlreadyExists:
    """The name is a table's, or a view's."""
    return AlreadyExists(
        f"cannot create {new.word} {name}: a {there.word} of that name exists", **{new.word: str(name)}
    )


def namespace_exists(namespace: Namespace) -> AlreadyExists:
    """The namespace is there."""
    return AlreadyExists(f"cannot create namespace {dotted(namespace)}: it exists", namespace=dotted(namespace))


def namespace_in_use(namespace: Namespace, held: Iterable[str]) -> InvalidInput:
    """The namespace holds something; names the first few."""
    names = sorted(held)
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return InvalidInput(
        f"cannot drop namespace {dotted(namespace)}: it holds {shown}", namespace=dotted(namespace), holds=names
    )


# ---------------------------------------------------------------- no views
#
# A catalog without views. It has none, says so where one is asked for, and makes none.


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
