"""One writer for all data: a Spark DataFrame goes to Spark's workers, all else is written in this process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from esker.arrow.writer import ArrowWriter
from esker.model.schema import Schema
from esker.ports.engine import Writer, WriteRequest
from esker.ports.storage import Storage
from esker.tree.data_file import DataFile
from esker.tree.table_metadata import TableMetadata


class AnyWriter:
    """Implements ``ports.engine.Writer``. Nothing of Spark is loaded before a DataFrame of Spark's is handed over."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._arrow = ArrowWriter(storage)

    def fit(self, metadata: TableMetadata, schema: Schema, data: object) -> Any:
        """The data, fitted by whom it will be written."""
        return self._writer_of(data).fit(metadata, schema, data)

    def write(self, request: WriteRequest) -> Iterator[DataFile]:
        """Write new data files."""
        return self._writer_of(request.data).write(request)

    def describe(
        self,
        metadata: TableMetadata,
        location: str,
        *,
        folders: Mapping[str, str | None] | None = None,
        ignore_extra_columns: bool = False,
    ) -> DataFile:
        """A file that lies there already."""
        return self._arrow.describe(metadata, location, folders=folders, ignore_extra_columns=ignore_extra_columns)

    def _writer_of(self, data: object) -> Writer:
        from esker.spark.frame_schema import is_spark_frame

        return self._spark if is_spark_frame(data) else self._arrow

    @cached_property
    def _spark(self) -> Writer:
        from esker.spark.writer import SparkWriter

        return SparkWriter(self._storage)
