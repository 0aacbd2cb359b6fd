"""Write delete files: position deletes, deletion vectors and equality deletes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from esker.arrow.value_arrays import repeated
from esker.arrow.write.arrow_writer import Limits
from esker.arrow.write.data_writer import DataWriter
from esker.arrow.write.file_layout import delete_layout
from esker.arrow.write.file_locations import delete_locations, file_name, partition_path
from esker.arrow.write.new_data_file import FileLayout, NewDataFile
from esker.arrow.write.partition_and_sort_rows import partitioner
from esker.errors import Unsupported
from esker.model.partition_and_sort import PartitionSpec
from esker.model.schema import Schema
from esker.model.types import LONG, STRING, Field
from esker.ports.row_changes import DeletedRows
from esker.ports.storage import Storage
from esker.read.attach_deletes import partition_key
from esker.tree.data_file import DataFile, FileContent
from esker.tree.table_metadata import TableMetadata
from esker.write.rows.row_change_modes import deletes_are_per_file

if TYPE_CHECKING:
    from esker.iceberg.puffin import NewBlob


PUFFIN_BYTES = 64 << 20  # a Puffin file is built in memory: above this size another one starts


class ArrowDeleteWriter:
    """Implements ``ports.row_changes.DeleteWriter`` with pyarrow, in this process."""

    # Imported late: Parquet's writer loads slower than a table's metadata.

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._calls = count()  # one operation may write several times; its file names must differ

    def write_positions(
        self, metadata: TableMetadata, rows: Sequence[DeletedRows], operation_id: str
    ) -> Iterator[DataFile]:
        """Write position delete files, one per data file or per partition, sorted by path and position."""

        return position_delete_files(self._storage, metadata, rows, name=(next(self._calls), operation_id))

    def write_vectors(
        self, metadata: TableMetadata, rows: Sequence[DeletedRows], operation_id: str
    ) -> Iterator[DataFile]:
        """Write one vector per data file, in the given order, several in a Puffin file."""
        from esker.arrow.write.file_locations import delete_locations, file_name
        from esker.iceberg.deletion_vector import deletion_vector_blob

        call, locations = next(self._calls), delete_locations(metadata)
        some: list[tuple[DeletedRows, NewBlob]] = []
        size, number = 0, 0
        for at, one in enumerate(rows):
            blob = deletion_vector_blob(one.positions, data_file=one.data_file.path)
            some.append((one, blob))
            size += len(blob.content)
            if size >= PUFFIN_BYTES or at == len(rows) - 1:
                number += 1
                name = file_name(call, operation_id, number).replace(".parquet", ".puffin")
                yield from self._puffin(locations.location("", name), some)
                some, size = [], 0

    def write_keys(
        self, metadata: TableMetadata, data: object, on: Sequence[str], operation_id: str
    ) -> Iterator[DataFile]:
        """Write equality delete files of these keys. All checks are done before the first file."""
        from esker.arrow.equal_rows import key_schema
        from esker.arrow.input.fit_data import fit_some

        if metadata.format_version == 1:
            raise Unsupported("cannot delete by key: format version 1 has no deletes; upgrade it first", feature="v1")
        schema = key_schema(metadata.schema, on)
        specs = specs_for_keys(metadata, schema)
        keys = fit_some(schema, data, metadata.schema)
        return equality_delete_files(
            self._storage, metadata, schema, specs, keys, name=(next(self._calls), operation_id)
        )

    def _puffin(self, location: str, vectors: Sequence[tuple[DeletedRows, NewBlob]]) -> Iterator[DataFile]:
        from esker.iceberg.puffin import encode_puffin
        from esker.version import VERSION

        content, footer = encode_puffin([blob for _, blob in vectors], properties={"created-by": f"Esker {VERSION}"})
        self._storage.write_new(location, content)
        for (one, _), blob in zip(vectors, footer.blobs, strict=True):
            yield DataFile(
                path=location,
                file_format="puffin",
                record_count=len(one.positions),
                file_size=len(content),
                content=FileContent.POSITION_DELETES,
                spec_id=one.data_file.spec_id,
                partition=one.data_file.partition,
                referenced_data_file=one.data_file.path,
                content_offset=blob.offset,
                content_size=blob.length,
            )


def specs_for_keys(metadata: TableMetadata, schema: Schema) -> tuple[PartitionSpec, ...]:
    """The specs under which equality deletes are written, so that they apply to all data.

    An unpartitioned spec applies to everything. Otherwise the key must determine the partition in every spec (H2).
    """
    whole = next((spec for spec in metadata.specs if spec.is_unpartitioned), None)
    if whole is not None:
        return (whole,)
    for spec in metadata.specs:
        for field in spec.fields:
            if field.source_id not in schema.by_id:
                raise Unsupported(
                    f"cannot delete by key ({', '.join(f.name for f in schema)}): the table is partitioned by "
                    f"{field.name!r}, which the key does not determine; add its column to the key, or use upsert",
                    feature="equality deletes across partitions",
                )
    return metadata.specs


# ---------------------------------------------------------------- Position delete files (v2)
#
# Path of the data file and position of the row, sorted by both.


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
    """Write the deletes. Each file has the spec and partition of its data (B7).

    ``write.delete.granularity`` decides whether a file is about one data file, the default, or about a whole partition.
    """
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


# ---------------------------------------------------------------- Equality delete files: keys, divided by partition


def equality_delete_files(
    storage: Storage,
    metadata: TableMetadata,
    schema: Schema,
    specs: Sequence[PartitionSpec],
    keys: pa.RecordBatchReader,
    *,
    name: tuple[int, str],
) -> Iterator[DataFile]:
    """Write the keys once per spec, so that they apply to the data of each."""
    batches = iter(keys) if len(specs) == 1 else list(keys)
    for task, spec in enumerate(specs):
        writer = DataWriter(
            storage,
            delete_layout(metadata, schema, spec),
            partitioner(schema, spec),
            delete_locations(metadata),
            name=name,
            limits=Limits(),
            task=task,
        )
        for file in writer.write(batches):
            yield replace(
                file,
                content=FileContent.EQUALITY_DELETES,
                equality_ids=tuple(sorted(field.id for field in schema)),
                sort_order_id=None,
            )
