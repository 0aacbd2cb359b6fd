"""The directories of a table's files, by partition and bucket."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from esker.model.arrow_arrays import arrow_array, binary_array, numbers_of
from esker.paimon.metadata.layout import Layout
from esker.paimon.metadata.table_schema import TableSchema
from esker.paimon.rows.binary_row import BinaryRows
from esker.paimon.rows.partition_path import other_partition_paths, partition_path
from esker.ports.storage import Storage

Int64s = npt.NDArray[np.int64]


class Places:
    """The partitions and directories of many files, each distinct one computed once."""

    def __init__(self, schema: TableSchema, layout: Layout, partitions: pa.Array, buckets: Int64s, file: str) -> None:
        self._schema = schema
        self._layout = layout
        encoded = partitions.dictionary_encode()
        self._partition_of = numbers_of(encoded.indices, null=0).astype(np.int64)
        rows = BinaryRows(encoded.dictionary, file)
        self._distinct = [rows.column(at, field.type) for at, field in enumerate(schema.partition_fields)]
        low = int(buckets.min()) if len(buckets) else 0
        width = (int(buckets.max()) - low + 1) if len(buckets) else 1
        pairs, first, self.place_of = np.unique(
            self._partition_of * width + (buckets - low), return_index=True, return_inverse=True
        )
        self._first = first
        self._pairs = [(int(pair) // width, int(pair) % width + low) for pair in pairs]

    @property
    def partition(self) -> tuple[pa.Array, ...]:
        """The partition values of every file, in the held form."""
        at = arrow_array(self._partition_of)
        return tuple(column.take(at) for column in self._distinct)

    def locations(self, storage: Storage, names: pa.Array) -> pa.Array:
        """The location of every file. Where pypaimon spelled a directory in its own way, that directory."""
        folders = []
        for (partition, bucket), first in zip(self._pairs, self._first, strict=True):
            values = [column[partition].as_py() for column in self._distinct]
            folders.append(self._folder(storage, values, bucket, names[int(first)].as_py()))
        whole = binary_array([folder.encode() for folder in folders]).cast(pa.string()).take(arrow_array(self.place_of))
        return pc.binary_join_element_wise(whole, names, "/")

    def _folder(self, storage: Storage, values: list[Any], bucket: int, name: str) -> str:
        fields, options = self._schema.partition_fields, self._schema.options
        right = self._layout.bucket(partition_path(fields, values, options), bucket)
        others = [self._layout.bucket(path, bucket) for path in other_partition_paths(fields, values, options)]
        if others and not storage.exists(f"{right}/{name}"):
            return next((other for other in others if storage.exists(f"{other}/{name}")), right)
        return right
