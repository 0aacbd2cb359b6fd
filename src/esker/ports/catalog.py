"""What holds the pointers to the current metadata of tables and views, and moves them atomically.

The promise of a table rests on ``swap``: one compare-and-swap for each commit. Its outcomes are values, because a
writer must tell them apart: accepted (the commit is visible), rejected (another writer won and nothing of this commit
is visible), unanswered (the commit may be visible, so every file must be kept).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from esker.model.table_names import Namespace, TableName
from esker.ports.storage import Storage
from esker.tree.table_metadata import TableMetadata
from esker.tree.view_metadata import ViewMetadata

# ---------------------------------------------------------------- catalog
#
# What holds the pointer to each table's current metadata, and moves it atomically.
#
# The whole promise of a table rests on ``swap``: one compare-and-swap per commit. Its outcomes are values, because
# a writer must tell them apart: accepted (ours is visible), rejected (another writer won, nothing of ours is
# visible), unanswered (it may be visible; every file must be kept).


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


# ---------------------------------------------------------------- view catalog
#
# What holds the pointer to each view's current metadata. Tables and views of a catalog share one set of names.


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewState:
    """One state of a view: its metadata and the file that holds it."""

    metadata: ViewMetadata
    metadata_location: str


@dataclass(frozen=True, slots=True)
class ViewAccepted:
    """The swap happened; this is the view now."""

    state: ViewState


ViewSwap: TypeAlias = ViewAccepted | Rejected | Unanswered


class ViewCatalog(Protocol):
    """Names of views, pointers, and one compare-and-swap. A catalog without views has none and makes none."""

    def catalog_name(self) -> str | None:
        """What other engines call this catalog, where that is known."""
        ...

    def views(self, namespace: Namespace) -> tuple[TableName, ...]:
        """Its views, sorted; ``NoSuchNamespace`` where there is none."""
        ...

    def load_view(self, name: TableName) -> ViewState:
        """The view as it is now; ``NoSuchView`` where there is none."""
        ...

    def create_view(self, name: TableName, metadata: ViewMetadata) -> ViewState:
        """Make the view; ``AlreadyExists`` when the name is taken, ``Unsupported`` where no view can be."""
        ...

    def swap_view(self, name: TableName, base: ViewState, new: ViewMetadata) -> ViewSwap:
        """Make ``new`` current if ``base`` still is."""
        ...

    def drop_view(self, name: TableName) -> None:
        """Forget the view; ``NoSuchView`` where there is none."""
        ...

    def rename_view(self, old: TableName, new: TableName) -> None:
        """Give it another name."""
        ...
