"""A table, as a user holds it. It delegates and never decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from esker.errors import Conflict, InvalidInput
from esker.model.partition_and_sort import PartitionSpec, SortOrder
from esker.model.schema import Schema
from esker.ports.catalog import TableState
from esker.ports.engine import Engine, SparkFrames
from esker.ports.storage import Storage
from esker.ports.table_format import TableFormat
from esker.read.resolve_snapshot import AsOf
from esker.read.result_formats import ScanShortcuts
from esker.tree.snapshot import Snapshot, SnapshotRef
from esker.tree.table_metadata import SnapshotLogEntry, TableMetadata, table_card

# The way up is loaded when a table is changed: a command that only looks must not wait for it.
if TYPE_CHECKING:
    from esker.metadata_tables.inspect import Inspect
    from esker.model.predicates.unbound_predicate import Unbound
    from esker.ports.merging import MergePlan
    from esker.read.scan import Scan, Where
    from esker.read.scan_changes import ChangeScan
    from esker.read.snapshot_range import SnapshotName
    from esker.write.context import Home
    from esker.write.definition.alter import Alteration
    from esker.write.existing_files import ExistingFile
    from esker.write.rows.row_change_verbs import Merge
    from esker.write.verbs import Transaction

    Predicate = str | Unbound

MAIN = "main"


@dataclass(frozen=True, kw_only=True)
class Workings:
    """What a table works with: how to read its tree, move its rows and reach its files, each made when needed."""

    storage: Storage
    make_format: Callable[[Storage], TableFormat]
    make_engine: Callable[[Storage], Engine]
    make_frames: Callable[[Storage, Engine], SparkFrames] | None = None

    @cached_property
    def format(self) -> TableFormat:
        """Reads the lower levels of the tree."""
        return self.make_format(self.storage)

    @cached_property
    def engine(self) -> Engine:
        """Moves the rows."""
        return self.make_engine(self.storage)

    @cached_property
    def frames(self) -> SparkFrames | None:
        """Gives the rows to Spark."""
        return None if self.make_frames is None else self.make_frames(self.storage, self.engine)


class Table(ScanShortcuts):
    """An Iceberg table at one version of its metadata; ``refresh()`` moves it to the newest.

    Every write is one atomic snapshot, and leaves this object at the version it made.
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
        """Everything the metadata file says."""
        return self._state.metadata

    @property
    def metadata_location(self) -> str:
        """The metadata file this version was read from."""
        return self._state.metadata_location

    @property
    def location(self) -> str:
        """Where the table says it lies."""
        return self.metadata.location

    @property
    def uuid(self) -> str | None:
        """The table's identity across renames; some v1 tables have none."""
        return self.metadata.uuid

    @property
    def format_version(self) -> int:
        """1, 2 or 3."""
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
        """The order of new data."""
        return self.metadata.sort_order

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's settings."""
        return self.metadata.properties

    @property
    def snapshots(self) -> Sequence[Snapshot]:
        """Every snapshot that has not expired."""
        return self.metadata.snapshots

    @property
    def current_snapshot(self) -> Snapshot | None:
        """The newest state of ``main``; None while the table is empty."""
        return self.metadata.current_snapshot

    @property
    def refs(self) -> Mapping[str, SnapshotRef]:
        """Branches and tags by name."""
        return self.metadata.refs

    @property
    def history(self) -> Sequence[SnapshotLogEntry]:
        """Which snapshot was current from when."""
        return self.metadata.snapshot_log

    @property
    def inspect(self) -> Inspect:
        """Iceberg's metadata tables: ``table.inspect.files()`` and fifteen more."""
        from esker.metadata_tables.inspect import Inspect

        return Inspect(
            metadata=self.metadata,
            metadata_location=self.metadata_location,
            table_format=self._workings.format,
            engine=self._workings.engine,
        )

    def refresh(self) -> Table:
        """Move to the newest version, and return the table itself."""
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
        """Rows of the table: choose, filter and project; nothing is read until the scan is asked for rows."""
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
        """Rows that were inserted and deleted since one snapshot, up to and with another, the current one by default.

        A snapshot is given by id, branch or tag; ``None`` starts before the table's first. Rows have
        ``_change_type``, ``_change_ordinal`` and ``_commit_snapshot_id`` besides the table's columns. With ``keys``, a
        row that one snapshot took out and put in again under one key is an update. With ``net``, rows that come and go
        between the two snapshots are left out; it cannot be combined with ``keys``.
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
        """Add rows. ``batch``, an application's name and the number of its batch, makes them count once: a batch
        that is in the branch already is not written again, and the branch's newest snapshot comes back."""
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
        """Replace the rows that match, all of them without ``where``, by these."""
        with self.transaction(ref=ref, summary=summary) as tx:
            tx.overwrite(data, where)
        return self._result(tx)

    def overwrite_partitions(
        self, data: object, *, ref: str = MAIN, summary: Mapping[str, str] | None = None
    ) -> Snapshot:
        """Replace every partition that these rows fall into."""
        with self.transaction(ref=ref, summary=summary) as tx:
            tx.overwrite_partitions(data)
        return self._result(tx)

    def delete(self, where: Predicate, *, ref: str = MAIN, summary: Mapping[str, str] | None = None) -> Snapshot | None:
        """Remove the rows that match; where none does, nothing is committed and the newest snapshot comes back."""
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
        """Set columns of the rows that match to SQL expressions over the old row: ``{"qty": "qty + 1"}``. Where none
        matches, nothing is committed and the newest snapshot comes back."""
        with self.transaction(ref=ref, summary=summary) as tx:
            tx.update(values, where)
        return tx.snapshot or self._newest(ref)

    def upsert(
        self, data: object, on: Sequence[str], *, ref: str = MAIN, summary: Mapping[str, str] | None = None
    ) -> Snapshot | None:
        """Replace the rows that have a key of these by these, and add the rest of them; ``on`` names the columns of
        the key. Without any rows nothing is committed."""
        with self.transaction(ref=ref, summary=summary) as tx:
            tx.upsert(data, on)
        return tx.snapshot or self._newest(ref)

    def merge(self, source: object, on: str, *, ref: str = MAIN, summary: Mapping[str, str] | None = None) -> Merge:
        """Bring rows of a source in, on Spark: ``on`` says which rows match, ``t`` the table's and ``s`` the source's.
        Then say what becomes of them, ``.when_matched_update({…})`` and so on, and ``.commit()``."""
        from esker.write.rows.row_change_verbs import Merge

        def run(plan: MergePlan) -> Snapshot | None:
            with self.transaction(ref=ref, summary=summary) as tx:
                tx.apply("merge", plan)
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
        """Take in Parquet files where they are; nothing is copied. A folder is all data files below it, partitioned by
        the ``name=value`` folders between; ``partition_filter`` chooses among these.

        Raises ``InvalidInput`` for a file outside the lake's warehouse and ``allowed_roots``, in the table already, in
        a partition that does not fit or cannot be known, or with a column that the table does not have, unless
        ``ignore_extra_columns``. ``parallelism`` is how many files are looked into at a time.

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
        """Several changes, one snapshot: ``with table.transaction() as tx:`` and the same verbs on ``tx``; with
        ``batch``, once and never again."""
        from esker.write.exactly_once import Batch
        from esker.write.verbs import Transaction

        home = self._at_home()
        return Transaction(
            catalog=home.catalog,
            name=home.name,
            base=self._same_table(home.catalog.load(home.name, self._state)),
            tools=home.tools,
            done=self._move_to,
            ref=ref,
            extra=dict(summary or {}),
            batch=None if batch is None else Batch.of(batch),
        )

    def alter(self) -> Alteration:
        """Change the table's definition: ``with table.alter() as change:``, one commit for the whole block."""
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

    def tag(
        self, name: str, snapshot_id: int | None = None, *, max_ref_age_ms: int | None = None, replace: bool = False
    ) -> None:
        """Name a snapshot, the current one by default; the name stays with it."""
        from esker.write.refs.branches_and_tags import tag

        home = self._at_home()
        base = (home.catalog, home.name, self._state)
        self._move_to(tag(*base, name, snapshot_id, max_ref_age_ms=max_ref_age_ms, replace=replace))

    def branch(
        self,
        name: str,
        snapshot_id: int | None = None,
        *,
        min_snapshots_to_keep: int | None = None,
        max_snapshot_age_ms: int | None = None,
        max_ref_age_ms: int | None = None,
        replace: bool = False,
    ) -> None:
        """Make a branch at a snapshot, the current one by default; write to it with ``ref=name``."""
        from esker.write.refs.branches_and_tags import branch

        home = self._at_home()
        self._move_to(
            branch(
                home.catalog,
                home.name,
                self._state,
                home.tools,
                name,
                snapshot_id,
                min_snapshots_to_keep=min_snapshots_to_keep,
                max_snapshot_age_ms=max_snapshot_age_ms,
                max_ref_age_ms=max_ref_age_ms,
                replace=replace,
            )
        )

    def drop_ref(self, name: str) -> None:
        """Forget a branch or tag; its snapshots stay until they expire."""
        from esker.write.refs.branches_and_tags import drop_ref

        home = self._at_home()
        self._move_to(drop_ref(home.catalog, home.name, self._state, name))

    def rollback(self, snapshot_id: int | None = None, *, as_of: AsOf | None = None) -> None:
        """Take ``main`` back to a snapshot it came from, by id or by the time it was current."""
        from esker.write.refs.branches_and_tags import rollback

        home = self._at_home()
        self._move_to(rollback(home.catalog, home.name, self._state, snapshot_id=snapshot_id, as_of=as_of))

    def set_current_snapshot(self, snapshot_id: int) -> None:
        """Put ``main`` at any snapshot of the table, whether ``main`` came from it or not.

        Raises ``NoSuchSnapshot`` where there is none of that id, and ``Conflict`` where another writer has moved
        ``main``.
        """
        from esker.write.refs.branches_and_tags import set_current

        home = self._at_home()
        self._move_to(set_current(home.catalog, home.name, self._state, snapshot_id))

    def fast_forward(self, branch: str, to: str | int) -> None:
        """Move a branch on to where another ref or snapshot is, which must have come from it."""
        from esker.write.refs.branches_and_tags import fast_forward

        home = self._at_home()
        self._move_to(fast_forward(home.catalog, home.name, self._state, branch, to))

    def cherry_pick(self, snapshot_id: int, *, ref: str = MAIN) -> Snapshot | None:
        """Bring a snapshot's change to a branch, as a staged one is published; gives the branch's new head."""
        from esker.write.refs.cherry_pick import cherry_pick

        home = self._at_home()
        self._move_to(cherry_pick(home.catalog, home.name, self._state, home.tools, snapshot_id, ref=ref))
        return self.current_snapshot if ref == MAIN else self.metadata.snapshot(self.refs[ref].snapshot_id)

    def _at_home(self) -> Home:
        if self._home is None:
            raise InvalidInput(
                f"cannot change {self._name}: a table opened by its path is read-only; "
                "register it in a catalog with lake.register_table(name, metadata_location)",
                table=self._name,
            )
        return self._home

    def _same_table(self, state: TableState) -> TableState:
        """One dropped and made again under the name looks like an update and is another table."""
        if self.uuid is not None and state.metadata.uuid != self.uuid:
            raise Conflict(
                f"{self._name} was dropped and another table made under its name; open it again", table=self._name
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
        assert tx.snapshot is not None  # these verbs always make one
        return tx.snapshot
