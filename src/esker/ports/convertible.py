"""The port of a format whose data files an Iceberg table can have as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from esker.model.partition_and_sort import PartitionSpec
from esker.model.schema import MappedField, Schema
from esker.tree.data_file import DataFile
from esker.tree.table_metadata import TableMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Convertible:
    """The rows of a snapshot as files that need no merging: all rows of all files are rows of the table.

    ``schema_id`` of a file is the schema whose names its columns have, if the file has no field ids.
    """

    snapshot_id: int | None  # None: the table never had a row
    schema: Schema
    spec: PartitionSpec
    last_column_id: int  # the highest that a file may have
    files: tuple[DataFile, ...]
    beside: tuple[MappedField, ...] = ()  # columns of files that are no columns of the table, with ids of their own


@runtime_checkable
class ConvertibleFormat(Protocol):
    """A format with tables that can be converted."""

    def convertible(self, metadata: TableMetadata) -> Convertible:
        """The current snapshot's files. Raises ``Unsupported`` with the reason if its rows are not exactly theirs, or
        Iceberg has no such column."""
        ...
