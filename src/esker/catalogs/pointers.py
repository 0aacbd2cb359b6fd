"""Names and where each points: what a catalog of pointers is made over, be it a dict or a database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from esker.catalogs.kinds import Kind
from esker.errors import InvalidInput
from esker.model.naming import Namespace, TableName
from esker.ports.catalog import Rejected, Unanswered

LONGEST_LOCATION = 1000  # what the SQL layout that engines share has room for


class Pointers(Protocol):
    """Names of tables and views, and the metadata location each points at. A name is one or the other, never both.

    Every method is atomic and seen by all at once.
    """

    def namespaces(self) -> tuple[Namespace, ...]:
        """Every namespace and its ancestors, sorted."""
        ...

    def properties(self, namespace: Namespace) -> Mapping[str, str]:
        """Settings; `NoSuchNamespace` where there is none."""
        ...

    def create_namespace(self, namespace: Namespace, properties: Mapping[str, str]) -> None:
        """`AlreadyExists` when it is there."""
        ...

    def update_properties(self, namespace: Namespace, updates: Mapping[str, str], removals: Sequence[str]) -> None:
        """All of it or nothing; `NoSuchNamespace` where there is none."""
        ...

    def drop_namespace(self, namespace: Namespace) -> None:
        """`InvalidInput` while it holds anything."""
        ...

    def tables(self, namespace: Namespace, kind: Kind = Kind.TABLE) -> tuple[TableName, ...]:
        """Sorted; `NoSuchNamespace` where there is none."""
        ...

    def get(self, name: TableName, kind: Kind = Kind.TABLE) -> str | None:
        """Where the table's metadata is; None where there is no such table."""
        ...

    def put_new(self, name: TableName, location: str, kind: Kind = Kind.TABLE) -> None:
        """`AlreadyExists`, `NoSuchNamespace`; `OutcomeUnknown` when nobody said whether it happened."""
        ...

    def move(self, name: TableName, old: str, new: str, kind: Kind = Kind.TABLE) -> Rejected | Unanswered | None:
        """Point at ``new`` if it still points at ``old``; None says that it does. An error says that it does not."""
        ...

    def remove(self, name: TableName, kind: Kind = Kind.TABLE) -> None:
        """`NoSuchTable` where there is none."""
        ...

    def rename(self, old: TableName, new: TableName, kind: Kind = Kind.TABLE) -> None:
        """`NoSuchTable`, `NoSuchNamespace`, `AlreadyExists`."""
        ...


def fitting(location: str) -> str:
    """The location, if a catalog of SQL has room for it."""
    if len(location) > LONGEST_LOCATION:
        raise InvalidInput(
            f"cannot point at {location[:60]}…: it is longer than {LONGEST_LOCATION} characters", location=location
        )
    return location
