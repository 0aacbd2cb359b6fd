"""Fourth step down: which deletes apply to which data file.

The spec's rules, all of them needed at once:

- An equality delete applies to data of a strictly smaller data sequence number, a position delete or deletion
  vector to smaller or equal.
- A delete applies within its own partition, spec id and tuple alike; an equality delete under an unpartitioned
  spec is global.
- A deletion vector, or a position delete that names one file, applies to that file only; where there is a
  vector, it has absorbed every earlier position delete of its file.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from esker.errors import Corrupt
from esker.ports.table_format import EntryColumns, TableFormat
from esker.read.prune_manifest import PrunedManifests
from esker.read.prune_manifest_list import PrunedList
from esker.tree.data_file import DataFile, FileContent
from esker.tree.manifest import ColumnMetrics, Entries
from esker.tree.table_metadata import TableMetadata

DELETE_FILE_PATH_ID = 2147483546
PartitionKey = tuple[int, tuple[Any, ...]]


class DeleteIndex:
    """The live delete files of a snapshot, arranged to answer: what applies to this data file?"""

    def __init__(self, metadata: TableMetadata, batches: Iterable[Entries]) -> None:
        self._global: list[DataFile] = []
        self._equality: dict[PartitionKey, list[DataFile]] = defaultdict(list)
        self._by_path: dict[str, list[DataFile]] = defaultdict(list)
        self._by_partition: dict[PartitionKey, list[tuple[DataFile, bytes | None, bytes | None]]] = defaultdict(list)
        self._vectors: dict[str, DataFile] = {}
        self._unpartitioned = {spec.spec_id for spec in metadata.specs if spec.is_unpartitioned}
        self.count = 0
        for entries in batches:
            for row, delete in enumerate(entries.data_files()):
                if entries.is_live[row]:
                    self.count += 1
                    self._add(delete, _path_bounds(entries, row))

    def __bool__(self) -> bool:
        return self.count > 0

    def _add(self, delete: DataFile, bounds: tuple[bytes | None, bytes | None]) -> None:
        lower, upper = bounds
        if delete.is_deletion_vector:
            self._add_vector(delete)
        elif delete.content is FileContent.EQUALITY_DELETES:
            if delete.spec_id in self._unpartitioned:
                self._global.append(delete)
            else:
                self._equality[partition_key(delete)].append(delete)
        elif delete.content is FileContent.POSITION_DELETES:
            if delete.referenced_data_file is not None:
                self._by_path[delete.referenced_data_file].append(delete)
            elif lower is not None and lower == upper:
                self._by_path[lower.decode("utf-8", "surrogateescape")].append(delete)
            else:
                self._by_partition[partition_key(delete)].append((delete, lower, upper))

    def _add_vector(self, delete: DataFile) -> None:
        target = delete.referenced_data_file
        if target is None:
            raise Corrupt(delete.path, "a deletion vector names no data file")
        other = self._vectors.get(target)
        if other is not None and other.sequence_number == delete.sequence_number:
            raise Corrupt(delete.path, f"{target} has two deletion vectors, the other in {other.path}")
        if other is None or other.sequence_number < delete.sequence_number:
            self._vectors[target] = delete

    def applying_to(self, data: DataFile) -> tuple[DataFile, ...]:
        """The deletes that apply to a data file, equality deletes last."""
        return (*self._positions(data), *self._equalities(data))

    def _positions(self, data: DataFile) -> Iterator[DataFile]:
        vector = self._vectors.get(data.path)
        if vector is not None and data.sequence_number <= vector.sequence_number:
            yield vector
            return
        for delete in self._by_path.get(data.path, ()):
            if data.sequence_number <= delete.sequence_number:
                yield delete
        if not self._by_partition:
            return
        path = data.path.encode("utf-8", "surrogateescape")
        for delete, lower, upper in self._by_partition.get(partition_key(data), ()):
            outside = (lower is not None and path < lower) or (upper is not None and path > upper)
            if data.sequence_number <= delete.sequence_number and not outside:
                yield delete

    def _equalities(self, data: DataFile) -> Iterator[DataFile]:
        for delete in self._global:
            if data.sequence_number < delete.sequence_number:
                yield delete
        if self._equality:
            for delete in self._equality.get(partition_key(data), ()):
                if data.sequence_number < delete.sequence_number:
                    yield delete


def partition_key(file: DataFile) -> PartitionKey:
    """Spec id and tuple, comparable: floats by bit pattern after folding NaN, since -0.0 is a value of its own."""
    return file.spec_id, tuple(map(_comparable, file.partition))


def _comparable(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value.hex()
    return value


def _path_bounds(entries: Entries, row: int) -> tuple[bytes | None, bytes | None]:
    metrics: ColumnMetrics | None = entries.metrics.get(DELETE_FILE_PATH_ID)
    if metrics is None:
        return None, None
    return metrics.lower[row].as_py(), metrics.upper[row].as_py()


def attach_deletes(
    metadata: TableMetadata, table_format: TableFormat, listed: PrunedList, pruned: PrunedManifests
) -> DeleteIndex:
    """Read the delete manifests that were kept, if there is any data for them to apply to."""
    manifests = listed.deletes if pruned.kept else ()
    columns = EntryColumns(metrics=(DELETE_FILE_PATH_ID,))
    return DeleteIndex(metadata, table_format.entries(metadata, manifests, columns))
