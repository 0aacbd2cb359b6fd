"""Avro data files: columns by field id, a batch at a time.

An Avro file has no footer. A file that was cut between two blocks looks complete, so the row count of the manifest is
checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from esker.arrow.read.file_columns import FileColumn, file_columns, has_ids
from esker.arrow.read.format_reader import Chunk, ChunkRequest, Renumbered
from esker.avro import Projection, arrow_schema, iter_batches, read_header
from esker.errors import Corrupt
from esker.ports.storage import Storage

AVRO_ID = b"field-id"


class AvroFile:
    """An Avro file whose header is read."""

    def __init__(
        self, storage: Storage, location: str, *, without_ids: Renumbered, rows: int = 0, by_name: bool = False
    ) -> None:
        self._storage = storage
        self._location = location
        self._rows = rows  # the count in the manifest
        with storage.open(location) as source:
            header = read_header(source, file=location)
        columns = file_columns(arrow_schema(header.schema), AVRO_ID)
        self._by_id = has_ids(columns) and not by_name
        self._columns = columns if self._by_id else without_ids(columns)

    @property
    def columns(self) -> tuple[FileColumn, ...]:
        """The columns of the file."""
        return self._columns

    def chunks(self, request: ChunkRequest) -> Iterator[Chunk]:
        """The rows in file order. Memory is one batch."""
        want = self._want(request.leaves)
        position = 0
        with self._storage.open(self._location) as source:
            batches = iter_batches(source, file=self._location, want=want, batch_rows=request.batch_rows)
            for batch in batches:
                kept = self._columns if want is None else file_columns(batch.schema, AVRO_ID)
                columns = tuple(zip(kept, batch.columns, strict=True))
                yield Chunk(position=position, length=batch.num_rows, columns=columns, residual=request.residual)
                position += batch.num_rows
        if position < self._rows:
            raise Corrupt(
                self._location, f"it ends after {position} of the {self._rows} rows that its manifest entry counts"
            )

    def _want(self, leaves: frozenset[int]) -> Projection | None:
        """The ids to keep. Everything, if columns are found by name or only rows are counted."""
        ids = frozenset(_ids(self._columns, leaves, None))
        return Projection.of(ids) if self._by_id and ids else None


def _ids(columns: Iterable[FileColumn], leaves: frozenset[int], above: int | None) -> Iterator[int]:
    """The ids of the leaves. A leaf without an id has the nearest id above it."""
    for column in columns:
        if leaves.isdisjoint(column.leaves):
            continue
        own = above if column.field_id is None else column.field_id
        if column.children:
            yield from _ids(column.children, leaves, own)
        elif own is not None:
            yield own
