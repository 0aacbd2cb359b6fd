"""``OtherTable``: a table of another format than Iceberg, which commits by itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from esker.errors import InvalidInput, Unsupported
from esker.model.predicates.predicate_sql import to_sql
from esker.read.resolve_snapshot import AsOf, to_epoch_ms
from esker.table import MAIN, Table
from esker.tree.snapshot import ROWS_DELETED, ROWS_INSERTED, ROWS_UPDATED, UNKNOWN

if TYPE_CHECKING:
    import pyarrow as pa

    from esker.formats.other_formats import OtherFormat
    from esker.model.schema import Schema
    from esker.ports.catalog import TableState
    from esker.ports.own_writer import Compacted, Expired, Orphans, OwnWriter
    from esker.ports.row_changes import RowChange
    from esker.tree.snapshot import Snapshot
    from esker.tree.table_metadata import TableMetadata
    from esker.write.context import Workings

    MakeWriter = Callable[[TableMetadata, str], OwnWriter]
    ToArrow = Callable[[object, Schema], pa.Table]

# Values of options that ask for what these tables do anyway. The command line gives them.
_HARMLESS: Mapping[str, tuple[str, ...]] = {
    "engine": ("auto", "arrow"),
    "delete": ("now",),
    "mismatch": ("error",),
    "other_tables": ("error",),
}


class OtherTable(Table):
    """A table whose format commits by itself. It has the same reading methods as an Iceberg table, and of the writing
    methods those below; the others raise ``Unsupported``."""

    def __init__(
        self,
        *,
        name: str,
        state: TableState,
        workings: Workings,
        reload: Callable[[], TableState],
        make_writer: MakeWriter,
        to_arrow: ToArrow,
    ) -> None:
        super().__init__(name=name, state=state, workings=workings, reload=reload)
        self._make_writer, self._to_arrow = make_writer, to_arrow

    def append(  # type: ignore[override]
        self, data: object, *, ref: str = MAIN, summary: Mapping[str, str] | None = None, batch: object = None
    ) -> Snapshot | None:
        """Add rows and return the newest snapshot. In a table with a primary key they replace the rows with the same
        key. Raises ``InvalidInput`` for rows that do not fit."""
        self._refuse_given(summary=summary, batch=batch)
        writer = self._writer(ref)
        writer.append(self._rows(data))
        return self._after(ref)

    def overwrite(  # type: ignore[override]
        self, data: object, where: object = None, *, ref: str = MAIN, summary: Mapping[str, str] | None = None
    ) -> Snapshot | None:
        """Replace all rows by ``data`` and return the new snapshot."""
        self._refuse_given(summary=summary, where=where)
        self._writer(ref).overwrite(self._rows(data), only_partitions=False)
        return self._after(ref)

    def overwrite_partitions(  # type: ignore[override]
        self, data: object, *, ref: str = MAIN, summary: Mapping[str, str] | None = None
    ) -> Snapshot | None:
        """Replace every partition that ``data`` has a row of. Returns the new snapshot."""
        self._refuse_given(summary=summary)
        self._writer(ref).overwrite(self._rows(data), only_partitions=True)
        return self._after(ref)

    def upsert(
        self, data: object, on: Sequence[str] = (), *, ref: str = MAIN, summary: Mapping[str, str] | None = None
    ) -> Snapshot | None:
        """Replace the rows whose key is in ``data`` and insert the others. ``on`` may be left out; if it is given, it
        must be the table's primary key. Returns the newest snapshot."""
        self._refuse_given(summary=summary)
        writer = self._writer(ref)
        if not writer.keys or (on and set(on) != set(writer.keys)):
            raise InvalidInput(
                f"cannot upsert into {self._name} by {', '.join(on) or 'no key'}: its primary key is "
                f"{', '.join(writer.keys) or 'empty'}",
                table=self._name,
            )
        rows = self._rows(data)
        keys = rows.select(list(writer.keys)).group_by(list(writer.keys)).aggregate([])
        if keys.num_rows < rows.num_rows:
            raise InvalidInput(f"cannot upsert into {self._name}: the rows have a key twice", table=self._name)
        writer.append(rows)
        return self._after(ref)

    def delete(self, where: Any, *, ref: str = MAIN, summary: Mapping[str, str] | None = None) -> Snapshot | None:
        """Delete the rows that match, by their primary key. Returns the newest snapshot. Raises ``Unsupported`` for a
        table without a key."""
        self._refuse_given(summary=summary)
        writer = self._writer(ref)

        def rows_at(snapshot: int) -> pa.Table:
            self.refresh()
            return self.scan(where, **({"snapshot_id": snapshot} if ref == MAIN else {"ref": ref})).to_arrow()

        rows = self.scan(where, ref=None if ref == MAIN else ref).to_arrow()
        writer.delete(rows, rows_at)
        return self._after(ref)

    def transaction(  # type: ignore[override]
        self, *, ref: str = MAIN, summary: Mapping[str, str] | None = None, batch: object = None
    ) -> OneChange:
        """Return a context manager that makes one change when its block ends: the table commits by itself, so a second
        change raises ``Unsupported``. SQL writes by it."""
        self._refuse_given(summary=summary or None, batch=batch)
        return OneChange(self, ref)

    def compact(  # type: ignore[override]
        self,
        strategy: str = "bin-pack",
        *,
        target_file_size: int | None = None,
        ref: str = MAIN,
        dry_run: bool = False,
        **more: object,
    ) -> Compacted:
        """Rewrite files: every bucket of a table with a key to one sorted run, small files of another table to larger
        ones. No row changes. Returns the numbers of files and rows before and after. With ``dry_run`` it returns the
        plan and writes nothing. Other options raise ``Unsupported``."""
        self._refuse_given(strategy=None if strategy == "bin-pack" else strategy, **more)
        done = self._writer(ref).compact(target_bytes=target_file_size, dry_run=dry_run)
        self.refresh()
        return done

    def expire_snapshots(  # type: ignore[override]
        self,
        *,
        older_than: AsOf | timedelta | None = None,
        retain_last: int | None = None,
        dry_run: bool = False,
        ref: str = MAIN,
        **more: object,
    ) -> Expired:
        """Delete snapshots that are older than a time or an age, except for the newest ``retain_last`` (1), and the
        files that only they need. If neither is given, the table's own options decide, as they do in Java:
        ``snapshot.num-retained.min``, ``snapshot.num-retained.max`` and ``snapshot.time-retained``. What tags, branches
        and consumers need stays. Returns what was deleted. Other options raise ``Unsupported``."""
        self._refuse_given(**more)
        done = self._writer(ref).expire(keep_last=retain_last, older_than_ms=_moment(older_than), dry_run=dry_run)
        self.refresh()
        return done

    def remove_orphans(  # type: ignore[override]
        self,
        *,
        older_than: AsOf | timedelta | None = None,
        under_24_hours: bool = False,
        dry_run: bool = False,
        **more: object,
    ) -> Orphans:
        """Delete files that no snapshot, tag or branch names and that are older than a time or an age, by default 3
        days. Returns them. Raises ``InvalidInput`` for a time in the last 24 hours without ``under_24_hours``, and
        ``Unsupported`` for other options."""
        self._refuse_given(**more)
        return self._writer(MAIN).remove_orphans(
            older_than_ms=_moment(older_than), under_24_hours=under_24_hours, dry_run=dry_run
        )

    def _writer(self, ref: str) -> OwnWriter:
        self.refresh()
        return self._make_writer(self.metadata, ref)

    def _rows(self, data: object) -> pa.Table:
        return self._to_arrow(data, self.schema)

    def _after(self, ref: str) -> Snapshot | None:
        self.refresh()
        return self._newest(ref)

    def _refuse_given(self, **given: object) -> None:
        for name, value in given.items():
            if value is not None and value is not False and value not in ((), [], *_HARMLESS.get(name, ())):
                raise Unsupported(
                    f"cannot use {name} for {self._name}: tables of this format do not have it", feature=name
                )

    def _at_home(self) -> NoReturn:
        raise self._not_there("change it so")

    def _tended(self, state: TableState | None = None) -> NoReturn:
        raise self._not_there("look after it so")

    def _not_there(self, what: str) -> Unsupported:
        return Unsupported(f"cannot {what}: {self._name} is a table of another format than Iceberg", feature=what)


