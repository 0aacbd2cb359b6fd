"""A table that appears with its first rows: until they are committed, there is no table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from esker.model.naming import TableName
from esker.ports.catalog import Accepted, Catalog, Swap, TableState
from esker.tree.table_metadata import TableMetadata


@dataclass(frozen=True, slots=True)
class FirstCommit:
    """A catalog seen by the writer of a table that is not there yet: the first swap makes the table.

    Should the name be taken by then, ``AlreadyExists`` ends the commit, which takes back every file it wrote.
    """

    catalog: Catalog
    planned: TableState

    def load(self, name: TableName, known: TableState | None = None) -> TableState:
        """The table as it will begin, empty."""
        return self.planned

    def swap(self, name: TableName, base: TableState, new: TableMetadata) -> Swap:
        """Make the table, rows and all."""
        return Accepted(self.catalog.create(name, new))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.catalog, name)
