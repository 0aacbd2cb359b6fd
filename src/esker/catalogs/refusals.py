"""Errors about the names in a catalog, with the same text in all catalogs, and `NoViews`: no views."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NoReturn

from esker.errors import AlreadyExists, InvalidInput, NoSuchNamespace, NoSuchTable, NoSuchView, Unsupported
from esker.model.table_names import Namespace, TableName, parse_namespace
from esker.ports.catalog import Catalog, ViewState, ViewSwap
from esker.tree.view_metadata import ViewMetadata


class Kind(Enum):
    """A table or a view. The values are those of ``iceberg_type`` in a SQL catalog."""

    TABLE = "TABLE"
    VIEW = "VIEW"

    @property
    def word(self) -> str:
        """The kind as a word for messages."""
        return self.value.lower()


# ---------------------------------------------------------------- Names and errors


_NONE = "the catalog has none of that name"
_LONGEST_NAMESPACE = 255  # the limit of the SQL tables that engines share


def dotted(namespace: Namespace) -> str:
    """A namespace as a user writes it."""
    return ".".join(namespace)


def checked_namespace(namespace: Namespace) -> Namespace:
    """The namespace. Raises `InvalidInput` if a level cannot be a folder name and a word between dots."""
    if not namespace:
        raise InvalidInput("cannot use an empty namespace: it needs at least one level", name="")
    for level in parse_namespace(tuple(namespace)):
        if "." in level:
            raise InvalidInput(
                f"cannot use {level!r}: it is not a name, because a dot separates the levels of a namespace", name=level
            )
    if len(dotted(namespace).encode()) > _LONGEST_NAMESPACE:
        raise InvalidInput(
            f"cannot use the namespace {dotted(namespace)}: it is longer than {_LONGEST_NAMESPACE} bytes"
        )
    return namespace


def can_be_named(name: str) -> bool:
    """Whether a folder's name can be a level of a namespace."""
    try:
        return checked_namespace((name,)) == (name,)
    except InvalidInput:
        return False


def checked_name(name: TableName) -> TableName:
    """The name. Raises `InvalidInput` if it cannot be a folder name and a word after the last dot."""
    checked_namespace(name.namespace)
    checked_namespace((name.name,))
    return name


def no_such_table(name: TableName, why: str = _NONE) -> NoSuchTable:
    """The error for a table that does not exist."""
    return NoSuchTable(f"no table {name}: {why}", table=str(name))


def no_such_view(name: TableName, why: str = _NONE) -> NoSuchView:
    """The error for a view that does not exist."""
    return NoSuchView(f"no view {name}: {why}", view=str(name))


def missing(name: TableName, wanted: Kind, there: Kind | None = None) -> NoSuchTable | NoSuchView:
    """The error for a name that does not exist, or that belongs to the other kind."""
    found = no_such_table if wanted is Kind.TABLE else no_such_view
    if there is None:
        return found(name)
    hint = "lake.sql reads it and lake.view opens it" if there is Kind.VIEW else "lake.table opens it"
    return found(name, f"it is a {there.word}; {hint}").with_facts(there=there.word)


def no_such_namespace(namespace: Namespace) -> NoSuchNamespace:
    """The error for a namespace that does not exist."""
    return NoSuchNamespace(f"no namespace {dotted(namespace)}", namespace=dotted(namespace))


def table_exists(name: TableName, there: Kind = Kind.TABLE, *, new: Kind = Kind.TABLE) -> AlreadyExists:
    """The error for a name that a table or a view has already."""
    return AlreadyExists(
        f"cannot create {new.word} {name}: a {there.word} of that name exists",
        **{new.word: str(name)},
        there=there.word,
    )


def namespace_exists(namespace: Namespace) -> AlreadyExists:
    """The error for a namespace that exists."""
    return AlreadyExists(f"cannot create namespace {dotted(namespace)}: it exists", namespace=dotted(namespace))


def namespace_in_use(namespace: Namespace, held: Iterable[str]) -> InvalidInput:
    """The error for a namespace that is not empty. It names the first few contents."""
    names = sorted(held)
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return InvalidInput(
        f"cannot drop namespace {dotted(namespace)}: it holds {shown}", namespace=dotted(namespace), holds=names
    )


# ---------------------------------------------------------------- A catalog without views


class NoViews:
    """Implements ``ports.catalog.ViewCatalog`` for a catalog without views."""

    def __init__(self, catalog: Catalog, why: str) -> None:
        self._catalog = catalog
        self._why = why

    def catalog_name(self) -> str | None:
        return None

    def views(self, namespace: Namespace) -> tuple[TableName, ...]:
        self._catalog.namespace_properties(namespace)  # raises if there is no such namespace
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