class OneChange:
    """One change of a table that commits by itself. It happens when the block ends without an error. ``snapshot`` is
    the new one, or None if nothing changed."""

    def __init__(self, table: OtherTable, ref: str) -> None:
        self._table, self._ref = table, ref
        self._change: Callable[[], object] | None = None
        self._deletes = False
        self.snapshot: Snapshot | None = None

    def append(self, data: object) -> None:
        """Add rows, or replace those with the same key."""
        self._take(partial(self._table.append, data, ref=self._ref))

    def overwrite(self, data: object, where: object = None) -> None:
        """Replace all rows. Raises ``Unsupported`` for a condition."""
        self._table._refuse_given(where=where)
        self._take(partial(self._table.overwrite, data, ref=self._ref))

    def overwrite_partitions(self, data: object) -> None:
        """Replace every partition that the rows are in."""
        self._take(partial(self._table.overwrite_partitions, data, ref=self._ref))

    def delete(self, where: Any) -> None:
        """Delete the rows that match, by their key."""
        self._take(partial(self._table.delete, where, ref=self._ref))
        self._deletes = True

    def apply(self, change: RowChange) -> None:
        """Do a DELETE of SQL whose condition Esker understands. Raises ``Unsupported`` for every other row change."""
        if change.label != "delete":
            raise self._table._not_there(f"{change.label} {self._table.name}")
        if not change.is_filter:
            raise self._table._not_there(f"delete from {self._table.name} by a condition that Spark must decide")
        self.delete(to_sql(change.where))

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # of Python, such as those of copies
            raise AttributeError(name)
        raise self._table._not_there(f"use {name.strip('_')} in a transaction of {self._table.name}")

    def __enter__(self) -> OneChange:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None or self._change is None:
            return
        before = self._table._after(self._ref)
        self._change()
        made = self._table._after(self._ref)
        if made is None or (before is not None and made.snapshot_id == before.snapshot_id):
            return
        self.snapshot = made
        if self._deletes:  # by key: each new row is one that deletes
            rows = made.summary.get("delta-records", UNKNOWN)
            known = {ROWS_INSERTED: "0", ROWS_UPDATED: "0", ROWS_DELETED: rows}
            self.snapshot = replace(made, summary={**made.summary, **known})

    def _take(self, change: Callable[[], object]) -> None:
        if self._change is not None:
            raise self._table._not_there(f"make two changes of {self._table.name} in one snapshot")
        self._change = change


