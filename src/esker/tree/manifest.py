"""Manifest entries, held as columns.

A plan over a hundred thousand files compares columns, and only what survives becomes ``DataFile`` objects.
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
    """What the manifest's own snapshot did with a file; the numbers are the spec's."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntry:
    """A file to list. ``snapshot_id`` None leaves it to be inherited; a removed file names its remover."""

    data_file: DataFile
    status: EntryStatus = EntryStatus.ADDED
    snapshot_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMetrics:
    """One column's statistics over many files, aligned by row. Null is unknown everywhere."""

    lower: pa.Array  # binary, single-value form
    upper: pa.Array
    value_count: pa.Array  # int64
    null_count: pa.Array
    nan_count: pa.Array


@dataclass(frozen=True, kw_only=True)
class Entries:
    """Entries of one or more manifests that share one spec and one content kind, a row each.

    Inheritance is already resolved: sequence numbers, snapshot ids and first row ids are what a reader should
    see. ``metrics`` holds the columns that were asked for and no others.
    """

    spec: PartitionSpec
    manifests: tuple[ManifestFile, ...]
    manifest_index: Int64s  # which of ``manifests`` a row is from
    status: Int8s
    content: Int8s
    snapshot_id: pa.Array  # int64; who added the file, or for a DELETED entry removed it
    sequence_number: Int64s  # data sequence number
    file_sequence_number: pa.Array  # int64, nullable
    path: pa.Array  # string
    file_format: pa.Array  # string, lower case
    record_count: Int64s
    file_size: Int64s
    partition: tuple[pa.Array, ...]  # one array per field of ``spec``, in its result type's held form
    metrics: Mapping[int, ColumnMetrics] = field(default_factory=dict)
    rest: Mapping[str, pa.Array] = field(default_factory=dict)  # by DataFile attribute name, absent when all null
    full_metrics: Mapping[str, pa.Array] | None = None  # whole maps by Metrics attribute name, when all were asked for

    def __len__(self) -> int:
        return len(self.status)

    @cached_property
    def is_live(self) -> Bools:
        """Rows that are in the snapshot: added or existing."""
        return self.status != EntryStatus.DELETED

    def take(self, rows: Any) -> Entries:
        """The rows at these indices (or where this mask is true), in order."""
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
        """The same rows without the statistics that judged them, which a plan no longer needs."""
        return replace(self, metrics={})

    def data_file(self, row: int) -> DataFile:
        """One row as an object."""
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
        """Every row as an object, made as it is asked for."""
        return (self.data_file(row) for row in range(len(self)))

    def partition_tuple(self, row: int) -> tuple[Any, ...]:
        """One row's partition as held values."""
        return tuple(column[row].as_py() for column in self.partition)

    def manifest_of(self, row: int) -> ManifestFile:
        """The manifest a row is from."""
        return self.manifests[int(self.manifest_index[row])]

    def _metrics_of(self, row: int) -> Metrics | None:
        if self.full_metrics is None:
            return None
        return Metrics(**{name: dict(column[row].as_py() or ()) for name, column in self.full_metrics.items()})


def _plain(name: str, value: Any) -> Any:
    """List columns as tuples; a null list is an empty one."""
    if name in ("split_offsets", "equality_ids"):
        return tuple(value or ())
    return value
