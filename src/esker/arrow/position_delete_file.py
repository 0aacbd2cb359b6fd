"""Position delete files of format version 2: the path of a data file and the position of a row, sorted by both.

``write.delete.granularity`` says whether a file is about one data file, by default, or about all of a partition.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from esker.arrow.constants import repeated
from esker.arrow.data_location import delete_locations, file_name
from esker.arrow.delete_layout import delete_layout
from esker.arrow.new_data_file import FileLayout, NewDataFile
from esker.arrow.partition_path import partition_path
from esker.model.schema import Schema
from esker.model.types import LONG, STRING, Field
from esker.ports.row_changes import DeletedRows
from esker.ports.storage import Storage
from esker.read.attach_deletes import partition_key
from esker.tree.data_file import DataFile, FileContent
from esker.tree.table_metadata import TableMetadata
from esker.write.modes import deletes_are_per_file

_ROWS = 1 << 20
_SCHEMA = Schema(
    fields=(
        Field(id=2147483546, name="file_path", type=STRING, required=True),
        Field(id=2147483545, name="pos", type=LONG, required=True),
    )
)


def position_delete_files(
    storage: Storage, metadata: TableMetadata, rows: Sequence[DeletedRows], *, name: tuple[int, str]
) -> Iterator[DataFile]:
    """Write the deletes, and describe each file under spec and partition of the data it is about (B7)."""
    locations, (call, operation_id) = delete_locations(metadata), name
    for number, group in enumerate(_groups(metadata, rows), 1):
        first = group[0].data_file
        spec = metadata.spec_by_id[first.spec_id]
        folders = partition_path(spec, metadata.any_field_by_id, first.partition)
        location = locations.location(folders, file_name(call, operation_id, number))
        yield _write(storage, location, delete_layout(metadata, _SCHEMA, spec), group)


def _groups(metadata: TableMetadata, rows: Sequence[DeletedRows]) -> list[list[DeletedRows]]:
    ordered = sorted(rows, key=lambda one: one.data_file.path.encode())  # as readers compare paths (H6)
    if deletes_are_per_file(metadata):
        return [[one] for one in ordered]
    groups: dict[object, list[DeletedRows]] = defaultdict(list)
    for one in ordered:
        groups[partition_key(one.data_file)].append(one)
    return list(groups.values())


def _write(storage: Storage, location: str, layout: FileLayout, group: Sequence[DeletedRows]) -> DataFile:
    file = NewDataFile(storage, location, layout, rows=sum(len(one.positions) for one in group))
    try:
        waiting: list[pa.RecordBatch] = []
        for batch in _batches(group):
            waiting.append(batch)
            if sum(some.num_rows for some in waiting) >= _ROWS:
                file.write(waiting, rows_per_group=_ROWS)
                waiting = []
        if waiting:
            file.write(waiting, rows_per_group=_ROWS)
    except BaseException:
        file.abort()
        raise
    return replace(
        file.finish(group[0].data_file.partition),
        content=FileContent.POSITION_DELETES,
        sort_order_id=None,
        referenced_data_file=group[0].data_file.path if len(group) == 1 else None,
    )


def _batches(group: Sequence[DeletedRows]) -> Iterator[pa.RecordBatch]:
    for one in group:
        positions = np.frombuffer(one.positions.to_array(), dtype=np.uint64).astype(np.int64)
        for start in range(0, len(positions), _ROWS):
            some = positions[start : start + _ROWS]
            yield pa.record_batch(
                [repeated(STRING, one.data_file.path, len(some)), pa.array(some)], names=["file_path", "pos"]
            )
