"""Divide rows by partition, and sort them in the table's sort order."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from esker.arrow.column_transforms import Coded, transformed
from esker.arrow.value_arrays import held_array, leaf_array
from esker.errors import InvalidInput
from esker.model.arrow_arrays import arrow_array, null_mask, numbers_of
from esker.model.partition_and_sort import PartitionSpec, SortField, SortOrder
from esker.model.schema import Schema
from esker.model.transform import IdentityTransform, UnknownTransform, VoidTransform, accepts
from esker.model.types import BooleanType, DoubleType, FloatType, Type

# ---------------------------------------------------------------- Partitions: a batch in, a batch per partition out


Partition = tuple[Any, ...]  # held values, one per field of the spec

_MANY = 2**62


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of one partition from one batch."""

    key: tuple[Any, ...]  # equal for equal partitions; the values are not, because of NaN and the two zeros
    partition: Partition
    batch: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class Partitioner:
    """Divides batches of a schema by a spec. Made by ``partitioner``, which checks the spec."""

    schema: Schema
    spec: PartitionSpec

    def split(self, batch: pa.RecordBatch) -> Iterator[Part]:
        """The partitions of the batch in order of appearance, with rows in their order."""
        if not batch.num_rows:
            return
        if not self.spec.fields:
            yield Part((), (), batch)
            return
        columns = [self._coded(batch, at) for at in range(len(self.spec.fields))]
        groups, first_rows = _grouped(columns, batch.num_rows)
        for rows, first in zip(groups, first_rows, strict=True):
            partition = tuple(column.values[column.codes[first]] for column in columns)
            part = batch if len(groups) == 1 else batch.take(arrow_array(rows))
            yield Part(partition_key(partition), partition, part)

    def _coded(self, batch: pa.RecordBatch, at: int) -> Coded:
        field = self.spec.fields[at]
        if isinstance(field.transform, VoidTransform):
            return Coded(np.zeros(batch.num_rows, dtype=np.int64), (None,))
        path = self.schema.path_by_id[field.source_id]
        name = self.schema.name_by_id[field.source_id]
        return transformed(field.transform, path[-1].type, leaf_array(batch, path), name)


def partitioner(schema: Schema, spec: PartitionSpec) -> Partitioner:
    """A partitioner for the spec. Raises ``InvalidInput`` if rows of the schema cannot be divided by it."""
    for field in spec.fields:
        if isinstance(field.transform, UnknownTransform) or field.other_sources:
            raise InvalidInput(
                f"cannot write with partition field {field.name!r}: the transform {field.transform} is unknown",
                transform=str(field.transform),
            )
        if isinstance(field.transform, VoidTransform):
            continue
        source = schema.by_id.get(field.source_id)
        if source is None:
            raise InvalidInput(
                f"cannot write with partition field {field.name!r}: its column (id {field.source_id}) does not exist "
                "any more",
                column=field.name,
            )
        if schema.in_repeated(source.id) or not accepts(field.transform, source.type):
            raise InvalidInput(
                f"cannot write with partition field {field.name!r}: {field.transform} cannot be used on a "
                f"{source.type}",
                column=schema.name_by_id[source.id],
            )
    return Partitioner(schema, spec)


def partition_key(partition: Partition) -> tuple[Any, ...]:
    """The identity of a partition: floats by their bits, every NaN the same (checklist F10)."""
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
    groups = numbers_of(arrow_array(keys).dictionary_encode().indices, null=0)  # numbered by first appearance
    counts = np.bincount(groups)
    if len(counts) == 1:
        return [np.arange(rows)], [0]
    parts = np.split(np.argsort(groups, kind="stable"), np.cumsum(counts)[:-1])
    return parts, [int(part[0]) for part in parts]


# ---------------------------------------------------------------- Sort order, as in the spec
#
# NaN above every number, -0.0 below +0.0.


def check_sort_order(schema: Schema, order: SortOrder) -> None:
    """Raise ``InvalidInput`` if rows of the schema cannot be sorted in this order."""
    for key in order.fields:
        source = schema.by_id.get(key.source_id)
        if isinstance(key.transform, UnknownTransform) or key.other_sources:
            why = f"the transform {key.transform} is unknown"
        elif source is None:
            why = "the column does not exist any more"
        elif schema.in_repeated(key.source_id) or not accepts(key.transform, source.type):
            why = f"{key.transform} of a {source.type} cannot be sorted"
        else:
            continue
        name = schema.name_by_id.get(key.source_id, f"id {key.source_id}")
        raise InvalidInput(f"cannot write with the sort key {name!r}: {why}", column=name)


def sorted_batch(batch: pa.RecordBatch, schema: Schema, order: SortOrder) -> pa.RecordBatch:
    """The rows in order. Equal rows keep their order."""
    places = sorted_places(batch, schema, order)
    return batch if places is None else batch.take(places)


def sorted_places(batch: pa.RecordBatch, schema: Schema, order: SortOrder) -> pa.Array | None:
    """The numbers of the rows in order. None if the order has no key."""
    columns: dict[str, pa.Array] = {}
    keys: list[tuple[str, str]] = []
    for at, field in enumerate(order.fields):
        if isinstance(field.transform, VoidTransform):
            continue
        path = schema.path_by_id[field.source_id]
        key = _key(field, path[-1].type, leaf_array(batch, path), schema.name_by_id[field.source_id])
        if key.null_count:  # a separate key, because Arrow has one setting for the nulls of all keys
            columns[f"null{at}"] = key.is_null().cast(pa.int8())
            keys.append((f"null{at}", "ascending" if field.nulls_last else "descending"))
        columns[f"key{at}"] = key
        keys.append((f"key{at}", "descending" if field.descending else "ascending"))
    if not keys:
        return None
    return pc.sort_indices(pa.table(columns), sort_keys=keys)


def _key(field: SortField, type_: Type, array: pa.Array, name: str) -> pa.Array:
    if not isinstance(field.transform, IdentityTransform):
        return _ranked(*_transformed(field, type_, array, name))
    held = held_array(array, type_)
    match type_:
        case FloatType() | DoubleType():
            return _total_order(held)
        case BooleanType():
            return held.cast(pa.int8())
        case _:
            return held


def _transformed(field: SortField, type_: Type, array: pa.Array, name: str) -> tuple[Any, tuple[Any, ...]]:
    coded = transformed(field.transform, type_, array, name)
    return coded.codes, coded.values


def _ranked(codes: Any, values: tuple[Any, ...]) -> pa.Array:
    """The rank of each row's value among the distinct values."""
    ranks = {value: rank for rank, value in enumerate(sorted(value for value in values if value is not None))}
    by_code = np.array([-1 if value is None else ranks[value] for value in values], dtype=np.int64)
    found = by_code[codes]
    return arrow_array(found, null=found < 0)


def _total_order(array: pa.Array) -> pa.Array:
    """Floats as integers with the order of the spec."""
    wide = numbers_of(array.cast(pa.float64()), null=0).copy()
    wide[np.isnan(wide)] = np.nan
    bits = wide.view(np.int64)
    flipped = np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)
    return arrow_array(flipped, null=null_mask(array))
