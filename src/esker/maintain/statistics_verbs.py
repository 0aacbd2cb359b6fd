"""The methods of a table that compute statistics files: distinct values per column, and totals per partition."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from esker.ports.catalog import TableState

if TYPE_CHECKING:
    import pyarrow as pa

    from esker.tree.table_metadata import PartitionStatisticsFile, StatisticsFile
    from esker.write.context import Home, Workings


class StatisticsVerbs(ABC):
    """Statistics of a table. ``Table`` inherits these methods."""

    _state: TableState
    _workings: Workings

    @abstractmethod
    def _at_home(self) -> Home:
        """The catalog and the tools with which the table is changed. Raises ``InvalidInput`` if it is read-only."""

    @abstractmethod
    def _move_to(self, state: TableState) -> None:
        """Let this object show a new version of the table."""

    def compute_statistics(
        self, columns: Sequence[str] | None = None, snapshot_id: int | None = None
    ) -> StatisticsFile | None:
        """Count the distinct values of columns and register the sketches in the table's metadata.

        By default, the columns are all of a primitive type, and the snapshot is the current one. Returns the registered
        file, and None for a table without snapshots. Raises ``InvalidInput`` for an unknown or nested column,
        ``NoSuchSnapshot`` for an unknown snapshot, and ``Conflict`` if the snapshot expires in the meantime.

            orders.compute_statistics(["customer", "region"])
        """
        from esker.maintain.statistics.column_statistics import compute_statistics

        state, file = compute_statistics(self._at_home(), self._state, columns, snapshot_id)
        self._move_to(state)
        return file

    def compute_partition_statistics(
        self, snapshot_id: int | None = None, *, incremental: bool = True
    ) -> PartitionStatisticsFile | None:
        """Count files, rows and deletes per partition and register them in the table's metadata.

        The counts are computed from those of the nearest ancestor that has any. With ``incremental=False`` they are
        computed from all manifests, and also replace those of the same snapshot. Returns the registered file, and None
        for a table without files. Raises ``InvalidInput`` for a table without partitions, ``NoSuchSnapshot`` for an
        unknown snapshot, and ``Conflict`` if the snapshot expires in the meantime.

            orders.compute_partition_statistics()
        """
        from esker.maintain.statistics.partition_statistics import compute_partition_statistics

        home = self._at_home()
        state, file = compute_partition_statistics(home, self._state, snapshot_id, incremental=incremental)
        self._move_to(state)
        return file

    def distinct_values(self, snapshot_id: int | None = None) -> dict[str, int]:
        """The number of distinct values of each column, as computed by this or another engine; an estimate above 4096.

        Reads the metadata only: the statistics of the snapshot, by default the current one, or else of its nearest
        ancestor that has any. Raises ``NoSuchSnapshot`` for an unknown snapshot.

            orders.distinct_values()["customer"]
        """
        from esker.maintain.statistics.column_statistics import distinct_values

        return distinct_values(self._state.metadata, snapshot_id)

    def partition_statistics(self, snapshot_id: int | None = None) -> pa.Table | None:
        """The partition statistics of a snapshot, by default the current one, or else of its nearest ancestor that has
        any. Returns None if there are none.

        Raises ``NoSuchSnapshot`` for an unknown snapshot.

            orders.partition_statistics().to_pandas()
        """
        from esker.maintain.statistics.partition_statistics import partition_statistics

        return partition_statistics(self._state.metadata, self._workings.engine, snapshot_id)
