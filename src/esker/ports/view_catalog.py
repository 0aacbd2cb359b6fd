"""What holds the pointer to each view's current metadata. Tables and views of a catalog share one set of names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from esker.model.naming import Namespace, TableName
from esker.ports.catalog import Rejected, Unanswered
from esker.tree.view_metadata import ViewMetadata


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
