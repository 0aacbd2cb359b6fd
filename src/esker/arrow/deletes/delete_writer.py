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


# ---------------------------------------------------------------- delete writer
#
# Files of deletes: positions in Parquet, positions as bitmaps in Puffin, and keys in Parquet.


PUFFIN_BYTES = 64 << 20  # a Puffin file is made whole in memory: beyond this another one begins


class ArrowDeleteWriter:
    """Implements ``ports.row_changes.DeleteWriter`` with pyarrow, in this process."""

    # Parquet's writer takes longer to load than a look at a table's metadata: imported late.

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._calls = count()  # one operation may write several times, and its files must not clash

    def write_positions(
        self, metadata: TableMetadata, rows: Sequence[DeletedRows], operation_id: str
    ) -> Iterator[DataFile]:
        """Position delete files, one per data file or per partition, sorted by path and position."""

        return position_delete_files(self._storage, metadata, rows, name=(next(self._calls), operation_id))

    def write_vectors(
        self, metadata: TableMetadata, rows: Sequence[DeletedRows], operation_id: str
    ) -> Iterator[DataFile]:
        """One vector per data file in the order they are given, several to a Puffin file."""
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
        """Equality delete files of these keys. What can be refused is refused now."""
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
    """The specs to file equality deletes under, so that they reach all data: one without partitions reaches
    everything, else every spec must tell a key's partition from the key (H2)."""
    whole = next((spec for spec in metadata.specs if spec.is_unpartitioned), None)
    if whole is not None:
        return (whole,)
    for spec in metadata.specs:
        for field in spec.fields:
            if field.source_id not in schema.by_id:
                raise Unsupported(
                    f"cannot delete by key ({', '.join(f.name for f in schema)}): the table is partitioned by "
                    f"{field.name!r}, which is not told by the key; add its column to the key, or use upsert",
                    feature="equality deletes across partitions",
                )
    return metadata.specs


# ---------------------------------------------------------------- position delete file
#
# Position delete files of format version 2: the path of a data file and the position of a row, sorted by both.
#
# ``write.delete.granularity`` says whether a file is about one data file, by default, or about all of a partition.


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


# ---------------------------------------------------------------- equality delete file
#
# Equality delete files: keys, divided by partition, each saying which columns it compares.


def equality_delete_files(
    storage: Storage,
    metadata: TableMetadata,
    schema: Schema,
    specs: Sequence[PartitionSpec],
    keys: pa.RecordBatchReader,
    *,
    name: tuple[int, str],
) -> Iterator[DataFile]:
    """Write the keys once per spec, so that they reach data of each."""
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
