"""The port of a catalog: it stores the pointers to the current metadata of tables and views, and moves them atomically.

All guarantees of a table depend on ``swap``, one compare-and-swap for each commit. Its outcomes are values, because a
writer has to distinguish them: accepted (the commit is visible), rejected (another writer won and nothing of this
commit is visible), unanswered (the commit may be visible, so every file must be kept).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

from esker.model.table_names import Namespace, TableName
from esker.ports.storage import Storage
from esker.tree.table_metadata import TableMetadata
from esker.tree.view_metadata import ViewMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """One version of a table: its metadata and the location of its metadata file."""

    metadata: TableMetadata
    metadata_location: str


@dataclass(frozen=True, slots=True)
class Accepted:
    """The swap happened. ``state`` is the table now."""

    state: TableState


@dataclass(frozen=True, slots=True)
class Rejected:
    """The pointer had moved, so nothing of this commit is visible. Refresh and try again."""

    why: str


Verdict: TypeAlias = Callable[[TableState], bool | None]
"""Whether a swap is in a later version of its table: False where it never can be, None where that is not known."""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """It is not known whether the swap happened. Keep every file, and look for the snapshot of this commit."""

    why: str
    metadata_location: str | None = None  # the file that may have become current
    verdict: Verdict | None = None  # from catalogs that do not compare with the whole base; others leave it out


Swap: TypeAlias = Accepted | Rejected | Unanswered


@dataclass(frozen=True, slots=True)
class TableSwap:
    """The next version of one table, among those of several that change in one step."""

    name: TableName
    base: TableState
    new: TableMetadata


@dataclass(frozen=True, slots=True)
class NewTable:
    """The first version of a table that is created in one step with changes of others."""

    name: TableName
    metadata: TableMetadata


@dataclass(frozen=True, slots=True)
class AllAccepted:
    """Every table changed; these are the tables now, in the order in which they were given."""

    states: tuple[TableState, ...]


@dataclass(frozen=True, slots=True)
class AllUnanswered:
    """It is not known whether the tables changed. Keep every file, and look for the snapshots of this commit."""

    why: str
    metadata_locations: Mapping[TableName, str] = field(default_factory=dict)  # the files that may be current
    verdicts: Mapping[TableName, Verdict] = field(default_factory=dict)
    """From catalogs whose tables may change one after the other: each table is then asked, and all must agree. Without
    verdicts all tables changed or none, and one clear answer is enough."""


SwapAll: TypeAlias = AllAccepted | Rejected | AllUnanswered


class Catalog(Protocol):
    """Names, pointers, and one compare-and-swap per commit."""

    def namespaces(self) -> tuple[Namespace, ...]:
        """Every namespace, sorted."""
        ...

    def namespace_properties(self, namespace: Namespace) -> Mapping[str, str]:
        """The properties of a namespace. Raises ``NoSuchNamespace`` if it does not exist."""
        ...

    def create_namespace(self, namespace: Namespace, properties: Mapping[str, str]) -> None:
        """Create a namespace. Raises ``AlreadyExists`` if it exists."""
        ...

    def update_namespace_properties(
        self, namespace: Namespace, updates: Mapping[str, str], removals: Sequence[str]
    ) -> None:
        """Set and remove properties, all or none. A removed property need not exist.

        Raises ``NoSuchNamespace`` if the namespace does not exist, and ``Unsupported`` if the catalog has no
        properties.
        """
        ...

    def drop_namespace(self, namespace: Namespace) -> None:
        """Remove a namespace. Raises ``InvalidInput`` if it contains tables or views."""
        ...

    def tables(self, namespace: Namespace) -> tuple[TableName, ...]:
        """The tables of a namespace, sorted. Raises ``NoSuchNamespace`` if it does not exist."""
        ...

    def location_for(self, name: TableName) -> str:
        """The location for a new table of that name, below the warehouse."""
        ...

    def load(self, name: TableName, known: TableState | None = None) -> TableState:
        """The current version of a table. Returns ``known`` if it is still current. Raises ``NoSuchTable``."""
        ...

    def check_place(self, name: TableName, metadata: TableMetadata) -> None:
        """Raise ``InvalidInput`` if a new table may not be at, or write to, the locations in its metadata. Creates
        nothing."""
        ...

    def create(self, name: TableName, metadata: TableMetadata) -> TableState:
        """Create a table. Raises ``AlreadyExists`` if the name exists."""
        ...

    def swap(self, name: TableName, base: TableState, new: TableMetadata) -> Swap:
        """Make ``new`` current if ``base`` is still current. Never raises once the outcome may be unknown."""
        ...

    def check_swaps_all(self) -> None:
        """``Unsupported`` where the catalog cannot change several tables in one step. Touches nothing."""
        ...

    def swap_all(self, swaps: Sequence[TableSwap]) -> SwapAll:
        """Make every ``new`` current if every ``base`` still is: all of them or none. No table is named twice. Never
        raises once the answer may be unknown; ``Unsupported`` where the catalog cannot do it."""
        ...

    def register(self, name: TableName, metadata_location: str) -> TableState:
        """Add an existing table to the catalog, by its metadata file."""
        ...

    def drop(self, name: TableName) -> None:
        """Remove the table from the catalog. Its files stay."""
        ...

    def rename(self, old: TableName, new: TableName) -> None:
        """Rename a table. Its files stay where they are."""
        ...

    def storage(self) -> Storage:
        """The storage of this catalog's tables."""
        ...

    def view_catalog(self) -> ViewCatalog:
        """The views of this catalog. If the catalog cannot have views, there are none."""
        ...


