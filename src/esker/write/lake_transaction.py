"""``with lake.transaction() as tx:`` changes of several tables that become visible together, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Protocol, Self

from esker.errors import InvalidInput
from esker.model.table_names import TableName
from esker.ports.catalog import Catalog
from esker.tree.snapshot import Snapshot
from esker.write.build_snapshot import SnapshotChange
from esker.write.commit_all import Part, commit_all
from esker.write.definition.alter import Alteration
from esker.write.table_changes import MAIN
from esker.write.verbs import Transaction


class Begin(Protocol):
    """Begins the transaction of one table."""

    def __call__(self, name: str, *, ref: str, summary: Mapping[str, str] | None) -> Transaction:
        """The transaction on a branch. ``summary`` is added to the summary of its snapshot."""
        ...


class LakeTransaction:
    """Changes of several tables, one commit. Each table has its own snapshot, checked for conflicts as always."""

    def __init__(self, catalog: Catalog, begin: Begin) -> None:
        catalog.check_swaps_all()
        self._catalog = catalog
        self._begin = begin
        self._tables: dict[TableName, Transaction] = {}
        self._is_over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_over:
            return
        if kind is None:
            self.commit()
        else:
            self.abandon()

    def table(self, name: str, *, ref: str = MAIN, summary: Mapping[str, str] | None = None) -> Transaction:
        """A table's part in this transaction, with the verbs of ``table.transaction()``: ``append``, ``delete``, ….

        The same name gives the same part again. Raises ``NoSuchTable`` where there is no such table, and
        ``InvalidInput`` for another branch of a table that has a part already.

            with lake.transaction() as tx:
                tx.table("sales.orders").append(orders)
                tx.table("sales.totals").overwrite(totals)
        """
        self._check_open()
        parsed = TableName.parse(name)
        known = self._tables.get(parsed)
        if known is None:
            known = self._tables[parsed] = self._begin(name, ref=ref, summary=summary)
            known.is_part = True
        elif known.ref != ref or summary:
            raise InvalidInput(
                f"cannot begin twice with {name} in one transaction: it has a part on the branch {known.ref} already",
                table=name,
            )
        return known

    def alter(self, name: str) -> Alteration:
        """Change the definition of a table as part of this transaction, before its rows: short for
        ``tx.table(name).alter()``.

        Raises ``InvalidInput`` if the table has other changes in this transaction already.

            with lake.transaction() as tx:
                for name in ("sales.orders", "sales.totals"):
                    with tx.alter(name) as change:
                        change.add_column("note", "string")
        """
        return self.table(name).alter()

    def commit(self) -> dict[str, Snapshot | None]:
        """Make all changes visible now. Gives the new snapshot of each table; None where nothing was to be changed.

        Raises ``Conflict`` where another writer's change does not go with one of these, and ``OutcomeUnknown`` where
        the catalog never answered. After a ``Conflict`` no table was changed.
        """
        self._check_open()
        self._is_over = True
        changes: dict[TableName, SnapshotChange] = {}
        try:
            for name, part in self._tables.items():
                if (change := part.prepare()) is not None:
                    changes[name] = change
        except BaseException:
            for change in changes.values():
                change.abandon()
            self._abandon_all()
            raise
        parts = [Part(name, self._tables[name].base, change) for name, change in changes.items()]
        states = commit_all(self._catalog, parts) if parts else []
        for name, state in zip(changes, states, strict=True):
            self._tables[name].finish(state, changes[name])
        return {str(name): part.snapshot for name, part in self._tables.items()}

    def abandon(self) -> None:
        """Give up: take back what was written for every table. Nothing is done once it is committed, or may be."""
        if not self._is_over:
            self._is_over = True
            self._abandon_all()

    def _abandon_all(self) -> None:
        for part in self._tables.values():
            part.abandon()

    def _check_open(self) -> None:
        if self._is_over:
            raise InvalidInput("cannot use a transaction that has ended: begin another")
