"""Files of deletes: positions in Parquet, positions as bitmaps in Puffin, and keys in Parquet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING

from esker.errors import Unsupported
from esker.model.partition import PartitionSpec
from esker.ports.row_changes import DeletedRows
from esker.ports.storage import Storage
from esker.tree.data_file import DataFile, FileContent
from esker.tree.table_metadata import TableMetadata

if TYPE_CHECKING:
    from esker.iceberg.write_puffin import NewBlob
    from esker.model.schema import Schema

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
        from esker.arrow.position_delete_file import position_delete_files

        return position_delete_files(self._storage, metadata, rows, name=(next(self._calls), operation_id))

    def write_vectors(
        self, metadata: TableMetadata, rows: Sequence[DeletedRows], operation_id: str
    ) -> Iterator[DataFile]:
        """One vector per data file in the order they are given, several to a Puffin file."""
        from esker.arrow.data_location import delete_locations, file_name
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
        from esker.arrow.equality_delete_file import equality_delete_files
        from esker.arrow.fit import fit_some
        from esker.arrow.keys import key_schema

        if metadata.format_version == 1:
            raise Unsupported("cannot delete by key: format version 1 has no deletes; upgrade it first", feature="v1")
        schema = key_schema(metadata.schema, on)
        specs = specs_for_keys(metadata, schema)
        keys = fit_some(schema, data, metadata.schema)
        return equality_delete_files(
            self._storage, metadata, schema, specs, keys, name=(next(self._calls), operation_id)
        )

    def _puffin(self, location: str, vectors: Sequence[tuple[DeletedRows, NewBlob]]) -> Iterator[DataFile]:
        from esker.iceberg.write_puffin import encode_puffin
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
