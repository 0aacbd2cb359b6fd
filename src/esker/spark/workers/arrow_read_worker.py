"""Reads data files with Arrow inside a Spark task, for files that Spark's own readers cannot read exactly.

Runs in executors; ``ship`` sends it there.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

import esker.iceberg.metadata.schema  # noqa: F401  # what a part may hold must travel with it
from esker.arrow.arrow_engine import ArrowEngine
from esker.arrow.convert import plain
from esker.model.types import Field, ListType, MapType, StructType, TimeType, Type, UuidType, VariantType
from esker.ports.engine import ReadRequest, ScanTask

TASK = "task"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Everything that a task needs, except the files to read."""

    engine: ArrowEngine
    request: ReadRequest
    fields: tuple[Field, ...]  # the columns to return, in order


def run(order: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the files that the incoming batches list. Each item is a pickled task."""
    told: Order = pickle.loads(order)
    for batch in batches:
        tasks: list[ScanTask] = [pickle.loads(data) for data in batch.column(0).to_pylist()]
        for rows in told.engine.read(replace(told.request, tasks=tasks)):
            yield shown_batch(rows, told.fields)


def shown_batch(batch: pa.RecordBatch, fields: tuple[Field, ...]) -> pa.RecordBatch:
    """Return the batch in types that Spark has."""
    if not fields:
        return pa.RecordBatch.from_arrays([pa.nulls(batch.num_rows, pa.int32())], names=[TASK])
    columns = [shown_array(batch.column(at), f.type) for at, f in enumerate(fields)]
    return pa.RecordBatch.from_arrays(columns, names=[output_name(at) for at in range(len(fields))])


def output_name(at: int) -> str:
    """The name of the output column at this position. Real names may differ only by case, which Spark ignores."""
    return f"__esker_out_{at}"


def shown_array(array: pa.Array, type_: Type) -> pa.Array:
    """Return the array in a form that Spark accepts.

    UUIDs become text, fixed-size bytes become bytes, times of day become nanoseconds. Every member is nullable, as the
    schema that Spark received says.
    """
    match type_:
        case UuidType():
            return _uuid_text(plain(array))
        case TimeType():
            return array.cast(pa.time64("ns"))  # the only unit of times of day that Spark accepts from Arrow
        case StructType(fields):
            members = [shown_array(array.field(at), f.type) for at, f in enumerate(fields)]
            names = [pa.field(f.name, member.type) for f, member in zip(fields, members, strict=True)]
            return pa.StructArray.from_arrays(members, fields=names, mask=array.is_null())
        case ListType():
            array = _compact(array)
            inner = shown_array(array.values, type_.element)
            return _over(array, pa.list_(pa.field("element", inner.type)), inner)
        case MapType():
            array = _compact(array)
            keys, items = shown_array(array.keys, type_.key), shown_array(array.items, type_.value)
            made = pa.map_(pa.field("key", keys.type, nullable=False), pa.field("value", items.type))
            return _over(array, made, pa.StructArray.from_arrays([keys, items], fields=list(made.field(0).type)))
        case VariantType():
            parts = [array.field("value"), array.field("metadata")]
            return pa.StructArray.from_arrays(parts, fields=_VARIANT, mask=array.is_null())
        case _:
            return array.cast(pa.binary()) if pa.types.is_fixed_size_binary(array.type) else array


def _uuid_text(array: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    digits = pa.array([None if value is None else value.hex() for value in array.to_pylist()], pa.string())
    cuts = [pc.utf8_slice_codeunits(digits, start, stop) for start, stop in _DASHES]
    return pc.binary_join_element_wise(*cuts, "-")


# Spark sends variants in the same form. The metadata on the field is what marks the struct as a variant.
_VARIANT = [
    pa.field("value", pa.binary(), nullable=False),
    pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"}),
]
_DASHES = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))


def _compact(array: pa.Array) -> pa.Array:
    """Return the array with an offset of 0, because ``_over`` uses the offsets buffer as it is."""
    return pa.concat_arrays([array]) if array.offset else array


def _over(array: pa.Array, type_: pa.DataType, inner: pa.Array) -> pa.Array:
    return pa.Array.from_buffers(type_, len(array), array.buffers()[:2], array.null_count, children=[inner])
