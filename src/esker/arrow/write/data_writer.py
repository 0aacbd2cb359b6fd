"""Rows into data files: divided by partition, sorted, sized by compressed bytes, in bounded memory.

Rows wait per partition until they make a row group. All that wait together stay below ``buffer_bytes``; beyond it
the partition with most waiting is written out. At most ``open_files`` files are open; beyond it the one longest
untouched is finished, and its partition goes on in another file.

Of the sort order this is promised: every file is in order from its first row to its last. Rows are sorted in memory,
so where ``buffer_bytes`` is reached a file ends early, and smaller than the table asks, rather than out of order.
Rows that come sorted are kept in their order, and files grow as large as in a table without one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from esker.arrow.write.arrow_writer import Limits
from esker.arrow.write.file_locations import DataLocations, file_name, partition_path
from esker.arrow.write.new_data_file import FileLayout, NewDataFile
from esker.arrow.write.partition_and_sort_rows import Part, Partitioner, sorted_batch
from esker.errors import EskerError
from esker.ports.storage import Storage
from esker.tree.data_file import DataFile

log = logging.getLogger("esker.arrow")

_PIECE_BYTES, _PIECE_ROWS = 8 << 20, 1 << 16
_SMALL, _MANY = 256 << 10, 64
_NEARLY = 0.97  # a file this full is not worth another row group


@dataclass(slots=True)
class Waiting:
    """Rows of one partition that are not written yet, and the file they go to."""

    partition: tuple[Any, ...]
    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    data_bytes: int = 0
    held_bytes: int = 0  # with what each small batch costs besides its data
    file: NewDataFile | None = None
    touched: int = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Let some more rows wait."""
        self.batches.append(batch)
        self.rows += batch.num_rows
        self.data_bytes += batch.nbytes
        if len(self.batches) >= _MANY and self.data_bytes < _MANY * _SMALL:
            self.batches = [pa.concat_batches(self.batches)]
        self.held_bytes = self.data_bytes + len(self.batches) * (1024 + 512 * batch.num_columns)

    def take(self) -> list[pa.RecordBatch]:
        """All that wait; none do afterwards."""
        taken, self.batches = self.batches, []
        self.rows = self.data_bytes = self.held_bytes = 0
        return taken


