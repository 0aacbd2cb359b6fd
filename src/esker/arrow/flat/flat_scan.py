"""Scan Parquet files of one flat layout together: small files many at once, large files in windows of a row group.

Jobs run in a few threads, and their rows are returned in the order of the tasks. Whatever is not flat, not on this
machine, damaged or too large is read by `TaskReader`, in its place.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from esker.arrow.arrow_types import to_arrow, to_arrow_schema
from esker.arrow.deletes.deleted_positions import Bitmap, Deleted
from esker.arrow.flat._parquet import row_groups, schema_end
from esker.arrow.flat.decode_columns import Bools, Chunk, decoded
from esker.arrow.flat.filter_steps import Left, by_dictionary, fields_of, filtered
from esker.arrow.flat.flat_layout import AbsentColumns, FlatColumn, FlatLayout, footer_length, read_layout
from esker.arrow.read.open_data import renumbered
from esker.arrow.read.parquet_file import judged_groups
from esker.arrow.read.row_metadata import METADATA_COLUMNS
from esker.arrow.read.task_reader import TaskReader
from esker.errors import EskerError
from esker.model.predicates.predicate import TRUE, Bound
from esker.model.types import Field
from esker.ports.engine import ReadRequest, ScanTask
from esker.tree.data_file import DataFile, FileContent

WHOLE = 1 << 20  # a file of fewer bytes is read whole
TOGETHER_ROWS, TOGETHER_BYTES = 1 << 17, 32 << 20  # of small files in one job
MOST_BYTES = 128 << 20  # of a row group as stored
WINDOW_BYTES = 64 << 20  # of the rows of a job, by a guess
_TEXT = 24  # bytes of a text in memory, by a guess
_MOST_LAYOUTS = 64
_TAIL = 64 << 10
_DICTIONARY_ROWS = 1 << 14  # a filter is decided by the dictionary of at least so many rows
_THREADS = 4
_FAULTS = (ValueError, OSError, EskerError, pa.ArrowException, MemoryError)


@dataclass(frozen=True, slots=True)
class Careful:
    """Rows that `TaskReader` has to read: a task, some of its row groups, or the rows at some positions."""

    task: ScanTask
    groups: frozenset[int] | None = None
    positions: range | None = None


Piece: TypeAlias = pa.RecordBatch | Careful


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Rows of a row group from the ``first`` on: their file, number, place in the file, the deletes of the file, and a
    chunk of the row group for each needed column."""

    file: DataFile
    first: int = 0
    rows: int
    position: int
    deleted: tuple[Deleted, ...]
    chunks: tuple[Chunk, ...]


@dataclass(slots=True)
class _Small:
    """Small files that are read in one job, and the deletes of each."""

    residual: Bound
    most_rows: int
    tasks: list[tuple[ScanTask, str, tuple[Deleted, ...]]] = field(default_factory=list)
    rows: int = 0
    size: int = 0

    def takes(self, task: ScanTask) -> bool:
        """Whether the task can be added."""
        data = task.data_file
        fits = self.rows + data.record_count <= self.most_rows and self.size + data.file_size <= TOGETHER_BYTES
        return not self.tasks or (fits and (task.residual is self.residual or task.residual == self.residual))

    def add(self, task: ScanTask, path: str, deleted: tuple[Deleted, ...]) -> None:
        """Add a task."""
        self.residual = task.residual
        self.tasks.append((task, path, deleted))
        self.rows += task.data_file.record_count
        self.size += task.data_file.file_size


def suits(request: ReadRequest) -> bool:
    """Whether the request may be read here: no metadata columns, and no limit, which would stop early."""
    return request.limit is None and not any(wanted.id in METADATA_COLUMNS for wanted in request.projection)


