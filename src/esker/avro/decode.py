"""Containers to Arrow columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa

from esker.avro.container import LIMITS, Header, Limits
from esker.avro.projection import Projection
from esker.avro.schema import Record

Data = bytes | bytearray | memoryview | pa.Buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One container's share of a batch: its rows follow those of the parts before it."""

    index: int                       # its place among the containers given
    file: str
    header: dict[str, bytes]
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroColumns:
    """The decoded rows of one container, or of several with one writer's schema."""

    schema: Record
    batch: pa.RecordBatch
    parts: tuple[Part, ...]

    @property
    def header(self) -> dict[str, bytes]:
        """The header's metadata of the first container."""
        return self.parts[0].header


def decode(
    data: Data, *, file: str, want: Projection | None = None, logical: bool = False, limits: Limits = LIMITS
) -> AvroColumns:
    """All rows of one container; ``file`` names it in errors.

    Records become structs, arrays lists, native maps and arrays with ``logicalType: map`` maps,
    ``["null", T]`` a nullable T, enums utf8. Arrow fields carry the Avro id under ``b"field-id"``, at
    list elements, map keys and map values too. A field below a nullable record is nullable.
    ``logical`` applies logical types (date, time, timestamp, decimal, uuid as fixed_size_binary(16));
    without it values stay as stored.
    """
    raise NotImplementedError


def decode_many(
    containers: Iterable[tuple[str, Data]],
    *,
    want: Projection | None = None,
    logical: bool = False,
    limits: Limits = LIMITS,
) -> list[AvroColumns]:
    """The rows of many ``(file, data)`` containers, in one batch per distinct writer's schema.

    A batch that outgrows ``limits.batch_bytes`` is closed after the container at hand and another
    one begun, so few results are the rule, not a promise; ``parts`` says which container is where.
    """
    raise NotImplementedError


def iter_batches(
    source: BinaryIO,
    *,
    file: str,
    want: Projection | None = None,
    logical: bool = True,
    batch_rows: int = 65_536,
    limits: Limits = LIMITS,
) -> Iterator[pa.RecordBatch]:
    """The rows of a container of any size, block by block, in file order; logical types applied.

    ``source`` is seekable and read from its start. A batch holds at most ``batch_rows`` rows and
    about ``limits.batch_bytes``; memory is bounded by a batch and a block.
    """
    raise NotImplementedError


def read_header(source: Data | BinaryIO, *, file: str, limits: Limits = LIMITS) -> Header:
    """What a container says of itself, without touching its rows."""
    raise NotImplementedError


def arrow_schema(schema: Record, *, want: Projection | None = None, logical: bool = True) -> pa.Schema:
    """The Arrow schema that decoding with these arguments gives."""
    raise NotImplementedError