class DataWriter:
    """Writes one stream of rows. Use it once."""

    def __init__(
        self,
        storage: Storage,
        layout: FileLayout,
        partitioner: Partitioner,
        locations: DataLocations,
        *,
        name: tuple[int, str],
        limits: Limits,
        task: int = 0,
        rows_are_sorted: bool = False,
    ) -> None:
        self._storage = storage
        self._layout = layout
        self._sorts = not layout.order.is_unsorted and not rows_are_sorted
        self._partitioner = partitioner
        self._locations = locations
        self._name = name
        self._task = task
        self._limits = limits
        self._waiting: dict[tuple[Any, ...], Waiting] = {}
        self._held = 0
        self._clock = 0
        self._files = 0
        self._shrinkage = 1.0  # compressed bytes per byte in memory, as seen so far
        self._unsaid: list[DataFile] = []
        self._created: list[str] = []

    def write(self, reader: Iterable[pa.RecordBatch]) -> Iterator[DataFile]:
        """Each file as it is done. Where anything fails, every file of this call is deleted again."""
        try:
            for batch in reader:
                for piece in self._pieces(batch):
                    for part in self._partitioner.split(piece):
                        self._add(part)
                    self._make_room()
                yield from self._said()
            for key in list(self._waiting):
                self._finish(self._waiting[key])
                del self._waiting[key]
                yield from self._said()
        except GeneratorExit:  # the caller wants no more: what it has been told of is its own
            self._abandon([file.path for file in self._unsaid])
            raise
        except BaseException:
            self._abandon(self._created)
            raise

    def _pieces(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Slices small enough that sizes are looked at often."""
        per_row = max(1.0, batch.nbytes / max(1, batch.num_rows))
        most = min(_PIECE_BYTES, self._limits.buffer_bytes / 4)
        wanted = min(most, self._layout.options.target_file_bytes / 4 / self._shrinkage)
        rows = int(min(_PIECE_ROWS, self._layout.options.row_group_rows, max(1.0, wanted / per_row)))
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)

    def _add(self, part: Part) -> None:
        waiting = self._waiting.get(part.key)
        if waiting is None:
            waiting = self._waiting[part.key] = Waiting(part.partition)
        self._clock += 1
        waiting.touched = self._clock
        self._held -= waiting.held_bytes
        waiting.add(part.batch)
        self._held += waiting.held_bytes
        if self._is_enough(waiting):
            self._flush(waiting, last=False)

    def _is_enough(self, waiting: Waiting) -> bool:
        """Whether what waits makes a row group, or for a sorted table a file."""
        options = self._layout.options
        if self._sorts:
            return waiting.data_bytes * self._shrinkage >= options.target_file_bytes
        room = options.target_file_bytes - (waiting.file.size if waiting.file else 0)
        full = waiting.data_bytes * self._shrinkage >= min(options.row_group_bytes, room)
        return full or waiting.rows >= options.row_group_rows

    def _make_room(self) -> None:
        if self._held <= self._limits.buffer_bytes:
            return
        for waiting in sorted(self._waiting.values(), key=lambda w: -w.held_bytes):
            self._flush(waiting, last=False)
            if self._held <= self._limits.buffer_bytes // 2:
                return

    def _flush(self, waiting: Waiting, *, last: bool) -> None:
        """Write what waits as a row group; finish the file where it is full."""
        rows, data_bytes = waiting.rows, waiting.data_bytes
        self._held -= waiting.held_bytes
        batches = waiting.take()
        if not rows:
            return
        if self._sorts or data_bytes < len(batches) * _SMALL:
            batches = [pa.concat_batches(batches)]
        if self._sorts:
            batches = [sorted_batch(batches[0], self._layout.schema, self._layout.order)]
        options = self._layout.options
        per_group = options.row_group_bytes / self._shrinkage / max(1.0, data_bytes / rows)
        if waiting.file is None:
            waiting.file = self._open(waiting.partition, rows if last or self._sorts else None)
        before = waiting.file.size
        waiting.file.write(batches, rows_per_group=int(max(1.0, min(per_group, options.row_group_rows))))
        if data_bytes > 64 << 10:  # of less, headers make up most
            seen = (waiting.file.size - before) / data_bytes
            self._shrinkage = min(4.0, max(0.001, (self._shrinkage + 3 * seen) / 4))
        if self._sorts or waiting.file.size >= _NEARLY * options.target_file_bytes:
            self._close(waiting)

    def _open(self, partition: tuple[Any, ...], rows: int | None) -> NewDataFile:
        opened = [waiting for waiting in self._waiting.values() if waiting.file is not None]
        if len(opened) >= self._limits.open_files:
            self._finish(min(opened, key=lambda waiting: waiting.touched))
        self._files += 1
        folders = partition_path(self._partitioner.spec, self._partitioner.schema.by_id, partition)
        call, operation_id = self._name
        location = self._locations.location(folders, file_name(call, operation_id, self._files, task=self._task))
        return NewDataFile(self._storage, location, self._layout, rows=rows)

    def _finish(self, waiting: Waiting) -> None:
        self._flush(waiting, last=True)
        self._close(waiting)

    def _close(self, waiting: Waiting) -> None:
        if waiting.file is None:
            return
        file, waiting.file = waiting.file, None
        done = file.finish(waiting.partition)
        self._created.append(done.path)
        self._unsaid.append(done)

    def _said(self) -> Iterator[DataFile]:
        while self._unsaid:
            yield self._unsaid.pop(0)

    def _abandon(self, locations: list[str]) -> None:
        for waiting in self._waiting.values():
            if waiting.file is not None:
                waiting.file.abort()
        for location in locations:
            try:
                self._storage.delete(location)
            except (EskerError, OSError) as error:  # an orphan is no harm; hiding the cause of the failure is
                log.warning("cannot delete %s, which is not part of the table: %s", location, error)
