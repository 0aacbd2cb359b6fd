"""``Table``, the object through which users read and change one table.

Its methods call the planner and the writers; they contain no logic of the table format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from esker.errors import Conflict, InvalidInput
from esker.maintain.cleaning_verbs import CleaningVerbs
from esker.maintain.rewriting_verbs import RewritingVerbs
from esker.maintain.statistics_verbs import StatisticsVerbs
from esker.model.partition_and_sort import PartitionSpec, SortOrder
from esker.model.schema import Schema
from esker.ports.catalog import TableState
from esker.read.resolve_snapshot import AsOf
from esker.read.result_formats import ScanShortcuts
from esker.tree.snapshot import Snapshot, SnapshotRef
from esker.tree.table_metadata import SnapshotLogEntry, TableMetadata, table_card
from esker.write.refs.ref_verbs import RefVerbs

# The modules that write are imported when a table is changed, so that a command that only reads does not wait for them.
if TYPE_CHECKING:
    from esker.metadata_tables.inspect import Inspect
    from esker.model.predicates.unbound_predicate import Unbound
    from esker.ports.row_changes import RowChange
    from esker.read.scan import Scan, Where
    from esker.read.scan_changes import ChangeScan
    from esker.read.snapshot_range import SnapshotName
    from esker.write.context import Home, Workings
    from esker.write.definition.alter import Alteration
    from esker.write.existing_files import ExistingFile
    from esker.write.rows.row_change_verbs import Merge
    from esker.write.verbs import Transaction

    Predicate = str | Unbound

MAIN = "main"


class Table(ScanShortcuts, RefVerbs, CleaningVerbs, RewritingVerbs, StatisticsVerbs):
    """An Iceberg table at one version of its metadata. ``lake.table(name)`` returns it.

    Every write is one atomic snapshot and moves this object to the version that it created; ``refresh()`` moves it to
    the newest. All writes raise ``InvalidInput`` for a table that was opened by its path, ``Conflict`` if another
    commit changed what they depend on, and ``OutcomeUnknown`` if the catalog did not answer. ``ref`` is the branch to
    write to, ``summary`` adds entries to the snapshot's summary.

        orders = lake.table("sales.orders")
        orders.append(new_rows)
        orders.scan("amount > 100").to_arrow()
    """

    def __init__(
        self,
        *,
        name: str,
        state: TableState,
        workings: Workings,
        reload: Callable[[], TableState],
        home: Home | None = None,
    ) -> None:
        self._name = name
        self._state = state
        self._workings = workings
        self._reload = reload
        self._home = home

    def __repr__(self) -> str:
        return f"<esker.Table {self._name}: v{self.format_version}, {len(self.snapshots)} snapshots>"

    def _repr_html_(self) -> str:
        return table_card(self._name, self.metadata)

    @property
    def name(self) -> str:
        """The table's name in its catalog, or the path it was opened by."""
        return self._name

    @property
    def metadata(self) -> TableMetadata:
        """The content of the metadata file."""
        return self._state.metadata

    @property
    def metadata_location(self) -> str:
        """The metadata file of this version."""
        return self._state.metadata_location

    @property
    def location(self) -> str:
        """The table's location, as its metadata records it."""
        return self.metadata.location

    @property
    def uuid(self) -> str | None:
        """The table's identity, which survives renames; None for some v1 tables."""
        return self.metadata.uuid

    @property
    def format_version(self) -> int:
        """The version of the Iceberg format: 1, 2 or 3."""
        return self.metadata.format_version

    @property
    def schema(self) -> Schema:
        """The current columns."""
        return self.metadata.schema

    @property
    def spec(self) -> PartitionSpec:
        """The partitioning of new data."""
        return self.metadata.spec

    @property
    def sort_order(self) -> SortOrder:
        """The sort order of new data."""
        return self.metadata.sort_order

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's properties."""
        return self.metadata.properties

    @property
    def snapshots(self) -> Sequence[Snapshot]:
        """All snapshots that have not expired."""
        return self.metadata.snapshots

    @property
    def current_snapshot(self) -> Snapshot | None:
        """The newest snapshot of ``main``; None if the table has none."""
        return self.metadata.current_snapshot

    @property
    def refs(self) -> Mapping[str, SnapshotRef]:
        """Branches and tags by name."""
        return self.metadata.refs

    @property
    def history(self) -> Sequence[SnapshotLogEntry]:
        """Which snapshot was current from which time."""
        return self.metadata.snapshot_log

    @property
    def inspect(self) -> Inspect:
        """Iceberg's 16 metadata tables as pyarrow tables: ``table.inspect.files()``. A table of another format has the
        metadata tables of its format."""
        if self._workings.make_inspect is not None:
            found: Inspect = self._workings.make_inspect(self.metadata, self._workings.format)
            return found
        from esker.metadata_tables.inspect import Inspect

        return Inspect(
            metadata=self.metadata,
            metadata_location=self.metadata_location,
            table_format=self._workings.format,
            engine=self._workings.engine,
        )

    def refresh(self) -> Table:
        """Move to the newest version and return this table. Raises ``Conflict`` if it was dropped and recreated."""
        self._move_to(self._same_table(self._reload()))
        return self

    def scan(
        self,
        where: Where = None,
        *,
        columns: Sequence[str] | None = None,
        snapshot_id: int | None = None,
        as_of: AsOf | None = None,
        ref: str | None = None,
        limit: int | None = None,
    ) -> Scan:
        """Return a ``Scan`` of the table's rows. Nothing is read until a method of the scan asks for rows.

        ``where`` is a predicate in SQL or of ``esker.col``. ``snapshot_id``, ``as_of`` (a datetime, an ISO string or
        epoch milliseconds) or ``ref`` selects an earlier snapshot; give at most one. Raises ``InvalidInput`` for an
        unknown column and ``NoSuchSnapshot`` for an unknown snapshot.

            orders.scan("amount > 100", columns=["id", "amount"], as_of="2026-01-01").to_pandas()
        """
        from esker.read.scan import scan

        return scan(
            metadata=self.metadata,
            table_format=self._workings.format,
            engine=self._workings.engine,
            where=where,
            columns=columns,
            snapshot_id=snapshot_id,
            as_of=as_of,
            ref=ref,
            limit=limit,
            frames=self._workings.frames,
            service=None if self._home is None else self._home.scan_service,
        )

    def scan_changes(
        self,
        from_snapshot: SnapshotName | None,
        to_snapshot: SnapshotName | None = None,
        where: Where = None,
        *,
        columns: Sequence[str] | None = None,
        keys: Sequence[str] = (),
        net: bool = False,
    ) -> ChangeScan:
        """Return a ``ChangeScan`` of the rows that were inserted and deleted after ``from_snapshot``, up to and
        including ``to_snapshot``, by default the current one.

        A snapshot is given by id, branch or tag; ``None`` starts before the table's first. Rows have the columns
        ``_change_type``, ``_change_ordinal`` and ``_commit_snapshot_id`` in addition. With ``keys``, a row that one
        snapshot deleted and inserted again with the same key is an update. With ``net``, rows that were both inserted
        and deleted in the range are left out. Raises ``InvalidInput`` for both, and ``NoSuchSnapshot`` for a snapshot
        that has expired.

            orders.scan_changes(last_seen, keys=["id"]).to_arrow()
        """
        from esker.read.scan_changes import scan_changes

        return scan_changes(
            metadata=self.metadata,
            table_format=self._workings.format,
            engine=self._workings.engine,
            from_snapshot=from_snapshot,
            to_snapshot=to_snapshot,
            where=where,
            columns=columns,
            keys=keys,
            net=net,
            frames=self._workings.frames,
        )

    def append(
        self,
        data: object,
        *,
        ref: str = MAIN,
        summary: Mapping[str, str] | None = None,
        batch: tuple[str, int] | None = None,
    ) -> Snapshot:
        """Add rows and return the new snapshot: ``orders.append(pa.table({"id": [1]}))``. ``batch``, the name of an
        application and the number of its batch, prevents duplicates: if the branch already has that batch, nothing is
        written and its newest snapshot is returned. Raises ``InvalidInput`` for rows that do not fit the table."""
        with self.transaction(ref=ref, summary=summary, batch=batch) as tx:
            tx.append(data)
        return tx.snapshot or self._head(ref)

    def overwrite(
        self,
        data: object,
        where: Predicate | None = None,
        *,
        ref: str = MAIN,
        summary: Mapping[str, str] | None = None,
    ) -> Snapshot:
        """Replace the rows that match ``where``, or all rows without it, by ``data``. Returns the new snapshot:
        ``orders.overwrite(rows_of_may, "month = '2026-05'")``."""
        with self.transaction(ref=ref, summary=summary) as tx:
            tx.overwrite(data, where)
        return self._result(tx)

    def overwrite_partitions(
        self, data: object, *, ref: str = MAIN, summary: Mapping[str, str] | None = None
    ) -> Snapshot:
        """Replace every partition that ``data`` has a row of. Returns the new snapshot."""
        with self.transaction(ref=ref, summary=summary) as tx:
            tx.overwrite_partitions(data)
        return self._result(tx)

    def delete(self, where: Predicate, *, ref: str = MAIN, summary: Mapping[str, str] | None = None) -> Snapshot | None:
        """Delete the rows that match and return the new snapshot: ``orders.delete("id = 5")``. If no row matches,
        nothing is committed and the newest snapshot of the branch is returned."""
        with self.transaction(ref=ref, summary=summary) as tx:
            tx.delete(where)
        return tx.snapshot or self._newest(ref)

    def update(
        self,
        values: Mapping[str, str],
        where: Predicate | None = None,
        *,
        ref: str = MAIN,
        summary: Mapping[str, str] | None = None,
    ) -> Snapshot | None:
        """Set columns of the rows that match to SQL expressions over the old row: ``orders.update({"qty": "qty + 1"},
        "id = 5")``. Returns the new snapshot. If no row matches, nothing is committed and the branch's newest snapshot
        is returned."""
        with self.transaction(ref=ref, summary=summary) as tx:
            tx.update(values, where)
        return tx.snapshot or self._newest(ref)

    def upsert(
        self, data: object, on: Sequence[str], *, ref: str = MAIN, summary: Mapping[str, str] | None = None
    ) -> Snapshot | None:
        """Replace the rows whose key is in ``data`` and insert the others: ``orders.upsert(corrections, on=["id"])``.
        ``on`` names the columns of the key. Returns the new snapshot; without any rows, nothing is committed. Raises
        ``InvalidInput`` if ``data`` has a key twice."""
        with self.transaction(ref=ref, summary=summary) as tx:
            tx.upsert(data, on)
        return tx.snapshot or self._newest(ref)

    def merge(self, source: object, on: str, *, ref: str = MAIN, summary: Mapping[str, str] | None = None) -> Merge:
        """Return a ``Merge`` of a source into the table, which runs on Spark when it is committed.

        ``on`` is the condition by which rows match; ``t`` is the table, ``s`` the source.

            orders.merge(source, "t.id = s.id").when_matched_update({"qty": "s.qty"}).when_not_matched_insert().commit()
        """
        from esker.write.rows.row_change_verbs import Merge

        def run(change: RowChange) -> Snapshot | None:
            with self.transaction(ref=ref, summary=summary) as tx:
                tx.apply(change)
            return tx.snapshot or self._newest(ref)

        self._at_home()
        return Merge.of(source, on, run)

    def add_files(
        self,
        paths: Sequence[str | ExistingFile],
        *,
        ref: str = MAIN,
        summary: Mapping[str, str] | None = None,
        partition_filter: Mapping[str, str | None] | None = None,
        ignore_extra_columns: bool = False,
        parallelism: int = 1,
    ) -> Snapshot:
        """Add existing Parquet files to the table without copying them. Returns the new snapshot.

        A folder means all data files below it; its ``name=value`` folders are partitions, and ``partition_filter``
        selects some of them. ``parallelism`` is how many footers are read at a time. Raises ``InvalidInput`` for a file
        that is outside the lake's warehouse and ``allowed_roots``, that the table has already, whose partition is
        unknown or does not fit, or that has a column which the table does not have, unless ``ignore_extra_columns`` is
        set.

            orders.add_files(["/data/orders"], partition_filter={"day": "2026-01-01"})
        """
        with self.transaction(ref=ref, summary=summary) as tx:
            tx.add_files(
                paths,
                partition_filter=partition_filter,
                ignore_extra_columns=ignore_extra_columns,
                parallelism=parallelism,
            )
        return self._result(tx)

    def transaction(
        self, *, ref: str = MAIN, summary: Mapping[str, str] | None = None, batch: tuple[str, int] | None = None
    ) -> Transaction:
        """Return a context manager that commits several changes as one snapshot. With ``batch``, as for ``append``,
        once.

            with orders.transaction() as tx:
                tx.delete("day = '2026-01-01'")
                tx.append(corrected)
        """
        from esker.write.exactly_once import Batch
        from esker.write.verbs import Transaction

        home = self._at_home()
        return Transaction(
            catalog=home.catalog,
            name=home.name,
            base=self._same_table(home.catalog.load(home.name, home.commits.newest(home.name, self._state))),
            tools=home.tools,
            done=self._move_to,
            commits=home.commits,
            from_arrow=home.schema_from_arrow,
            ref=ref,
            extra=dict(summary or {}),
            batch=None if batch is None else Batch.of(batch),
        )

    def alter(self) -> Alteration:
        """Return a context manager that changes the table's definition in one commit.

        with orders.alter() as change:
            change.add_column("note", "string")
        """
        from esker.write.definition.alter import Alteration

        home = self._at_home()
        return Alteration(
            catalog=home.catalog,
            name=home.name,
            base=self._same_table(home.catalog.load(home.name, self._state)),
            done=self._move_to,
            from_arrow=home.schema_from_arrow,
            get_tools=home.get_tools,
        )

    def _at_home(self) -> Home:
        if self._home is None:
            raise InvalidInput(
                f"cannot change {self._name}: a table opened by its path is read-only; "
                "register it in a catalog with lake.register_table(name, metadata_location)",
                table=self._name,
            )
        return self._home

    def _same_table(self, state: TableState) -> TableState:
        """Raise ``Conflict`` if the catalog now has another table under this name: it would look like an update of this
        one."""
        if self.uuid is not None and state.metadata.uuid != self.uuid:
            raise Conflict(
                f"cannot use {self._name}: it was dropped and another table has its name; open it again",
                table=self._name,
            )
        return state

    def _move_to(self, state: TableState) -> None:
        self._state = state

    def _head(self, ref: str) -> Snapshot:
        head = self._newest(ref)
        assert head is not None  # the batch is in it
        return head

    def _newest(self, ref: str) -> Snapshot | None:
        return self.current_snapshot if ref == MAIN else self.metadata.snapshot(self.refs[ref].snapshot_id)

    def _result(self, tx: Transaction) -> Snapshot:
        assert tx.snapshot is not None  # these verbs always create one
        return tx.snapshot
