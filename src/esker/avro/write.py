"""Write Avro containers: new ones with fastavro, and ones that extend an existing container without decoding it."""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from esker.avro.container import LIMITS, MAGIC, SYNC, CodecError, Memory, codec, read_head
from esker.errors import Corrupt

# ---------------------------------------------------------------- New containers


def write(
    schema: Mapping[str, Any],
    records: Iterable[Mapping[str, Any]],
    *,
    metadata: Mapping[str, str | bytes] | None = None,
    codec: str = "deflate",
) -> bytes:
    """A container with these records. The same arguments give the same bytes.

    Attributes of the schema that Avro does not know (``field-id``, ``element-id``, …) stay in the header. The sync
    marker is computed from the schema and the metadata, because a random one would change every file.
    """
    import fastavro

    text = {key: value if isinstance(value, str) else value.decode() for key, value in (metadata or {}).items()}
    seed = json.dumps([schema, text], sort_keys=True).encode()
    sync = hashlib.blake2b(seed, digest_size=16).digest()
    if codec == "zstandard":
        return _write_zstandard(schema, records, text, sync)
    out = io.BytesIO()
    fastavro.writer(out, dict(schema), records, codec=codec, metadata=text, sync_marker=sync)
    return out.getvalue()


_BLOCK_BYTES = 1 << 18


def _write_zstandard(
    schema: Mapping[str, Any], records: Iterable[Mapping[str, Any]], metadata: Mapping[str, str], sync: bytes
) -> bytes:
    """A container with zstandard blocks. fastavro needs another library for it; Arrow has one."""
    import fastavro
    import pyarrow as pa

    head = {**metadata, "avro.codec": "zstandard", "avro.schema": json.dumps(schema)}
    pairs = [part.encode() for pair in head.items() for part in pair]
    out = [MAGIC, _long(len(head)), *(_long(len(part)) + part for part in pairs), _long(0), sync]
    parsed = fastavro.parse_schema(dict(schema))
    block, rows = io.BytesIO(), 0
    for record in records:
        fastavro.schemaless_writer(block, parsed, record)
        rows += 1
        if block.tell() >= _BLOCK_BYTES:
            out.append(_block(rows, pa.compress(block.getvalue(), codec="zstd", asbytes=True), sync))
            block, rows = io.BytesIO(), 0
    if rows:
        out.append(_block(rows, pa.compress(block.getvalue(), codec="zstd", asbytes=True), sync))
    return b"".join(out)


# ---------------------------------------------------------------- Extended containers
#
# A commit adds one row to a list of thousands. The records of a block follow each other without a gap, so blocks can be
# joined and copied as bytes. The cost is that of the new records and one small block.


FULL_BLOCK = 64
"""Blocks of this many rows are copied. Smaller ones are joined with the new rows, so that a thousand commits of
one row each make sixteen blocks, not a thousand."""


@dataclass(frozen=True, slots=True)
class Prepended:
    """The new container, and how many rows are from the old one."""

    data: bytes
    carried: int


def prepend(
    old: bytes,
    *,
    file: str,
    schema: Mapping[str, Any],
    records: Iterable[Mapping[str, Any]],
    metadata: Mapping[str, str],
) -> Prepended | None:
    """The records, then those of ``old``. None if ``old`` has another schema or codec."""
    source = Memory(memoryview(old), file)
    header = read_head(source, LIMITS)
    fresh = write(schema, [], metadata=metadata)
    ours = read_head(Memory(memoryview(fresh), file), LIMITS)
    if header.codec != "deflate" or _fields(header.metadata) != _fields(ours.metadata):
        return None
    rows, body = _encode(schema, records)
    (_, start), carried, joins = source.position, 0, True
    for count, data, end in _blocks(old, start, header.sync, file):
        joins = joins and count < FULL_BLOCK and rows < FULL_BLOCK
        if joins:
            rows, body = rows + count, body + _inflate(old[data:end], file)
            start = end + SYNC
        carried += count
    first = _block(rows, _deflate(body), header.sync) if rows else b""
    # With the sync marker of the old container, its full blocks are copied as one piece.
    return Prepended(b"".join((fresh[:-SYNC], header.sync, first, memoryview(old)[start:])), carried)


def _blocks(old: bytes, at: int, sync: bytes, file: str) -> Iterator[tuple[int, int, int]]:
    """The number of rows of each block from a place on, and where its data begins and ends.

    A list of thousands has many blocks: ``Memory``, which makes views, takes five times as long.
    """
    while at < len(old):
        count, at = _number(old, at, "a block's count", file)
        size, at = _number(old, at, "a block's size", file)
        end = at + size
        if size < 0 or end > len(old):
            raise Corrupt(file, "it ends inside a block" if size > 0 else "a block has a negative size")
        if count < 0 or not old.startswith(sync, end):
            cut = len(old) < end + SYNC
            raise Corrupt(file, "it ends inside a sync marker" if cut else "a block does not end at its recorded size")
        yield count, at, end
        at = end + SYNC


def _number(data: bytes, at: int, what: str, file: str) -> tuple[int, int]:
    """A zigzag number, and where the next byte is."""
    try:
        byte = data[at]
        value, shift = byte & 0x7F, 7
        while byte > 0x7F:
            if shift > 63:
                raise Corrupt(file, f"{what} is no valid number")
            at += 1
            byte = data[at]
            value |= (byte & 0x7F) << shift
            shift += 7
    except IndexError:
        raise Corrupt(file, f"it ends inside {what}") from None
    return (value >> 1) ^ -(value & 1), at + 1


def _fields(metadata: Mapping[str, bytes]) -> Any:
    """The parsed schema, so that two texts of the same schema are equal."""
    return json.loads(metadata["avro.schema"])


def _encode(schema: Mapping[str, Any], records: Iterable[Mapping[str, Any]]) -> tuple[int, bytes]:
    import fastavro

    parsed = fastavro.parse_schema(dict(schema))
    out = io.BytesIO()
    rows = 0
    for record in records:
        fastavro.schemaless_writer(out, parsed, record)
        rows += 1
    return rows, out.getvalue()


def _block(rows: int, data: bytes, sync: bytes) -> bytes:
    return b"".join((_long(rows), _long(len(data)), data, sync))


def _inflate(data: bytes, file: str) -> bytes:
    try:
        return bytes(codec("deflate", file=file)(memoryview(data), LIMITS.block))
    except CodecError as error:
        raise Corrupt(file, f"a block {error}") from None


def _deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def _long(number: int) -> bytes:
    """A zigzag number, seven bits per byte. Counts and sizes are never negative."""
    rest, out = number << 1, bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
