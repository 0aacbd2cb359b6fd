"""The embedded engine's writer: accepts data in any form and returns described data files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from esker.model.schema import Schema
from esker.ports.engine import WriteRequest
from esker.ports.storage import Storage
from esker.tree.data_file import DataFile
from esker.tree.table_metadata import TableMetadata

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a write: bytes of rows that wait in memory, and open files."""

    buffer_bytes: int = 256 << 20
    open_files: int = 100


class ArrowWriter:
    """Implements ``ports.engine.Writer`` with pyarrow, in this process."""

    # Imported late: Arrow's kernels and Parquet's writer load slower than a table's metadata.

    def __init__(self, storage: Storage, *, limits: Limits | None = None) -> None:
        self._storage = storage
        self._limits = limits or Limits()
        self._calls = count()  # one operation may write several times; its file names must differ

    def fit(self, metadata: TableMetadata, schema: Schema, data: object) -> pa.RecordBatchReader:
        """Any data as a stream of the table's types. Raises if the table cannot be written at all."""
        from esker.arrow.input.fit_data import fit
        from esker.arrow.write.file_layout import file_layout

        file_layout(metadata, schema)
        return fit(schema, data)

    def write(self, request: WriteRequest) -> Iterator[DataFile]:
        """Write the rows. All checks are done before the first file."""
        from esker.arrow.write.data_writer import DataWriter
        from esker.arrow.write.file_layout import file_layout, with_lineage
        from esker.arrow.write.file_locations import data_locations, file_name
        from esker.arrow.write.partition_and_sort_rows import partitioner

        schema = with_lineage(request)
        layout = file_layout(request.metadata, schema, request.order)
        call = next(self._calls)
        file_name(call, request.operation_id, 0)
        writer = DataWriter(
            self._storage,
            layout,
            partitioner(schema, request.metadata.spec),
            data_locations(request.metadata),
            name=(call, request.operation_id),
            limits=self._limits,
            rows_are_sorted=request.order is not None,
        )
        return writer.write(request.data)

    def describe(
        self,
        metadata: TableMetadata,
        location: str,
        *,
        folders: Mapping[str, str | None] | None = None,
        ignore_extra_columns: bool = False,
    ) -> DataFile:
        """Describe an existing Parquet file, with its partition and metrics."""
        from esker.arrow.write.describe_parquet import describe

        return describe(self._storage, metadata, location, folders=folders, ignore_extra_columns=ignore_extra_columns)
