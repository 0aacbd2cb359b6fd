"""Write rows to data files: divided by partition, sorted, sized by compressed bytes, in bounded memory.

Rows wait per partition until they make a row group. All waiting rows stay below ``buffer_bytes``. Above it, the
partition with most waiting rows is written. At most ``open_files`` files are open. Above it, the file that was unused
longest is finished, and its partition continues in another file.

With a sort order, every file is sorted from its first row to its last. Rows are sorted in memory. So if
``buffer_bytes`` is reached, a file ends early and is smaller than the table asks for. If the rows are sorted already,
files get their full size.
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
_NEARLY = 0.97  # a file this full gets no other row group


@dataclass(slots=True)
class Waiting:
    """The waiting rows of one partition, and their file."""

    partition: tuple[Any, ...]
    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    data_bytes: int = 0
    held_bytes: int = 0  # includes the overhead of small batches
    file: NewDataFile | None = None
    touched: int = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add waiting rows."""
        self.batches.append(batch)
        self.rows += batch.num_rows
        self.data_bytes += batch.nbytes
        if len(self.batches) >= _MANY and self.data_bytes < _MANY * _SMALL:
            self.batches = [pa.concat_batches(self.batches)]
        self.held_bytes = self.data_bytes + len(self.batches) * (1024 + 512 * batch.num_columns)

    def take(self) -> list[pa.RecordBatch]:
        """Remove and return all waiting rows."""
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
        self._shrinkage = 1.0  # compressed bytes per byte in memory, so far
        self._unsaid: list[DataFile] = []
        self._created: list[str] = []

    def write(self, reader: Iterable[pa.RecordBatch]) -> Iterator[DataFile]:
        """Each file when it is complete. If anything fails, every file of this call is deleted."""
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
        except GeneratorExit:  # the caller stops: the files that it got are its own
            self._abandon([file.path for file in self._unsaid])
            raise
        except BaseException:
            self._abandon(self._created)
            raise

    def _pieces(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Slices that are small enough to check sizes often."""
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
        """Whether the waiting rows make a row group, or for a sorted table a file."""
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
        """Write the waiting rows as a row group. Finish the file if it is full."""
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
            waiting.file = self._open(waiting.partition, batches, rows if last or self._sorts else None)
        before = waiting.file.size
        waiting.file.write(batches, rows_per_group=int(max(1.0, min(per_group, options.row_group_rows))))
        if data_bytes > 64 << 10:  # in smaller data, headers are the larger part
            seen = (waiting.file.size - before) / data_bytes
            self._shrinkage = min(4.0, max(0.001, (self._shrinkage + 3 * seen) / 4))
        if self._sorts or waiting.file.size >= _NEARLY * options.target_file_bytes:
            self._close(waiting)

    def _open(self, partition: tuple[Any, ...], first: list[pa.RecordBatch], rows: int | None) -> NewDataFile:
        opened = [waiting for waiting in self._waiting.values() if waiting.file is not None]
        if len(opened) >= self._limits.open_files:
            self._finish(min(opened, key=lambda waiting: waiting.touched))
        self._files += 1
        folders = partition_path(self._partitioner.spec, self._partitioner.schema.by_id, partition)
        call, operation_id = self._name
        location = self._locations.location(folders, file_name(call, operation_id, self._files, task=self._task))
        return NewDataFile(self._storage, location, self._layout, rows=rows, first=first)

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
            except (EskerError, OSError) as error:  # an orphan file does no harm; hiding the first error would
                log.warning("cannot delete %s, which is not part of the table: %s", location, error)
