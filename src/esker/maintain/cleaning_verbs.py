"""The methods of a table that verify it and remove what it no longer needs. ``Table`` inherits them.

The modules behind them are imported when a method is called, so that a command that only reads does not wait for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from esker.read.resolve_snapshot import AsOf, to_epoch_ms
from esker.write.commit import refreshed
from esker.write.table_changes import next_ms

if TYPE_CHECKING:
    from esker.maintain.expire_snapshots import Delete, Expiry
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

    def verify(self, *, deep: bool = False) -> Verification:
        """Check the table and return what is wrong with it: ``orders.verify().ok``.

        All files that a retained snapshot refers to must exist with their lengths, and all counts must agree. With
        ``deep``, data files are read and compared with their recorded row counts, null counts and bounds. Nothing is
        changed. Raises ``StorageFailed`` if the storage does not answer.

            for finding in orders.verify(deep=True).findings:
                print(finding.rule, finding.file, finding.why)
        """
        from esker.maintain.verify.verify_table import verify

        return verify(self._tended(), deep=deep)

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

    def _tended(self, state: TableState | None = None) -> TendedTable:
        from esker.maintain.tended_table import TendedTable

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
