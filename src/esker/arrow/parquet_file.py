"""Parquet data files: columns by field id, row groups that cannot match left unread, batches one at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from esker.arrow.chunk import BATCH_BYTES, Chunk, ChunkRequest, Renumbered
from esker.arrow.file_columns import FileColumn, file_columns, has_ids, pruned
from esker.arrow.input_file import blaming, encrypted_file, open_input
from esker.arrow.open_parquet import open_parquet
from esker.arrow.parquet_footer import read_statistics
from esker.arrow.row_groups import columns_asked, row_group_evidence
from esker.arrow.types import FIELD_ID
from esker.model.predicate import TRUE, Bound
from esker.model.schema import Schema
from esker.model.verdict import examine
from esker.ports.storage import Storage

_ENCRYPTED_MAGIC = b"PARE"
_FEWEST_ROWS = 16
_UNPACKED = 4  # how much larger rows are in memory than in a file, by rule of thumb


class ParquetFile:
    """An opened Parquet file; its footer is read, its pages are not."""

    def __init__(self, storage: Storage, location: str, *, without_ids: Renumbered, encrypted: bool = False) -> None:
        self._location = location
        self._encrypted = encrypted
        with blaming(location, encrypted=encrypted):
            source = open_input(storage, location)
            _refuse_encrypted(source, location)
            # INT96 reaches far beyond what nanoseconds can count, and the spec has it as microseconds.
            self._source, self._file = open_parquet(
                source, pre_buffer=True, coerce_int96_timestamp_unit="us", arrow_extensions_enabled=False
            )
            self.is_mended = self._source is not source  # readers that open it themselves refuse it
            columns = file_columns(self._file.schema_arrow, FIELD_ID)
        self._columns = columns if has_ids(columns) else without_ids(columns)

    @property
    def columns(self) -> tuple[FileColumn, ...]:
        """What the file has."""
        return self._columns

    def chunks(self, request: ChunkRequest) -> Iterator[Chunk]:
        """The rows in file order; row groups are read one after the other, so memory holds one of them."""
        try:
            yield from self._chunks(request)
        finally:
            self._source.close()

    def _chunks(self, request: ChunkRequest) -> Iterator[Chunk]:
        kept = pruned(self._columns, request.leaves)
        indices = sorted(request.leaves)
        position, row_bytes = 0, self._guessed_row_bytes(indices)
        for group, (residual, rows) in enumerate(self._judged(request.residual, request.schema)):
            rows = rows or self._file.metadata.row_group(group).num_rows
            if residual is None or not (request.touches is None or request.touches(position, rows)):
                position += rows
                continue
            batch_rows = int(np.clip(BATCH_BYTES / max(row_bytes, 1.0), _FEWEST_ROWS, request.batch_rows))
            for batch in self._batches(group, indices, batch_rows):
                columns = tuple(zip(kept, batch.columns, strict=True))
                yield Chunk(position=position, length=batch.num_rows, columns=columns, residual=residual)
                position += batch.num_rows
                row_bytes = batch.nbytes / max(1, batch.num_rows)

    def _batches(self, group: int, indices: list[int], rows: int) -> Iterator[pa.RecordBatch]:
        with blaming(self._location, encrypted=self._encrypted):
            batches = self._file.reader.iter_batches(rows, row_groups=[group], column_indices=indices)
        while True:
            with blaming(self._location, encrypted=self._encrypted):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def _judged(self, residual: Bound, schema: Schema) -> list[tuple[Bound | None, int]]:
        """Per row group what is left to check, or None where no row can match, and its number of rows."""
        groups = self._file.num_row_groups
        unjudged: list[tuple[Bound | None, int]] = [(residual, 0)] * groups
        asked = columns_asked(residual, schema, self._columns) if residual != TRUE else {}
        if not asked:
            return unjudged
        with blaming(self._location):
            statistics = read_statistics(self._source, {column.first_leaf for column in asked.values()})
        if statistics is None or len(statistics) != groups:
            return unjudged
        examination = examine(residual, row_group_evidence(statistics, asked, schema))
        pattern, left = examination.residuals()
        judged = zip(pattern, examination.verdict.some, statistics, strict=True)
        return [(left[at] if some else None, group.rows) for at, some, group in judged]

    def _guessed_row_bytes(self, indices: list[int]) -> float:
        """About what a row takes in memory, until a first batch is there to be measured."""
        leaves = sum(column.leaf_count for column in self._columns)
        share = len(indices) / max(1, leaves)
        return _UNPACKED * share * self._source.size() / max(1, self._file.metadata.num_rows)


def _refuse_encrypted(source: pa.NativeFile, location: str) -> None:
    size = source.size()
    if size >= len(_ENCRYPTED_MAGIC):
        source.seek(size - len(_ENCRYPTED_MAGIC))
        if source.read(len(_ENCRYPTED_MAGIC)) == _ENCRYPTED_MAGIC:
            raise encrypted_file(location)
        source.seek(0)