class FlatScan:
    """One scan."""

    def __init__(self, careful: TaskReader) -> None:
        self._careful = careful
        self._request = careful.request
        self._schema = to_arrow_schema(self._request.projection)
        self._absent = AbsentColumns(metadata=self._request.metadata, row_schema=self._request.row_schema)
        self._layouts: list[FlatLayout] = []
        # By identity, since a filter may be long; each is kept, so that no other gets its identity.
        self._known: dict[tuple[int, int, int], tuple[Bound, tuple[FlatColumn, ...] | None]] = {}
        self._plain: set[tuple[int, int]] = set()  # leaves of layouts whose dictionaries do not decide filters
        self._most_rows = max(1, WINDOW_BYTES // max(1, sum(map(_width, self._request.projection))))
        self._threads = min(_THREADS, os.cpu_count() or 1)

    def read(self) -> Iterator[pa.RecordBatch]:
        """The rows that pass the filter and the deletes, in task order."""
        for piece in self._pieces():
            if isinstance(piece, Careful):
                yield from self._careful.read(piece.task, piece.groups, piece.positions)
            elif piece.num_rows:
                yield piece

    def _pieces(self) -> Iterator[Piece]:
        waiting: deque[Future[list[Piece]]] = deque()
        pool = ThreadPoolExecutor(self._threads, thread_name_prefix="esker-scan")
        try:
            for job in self._jobs():
                waiting.append(pool.submit(self._done, job))
                while len(waiting) > self._threads + 1:
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _jobs(self) -> Iterator[_Small | _Window | Careful]:
        together = min(TOGETHER_ROWS, self._most_rows)
        small = _Small(TRUE, together)
        for task in self._request.tasks:
            path = self._path(task)
            data = task.data_file
            if path is not None and data.file_size <= WHOLE and data.record_count <= self._most_rows:
                if not small.takes(task):
                    yield small
                    small = _Small(TRUE, together)
                small.add(task, path, self._deleted(task))
                continue
            if small.tasks:
                yield small
                small = _Small(TRUE, together)
            if path is None:
                yield Careful(task)
            else:
                yield from self._groups(task, path)
        if small.tasks:
            yield small

    def _path(self, task: ScanTask) -> str | None:
        """Where the file of a task is on this machine. None if it has to be read by `TaskReader`."""
        data = task.data_file
        is_plain = data.file_format.lower() == "parquet" and data.key_metadata is None and task.taken_by is None
        is_plain = is_plain and data.schema_id is None  # ids inside of such a file are not the table's
        if not is_plain or any(delete.content is FileContent.EQUALITY_DELETES for delete in task.deletes):
            return None
        return self._careful.storage.local_path(data.path)

    def _deleted(self, task: ScanTask) -> tuple[Deleted, ...]:
        # Here and not in a thread: the store of deletes is not made for several.
        deleted = self._careful.deletes.positions(task.data_file, task.deletes) if task.deletes else ()
        return deleted if task.gone is None else (*deleted, Bitmap(task.gone, 0))

    def _done(self, job: _Small | _Window | Careful) -> list[Piece]:
        if isinstance(job, Careful):
            return [job]
        return self._small(job) if isinstance(job, _Small) else self._window(job)

    # ---------------------------------------------------------------- Small files, many at once

    def _small(self, job: _Small) -> list[Piece]:
        pieces: list[Piece] = []
        gathered: list[tuple[ScanTask, list[_Part]]] = []
        before: FlatLayout | None = None
        for task, path, deleted in job.tasks:
            found = self._whole(task, path, deleted, job.residual)
            if gathered and (found is None or found[0] is not before):
                pieces += self._together(before, gathered, job.residual)
                gathered = []
            if found is None:
                pieces.append(Careful(task))
            else:
                before = found[0]
                gathered.append((task, found[1]))
        return pieces + self._together(before, gathered, job.residual)

    def _whole(
        self, task: ScanTask, path: str, deleted: tuple[Deleted, ...], residual: Bound
    ) -> tuple[FlatLayout, list[_Part]] | None:
        size = task.data_file.file_size
        try:
            data = _read(path, size + 1)
        except OSError:
            return None
        length = footer_length(data[-8:])
        if len(data) != size or length is None or length + 8 > size:
            return None
        found = self._match(task.data_file, data[size - 8 - length : -8], residual)
        if found is None:
            return None
        parts, position = [], 0
        for rows, chunks in found[1]:
            held = tuple((data, start, length, values, codec) for start, length, values, codec, _ in chunks)
            parts.append(_Part(file=task.data_file, rows=rows, position=position, deleted=deleted, chunks=held))
            position += rows
        return (found[0], parts) if position == task.data_file.record_count else None

    def _together(
        self, layout: FlatLayout | None, gathered: list[tuple[ScanTask, list[_Part]]], residual: Bound
    ) -> list[Piece]:
        if layout is None or not gathered:
            return []
        try:
            return [self._batch(layout, [part for _, parts in gathered for part in parts], residual)]
        except _FAULTS:
            return [Careful(task) for task, _ in gathered]

    # ---------------------------------------------------------------- Large files, a window of a row group at a time

    def _groups(self, task: ScanTask, path: str) -> Iterator[_Window | Careful]:
        try:
            found = self._judged(task, path)
        except _FAULTS:
            found = None
        if found is None:
            yield Careful(task)
            return
        layout, groups = found
        deleted, position = self._deleted(task), 0
        for at, (residual, rows, chunks) in enumerate(groups):
            if residual is not None and sum(length for _, length, *_ in chunks) > MOST_BYTES:
                yield Careful(task, frozenset((at,)))
            elif residual is not None:
                stored = _Stored(path, chunks)
                for window in self._windows(rows):
                    yield _Window(task, at, window, layout, residual, position, deleted, stored)
            position += rows

    def _windows(self, rows: int) -> Iterator[range]:
        """Parts of a row group that are about equal, and not too large."""
        count = -(-rows // self._most_rows)
        for at in range(count):
            yield range(at * rows // count, (at + 1) * rows // count)

    def _judged(self, task: ScanTask, path: str) -> tuple[FlatLayout, list[_Judged]] | None:
        """The layout of a large file, and of each row group what is left of the filter, the rows and the chunks."""
        with pa.OSFile(path) as source:
            size = source.size()
            tail = source.read_at(min(_TAIL, size), max(0, size - _TAIL))
            length = footer_length(tail[-8:])
            if length is None or length + 8 > size:
                return None
            footer = tail[-8 - length : -8] if length + 8 <= len(tail) else source.read_at(length, size - 8 - length)
            found = self._match(task.data_file, footer, task.residual)
            if found is None:
                return None
            layout, groups = found
            judged = judged_groups(source, len(groups), layout.columns, task.residual, self._request.row_schema)
            residuals = [residual for residual, _ in judged]
            return layout, [(left, *group) for left, group in zip(residuals, groups, strict=True)]

    def _window(self, job: _Window) -> list[Piece]:
        rows, positions = job.rows, range(job.position + job.rows.start, job.position + job.rows.stop)
        try:
            part = _Part(
                file=job.task.data_file,
                first=rows.start,
                rows=len(rows),
                position=positions.start,
                deleted=job.deleted,
                chunks=job.stored.chunks(),
            )
            return [self._batch(job.layout, [part], job.residual, of=job.task.residual)]
        except _FAULTS:
            return [Careful(job.task, frozenset((job.index,)), positions)]

    # ---------------------------------------------------------------- Layouts

    def _match(self, file: DataFile, footer: bytes, residual: Bound) -> tuple[FlatLayout, list[_RowGroup]] | None:
        """The layout of a file, and its row groups. None if `TaskReader` has to read it."""
        for layout in self._layouts:
            if layout.suits(footer, file.spec_id):
                columns = self._columns(layout, residual, file.spec_id)
                groups = None if columns is None else _groups_of(layout, footer, columns)
                if columns is None or groups is not None:
                    return None if groups is None else (layout, groups)
        new = self._new_layout(file, footer)
        columns = None if new is None else self._columns(new, residual, file.spec_id)
        groups = None if new is None or columns is None else _groups_of(new, footer, columns)
        return None if new is None or groups is None else (new, groups)

    def _new_layout(self, file: DataFile, footer: bytes) -> FlatLayout | None:
        """The layout of a file that no known layout fits."""
        end = schema_end(footer)
        if end is None or len(self._layouts) == _MOST_LAYOUTS:
            return None
        get_mapping, shared = self._careful.get_mapping, self._absent.shared(file)
        identify = renumbered(file, self._request.row_schema, get_mapping, shared.keys())
        try:
            layout = read_layout(
                self._careful.storage, file.path, footer[:end], spec_id=file.spec_id, without_ids=identify
            )
        except _FAULTS:
            return None
        for known in self._layouts:  # found by another thread meanwhile, or it does not suit this file
            if known == layout:
                return known
        self._layouts.append(layout)
        return layout

    def _columns(self, layout: FlatLayout, residual: Bound, spec_id: int) -> tuple[FlatColumn, ...] | None:
        """The needed columns that the files have, in the order of their chunks. None if `TaskReader` has to read."""
        key = (id(layout), id(residual), spec_id)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = (residual, self._needed(layout, residual, spec_id))
        return known[1]

    def _needed(self, layout: FlatLayout, residual: Bound, spec_id: int) -> tuple[FlatColumn, ...] | None:
        fields = {wanted.id: wanted for wanted in (*self._request.projection, *fields_of(residual))}
        there: dict[int, FlatColumn] = {}
        for wanted in fields.values():
            column = layout.find(wanted)
            if column is not None:
                there[column.leaf] = column
            elif not self._absent.has(wanted, layout.ids, spec_id):
                return None
        return tuple(there[leaf] for leaf in sorted(there))

    # ---------------------------------------------------------------- Rows

    def _batch(
        self, layout: FlatLayout, parts: list[_Part], residual: Bound, *, of: Bound | None = None
    ) -> pa.RecordBatch:
        """The rows of the parts that pass the deletes and the filter. ``of``: the filter that columns were read for."""
        columns = self._columns(layout, residual if of is None else of, parts[0].file.spec_id) or ()
        at = {column.leaf: index for index, column in enumerate(columns)}
        rows = sum(part.rows for part in parts)

        def read(wanted: Field, left: Left) -> pa.Array:
            column = layout.find(wanted)
            if column is None:
                return self._absent.values(wanted, [part.file for part in parts], _kept(parts, left))
            chunks = [part.chunks[at[column.leaf]] for part in parts]
            found = decoded(column, chunks, rows, left.mask, left.kept, first=parts[0].first)
            return column.typed(found, wanted.type)

        left = Left.of(_alive(parts, rows), rows)
        if residual != TRUE:
            later = {wanted.id for wanted in self._request.projection}
            left = filtered(residual, left, lambda step: self._tested(layout, parts, at, step), read, later=later)
        if not self._request.projection.fields:  # rows without columns, for a count
            return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), left.kept, [None]))
        if not left.kept:
            return pa.RecordBatch.from_pylist([], schema=self._schema)
        found = (
            left.held[wanted.id] if wanted.id in left.held else read(wanted, left)
            for wanted in self._request.projection
        )
        return pa.RecordBatch.from_arrays(list(found), schema=self._schema)

    def _tested(self, layout: FlatLayout, parts: list[_Part], at: Mapping[int, int], step: Bound) -> Bools | None:
        """The rows of a row group for which a filter on one column is TRUE, by the dictionary of its values."""
        fields = tuple(fields_of(step))
        if len(parts) != 1 or parts[0].rows < _DICTIONARY_ROWS or len(fields) != 1:
            return None
        column = layout.find(fields[0])
        if column is None or (id(layout), column.leaf) in self._plain:
            return None
        try:
            chunk = parts[0].chunks[at[column.leaf]]
            found = by_dictionary(step, column, chunk, parts[0].rows, first=parts[0].first)
        except ValueError:
            found = None
        if found is None:  # a column is much the same in all files of a scan: do not try again
            self._plain.add((id(layout), column.leaf))
        return found


