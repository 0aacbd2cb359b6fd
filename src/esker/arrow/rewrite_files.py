"""The Arrow engine for compaction: reads the rows of a group of files and writes them to new files.

Rows that are only copied are a stream. Rows that are sorted are in memory, one group at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from esker.model.partition_and_sort import UNSORTED, SortOrder
from esker.model.schema import Schema
from esker.ports.engine import Engine, ReadRequest, ScanTask, Writer, WriteRequest
from esker.ports.file_rewriting import EngineName, FileGroup, RowLayout
from esker.tree.data_file import DataFile, FileContent
from esker.tree.table_metadata import TableMetadata
from esker.write.rows.rewrite_file import with_lineage

if TYPE_CHECKING:
    import pyarrow as pa

_NEARLY = 0.97  # the writer closes a file that has this part of its target
_SLICE = 1 << 16


def rewriting_metadata(group: FileGroup, file_size: int) -> TableMetadata:
    """The table as the writer of a group sees it: with the size of the group's files."""
    size = str(int(file_size / _NEARLY) + 1)
    return replace(group.metadata, properties={**group.metadata.properties, "write.target-file-size-bytes": size})


def recorded_order(group: FileGroup) -> SortOrder:
    """The sort order that new files record: none if the rows are only copied, or sorted by keys of this call alone."""
    return group.layout.sort if group.layout.sort.order_id else UNSORTED


def group_request(group: FileGroup) -> ReadRequest:
    """A request for the rows of a group that are not deleted, with their lineage (v3)."""
    projection = with_lineage(group.metadata)
    return ReadRequest(
        metadata=group.metadata, tasks=group.tasks, row_schema=group.metadata.schema, projection=projection
    )


def rows_of_group(engine: Engine, group: FileGroup) -> Iterator[pa.RecordBatch]:
    """The rows of a group that are not deleted, in the order of the group's layout."""
    import pyarrow as pa

    request = group_request(group)
    rows = engine.read(request)
    if group.layout.is_unordered:
        return rows
    schema = engine.arrow_schema(request.projection)
    return _ordered(pa.Table.from_batches(rows, schema), request.projection, group.layout)


class ArrowFileRewriter:
    """Implements ``ports.file_rewriting.FileRewriter`` in this process."""

    def __init__(self, engine: Engine, writer: Writer) -> None:
        self._engine = engine
        self._writer = writer

    @property
    def engine(self) -> Engine:
        """The engine that reads the files."""
        return self._engine

    def engine_for(self, asked: EngineName, size: int) -> EngineName:
        """Always Arrow."""
        return "arrow"

    def rewrite(self, group: FileGroup) -> Iterator[DataFile]:
        """Write the rows of the group that are not deleted to new files."""
        import pyarrow as pa

        metadata = rewriting_metadata(group, group.target_file_size)
        schema = self._engine.arrow_schema(with_lineage(group.metadata))
        request = WriteRequest(
            metadata=metadata,
            schema=metadata.schema,
            data=pa.RecordBatchReader.from_batches(schema, rows_of_group(self._engine, group)),
            operation_id=group.operation_id,
            order=recorded_order(group),
        )
        return self._writer.write(request)

    def deleted_rows(self, group: FileGroup) -> int:
        """How many rows of the files their deletes remove: by positions, else by reading the deleted rows."""
        compared = [task for task in group.tasks if needs_reading(task)]
        found = sum(self.deleted_positions(task) for task in group.tasks if not needs_reading(task))
        return found + sum(batch.num_rows for batch in self._engine.read(deleted_request(group, compared)))

    def deleted_positions(self, task: ScanTask) -> int:
        """How many rows of a file its position deletes and vectors remove."""
        if not task.deletes:
            return 0
        found = self._engine.deleted_positions(task.data_file, task.deletes)
        return found.rank(task.data_file.record_count - 1) if task.data_file.record_count else 0


def needs_reading(task: ScanTask) -> bool:
    """Whether only the file's rows say how many are deleted: an equality delete compares columns."""
    return any(delete.content is FileContent.EQUALITY_DELETES for delete in task.deletes)


def deleted_request(group: FileGroup, tasks: Sequence[ScanTask]) -> ReadRequest:
    """A request for the deleted rows of some files of a group, without columns."""
    return ReadRequest(
        metadata=group.metadata,
        tasks=[replace(task, deletes=(), taken_by=task.deletes) for task in tasks],
        row_schema=group.metadata.schema,
        projection=Schema(fields=()),
    )


def _ordered(rows: pa.Table, schema: Schema, layout: RowLayout) -> Iterator[pa.RecordBatch]:
    """The rows in order, in slices."""
    places = _places(rows, schema, layout)
    rows = rows.combine_chunks()
    for start in range(0, rows.num_rows, _SLICE):
        yield from rows.take(places.slice(start, _SLICE)).combine_chunks().to_batches()


def _places(rows: pa.Table, schema: Schema, layout: RowLayout) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    from esker.arrow.value_arrays import leaf_array
    from esker.arrow.write.partition_and_sort_rows import sorted_places
    from esker.arrow.z_order import comparable, cuts_of, z_values

    ids = layout.z_order or tuple(field.source_id for field in layout.sort.fields)
    tops = list(dict.fromkeys(schema.path_by_id[id_][0].name for id_ in ids))
    keys = pa.concat_batches(rows.select(tops).to_batches()) if rows.num_rows else None
    if keys is None:
        return pa.array([], pa.int64())
    if not layout.z_order:
        found = sorted_places(keys, schema, layout.sort)
        return pa.array(np.arange(rows.num_rows)) if found is None else found
    paths = [schema.path_by_id[id_] for id_ in layout.z_order]
    columns = [comparable(leaf_array(keys, path), path[-1].type) for path in paths]
    order = z_values(columns, [cuts_of(values, len(columns)) for values in columns])
    return pa.array(np.argsort(order, kind="stable"))
