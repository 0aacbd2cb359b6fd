"""What a catalog says when it cannot do as asked, worded once for all of them."""

from __future__ import annotations

from collections.abc import Iterable

from esker.catalogs.kinds import Kind
from esker.errors import AlreadyExists, InvalidInput, NoSuchNamespace, NoSuchTable, NoSuchView
from esker.model.naming import Namespace, TableName, parse_namespace

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