@runtime_checkable
class SelfTending(Protocol):
    """What a catalog offers besides, if it may belong to a service that maintains its tables itself."""

    @property
    def tended_by(self) -> str | None:
        """The name of the service that removes files itself and lets no client do it; None if there is none."""
        ...


# ---------------------------------------------------------------- Views


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewState:
    """One version of a view: its metadata and the location of its metadata file."""

    metadata: ViewMetadata
    metadata_location: str


@dataclass(frozen=True, slots=True)
class ViewAccepted:
    """The swap happened. ``state`` is the view now."""

    state: ViewState


ViewSwap: TypeAlias = ViewAccepted | Rejected | Unanswered


class ViewCatalog(Protocol):
    """The views of a catalog: names, pointers, and one compare-and-swap. Tables and views have one set of names."""

    def catalog_name(self) -> str | None:
        """The name of this catalog in other engines. None if it is not known."""
        ...

    def views(self, namespace: Namespace) -> tuple[TableName, ...]:
        """The views of a namespace, sorted. Raises ``NoSuchNamespace`` if it does not exist."""
        ...

    def load_view(self, name: TableName) -> ViewState:
        """The current version of a view. Raises ``NoSuchView`` if it does not exist."""
        ...

    def create_view(self, name: TableName, metadata: ViewMetadata) -> ViewState:
        """Create a view. Raises ``AlreadyExists`` if the name exists, ``Unsupported`` if the catalog cannot have
        views."""
        ...

    def swap_view(self, name: TableName, base: ViewState, new: ViewMetadata) -> ViewSwap:
        """Make ``new`` current if ``base`` is still current."""
        ...

    def drop_view(self, name: TableName) -> None:
        """Remove the view. Raises ``NoSuchView`` if it does not exist."""
        ...

    def rename_view(self, old: TableName, new: TableName) -> None:
        """Rename a view."""
        ...


# ---------------------------------------------------------------- What only some catalogs can do


@runtime_checkable
class SyncsNames(Protocol):
    """A catalog whose ``swap`` and ``create`` call ``ports.storage.sync_names`` after they wrote the new metadata file
    and before they move the pointer."""

    syncs_names: bool


@runtime_checkable
class WritesAhead(Protocol):
    """A catalog that can write what the next version of a table has in common with its base early."""

    def writing_ahead(self, base: TableState) -> AbstractContextManager[None]:
        """Begin with the version that a ``swap`` in the block, by the same thread, will make of ``base``. What was
        written is removed when the block ends, if no swap used it. Raises nothing."""
        ...


@runtime_checkable
class TakesGroups(Protocol):
    """A catalog whose ``swap`` takes a version with several new snapshots, and keeps all of them and their log."""

    takes_groups: bool


@runtime_checkable
class UnregistersTables(Protocol):
    """A catalog that can remove a table and say in the same step which version was its last."""

    def unregister(self, name: TableName) -> TableState:
        """Remove the table; its files stay. Returns the version with every commit that was made before, so that another
        catalog can take it over. Raises ``NoSuchTable``."""
        ...


@runtime_checkable
class ChangesTogether(Protocol):
    """A catalog that can create tables in the step that changes others."""

    def change_all(self, swaps: Sequence[TableSwap], new: Sequence[NewTable]) -> SwapAll:
        """As ``swap_all``, and creates every ``new`` too. Raises ``AlreadyExists`` if one exists; then nothing was
        changed."""
        ...


@runtime_checkable
class ReplacesTables(Protocol):
    """A catalog that can point a name at another metadata file that exists."""

    def register_over(self, name: TableName, base: TableState, metadata_location: str) -> Swap:
        """Make the table in a metadata file current if ``base`` still is. Nothing is copied or removed."""
        ...


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder in use, and whose it is: a table's, a view's, or that of a table that was dropped and can come back."""

    name: TableName
    location: str
    is_dropped: bool = False


@runtime_checkable
class KnowsPlaces(Protocol):
    """A catalog that can say where all of its tables and views are without opening them."""

    def folders(self) -> Sequence[Folder]:
        """The folders of all tables and views, and of dropped tables that can be brought back. A table has the folder
        above its metadata, and those that were recorded for it."""
        ...

    def checking(
        self, check: Callable[[Sequence[Folder]], None], gains: Mapping[TableName, Sequence[str]]
    ) -> AbstractContextManager[None]:
        """While the block runs, each change that this thread makes to tables and views calls ``check`` first, and
        records the folders that names gain.

        ``check`` gets the folders of all. They do not change until the change is made. If it raises an Esker error,
        nothing is changed, and the error is raised.
        """
        ...


@runtime_checkable
class LooksAtOnce(Protocol):
    """A catalog that may say without a wait where the metadata of a table is."""

    def pointer_at_once(self, name: TableName) -> str | None:
        """The current metadata file of a table. None if there is no such table, or if only ``load`` can say it: it may
        wait for a lock, a disk or a network, and this does not."""
        ...


@runtime_checkable
class RegistersViews(Protocol):
    """Views that can be added by their metadata file."""

    def register_view(self, name: TableName, metadata_location: str) -> ViewState:
        """Add an existing view. Raises ``AlreadyExists`` if the name exists."""
        ...
