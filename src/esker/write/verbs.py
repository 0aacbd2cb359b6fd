"""``Transaction``: the verbs of writing. Each verb becomes steps, and each commit is one atomic snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self

from esker.errors import InvalidInput
from esker.model.parsing.predicate_text import parse
from esker.model.predicates.bind import bind
from esker.model.predicates.predicate import TRUE, Bound
from esker.model.predicates.unbound_predicate import Unbound
from esker.model.schema import Schema
from esker.model.table_names import TableName
from esker.ports.catalog import Catalog, TableState
from esker.ports.engine import NoFieldIds, WriteRequest
from esker.ports.row_changes import DeleteRow, RowChange, RowDelta, Verb, Wanted
from esker.ports.storage import NewNames, names_in
from esker.read.attach_deletes import partition_key
from esker.tree.data_file import DataFile
from esker.tree.snapshot import Snapshot
from esker.tree.table_metadata import TableMetadata
from esker.write.build_snapshot import SnapshotChange, head_of
from esker.write.context import MetadataNames, Scratch, Tools
from esker.write.definition.alter import Alteration, check_same_columns
from esker.write.definition.draft import first_mapping, with_mapping
from esker.write.definition.evolve import evolved, may_evolve
from esker.write.definition.new_table import FromArrow
from esker.write.exactly_once import Batch, is_applied
from esker.write.existing_files import ExistingFile, Filter, PlacedFile, Written, placed_files
from esker.write.group_commit import GroupCommits
from esker.write.properties import switch
from esker.write.rows.rewrite_file import Rewriter, noted
from esker.write.rows.row_change_verbs import Look, Merge, changing, look, set_to, upserting
from esker.write.steps import AddFiles, DeleteKeys, RemovePartitions, RemoveRows, Step
from esker.write.summary import checked_extra
from esker.write.table_changes import MAIN

Predicate = str | Unbound


@dataclass(slots=True, kw_only=True)
class Transaction:
    """Several changes that become one snapshot. Nothing is visible until the block ends; if it fails, nothing is.

    ``table.transaction()`` returns it. The verbs take the arguments of ``Table``'s verbs and raise the same errors.
    Each verb sees the result of the verbs before it.

        with orders.transaction() as tx:
            tx.delete("day = '2026-01-01'")
            tx.append(corrected)
    """

    catalog: Catalog
    name: TableName
    base: TableState
    tools: Tools
    done: Callable[[TableState], None]
    commits: GroupCommits
    from_arrow: FromArrow | None = None
    ref: str = MAIN
    extra: Mapping[str, str] = field(default_factory=dict)
    batch: Batch | None = None
    snapshot: Snapshot | None = None
    is_part: bool = False  # of a transaction over several tables, which commits it
    _start: Snapshot | None = None  # the branch's head when the change began
    _is_applied: bool = False  # by an earlier commit of the same batch
    _steps: list[Step] = field(default_factory=list)
    _new_names: NewNames = field(default_factory=NewNames)  # of data files, which wait for the commit
    _names: MetadataNames = field(default_factory=MetadataNames)
    _scratch: Scratch | None = None
    _rewriter: Rewriter | None = None
    _operation: str | None = None
    _is_over: bool = False
    _metadata: TableMetadata = field(init=False)  # the base's, with what is altered and the columns of the rows
    _wanted: tuple[Wanted, ...] = ()
    _alteration: Alteration | None = None

    def __post_init__(self) -> None:
        metadata = self._metadata = self.base.metadata
        self._start = head_of(metadata, self.ref)
        head = None if self._start is None else self._start.snapshot_id
        self._is_applied = self.batch is not None and is_applied(metadata, self.ref, head, self.batch)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_over:  # committed inside the block: its files must not be deleted
            return
        if kind is not None:
            self.abandon()
        elif not self.is_part:
            self.commit()

    @property
    def schema(self) -> Schema:
        """The columns that rows are written with."""
        return self._metadata.schema

    def evolve(self, wanted: Sequence[Wanted]) -> None:
        """Add missing columns and widen types, in the same commit as the rows.

        Does nothing if the table does not allow it. Raises ``InvalidInput`` after other changes of the transaction.
        """
        self._check_open()
        if self._steps:
            raise InvalidInput("cannot add columns after other changes of a transaction: add them first")
        if may_evolve(self._metadata):
            self._wanted += tuple(wanted)
            self._metadata = self._defined(self.base.metadata)

    def alter(self) -> Alteration:
        """Change the table's definition in the same commit, with the verbs of ``table.alter()``. Rows that follow are
        written with it. Raises ``InvalidInput`` after other changes of the transaction.

            with orders.transaction() as tx:
                with tx.alter() as change:
                    change.add_column("note", "string")
                tx.append(rows_with_notes)
        """
        self._check_open()
        self._check_unaltered()

        def join(alteration: Alteration | None) -> None:
            self._check_open()
            if alteration is None:
                self.abandon()
                return
            self._check_unaltered()
            self._alteration = alteration
            self._metadata = self._defined(self.base.metadata)

        return Alteration(
            catalog=self.catalog,
            name=self.name,
            base=self.base,
            done=self.done,
            from_arrow=self.from_arrow,
            get_tools=lambda: self.tools,
            join=join,
        )

    def _check_unaltered(self) -> None:
        if self._steps or self._wanted or self._alteration is not None:
            raise InvalidInput(
                f"cannot alter {self.name} after other changes of a transaction: alter it once, before them",
                table=str(self.name),
            )

    def _defined(self, now: TableMetadata) -> TableMetadata:
        """A version of the table with the changes of its definition; the same object if there are none."""
        if self._alteration is not None:
            now = self._alteration.apply(now)
        return evolved(now, self._wanted) if self._wanted else now

    def append(self, data: object) -> None:
        """Add rows: ``tx.append(pa.table({"id": [1]}))``."""
        self._check_open()
        self._take("append", AddFiles(self._write(data)))

    def overwrite(self, data: object, where: Predicate | None = None) -> None:
        """Replace the rows that match ``where``, or all rows without it, by ``data``."""
        self._check_open()
        self._check_no_keys("overwrite")
        predicate = TRUE if where is None else self._bind(where)
        files = self._write(data)
        self._take("overwrite", RemoveRows(predicate, replaces=True), AddFiles(files))

    def overwrite_partitions(self, data: object) -> None:
        """Replace every partition that ``data`` has a row of."""
        self._check_open()
        self._check_no_keys("overwrite")
        files = self._write(data)
        keys = frozenset(partition_key(file) for file in files)
        self._take("overwrite", RemovePartitions(self._metadata.default_spec_id, keys), AddFiles(files))

    def delete(self, where: Predicate) -> None:
        """Delete the rows that match; if whole files match, only metadata is written. The condition may be any of Spark
        SQL. Spark is used only for conditions that are more than comparisons of columns with values: ``tx.delete("id =
        5")``."""
        self._check_open()
        self._check_no_keys("delete")
        self.apply(changing("delete", DeleteRow(), self._understood(where)))

    def update(self, values: Mapping[str, str], where: Predicate | None = None) -> None:
        """Set columns of the rows that match, or of all rows without ``where``, to SQL expressions over the old row:
        ``tx.update({"qty": "qty + 1"}, "id = 5")``."""
        self._check_open()
        if not self._is_applied:
            found = TRUE if where is None else self._understood(where)
            self.apply(changing("update", set_to(values, self._metadata), found))

    def upsert(self, data: object, on: Sequence[str]) -> None:
        """Replace the rows whose key is in ``data`` and insert the others: ``tx.upsert(corrections, on=["id"])``. In a
        key, null equals null. Raises ``InvalidInput`` if a key is twice in ``data``."""
        self._check_open()
        self.apply(upserting(data, on))

    def merge(self, source: object, on: str) -> Merge:
        """Return a ``Merge`` of a source; its ``commit()`` makes it part of this transaction."""
        self._check_open()

        return Merge.of(source, on, self.apply)

    def apply(self, change: RowChange) -> None:
        """Change rows in four steps: MERGE, UPDATE, DELETE and upsert, of SQL and Python. *Parse* has made ``change``.

        Raises ``InvalidInput`` with the expression that cannot be used. What was written is removed if a step fails.
        """
        self._check_open()
        self._check_no_keys(change.verb)
        self._change()
        if self._is_applied:
            return
        if change.is_filter:  # nothing to compute: the commit removes the rows from the version that it finds
            self._take(None, RemoveRows(change.where))
            return
        engine = self.tools.rows
        resolved = engine.resolve(self._metadata, change)
        with self._abandoned_on_failure():
            if resolved.new_columns:
                self.evolve(resolved.new_columns)
            seen = self.look(change.verb, resolved.predicate)
            decisions = engine.decide(seen.view, resolved)
            self.change_rows(seen, engine.write(decisions))

    def delete_by_key(self, data: object, on: Sequence[str]) -> None:
        """Delete rows from before this transaction whose key is in ``data``, without reading them, by equality deletes.
        Rows that the transaction adds stay, so together with ``append`` it is an upsert that reads nothing."""
        self._check_open()
        if any(not isinstance(step, AddFiles | DeleteKeys) for step in self._steps):
            raise InvalidInput("cannot delete by key after changing rows in one transaction: use two")
        self._change()
        if self._is_applied:
            return
        written = self.tools.deletes.write_keys(self._metadata, data, on, self._names.operation_id)
        with self._abandoned_on_failure():
            keys = tuple(noted(written, self._get_scratch()))
        self._take(None, DeleteKeys(keys))

    def look(self, verb: Verb, predicate: Bound) -> Look:
        """For an engine: the files that may have a row to change, as this transaction sees them now."""
        self._check_open()
        self._change()
        head = head_of(self._metadata, self.ref)
        rewriter = self._get_rewriter()
        with self._abandoned_on_failure():
            return look(self.tools, rewriter, self._metadata, head, self._steps, verb=verb, predicate=predicate)

    def change_rows(self, seen: Look, delta: RowDelta) -> None:
        """From an engine: the change it computed. The transaction owns the added files from now on."""
        self._check_open()
        noted_files = tuple(noted(delta.added, self._get_scratch()))
        with self._abandoned_on_failure():
            step = seen.step(delta)
        if step.files or noted_files:
            self._take(None, step)

    @contextmanager
    def _abandoned_on_failure(self) -> Iterator[None]:
        """For what may have written something by the time it fails."""
        try:
            yield
        except BaseException:
            self.abandon()
            raise

    def add_files(
        self,
        paths: Sequence[str | ExistingFile],
        *,
        partition_filter: Filter | None = None,
        ignore_extra_columns: bool = False,
        parallelism: int = 1,
    ) -> None:
        """Add existing Parquet files, and those below folders, without copying them. The arguments are those of
        ``Table.add_files``. Raises ``InvalidInput`` for files outside the warehouse and the ``allowed_roots``."""
        self._check_open()
        if isinstance(paths, str):
            raise InvalidInput(f"cannot add files by a text: give a list of paths, [{paths!r}]", paths=paths)
        if isinstance(parallelism, bool) or not isinstance(parallelism, int) or parallelism < 1:
            raise InvalidInput(f"cannot add files with parallelism {parallelism!r}: give a number from 1 on")
        files = placed_files(self.tools.storage, self._metadata, paths, partition_filter)
        found, mapping = self._described(files, ignore_extra_columns, parallelism)
        self._take("append", AddFiles(found, are_given=True, name_mapping=mapping))

    def _described(
        self, files: Sequence[PlacedFile], ignore_extra: bool, parallelism: int
    ) -> tuple[tuple[DataFile, ...], str | None]:
        """The files, and the name mapping that the table needs for them, if any."""

        def described(metadata: TableMetadata) -> tuple[DataFile, ...]:
            by_spec = {id_: replace(metadata, default_spec_id=id_) for id_ in {file.spec_id for file in files}}

            def one(file: PlacedFile) -> DataFile:
                return self.tools.writer.describe(
                    by_spec[file.spec_id],
                    file.location,
                    folders=file.folders,
                    ignore_extra_columns=ignore_extra,
                )

            if parallelism == 1:
                return tuple(map(one, files))
            with ThreadPoolExecutor(parallelism) as pool:
                return tuple(pool.map(one, files))

        metadata = self._metadata
        try:
            return described(metadata), None
        except NoFieldIds:
            mapping = first_mapping(metadata.schema.fields)
            return described(with_mapping(metadata, mapping)), mapping

    def commit(self) -> Snapshot | None:
        """Commit one snapshot now and return it; None if there was nothing to change."""
        if self.is_part:
            raise InvalidInput(
                f"cannot commit the changes of {self.name} alone: they are committed with the transaction of the lake"
            )
        change = self.prepare()
        if change is not None:
            self.finish(self.commits.commit(self.catalog, self.name, self.base, change), change)
        return self.snapshot

    def prepare(self) -> SnapshotChange | None:
        """End the transaction and return the change to commit; None if there is nothing to change."""
        self._check_open()
        try:
            change = self._change()
        except BaseException:
            self.abandon()
            raise
        if self._is_applied:
            self.abandon()
            return None
        self._is_over = True
        return change if self._steps or self._metadata is not self.base.metadata else None

    def finish(self, state: TableState, change: SnapshotChange) -> None:
        """Record the table's new version, after the change that ``prepare`` returned is committed."""
        self.done(state)
        self.snapshot = change.snapshot

    def abandon(self) -> None:
        """End without a commit and delete what was written. Does nothing if it is committed, or may be."""
        if not self._is_over:
            self._is_over = True
            self._get_scratch().discard()

    def _change(self) -> SnapshotChange:
        return SnapshotChange(
            tools=self.tools,
            steps=tuple(self._steps),
            scratch=self._get_scratch(),
            names=self._names,
            new_names=self._new_names,
            ref=self.ref,
            start=self._start,
            stage=self._is_staged(),
            operation=self._operation,
            rewriter=self._get_rewriter(),
            extra=checked_extra(self.extra),
            batch=self.batch,
            redefine=None if self._metadata is self.base.metadata else self._redefined,
        )

    def _redefined(self, now: TableMetadata) -> TableMetadata:
        """The base of a commit with the new definition. New columns must have the ids in the written files."""
        if now is self.base.metadata:
            return self._metadata
        if self._wanted:
            check_same_columns(self.name, self.base.metadata, now)
        return self._defined(now)

    def _take(self, operation: str | None, *steps: Step) -> None:
        """Add steps. The only verb names the snapshot's operation; of several verbs, the outcome does."""
        self._operation = None if self._steps else operation
        self._steps.extend(steps)

    def _write(self, data: object) -> tuple[DataFile, ...]:
        metadata = self._metadata
        self._change()  # errors about the commit are raised before anything is written
        if isinstance(data, Written):
            files = tuple(noted(data.files, self._get_scratch()))
            self._start = data.start(metadata)
            return files
        if self._is_applied:
            return ()
        rows = self.tools.writer.fit(metadata, metadata.schema, data)
        request = WriteRequest(
            metadata=metadata, schema=metadata.schema, data=rows, operation_id=self._names.operation_id
        )
        try:
            with names_in(self._new_names):
                return tuple(noted(self.tools.writer.write(request), self._get_scratch()))
        except BaseException:
            self.abandon()
            raise

    def _understood(self, where: Predicate) -> Bound | str:
        """The predicate; the text itself where it is more than one, and an engine may know it as SQL."""
        try:
            unbound = parse(where) if isinstance(where, str) else where
        except InvalidInput:
            if not self.tools.rows.takes(str(where)):
                raise
            return str(where)
        return bind(unbound, self._metadata.schema)

    def _bind(self, where: Predicate) -> Bound:
        return bind(parse(where) if isinstance(where, str) else where, self._metadata.schema)

    def _is_staged(self) -> bool:
        """Whether the snapshot is staged (write-audit-publish): with a ``wap.id`` it is on no branch until it is
        cherry-picked."""
        if "wap.id" not in self.extra:
            return False
        if not switch(self._metadata.properties, "write.wap.enabled", default=False):
            raise InvalidInput("cannot stage a snapshot by wap.id: the table does not have write.wap.enabled = true")
        if self.batch is not None:
            raise InvalidInput("cannot stage a batch: a staged snapshot is on no branch; leave out batch or wap.id")
        return True

    def _get_rewriter(self) -> Rewriter:
        if self._rewriter is None:
            self._rewriter = Rewriter(self.tools, self._get_scratch(), self._names.operation_id)
        return self._rewriter

    def _get_scratch(self) -> Scratch:
        if self._scratch is None:
            self._scratch = Scratch(self.tools.storage)
        return self._scratch

    def _check_no_keys(self, verb: str) -> None:
        """Raise ``InvalidInput``: a file that is copied after a delete by key would restore the deleted rows."""
        if any(isinstance(step, DeleteKeys) for step in self._steps):
            raise InvalidInput(f"cannot {verb} rows after deleting by key in one transaction: make it two")

    def _check_open(self) -> None:
        if self._is_over:
            raise InvalidInput("cannot use a transaction that has ended: begin another")
