"""The embedded engine: reads planned files into Arrow batches, without a JVM."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

from esker.arrow.arrow_types import to_arrow_schema
from esker.model.schema import MappedField, Schema, mapping_of
from esker.ports.engine import ChangeRequest, ReadRequest
from esker.ports.merge import SYSTEM_NAMES
from esker.ports.storage import Storage
from esker.tree.data_file import DataFile

if TYPE_CHECKING:
    import pyarrow as pa
    from pyroaring import BitMap64

    from esker.arrow.read.task_reader import TaskReader

NAME_MAPPING = "schema.name-mapping.default"
ParseNameMapping = Callable[[str], tuple[MappedField, ...]]


def _flat_scan(reader: TaskReader) -> Iterator[pa.RecordBatch] | None:
    """The rows of a request, by compiled code. None where it was not built, or does not suit the request."""
    try:
        from esker.arrow.flat.flat_scan import FlatScan, suits
    except ImportError:  # there was no compiler
        return None
    return FlatScan(reader).read() if sys.byteorder == "little" and suits(reader.request) else None


class ArrowEngine:
    """Reads data files with pyarrow, in task order. Memory is about one row group at a time."""

    def __init__(self, storage: Storage, *, parse_name_mapping: ParseNameMapping) -> None:
        self._storage = storage
        self._parse_name_mapping = parse_name_mapping

    @property
    def storage(self) -> Storage:
        """The storage that it reads from."""
        return self._storage

    def arrow_schema(self, projection: Schema) -> pa.Schema:
        """The Arrow schema of the batches of this projection."""
        return to_arrow_schema(projection)

    def read(self, request: ReadRequest) -> Iterator[pa.RecordBatch]:
        """The rows that pass the filter and the deletes, in task order, in bounded memory. If rows are merged, memory
        is bounded by the files with common keys."""
        if request.merge is None:
            return self._read(request)
        from esker.arrow.read.merge_rows import read_merged

        return read_merged(self._read, request, request.merge)

    def _read(self, request: ReadRequest) -> Iterator[pa.RecordBatch]:
        """The rows of the files, each by itself."""
        # Imported late: Arrow's readers and kernels load slower than a table's metadata.
        from esker.arrow.deletes.delete_store import DeleteStore
        from esker.arrow.read.task_reader import TaskReader

        get_mapping = cache(partial(self.name_mapping, request))
        deletes = DeleteStore(self._storage, request.metadata, request.row_schema, get_mapping)
        reader = TaskReader(storage=self._storage, request=request, get_mapping=get_mapping, deletes=deletes)
        flat = _flat_scan(reader)
        if flat is not None:
            yield from flat
            return
        left = request.limit
        for task in request.tasks if left != 0 else ():
            for batch in reader.read(task):
                if left is None or batch.num_rows < left:
                    yield batch
                    left = None if left is None else left - batch.num_rows
                else:
                    yield batch.slice(0, left)
                    return

    def read_changes(self, request: ChangeRequest) -> Iterator[pa.RecordBatch]:
        """The changed rows, commit by commit. A row that is on both sides of a commit is no change."""
        from esker.arrow.read.change_feed import read_changes

        return read_changes(self.read, request)

    def position_deletes(self, delete: DataFile) -> Iterator[pa.RecordBatch]:
        """The rows of a position delete file or deletion vector: ``file_path`` and ``pos``."""
        import pyarrow as pa

        from esker.arrow.deletes.deleted_positions import position_rows, read_deletion_vector, vector_rows
        from esker.arrow.read.open_data import open_data

        if delete.is_deletion_vector:
            rows = vector_rows(read_deletion_vector(self._storage, delete), delete.referenced_data_file or "")
        else:
            rows = position_rows(open_data(self._storage, delete, lambda columns: columns), delete.path)
        for path, pos in rows:
            yield pa.RecordBatch.from_arrays([path, pa.array(pos)], names=["file_path", "pos"])

    def deleted_positions(self, data_file: DataFile, deletes: Sequence[DataFile]) -> BitMap64:
        """Every position that these position deletes and vectors remove from the data file."""
        from pyroaring import BitMap64

        from esker.arrow.deletes.deleted_positions import bitmap_of, read_deletion_vector, read_position_deletes
        from esker.arrow.read.open_data import open_data

        found = BitMap64()
        for delete in deletes:
            if delete.is_deletion_vector:
                found |= read_deletion_vector(self._storage, delete).bitmap
            else:
                source = open_data(self._storage, delete, lambda columns: columns)
                positions = read_position_deletes(source, delete.path, only=data_file.path).of(data_file.path)
                found |= bitmap_of(positions.positions)
        return found

    def name_mapping(self, request: ReadRequest, schema_id: int | None = None) -> tuple[MappedField, ...] | None:
        """The names of the columns of files that were written with a schema. For None the table's name mapping, or
        None. If that mapping cannot be for this table, a mapping of the current names."""
        from esker.arrow.read.open_data import usable_mapping

        if schema_id is not None:
            written = request.metadata.schema_by_id.get(schema_id, request.row_schema)
            return (*mapping_of(written.fields), *SYSTEM_NAMES)
        text = request.metadata.properties.get(NAME_MAPPING)
        if text is None:
            return None
        mapping = self._parse_name_mapping(text)
        return mapping if usable_mapping(mapping, request.metadata.schemas) else mapping_of(request.row_schema.fields)
