"""Read one data file of a plan: from its columns to the rows that are left after deletes and filter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from esker.arrow.arrow_types import to_arrow_schema
from esker.arrow.deletes.delete_store import DeleteStore, EqualityDelete, Takers, takers_of, touches_of
from esker.arrow.deletes.deleted_positions import Bitmap, Deleted
from esker.arrow.read.file_columns import FileColumn, branch, path_of, tip, wanted_leaves
from esker.arrow.read.filter import matches
from esker.arrow.read.format_reader import BATCH_ROWS, Chunk, ChunkRequest
from esker.arrow.read.open_data import GetMapping, open_data, renumbered
from esker.arrow.read.project import Held, Origin, project
from esker.arrow.read.row_metadata import CHANGE, DELETED, LINEAGE, METADATA_COLUMNS, change_column, metadata_column
from esker.arrow.value_arrays import repeated
from esker.model.partition_and_sort import PartitionSpec
from esker.model.predicates.predicate import TRUE, Bound, terms
from esker.model.transform import IdentityTransform
from esker.model.types import BOOLEAN, Field
from esker.ports.engine import ReadRequest, ScanTask
from esker.ports.storage import Storage
from esker.tree.data_file import DataFile

Bools = npt.NDArray[np.bool_]
Path = tuple[Field, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReader:
    """Reads the tasks of one request, and keeps what they share."""

    storage: Storage
    request: ReadRequest
    get_mapping: GetMapping
    deletes: DeleteStore

    def read(
        self, task: ScanTask, groups: frozenset[int] | None = None, positions: range | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of the task, batch by batch. ``groups``: only of these row groups of a Parquet file. ``positions``:
        only the rows at these positions."""
        data_file = task.data_file
        deleted = self.deletes.positions(data_file, task.deletes)
        if task.gone is not None:
            deleted = (*deleted, Bitmap(task.gone, 0))
        equality = self.deletes.equality(task.deletes)
        takers = takers_of(task, self.deletes)
        if takers is not None and takers.are_none:
            return
        spec = self.request.metadata.spec_by_id.get(data_file.spec_id, PartitionSpec())
        origin = Origin(file=data_file.path, constants=identity_values(spec, data_file))
        source = open_data(
            self.storage,
            data_file,
            renumbered(data_file, self.request.row_schema, self.get_mapping, origin.constants.keys()),
        )
        chunks = source.chunks(replace(self._chunk_request(task, equality, takers, source.columns), groups=groups))
        for chunk in chunks:
            rows = Rows(chunk=chunk, data_file=data_file, spec=spec, origin=origin, task=task)
            alive = self._alive(rows, deleted, equality)
            if takers is not None and alive.any():
                alive &= takers.hits(rows)
            if positions is not None:
                alive[: max(0, positions.start - chunk.position)] = False
                alive[max(0, positions.stop - chunk.position) :] = False
            if alive.any():
                yield _selected(rows, tuple(self.request.projection), alive)

    def _chunk_request(
        self,
        task: ScanTask,
        equality: tuple[EqualityDelete, ...],
        takers: Takers | None,
        columns: tuple[FileColumn, ...],
    ) -> ChunkRequest:
        keyed = equality if takers is None else (*equality, *takers.keys)
        compared = [path for delete in keyed for path in delete.paths]
        wanted = [*self.request.projection, *(branch(path) for path in (*compared, *self._filtered(task.residual)))]
        stored = [f for f in wanted if f.id not in METADATA_COLUMNS or f.id in LINEAGE]
        limit = self.request.limit
        return ChunkRequest(
            leaves=wanted_leaves(stored, columns),
            residual=task.residual,
            schema=self.request.row_schema,
            batch_rows=BATCH_ROWS if limit is None else min(BATCH_ROWS, max(1024, limit)),
            touches=touches_of(task, takers),
        )

    def _filtered(self, residual: Bound) -> tuple[Path, ...]:
        fields = {term.field.id: term.field for term in terms(residual)}
        return tuple(path_of(id_, self.request.row_schema) or (field,) for id_, field in fields.items())

    def _alive(self, rows: Rows, deleted: tuple[Deleted, ...], equality: tuple[EqualityDelete, ...]) -> Bools:
        """Which rows are left after deletes and filter."""
        chunk = rows.chunk
        alive = np.ones(chunk.length, dtype=bool)
        for positions in deleted:
            alive[positions.within(chunk.position, chunk.length)] = False
        for delete in equality:
            if alive.any():
                alive &= ~delete.keys.hits([rows.at(path) for path in delete.paths])
        if chunk.residual != TRUE and alive.any():
            columns = {path[-1].id: rows.at(path) for path in self._filtered(chunk.residual)}
            passed = matches(chunk.residual, columns, chunk.length)
            alive &= passed.fill_null(False).to_numpy(zero_copy_only=False)
        return alive


@dataclass(slots=True, kw_only=True)
class Rows:
    """A chunk as rows of the table. Each column is made at its first use."""

    chunk: Chunk
    data_file: DataFile
    spec: PartitionSpec
    origin: Origin
    task: ScanTask
    _held: Mapping[int | None, Held] = field(init=False)
    _made: dict[Path, pa.Array] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        # Reversed, so that the first of two columns with one id is used, as in the selection of leaves.
        self._held = {column.field_id: (column, array) for column, array in reversed(self.chunk.columns)}

    def column(self, wanted: Field) -> pa.Array:
        """A top-level column, or a metadata column."""
        held = self._held.get(wanted.id)
        if wanted.id not in METADATA_COLUMNS:
            return project(wanted, held, self.chunk.length, self.origin)
        if wanted.id in CHANGE:
            return change_column(wanted, self.task.change, self.chunk.length)
        if wanted.id == DELETED:
            return repeated(BOOLEAN, self.task.taken_by is not None, self.chunk.length)
        start = self.chunk.position
        positions = np.arange(start, start + self.chunk.length, dtype=np.int64)
        own = None if held is None else project(wanted, held, self.chunk.length, self.origin)
        return metadata_column(wanted, self.data_file, self.spec, positions, own)

    def at(self, path: Path) -> pa.Array:
        """A column at any depth, for filters and keys."""
        ids: Any = tuple(part.id for part in path)
        if ids not in self._made:
            self._made[ids] = tip(self.column(branch(path)), path)
        return self._made[ids]


def _selected(rows: Rows, fields: tuple[Field, ...], alive: Bools) -> pa.RecordBatch:
    count = int(np.count_nonzero(alive))
    if not fields:  # rows without columns, for a count
        return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), count, [None]))
    arrays = [rows.column(wanted) for wanted in fields]
    batch = pa.RecordBatch.from_arrays(arrays, schema=to_arrow_schema(fields))
    return batch if count == rows.chunk.length else batch.filter(pa.array(alive))


def identity_values(spec: PartitionSpec, data_file: DataFile) -> dict[int, Any]:
    """The held values that all rows of a file share because their partition says so, by source field id."""
    pairs = zip(spec.fields, data_file.partition, strict=False)
    return {part.source_id: value for part, value in pairs if isinstance(part.transform, IdentityTransform)}
