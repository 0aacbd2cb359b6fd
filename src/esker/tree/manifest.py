"""Manifest entries, stored as columns.

A plan over a hundred thousand files compares columns. Only the remaining files become ``DataFile`` objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from esker.model.arrow_arrays import arrow_array
from esker.model.partition_and_sort import PartitionSpec
from esker.tree.data_file import DataFile, FileContent, Metrics
from esker.tree.manifest_list import ManifestFile

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    Int64s = npt.NDArray[np.int64]
    Int8s = npt.NDArray[np.int8]
    Bools = npt.NDArray[np.bool_]


class EntryStatus(IntEnum):
    """What the manifest's snapshot did with a file. The numbers are from the spec."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntry:
    """A file to list. A ``snapshot_id`` of None is inherited. A removed file has the id of the snapshot that removed
    it. An added file with a ``sequence_number`` keeps it; without one it inherits the commit's."""

    data_file: DataFile
    status: EntryStatus = EntryStatus.ADDED
    snapshot_id: int | None = None
    sequence_number: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMetrics:
    """The statistics of one column over many files, one row per file. Null means unknown."""

    lower: pa.Array  # binary, in the single-value form of the spec
    upper: pa.Array
    value_count: pa.Array  # int64
    null_count: pa.Array
    nan_count: pa.Array


@dataclass(frozen=True, kw_only=True)
class Entries:
    """The entries of one or more manifests with the same spec and content kind, one row each.

    Inheritance is resolved: sequence numbers, snapshot ids and first row ids are the final values. ``metrics`` has only
    the columns that were asked for.
    """

    spec: PartitionSpec
    manifests: tuple[ManifestFile, ...]
    manifest_index: Int64s  # the index in ``manifests`` of each row's manifest
    status: Int8s
    content: Int8s
    snapshot_id: pa.Array  # int64; the snapshot that added the file, or removed it for a DELETED entry
    sequence_number: Int64s  # the data sequence number
    file_sequence_number: pa.Array  # int64, nullable
    path: pa.Array  # string
    file_format: pa.Array  # string, lower case
    record_count: Int64s
    file_size: Int64s
    partition: tuple[pa.Array, ...]  # one array per field of ``spec``, in the held form of its result type
    metrics: Mapping[int, ColumnMetrics] = field(default_factory=dict)
    rest: Mapping[str, pa.Array] = field(default_factory=dict)  # by attribute of DataFile; absent if all null
    full_metrics: Mapping[str, pa.Array] | None = None  # whole maps by attribute of Metrics, if they were asked for

    def __len__(self) -> int:
        return len(self.status)

    @cached_property
    def is_live(self) -> Bools:
        """The rows that are in the snapshot: added or existing."""
        return self.status != EntryStatus.DELETED

    def take(self, rows: Any) -> Entries:
        """The rows at these indices, or where this mask is true, in order."""
        import numpy as np

        at = np.flatnonzero(rows) if getattr(rows, "dtype", None) == np.bool_ else np.asarray(rows, dtype=np.int64)
        if len(at) == len(self) and (at == np.arange(len(self))).all():
            return self
        index = arrow_array(at)
        return replace(
            self,
            manifest_index=self.manifest_index[at],
            status=self.status[at],
            content=self.content[at],
            snapshot_id=self.snapshot_id.take(index),
            sequence_number=self.sequence_number[at],
            file_sequence_number=self.file_sequence_number.take(index),
            path=self.path.take(index),
            file_format=self.file_format.take(index),
            record_count=self.record_count[at],
            file_size=self.file_size[at],
            partition=tuple(column.take(index) for column in self.partition),
            metrics={
                id_: ColumnMetrics(
                    lower=m.lower.take(index),
                    upper=m.upper.take(index),
                    value_count=m.value_count.take(index),
                    null_count=m.null_count.take(index),
                    nan_count=m.nan_count.take(index),
                )
                for id_, m in self.metrics.items()
            },
            rest={name: column.take(index) for name, column in self.rest.items()},
            full_metrics=None
            if self.full_metrics is None
            else {name: column.take(index) for name, column in self.full_metrics.items()},
        )

    def without_metrics(self) -> Entries:
        """The same rows without statistics, which a plan does not need after pruning."""
        return replace(self, metrics={})

    def data_file(self, row: int) -> DataFile:
        """One row as a `DataFile`."""
        return DataFile(
            path=self.path[row].as_py(),
            file_format=self.file_format[row].as_py(),
            record_count=int(self.record_count[row]),
            file_size=int(self.file_size[row]),
            content=FileContent(int(self.content[row])),
            spec_id=self.spec.spec_id,
            partition=self.partition_tuple(row),
            sequence_number=int(self.sequence_number[row]),
            file_sequence_number=self.file_sequence_number[row].as_py(),
            snapshot_id=self.snapshot_id[row].as_py(),
            metrics=self._metrics_of(row),
            **{name: _plain(name, column[row].as_py()) for name, column in self.rest.items()},
        )

    def data_files(self) -> Iterator[DataFile]:
        """Every row as a `DataFile`. A few thousand rows are converted at a time, which is faster than one by one."""
        for start in range(0, len(self), _AT_ONCE):
            part = slice(start, min(start + _AT_ONCE, len(self)))
            count = part.stop - start
            members: dict[str, list[Any]] = {
                "path": self.path.slice(start, count).to_pylist(),
                "file_format": self.file_format.slice(start, count).to_pylist(),
                "record_count": self.record_count[part].tolist(),
                "file_size": self.file_size[part].tolist(),
                "content": [_CONTENTS[number] for number in self.content[part].tolist()],
                "spec_id": [self.spec.spec_id] * count,
                "partition": self._partitions(start, count),
                "sequence_number": self.sequence_number[part].tolist(),
                "file_sequence_number": self.file_sequence_number.slice(start, count).to_pylist(),
                "snapshot_id": self.snapshot_id.slice(start, count).to_pylist(),
                "metrics": [self._metrics_of(row) for row in range(start, part.stop)],
            }
            for name, column in self.rest.items():
                members[name] = [_plain(name, value) for value in column.slice(start, count).to_pylist()]
            names = tuple(members)
            for values in zip(*members.values(), strict=True):
                yield DataFile(**dict(zip(names, values, strict=True)))

    def _partitions(self, start: int, count: int) -> list[tuple[Any, ...]]:
        if not self.partition:
            return [()] * count
        return list(zip(*(column.slice(start, count).to_pylist() for column in self.partition), strict=True))

    def partition_tuple(self, row: int) -> tuple[Any, ...]:
        """The partition of one row, in the held form."""
        return tuple(column[row].as_py() for column in self.partition)

    def manifest_of(self, row: int) -> ManifestFile:
        """The manifest of a row."""
        return self.manifests[int(self.manifest_index[row])]

    def _metrics_of(self, row: int) -> Metrics | None:
        if self.full_metrics is None:
            return None
        return Metrics(**{name: dict(column[row].as_py() or ()) for name, column in self.full_metrics.items()})


_AT_ONCE = 4096
_CONTENTS = {content.value: content for content in FileContent}


def _plain(name: str, value: Any) -> Any:
    """A list as a tuple. A null list is an empty tuple."""
    if name in ("split_offsets", "equality_ids"):
        return tuple(value or ())
    return value
