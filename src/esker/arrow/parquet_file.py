"""Parquet data files: columns by field id, row groups that cannot match left unread, batches one at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from esker.arrow.chunk import BATCH_BYTES, Chunk, ChunkRequest, Renumbered
from esker.arrow.file_columns import FileColumn, file_columns, has_ids, pruned
from esker.arrow.input_file import blaming, encrypted_file, open_input
from esker.arrow.row_groups import row_group_statistics
from esker.arrow.types import FIELD_ID
from esker.model.predicate import TRUE, Bound
from esker.model.schema import Schema
from esker.model.verdict import examine
from esker.ports.storage import Storage

_ENCRYPTED_MAGIC = b"PARE"
_FEWEST_ROWS = 256


class ParquetFile:
    """An opened Parquet file; its footer is read, its pages are not."""

    def __init__(self, storage: Storage, location: str, *, without_ids: Renumbered, encrypted: bool = False) -> None:
        self._location = location
        self._encrypted = encrypted
        with blaming(location, encrypted=encrypted):
            source = open_input(storage, location)
            _refuse_encrypted(source, location)
            # INT96 reaches far beyond what nanoseconds can count, and the spec has it as microseconds.
            self._file = pq.ParquetFile(
                source, pre_buffer=True, coerce_int96_timestamp_unit="us", arrow_extensions_enabled=False
            )
            columns = file_columns(self._file.schema_arrow, FIELD_ID)
        self._columns = columns if has_ids(columns) else without_ids(columns)

    @property
    def columns(self) -> tuple[FileColumn, ...]:
        """What the file has."""
        return self._columns

    def chunks(self, request: ChunkRequest) -> Iterator[Chunk]:
        """The rows in file order; row groups are read one after the other, so memory holds one of them."""
        kept = pruned(self._columns, request.leaves)
        indices = sorted(request.leaves)
        first_row = 0
        residuals = self._judged(request.residual, request.schema)
        for group in range(self._file.num_row_groups):
            rows = self._file.metadata.row_group(group).num_rows
            if residuals[group] is not None:
                batch_rows = min(request.batch_rows, self._rows_per_batch(group, indices))
                yield from self._row_group(group, first_row, kept, indices, batch_rows, residuals[group] or TRUE)
            first_row += rows

    def _row_group(
        self, group: int, position: int, kept: tuple[FileColumn, ...], indices: list[int], rows: int, residual: Bound
    ) -> Iterator[Chunk]:
        with blaming(self._location, encrypted=self._encrypted):
            batches = self._file.reader.iter_batches(rows, row_groups=[group], column_indices=indices)
        while True:
            with blaming(self._location, encrypted=self._encrypted):
                batch = next(batches, None)
            if batch is None:
                return
            columns = tuple(zip(kept, batch.columns, strict=True))
            yield Chunk(position=position, length=batch.num_rows, columns=columns, residual=residual)
            position += batch.num_rows

    def _judged(self, residual: Bound, schema: Schema) -> list[Bound | None]:
        """Per row group what is left to check, or None where no row can match."""
        groups = self._file.num_row_groups
        if residual == TRUE or not groups:
            return [residual] * groups
        with blaming(self._location):
            statistics = row_group_statistics(self._file.metadata, self._columns, residual, schema)
        examination = examine(residual, statistics)
        pattern, left = examination.residuals()
        return [left[at] if some else None for at, some in zip(pattern, examination.verdict.some, strict=True)]

    def _rows_per_batch(self, group: int, indices: list[int]) -> int:
        """How many rows make a batch of reasonable size, by what the columns take unpacked."""
        facts = self._file.metadata.row_group(group)
        size = sum(max(0, facts.column(at).total_uncompressed_size) for at in indices)
        per_row = size / max(1, facts.num_rows)
        return int(np.clip(BATCH_BYTES / max(per_row, 1.0), _FEWEST_ROWS, 1 << 20))


def _refuse_encrypted(source: pa.NativeFile, location: str) -> None:
    size = source.size()
    if size >= len(_ENCRYPTED_MAGIC):
        source.seek(size - len(_ENCRYPTED_MAGIC))
        if source.read(len(_ENCRYPTED_MAGIC)) == _ENCRYPTED_MAGIC:
            raise encrypted_file(location)
        source.seek(0)
