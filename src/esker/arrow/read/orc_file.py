"""ORC data files: columns by their ``iceberg.id`` attribute, a stripe at a time."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.orc

from esker.arrow.read.file_columns import FileColumn, file_columns, has_ids
from esker.arrow.read.format_reader import Chunk, ChunkRequest, Renumbered, blaming, open_input
from esker.errors import Unsupported
from esker.ports.storage import Storage

ORC_ID = b"iceberg.id"
_BEYOND_NANOS = "out of range for nanosecond resolution"


class OrcFile:
    """An opened ORC file."""

    def __init__(
        self,
        storage: Storage,
        location: str,
        *,
        without_ids: Renumbered,
        encrypted: bool = False,
        by_name: bool = False,
    ) -> None:
        self._location = location
        self._encrypted = encrypted
        with blaming(location, encrypted=encrypted):
            self._source = open_input(storage, location)
            self._file = pyarrow.orc.ORCFile(self._source)
            columns = file_columns(self._file.schema, ORC_ID)
        self._columns = columns if has_ids(columns) and not by_name else without_ids(columns)

    @property
    def columns(self) -> tuple[FileColumn, ...]:
        """The columns of the file."""
        return self._columns

    def chunks(self, request: ChunkRequest) -> Iterator[Chunk]:
        """The rows in file order. Memory is one stripe."""
        kept = self._kept(request.leaves)
        names = None if kept == self._columns else [column.name for column in kept]
        position = 0
        try:
            for stripe in range(self._file.nstripes):
                batch = self._stripe(stripe, names)
                columns = tuple(zip(kept, batch.columns, strict=True))
                yield Chunk(position=position, length=batch.num_rows, columns=columns, residual=request.residual)
                position += batch.num_rows
        finally:
            self._source.close()

    def _kept(self, leaves: frozenset[int]) -> tuple[FileColumn, ...]:
        """Whole top-level columns. pyarrow selects by dotted path, so a name with a dot would mean another column."""
        if any("." in column.name for column in self._columns):
            return self._columns
        kept = tuple(column for column in self._columns if not leaves.isdisjoint(column.leaves))
        return kept or self._columns[:1]  # without a column, the rows of a stripe cannot be counted

    def _stripe(self, stripe: int, names: list[str] | None) -> pa.RecordBatch:
        with blaming(self._location, encrypted=self._encrypted):
            try:
                return self._file.read_stripe(stripe, columns=names)
            except (pa.ArrowException, OSError) as error:
                if _BEYOND_NANOS not in str(error):
                    raise
                raise Unsupported(
                    f"cannot read {self._location}: it has timestamps that do not fit 64-bit nanoseconds, "
                    "which pyarrow uses for ORC",
                    feature="ORC timestamps before 1677 or after 2262",
                    file=self._location,
                ) from None
