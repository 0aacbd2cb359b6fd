"""Rows divided by partition: a batch in, a batch per partition out, with the partition's values."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from esker.arrow.held import leaf_array
from esker.arrow.transforms import Coded, transformed
from esker.errors import InvalidInput
from esker.model.partition import PartitionSpec
from esker.model.schema import Schema
from esker.model.transform import UnknownTransform, VoidTransform, accepts

Partition = tuple[Any, ...]  # held values, one per field of the spec

_MANY = 2**62


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of one partition out of one batch."""

    key: tuple[Any, ...]  # equal for equal partitions; the tuple itself is not, for NaN and the two zeros
    partition: Partition
    batch: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class Partitioner:
    """Divides batches of a schema by a spec; made by ``partitioner``, which checks that it can."""

    schema: Schema
    spec: PartitionSpec

    def split(self, batch: pa.RecordBatch) -> Iterator[Part]:
        """The batch's partitions in order of appearance, rows in their order."""
        if not batch.num_rows:
            return
        if not self.spec.fields:
            yield Part((), (), batch)
            return
        columns = [self._coded(batch, at) for at in range(len(self.spec.fields))]
        groups, first_rows = _grouped(columns, batch.num_rows)
        for rows, first in zip(groups, first_rows, strict=True):
            partition = tuple(column.values[column.codes[first]] for column in columns)
            part = batch if len(groups) == 1 else batch.take(pa.array(rows))
            yield Part(partition_key(partition), partition, part)

    def _coded(self, batch: pa.RecordBatch, at: int) -> Coded:
        field = self.spec.fields[at]
        if isinstance(field.transform, VoidTransform):
            return Coded(np.zeros(batch.num_rows, dtype=np.int64), (None,))
        path = self.schema.path_by_id[field.source_id]
        name = self.schema.name_by_id[field.source_id]
        return transformed(field.transform, path[-1].type, leaf_array(batch, path), name)


def partitioner(schema: Schema, spec: PartitionSpec) -> Partitioner:
    """A partitioner for the spec; ``InvalidInput`` says why rows of the schema cannot be divided by it."""
    for field in spec.fields:
        if isinstance(field.transform, UnknownTransform) or field.other_sources:
            raise InvalidInput(
                f"cannot write with partition field {field.name!r}: the transform {field.transform} is not known here",
                transform=str(field.transform),
            )
        if isinstance(field.transform, VoidTransform):
            continue
        source = schema.by_id.get(field.source_id)
        if source is None:
            raise InvalidInput(
                f"cannot write with partition field {field.name!r}: its column (id {field.source_id}) is gone",
                column=field.name,
            )
        if schema.in_repeated(source.id) or not accepts(field.transform, source.type):
            raise InvalidInput(
                f"cannot write with partition field {field.name!r}: {field.transform} of a {source.type} is no value",
                column=schema.name_by_id[source.id],
            )
    return Partitioner(schema, spec)


def partition_key(partition: Partition) -> tuple[Any, ...]:
    """What identifies a partition: floats by their bits, every NaN the same (checklist F10)."""
    return tuple(_bits(value) if isinstance(value, float) else value for value in partition)


def _bits(value: float) -> bytes:
    return struct.pack(">d", value) if value == value else b"NaN"


def _grouped(columns: list[Coded], rows: int) -> tuple[list[np.ndarray[Any, Any]], list[int]]:
    """Row numbers per group, groups by first appearance, and the first row of each."""
    keys = np.zeros(rows, dtype=np.int64)
    size = 1
    for column in columns:
        if size * len(column.values) > _MANY:
            keys = np.unique(keys, return_inverse=True)[1].reshape(-1).astype(np.int64)
            size = int(keys.max()) + 1
        keys = keys * len(column.values) + column.codes
        size *= len(column.values)
    groups = pa.array(keys).dictionary_encode().indices.to_numpy()  # numbered by first appearance
    counts = np.bincount(groups)
    if len(counts) == 1:
        return [np.arange(rows)], [0]
    parts = np.split(np.argsort(groups, kind="stable"), np.cumsum(counts)[:-1])
    return parts, [int(part[0]) for part in parts]