_Chunks = tuple[tuple[int, int, int, int, int], ...]
_RowGroup = tuple[int, _Chunks]
_Judged = tuple[Bound | None, int, _Chunks]


class _Stored:
    """The chunks of a row group. They are read from the file once, by the first job that needs them."""

    def __init__(self, path: str, chunks: _Chunks) -> None:
        self._path, self._places = path, chunks
        self._lock = Lock()
        self._held: tuple[Chunk, ...] | None = None

    def chunks(self) -> tuple[Chunk, ...]:
        """Their bytes. Raises ``OSError`` if the file cannot be read."""
        with self._lock:
            if self._held is None:
                with pa.OSFile(self._path) as source:
                    self._held = tuple(_stored(source, place) for place in self._places)
            return self._held


@dataclass(frozen=True, slots=True)
class _Window:
    """Some rows of a row group of a large file. ``position`` is that of the row group."""

    task: ScanTask
    index: int
    rows: range
    layout: FlatLayout
    residual: Bound
    position: int
    deleted: tuple[Deleted, ...]
    stored: _Stored


def _width(wanted: Field) -> int:
    """The bytes of a value in memory, by a guess for those of any length."""
    try:
        return -(-int(to_arrow(wanted.type).bit_width) // 8)
    except ValueError:
        return _TEXT


def _groups_of(layout: FlatLayout, footer: bytes, columns: tuple[FlatColumn, ...]) -> list[_RowGroup] | None:
    """The row groups. None if one of them is not as the schema says."""
    leaves = tuple(column.leaf for column in columns)
    found = row_groups(footer, len(layout.prefix), leaves, layout.leaf_count, layout.arrow_schema)
    types = [column.physical for column in columns]
    for rows, chunks in found or ():
        if any(values != rows for _, _, values, _, _ in chunks) or [chunk[4] for chunk in chunks] != types:
            return None
    return found


def _stored(source: pa.NativeFile, chunk: tuple[int, int, int, int, int]) -> Chunk:
    """The bytes of a chunk, in Arrow's memory, which is used again sooner than Python's."""
    start, length, values, codec, _ = chunk
    source.seek(start)
    return source.read_buffer(length), 0, length, values, codec


def _alive(parts: list[_Part], rows: int) -> Bools | None:
    """Which rows the deletes leave. None if there are no deletes."""
    if not any(part.deleted for part in parts):
        return None
    alive, start = np.ones(rows, dtype=bool), 0
    for part in parts:
        for positions in part.deleted:
            alive[start + positions.within(part.position, part.rows)] = False
        start += part.rows
    return alive


def _kept(parts: list[_Part], left: Left) -> list[int]:
    """How many rows of each part are left."""
    ends = np.cumsum([0, *(part.rows for part in parts)])
    before = ends if left.mask is None else np.concatenate(([0], np.cumsum(left.mask)))[ends]
    return [int(count) for count in np.diff(before)]


def _read(path: str, most: int) -> bytes:
    """The first bytes of a file, all of it if it is not longer."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        return os.read(handle, most)
    finally:
        os.close(handle)