_SAID = {
    "merge": "merge into",
    "add_files": "add files to",
    "scan_changes": "scan changes of",
    "health": "assess the health of",
    "rewrite_manifests": "rewrite manifests of",
    "rewrite_position_deletes": "rewrite position deletes of",
    "compute_statistics": "compute statistics of",
    "compute_partition_statistics": "compute partition statistics of",
    "distinct_values": "read distinct values of",
    "partition_statistics": "read partition statistics of",
    "drop_ref": "drop a branch or tag of",
    "fast_forward": "fast-forward",
    "cherry_pick": "cherry-pick in",
    "rollback": "roll back",
    "set_current_snapshot": "set the current snapshot of",
}


def _refusing(verb: str) -> Callable[..., NoReturn]:
    def refuse(self: OtherTable, *_: object, **__: object) -> NoReturn:
        raise self._not_there(f"{_SAID.get(verb, verb)} {self.name}")

    refuse.__name__ = verb
    refuse.__doc__ = "Raise ``Unsupported``: only Iceberg tables have this."
    return refuse


for _verb in (
    "update", "merge", "add_files", "alter", "scan_changes", "verify", "health", "maintain",
    "rewrite_manifests", "rewrite_position_deletes", "compute_statistics", "compute_partition_statistics",
    "distinct_values", "partition_statistics", "branch", "tag", "drop_ref", "fast_forward", "cherry_pick", "rollback",
    "set_current_snapshot",
):  # fmt: skip
    setattr(OtherTable, _verb, _refusing(_verb))


def _moment(given: AsOf | timedelta | None) -> int | None:
    """A time in milliseconds. An age is counted back from now."""
    if isinstance(given, timedelta):
        return int(time.time() * 1000) - given // timedelta(milliseconds=1)
    return None if given is None else to_epoch_ms(given)


def open_other_table(
    name: str, state: TableState, workings: Workings, load: Callable[[], TableState], other: OtherFormat
) -> OtherTable:
    """A table of another format than Iceberg."""
    make_writer = partial(other.make_writer, workings.storage)
    return OtherTable(
        name=name, state=state, workings=workings, reload=load, make_writer=make_writer, to_arrow=_arrow_rows
    )


def _arrow_rows(data: object, schema: Schema) -> pa.Table:
    """Rows in any form as an Arrow table, with the columns that they have."""
    import pyarrow as pa

    from esker.arrow.input.fit_data import incoming

    found = incoming(data.toArrow() if hasattr(data, "toArrow") else data, schema)
    return pa.Table.from_batches(found.batches(), found.schema)
