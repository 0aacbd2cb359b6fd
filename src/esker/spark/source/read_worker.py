"""Reads planned files as batches for the data source, inside a Spark task. ``ship`` sends it to the executors."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from esker.arrow.arrow_engine import ArrowEngine
from esker.model.schema import MappedField, Schema
from esker.model.types import Field, TimeType, UnknownType
from esker.ports.engine import ReadRequest
from esker.ports.storage import Storage
from esker.spark.workers.arrow_read_worker import shown_array


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Everything that a task needs, except the files to read."""

    storage: Storage
    fields: tuple[Field, ...]  # the columns to return, in order


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some files of a plan. The name mapping is parsed where Spark plans, because workers may not have the parser."""

    request: ReadRequest
    name_mapping: tuple[MappedField, ...] | None


def run(order: bytes, part: bytes | None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a part of a plan, in the types that Spark expects.

    An empty plan has one part, which is None.
    """
    if part is None:
        return
    told: Order = pickle.loads(order)
    files = unpacked(part)
    engine = ArrowEngine(told.storage, parse_name_mapping=lambda _: files.name_mapping or ())
    for rows in engine.read(files.request):
        yield _shown(rows, told.fields)


def packed(part: Part) -> bytes:
    """Return a part as bytes, for a worker."""
    return zlib.compress(pickle.dumps(part), 1)


def unpacked(part: bytes) -> Part:
    """Return the part that the bytes contain."""
    return pickle.loads(zlib.decompress(part))


def wanted(fields: tuple[Field, ...]) -> Schema:
    """Return the columns to read from files: all except those of the type unknown, which no file has."""
    return Schema(fields=tuple(f for f in fields if not isinstance(f.type, UnknownType)))


def _shown(batch: pa.RecordBatch, fields: tuple[Field, ...]) -> pa.RecordBatch:
    """Return the batch in the types that Spark expects."""
    columns: list[pa.Array] = []
    at = 0
    for field in fields:
        if isinstance(field.type, UnknownType):
            columns.append(pa.nulls(batch.num_rows))
            continue
        column = shown_array(batch.column(at), field.type)
        columns.append(column.cast(pa.time64("ns")) if isinstance(field.type, TimeType) else column)
        at += 1
    if not fields:
        return batch
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(_fields(columns, fields)))


def _fields(columns: list[pa.Array], fields: tuple[Field, ...]) -> list[pa.Field]:
    return [pa.field(field.name, column.type) for column, field in zip(columns, fields, strict=True)]
