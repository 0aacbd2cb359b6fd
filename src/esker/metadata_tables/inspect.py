"""``table.inspect``: the metadata tables of one table, one method each."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, ClassVar

from esker.metadata_tables.files import (
    all_data_files,
    all_delete_files,
    all_entries,
    all_files,
    data_files,
    delete_files,
    entries,
    file_changes,
    files,
    position_deletes,
)
from esker.metadata_tables.hierarchy import Bounds, SnapshotNode, hierarchy
from esker.metadata_tables.inspected_table import Subject
from esker.metadata_tables.manifests import all_manifests, manifests
from esker.metadata_tables.partitions import partitions
from esker.metadata_tables.snapshots_and_refs import history, metadata_log_entries, refs, snapshots
from esker.ports.engine import Engine
from esker.ports.table_format import TableFormat
from esker.tree.table_metadata import TableMetadata

if TYPE_CHECKING:
    import pyarrow as pa

Columns = Collection[str] | None
_OF_A_SNAPSHOT = ("entries", "files", "data_files", "delete_files", "manifests", "partitions", "position_deletes")
_OF_THE_TABLE = (
    "history",
    "metadata_log_entries",
    "snapshots",
    "refs",
    "all_entries",
    "all_files",
    "all_data_files",
    "all_delete_files",
    "all_manifests",
)


class Inspect:
    """Iceberg's metadata tables as pyarrow tables, with Iceberg's column names and types.

    A method with ``snapshot_id`` shows that snapshot, by default the current one. A method with ``columns`` shows only
    these columns, and does not decode statistics if no column needs them. `NoSuchSnapshot` is raised for an unknown
    snapshot, `InvalidInput` for an unknown column.

        orders.inspect.files(columns=["file_path", "record_count"])
    """

    snapshot_tables: ClassVar[frozenset[str]] = frozenset(_OF_A_SNAPSHOT)
    tables: ClassVar[frozenset[str]] = frozenset((*_OF_A_SNAPSHOT, *_OF_THE_TABLE))

    def __init__(
        self, *, metadata: TableMetadata, metadata_location: str, table_format: TableFormat, engine: Engine
    ) -> None:
        self._subject = Subject(
            metadata=metadata, metadata_location=metadata_location, table_format=table_format, engine=engine
        )

    def entries(self, snapshot_id: int | None = None) -> pa.Table:
        """The entries of the snapshot's manifests, including entries of deleted files."""
        return entries(self._subject, snapshot_id)

    def files(self, snapshot_id: int | None = None, *, columns: Columns = None) -> pa.Table:
        """The snapshot's data and delete files."""
        return files(self._subject, snapshot_id, columns)

    def data_files(self, snapshot_id: int | None = None, *, columns: Columns = None) -> pa.Table:
        """The snapshot's data files."""
        return data_files(self._subject, snapshot_id, columns)

    def delete_files(self, snapshot_id: int | None = None, *, columns: Columns = None) -> pa.Table:
        """The snapshot's delete files."""
        return delete_files(self._subject, snapshot_id, columns)

    def history(self) -> pa.Table:
        """Which snapshot was current from which time on."""
        return history(self._subject)

    def metadata_log_entries(self) -> pa.Table:
        """The metadata files of the table, the current one last."""
        return metadata_log_entries(self._subject)

    def snapshots(self) -> pa.Table:
        """Every snapshot that has not expired."""
        return snapshots(self._subject)

    def refs(self) -> pa.Table:
        """Branches and tags."""
        return refs(self._subject)

    def manifests(self, snapshot_id: int | None = None) -> pa.Table:
        """The snapshot's manifests."""
        return manifests(self._subject, snapshot_id)

    def partitions(self, snapshot_id: int | None = None) -> pa.Table:
        """Files, rows and deletes per partition of the snapshot."""
        return partitions(self._subject, snapshot_id)

    def all_entries(self) -> pa.Table:
        """The entries of the manifests of every snapshot. Each manifest is read once."""
        return all_entries(self._subject)

    def all_files(self, *, columns: Columns = None) -> pa.Table:
        """The files in the manifests of every snapshot. Each manifest is read once."""
        return all_files(self._subject, columns)

    def all_data_files(self, *, columns: Columns = None) -> pa.Table:
        """The data files in the manifests of every snapshot."""
        return all_data_files(self._subject, columns)

    def all_delete_files(self, *, columns: Columns = None) -> pa.Table:
        """The delete files in the manifests of every snapshot."""
        return all_delete_files(self._subject, columns)

    def all_manifests(self) -> pa.Table:
        """The manifests of every snapshot, with the snapshot that lists them."""
        return all_manifests(self._subject)

    def position_deletes(self, snapshot_id: int | None = None) -> pa.Table:
        """Every position that the snapshot's delete files and deletion vectors delete."""
        return position_deletes(self._subject, snapshot_id)

    def file_changes(self, from_snapshot: int | None, to_snapshot: int | None) -> pa.Table:
        """The files that only one of two snapshots has. None means the table before its first snapshot."""
        return file_changes(self._subject, from_snapshot, to_snapshot)

    def tree(self, *, snapshots: int = 3, manifests: int = 5, files: int = 3) -> tuple[SnapshotNode, ...]:
        """The tree of the table, limited in each level. Broken parts are reported at their place."""
        bounds = Bounds(snapshots=snapshots, manifests=manifests, files=files)
        return hierarchy(self._subject, bounds)
