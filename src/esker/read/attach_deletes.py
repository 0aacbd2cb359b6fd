"""Fourth step of a scan: which deletes apply to which data file.

The rules of the spec:

- An equality delete applies to data with a smaller data sequence number. A position delete or deletion vector applies
  to data with a smaller or equal one.
- A delete applies only in its own partition: same spec id, same values. An equality delete with an unpartitioned spec
  applies to all partitions.
- A deletion vector, or a position delete that names one file, applies to that file only. Different forms of the
  location count as the same file. If a file has a vector, the vector contains all earlier position deletes of the file.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from esker.errors import Corrupt
from esker.model.file_paths import same_file, split_location
from esker.ports.table_format import EntryColumns, TableFormat
from esker.read.prune_manifest import PrunedManifests
from esker.read.prune_manifest_list import PrunedList
from esker.tree.data_file import DataFile, FileContent
from esker.tree.manifest import ColumnMetrics, Entries
from esker.tree.table_metadata import TableMetadata

DELETE_FILE_PATH_ID = 2147483546
TRUNCATED = 16  # writers often cut bounds to this many characters: two equal bounds of this length may name many files
PartitionKey = tuple[int, tuple[Any, ...]]


class DeleteIndex:
    """The live delete files of a snapshot, indexed to find those that apply to a data file."""

    def __init__(self, metadata: TableMetadata, batches: Iterable[Entries]) -> None:
        self._global: list[DataFile] = []
        self._equality: dict[PartitionKey, list[DataFile]] = defaultdict(list)
        self._by_path: dict[str, list[tuple[str, DataFile]]] = defaultdict(list)  # by path without scheme and host
        self._by_partition: dict[PartitionKey, list[tuple[DataFile, bytes | None, bytes | None]]] = defaultdict(list)
        self._vectors: dict[str, list[tuple[str, DataFile]]] = defaultdict(list)
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
            target = _target(delete, lower, upper)
            if target is not None:
                self._add_named(self._by_path, target, delete)
            else:
                self._by_partition[partition_key(delete)].append((delete, lower, upper))

    def _add_vector(self, delete: DataFile) -> None:
        target = delete.referenced_data_file
        if target is None:
            raise Corrupt(delete.path, "a deletion vector does not name its data file")
        for other in _named(self._vectors, target):
            if other.sequence_number == delete.sequence_number:
                raise Corrupt(delete.path, f"{target} has two deletion vectors, the other in {other.path}")
        self._add_named(self._vectors, target, delete)

    @staticmethod
    def _add_named(index: dict[str, list[tuple[str, DataFile]]], target: str, delete: DataFile) -> None:
        index[split_location(target)[2]].append((target, delete))

    @property
    def names(self) -> frozenset[str] | None:
        """The paths, without scheme and host, of all files that a delete can apply to. None if they are not known by
        name."""
        if self._global or self._equality or self._by_partition:
            return None
        return frozenset(self._by_path) | frozenset(self._vectors)

    def applying_to(self, data: DataFile) -> tuple[DataFile, ...]:
        """The deletes that apply to a data file, equality deletes last."""
        return (*self._positions(data), *self._equalities(data))

    def _positions(self, data: DataFile) -> Iterator[DataFile]:
        vectors = [v for v in _named(self._vectors, data.path) if data.sequence_number <= v.sequence_number]
        if vectors:
            yield max(vectors, key=lambda vector: vector.sequence_number)
            return
        for delete in _named(self._by_path, data.path):
            if data.sequence_number <= delete.sequence_number:
                yield delete
        if not self._by_partition:
            return
        for delete, lower, upper in self._by_partition.get(partition_key(data), ()):
            if data.sequence_number <= delete.sequence_number and _may_name(data.path, lower, upper):
                yield delete

    def _equalities(self, data: DataFile) -> Iterator[DataFile]:
        for delete in self._global:
            if data.sequence_number < delete.sequence_number:
                yield delete
        if self._equality:
            for delete in self._equality.get(partition_key(data), ()):
                if data.sequence_number < delete.sequence_number:
                    yield delete


def only_target(delete: DataFile, entries: Entries, row: int) -> str | None:
    """The only data file that a position delete file or vector is about. None if there may be several."""
    return _target(delete, *_path_bounds(entries, row))


def _target(delete: DataFile, lower: bytes | None, upper: bytes | None) -> str | None:
    if delete.referenced_data_file is not None:
        return delete.referenced_data_file
    if lower is not None and lower == upper and len(lower) > TRUNCATED:
        return lower.decode("utf-8", "surrogateescape")
    return None


def _named(index: dict[str, list[tuple[str, DataFile]]], path: str) -> list[DataFile]:
    return (
        [delete for target, delete in index.get(split_location(path)[2], ()) if same_file(target, path)]
        if index
        else []
    )


def _may_name(path: str, lower: bytes | None, upper: bytes | None) -> bool:
    """Whether a path is between the bounds. If it is written in another form than the bounds, they prove nothing."""
    if lower is None or upper is None:
        return True
    whole = path.encode("utf-8", "surrogateescape")
    if lower <= whole <= upper or whole.startswith(upper):  # the upper bound may be cut and not rounded up
        return True
    return split_location(path)[:2] != split_location(lower.decode("utf-8", "surrogateescape"))[:2]


def partition_key(file: DataFile) -> PartitionKey:
    """Spec id and values in comparable form. Floats are compared by their bits, with one NaN; -0.0 is a value of its
    own."""
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
    """Read the delete manifests that were kept, if there are data files that they can apply to."""
    return index_deletes(metadata, table_format, listed) if pruned.kept else DeleteIndex(metadata, ())


def index_deletes(metadata: TableMetadata, table_format: TableFormat, listed: PrunedList) -> DeleteIndex:
    """The deletes of the delete manifests that were kept."""
    columns = EntryColumns(metrics=(DELETE_FILE_PATH_ID,))
    return DeleteIndex(metadata, table_format.entries(metadata, listed.deletes, columns))
