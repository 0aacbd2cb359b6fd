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
        pairs, self.place_of = np.unique(self._partition_of * width + (buckets - low), return_inverse=True)
        self._pairs = [(int(pair) // width, int(pair) % width + low) for pair in pairs]

    @property
    def partition(self) -> tuple[pa.Array, ...]:
        """The partition values of every file, in the held form."""
        at = arrow_array(self._partition_of)
        return tuple(column.take(at) for column in self._distinct)

    def locations(self, storage: Storage, names: pa.Array) -> pa.Array:
        """The location of every file. Where pypaimon spelled a directory in its own way, that directory. A partition
        may have files in both."""
        folder_of = self.place_of.copy()
        folders: list[str] = []
        others: list[str] = []
        for number, (partition, bucket) in enumerate(self._pairs):
            right, *spelt = self._spellings([column[partition].as_py() for column in self._distinct], bucket)
            folders.append(right)
            for other in spelt:
                there = {file.location.rpartition("/")[2] for file in storage.list(f"{other}/")}
                for at in np.flatnonzero(self.place_of == number) if there else ():
                    if names[int(at)].as_py() in there:
                        folder_of[at] = len(self._pairs) + len(others)
                others.append(other)
        texts = binary_array([*(folder.encode() for folder in (*folders, *others)), b"/"]).cast(pa.string())
        # The slash is a value of an array: Arrow imports pandas, which takes a second, to convert a text of Python.
        return pc.binary_join_element_wise(texts.take(arrow_array(folder_of)), names, texts[len(texts) - 1])

    def _spellings(self, values: list[Any], bucket: int) -> list[str]:
        """The directory of a bucket, then those that pypaimon may have used in its place."""
        fields, options = self._schema.partition_fields, self._schema.options
        paths = [partition_path(fields, values, options), *other_partition_paths(fields, values, options)]
        return [self._layout.bucket(path, bucket) for path in paths]
