"""What holds the pointer to each table's current metadata, and moves it atomically.

The whole promise of a table rests on ``swap``: one compare-and-swap per commit. Its outcomes are values, because
a writer must tell them apart: accepted (ours is visible), rejected (another writer won, nothing of ours is
visible), unanswered (it may be visible; every file must be kept).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from esker.model.naming import Namespace, TableName
from esker.ports.storage import Storage
from esker.tree.table_metadata import TableMetadata

if TYPE_CHECKING:
    from esker.ports.view_catalog import ViewCatalog


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """One version of a table: its metadata and the file that holds it."""

    metadata: TableMetadata
    metadata_location: str


@dataclass(frozen=True, slots=True)
class Accepted:
    """The swap happened; this is the table now."""

    state: TableState


@dataclass(frozen=True, slots=True)
class Rejected:
    """The pointer had moved: nothing of ours is visible. Refresh and try again."""

    why: str


@dataclass(frozen=True, slots=True)
class Unanswered:
    """Nobody said whether the swap happened. Keep every file and look for our snapshot."""

    why: str
    metadata_location: str | None = None  # the file that may have become current


Swap: TypeAlias = Accepted | Rejected | Unanswered


class Catalog(Protocol):
    """Names, pointers, and the one compare-and-swap."""

    def namespaces(self) -> tuple[Namespace, ...]:
        """Every namespace, sorted."""
        ...

    def namespace_properties(self, namespace: Namespace) -> Mapping[str, str]:
        """A namespace's settings; ``NoSuchNamespace`` where there is none."""
        ...

    def create_namespace(self, namespace: Namespace, properties: Mapping[str, str]) -> None:
        """Make it; ``AlreadyExists`` when it is there."""
        ...

    def update_namespace_properties(
        self, namespace: Namespace, updates: Mapping[str, str], removals: Sequence[str]
    ) -> None:
        """Set and remove settings, all of them or none. One that is removed need not be there. ``NoSuchNamespace``
        where there is no such namespace, ``Unsupported`` where the catalog keeps no settings."""
        ...

    def drop_namespace(self, namespace: Namespace) -> None:
        """Remove it; ``InvalidInput`` while it holds tables."""
        ...

    def tables(self, namespace: Namespace) -> tuple[TableName, ...]:
        """Its tables, sorted; ``NoSuchNamespace`` where there is none."""
        ...

    def location_for(self, name: TableName) -> str:
        """Where a new table of that name should lie, below the warehouse."""
        ...

    def load(self, name: TableName, known: TableState | None = None) -> TableState:
        """The table as it is now; ``NoSuchTable`` where there is none. ``known`` is given back if it still is."""
        ...

    def check_place(self, name: TableName, metadata: TableMetadata) -> None:
        """``InvalidInput`` where a new table may not be located, or write, where its metadata says. Touches nothing."""
        ...

    def create(self, name: TableName, metadata: TableMetadata) -> TableState:
        """Make the table; ``AlreadyExists`` when the name is taken."""
        ...

    def swap(self, name: TableName, base: TableState, new: TableMetadata) -> Swap:
        """Make ``new`` current if ``base`` still is. Never raises once the answer may be unknown."""
        ...

    def register(self, name: TableName, metadata_location: str) -> TableState:
        """Take in a table that lies there already."""
        ...

    def drop(self, name: TableName) -> None:
        """Forget the table; its files stay."""
        ...

    def rename(self, old: TableName, new: TableName) -> None:
        """Give it another name; its files stay where they are."""
        ...

    def storage(self) -> Storage:
        """Where this catalog's tables keep their files."""
        ...

    def view_catalog(self) -> ViewCatalog:
        """Its views; those of a catalog that can have none are none."""
        ...
