"""Decoded manifests side by side in one batch: what the cache keeps, in memory and as bytes.

A slab has the columns as they were decoded, before the values that entries inherit. These come from the manifest list,
which may differ from snapshot to snapshot.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from esker import avro
from esker.avro.schema import parse_schema
from esker.errors import EskerError
from esker.model.arrow_arrays import arrow_array
from esker.model.partition_and_sort import PartitionSpec
from esker.tree.manifest import Entries

VERSION = 1
"""Of the form on disk. Another version is ignored, and made again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slab:
    """Manifests of one spec and one writer's schema. ``keys`` has one per part of ``columns``."""

    columns: avro.AvroColumns
    keys: tuple[bytes, ...]
    spec: str  # as `spec_mark` has it
    metrics: frozenset[int]  # the columns whose statistics were decoded
    remembered: list[tuple[Any, Entries]] = field(default_factory=list, compare=False, repr=False)

    @property
    def weight(self) -> int:
        """About how many bytes it takes in memory, with the entries that are remembered."""
        return int(self.columns.batch.nbytes) * 3 // 2 + 600 * len(self.keys)

    def part(self, first: int, last: int) -> avro.AvroColumns:
        """The columns of the manifests from ``first`` up to, but without, ``last``."""
        if (first, last) == (0, len(self.keys)):
            return self.columns
        parts = self.columns.parts
        start = sum(part.rows for part in parts[:first])
        rows = sum(part.rows for part in parts[first:last])
        index = arrow_array(np.arange(start, start + rows, dtype=np.int64))
        return replace(self.columns, batch=self.columns.batch.take(index), parts=_numbered(parts[first:last]))


def spec_mark(spec: PartitionSpec) -> str:
    """What the decoded columns take from a spec: the ids and the names of its fields."""
    return json.dumps([spec.spec_id, [[field.field_id, field.name] for field in spec.fields]])


def new_slab(columns: avro.AvroColumns, keys: Sequence[bytes], spec: str, metrics: frozenset[int]) -> Slab:
    """A slab of freshly decoded columns. Equal headers become one object: a header has the whole schema as text."""
    distinct: list[dict[str, bytes]] = []
    parts = []
    for part in _numbered(columns.parts):
        same = next((header for header in reversed(distinct) if header == part.header), None)
        if same is None:
            distinct.append(part.header)
        parts.append(part if same is None or same is part.header else replace(part, header=same))
    return Slab(columns=replace(columns, parts=tuple(parts)), keys=tuple(keys), spec=spec, metrics=metrics)


def join_slabs(slabs: Sequence[Slab]) -> Slab | None:
    """One slab of several, in their order. None if their columns differ."""
    first = slabs[0]
    if any(
        (slab.spec, slab.metrics, slab.columns.schema) != (first.spec, first.metrics, first.columns.schema)
        or not slab.columns.batch.schema.equals(first.columns.batch.schema, check_metadata=True)
        for slab in slabs
    ):
        return None
    columns = replace(
        first.columns,
        batch=pa.concat_batches([slab.columns.batch for slab in slabs]),
        parts=tuple(part for slab in slabs for part in slab.columns.parts),
    )
    return new_slab(columns, [key for slab in slabs for key in slab.keys], first.spec, first.metrics)


def _numbered(parts: Sequence[avro.Part]) -> tuple[avro.Part, ...]:
    return tuple(part if part.index == at else replace(part, index=at) for at, part in enumerate(parts))


# ---------------------------------------------------------------- As bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SlabHead:
    """What a stored slab is about: enough to decide whether to load it."""

    keys: tuple[bytes, ...]
    spec: str
    metrics: frozenset[int]


def head_bytes(slab: Slab) -> bytes:
    """The head of a stored slab."""
    keys = [key.hex() for key in slab.keys]
    return json.dumps({"version": VERSION, "spec": slab.spec, "metrics": sorted(slab.metrics), "keys": keys}).encode()


def parse_head(data: bytes) -> SlabHead | None:
    """The head from its bytes. None if it is of another version, or no head."""
    try:
        found = json.loads(data)
        if found["version"] != VERSION:
            return None
        return SlabHead(
            keys=tuple(map(bytes.fromhex, found["keys"])), spec=str(found["spec"]), metrics=frozenset(found["metrics"])
        )
    except (ValueError, KeyError, TypeError):
        return None


def body_bytes(slab: Slab) -> bytes:
    """The body of a stored slab: the headers and rows of its manifests, then the batch in Arrow's stream format."""
    headers = list({id(part.header): part.header for part in slab.columns.parts}.values())
    places = {id(header): at for at, header in enumerate(headers)}
    facts = {
        "headers": [{key: base64.b64encode(value).decode() for key, value in header.items()} for header in headers],
        "parts": [[part.file, places[id(part.header)], part.rows] for part in slab.columns.parts],
    }
    text = json.dumps(facts).encode()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, slab.columns.batch.schema) as writer:
        writer.write_batch(slab.columns.batch)
    return len(text).to_bytes(8, "little") + text + sink.getvalue().to_pybytes()


def parse_slab(head: SlabHead, body: memoryview) -> Slab | None:
    """The slab of a head and a body. None if they make no sense together."""
    try:
        size = int.from_bytes(body[:8], "little")
        facts = json.loads(bytes(body[8 : 8 + size]))
        headers = [{key: base64.b64decode(value) for key, value in header.items()} for header in facts["headers"]]
        parts = tuple(
            avro.Part(index=at, file=file, header=headers[header], rows=rows)
            for at, (file, header, rows) in enumerate(facts["parts"])
        )
        batch = pa.ipc.open_stream(pa.py_buffer(body[8 + size :])).read_next_batch()
        batch.validate()
        if len(parts) != len(head.keys) or sum(part.rows for part in parts) != batch.num_rows:
            return None
        schema = parse_schema(parts[0].header["avro.schema"])
    except (ValueError, KeyError, TypeError, IndexError, OSError, pa.ArrowException, EskerError, StopIteration):
        return None
    columns = avro.AvroColumns(schema=schema, batch=batch, parts=parts)
    return Slab(columns=columns, keys=head.keys, spec=head.spec, metrics=head.metrics)
