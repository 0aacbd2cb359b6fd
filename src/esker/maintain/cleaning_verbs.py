"""The methods of a table that verify it and remove what it no longer needs. ``Table`` inherits them.

The modules behind them are imported when a method is called, so that a command that only reads does not wait for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from esker.errors import InvalidInput, Unsupported
from esker.read.resolve_snapshot import AsOf, to_epoch_ms
from esker.write.commit import refreshed
from esker.write.table_changes import next_ms

if TYPE_CHECKING:
    from esker.maintain.expire_snapshots import Delete, Expiry
    from esker.maintain.remove_orphans import Mismatch, OrphanRemoval, OtherTables
    from esker.maintain.table_health import Health, Maintenance
    from esker.maintain.tended_table import TendedTable
    from esker.maintain.verify.findings import Verification
    from esker.ports.catalog import TableState
    from esker.write.context import Home, Workings


class CleaningVerbs:
    """Methods that keep a table small and right."""

    _name: str
    _state: TableState
    _workings: Workings

    if TYPE_CHECKING:

        def _at_home(self) -> Home: ...
        def _move_to(self, state: TableState) -> None: ...

    def verify(self, *, deep: bool = False, repair: bool = False, dry_run: bool = False) -> Verification:
        """Check the table and return what is wrong with it: ``orders.verify().ok``.

        All files that a retained snapshot refers to must exist with their lengths, and all counts must agree. With
        ``deep``, data files are read and compared with their recorded row counts, null counts and bounds.

        With ``repair``, a new snapshot corrects what can be corrected from what is there: totals of the current
        snapshot, a late version hint, and deletes of files that are gone. The result is that of a second verification;
        ``repaired`` names the rules. With ``dry_run`` as well, nothing is changed, and ``repairable`` names them.
        Raises ``StorageFailed`` if the storage does not answer.

            for finding in orders.verify(deep=True).findings:
                print(finding.rule, finding.file, finding.why)
        """
        from esker.maintain.verify.repair import repair_totals, repairable
        from esker.maintain.verify.verify_table import verify

        if not repair:
            return verify(self._tended(), deep=deep)
        home = self._at_home()
        table = self._tended(refreshed(home.catalog, home.name, self._state))
        found = verify(table, deep=deep)
        rules = repairable(table, found.findings)
        if dry_run or not rules:
            return replace(found, repairable=rules)
        if "dangling-delete" in rules:
            self._verb("rewrite_position_deletes")()
        if rules != ("dangling-delete",):
            self._move_to(repair_totals(self._tended(), home))
        return replace(verify(self._tended(), deep=deep), repaired=rules)

    def health(self, *, orphans: bool = False) -> Health:
        """Return scores from 0 to 100 for what makes the table slow or large, with formulas and actions.

        ``findings`` are the scores that need an action, the most important first. With ``orphans``, the table's
        location is listed to count orphans. Nothing is changed.

            for finding in orders.health().findings:
                print(finding.name, finding.score, finding.call, finding.effect)
        """
        from esker.maintain.table_health import health, orphan_measure

        found = health(self._tended(), now_ms=next_ms(self._state.metadata))
        if not orphans:
            return found
        plan = self.remove_orphans(dry_run=True)
        measure = orphan_measure(len(plan.files), plan.total_bytes, plan.listed)
        return replace(found, measures=(*found.measures, measure))

    def maintain(
        self,
        *,
        max_bytes: int | None = None,
        max_seconds: float | None = None,
        orphans: bool = False,
        dry_run: bool = False,
    ) -> Maintenance:
        """Do what ``health`` recommends, and return a ``Maintenance`` with the health before and after.

        The order is: compact files, fold deletes, rewrite manifests, expire snapshots, and with ``orphans`` remove
        orphans. A compaction rewrites at most ``max_bytes``, and leaves the other files to the next call; another step
        that would rewrite more is left out. No step begins after ``max_seconds``. A step that loses against other
        writers, or that the table refuses, is reported. With ``dry_run``, nothing is changed, and each step has its
        plan.

            print(orders.maintain(max_bytes=10 << 30, dry_run=True))
        """
        from esker.maintain.table_health import Budget, maintain

        def measure() -> Health:
            try:
                return self.health(orphans=orphans)
            except (InvalidInput, Unsupported):  # the table refuses to look for orphans; the step reports it
                return self.health()

        self._at_home()
        start_ms = next_ms(self._state.metadata)
        until_ms = None if max_seconds is None else start_ms + int(max_seconds * 1000)
        self._verb("refresh")()
        before = measure()
        return maintain(
            before,
            self._verb,
            measure,
            asked=("remove_orphans",) if orphans and not before.has("orphans") else (),
            budget=Budget(max_bytes=max_bytes, until_ms=until_ms),
            clock_ms=lambda: next_ms(self._state.metadata),
            dry_run=dry_run,
        )

    def expire_snapshots(
        self,
        *,
        older_than: AsOf | timedelta | None = None,
        retain_last: int | None = None,
        snapshot_ids: Sequence[int] = (),
        delete: Delete = "now",
        clean_expired_metadata: bool = False,
        dry_run: bool = False,
    ) -> Expiry:
        """Forget old snapshots and delete the files that only they reached. Returns an ``Expiry``: what was done.

        - ``older_than`` is a time or an age, ``retain_last`` a number of snapshots to keep of each branch. By default
          both are the table's ``history.expire.*`` properties: 5 days and 1. The retention of branches and tags comes
          first.
        - ``snapshot_ids`` are snapshots to expire; without the other two, only these.
        - ``delete`` is ``"now"``, ``"later"`` (the files are listed in a journal, which the next call deletes) or
          ``"never"``.
        - ``clean_expired_metadata`` also removes schemas and partition specs that nothing uses any more.
        - With ``dry_run``, nothing is changed, and the result is the plan.

        Raises ``InvalidInput`` for a snapshot that a ref points to and if ``gc.enabled`` is false, ``Conflict``, and
        ``OutcomeUnknown`` if the catalog does not answer; then no file is deleted.

            orders.expire_snapshots(older_than=timedelta(days=7), retain_last=10, dry_run=True)
        """
        from esker.maintain.expire_snapshots import ExpiryPolicy, expire, plan_expiry

        home = self._at_home()
        now_ms = next_ms(self._state.metadata)
        policy = ExpiryPolicy(
            now_ms=now_ms,
            older_than_ms=_moment(older_than, now_ms),
            retain_last=retain_last,
            snapshot_ids=tuple(snapshot_ids),
            clean_metadata=clean_expired_metadata,
        )
        table = self._tended(refreshed(home.catalog, home.name, self._state))
        if dry_run:
            return plan_expiry(table, policy, delete=delete)
        report, state = expire(table, home.catalog, home.name, policy, delete=delete)
        self._move_to(state)
        return report

    def remove_orphans(
        self,
        *,
        older_than: AsOf | timedelta | None = None,
        location: str | None = None,
        quarantine: str | None = None,
        under_24_hours: bool = False,
        mismatch: Mismatch = "error",
        other_tables: OtherTables = "error",
        engine: Literal["arrow", "spark"] = "arrow",
        dry_run: bool = False,
    ) -> OrphanRemoval:
        """Delete files below the table's location that no version of it reaches. Returns an ``OrphanRemoval``.

        - ``older_than`` is a time or an age, by default 3 days, by the clock of the store. Files younger than 24 hours
          may belong to a writer at work: ``under_24_hours`` allows them.
        - ``location`` is a folder of the table to search in.
        - ``quarantine`` is a folder that the files are moved to, instead of being deleted.
        - ``mismatch`` says what happens if the table records a file with the same path in another store, or with the
          same name outside of its folders: ``"error"``, or ``"ignore"``, which keeps it.
        - ``other_tables`` says what happens if metadata of another table, or of another history of this one, is found:
          ``"error"``, or ``"remove"`` if that table is gone for good.
        - ``engine="spark"`` lets Spark's workers list the folders, for tables with millions of files. The result is the
          same.
        - With ``dry_run``, nothing is changed, and the result is the plan.

        Raises ``InvalidInput`` if another table overlaps with this one, also one of another catalog, if ``gc.enabled``
        is false, and if the time is too young; ``Unsupported`` for encrypted tables. If anything cannot be read, an
        error is raised and nothing is deleted.

            orders.remove_orphans(older_than=timedelta(days=7), dry_run=True).files
        """
        from esker.maintain.remove_orphans import DEFAULT_AGE_MS, OrphanPolicy, remove_orphans

        if engine not in ("arrow", "spark"):
            raise InvalidInput(f"cannot remove orphans with engine={engine!r}: it takes arrow, spark", engine=engine)
        home = self._at_home()
        is_age = isinstance(older_than, timedelta)
        policy = OrphanPolicy(
            now_ms=next_ms(self._state.metadata),
            age_ms=older_than // timedelta(milliseconds=1) if isinstance(older_than, timedelta) else DEFAULT_AGE_MS,
            older_than_ms=None if is_age else _moment(older_than, 0),
            location=location,
            quarantine=quarantine,
            under_24_hours=under_24_hours,
            mismatch=mismatch,
            other_tables=other_tables,
        )
        table = self._tended(refreshed(home.catalog, home.name, self._state))
        list_files = home.tools.lister.spread if engine == "spark" else table.storage.list
        return remove_orphans(table, home.catalog, home.name, policy, list_files=list_files, dry_run=dry_run)

    def _verb(self, name: str) -> Callable[..., Any]:
        """Another method of the table, which another class defines."""
        found: Callable[..., Any] = getattr(self, name)
        return found

    def _tended(self, state: TableState | None = None) -> TendedTable:
        from esker.maintain.tended_table import TendedTable
        from esker.ports.table_format import refuse_versions

        refuse_versions(self._workings.format, "verify a table or examine its health")
        return TendedTable(
            name=self._name,
            state=state or self._state,
            storage=self._workings.storage,
            format=self._workings.format,
            engine=self._workings.engine,
        )


def _moment(given: AsOf | timedelta | None, now_ms: int) -> int | None:
    """A time in milliseconds. An age is counted back from now."""
    if isinstance(given, timedelta):
        return now_ms - given // timedelta(milliseconds=1)
    return None if given is None else to_epoch_ms(given)
