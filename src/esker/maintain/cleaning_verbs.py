"""The methods of a table that verify it and remove what it no longer needs. ``Table`` inherits them.

The modules behind them are imported when a method is called, so that a command that only reads does not wait for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from esker.maintain.findings import Verification
    from esker.maintain.tended_table import TendedTable
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
        from esker.maintain.verify_table import verify

        return verify(self._tended(), deep=deep)

    def _tended(self, state: TableState | None = None) -> TendedTable:
        from esker.maintain.tended_table import TendedTable

        return TendedTable(
            name=self._name,
            state=state or self._state,
            storage=self._workings.storage,
            format=self._workings.format,
            engine=self._workings.engine,
        )
