"""Read and write Puffin files: blobs, and a footer that describes each blob (checklist T12, J1).

    PFA1 | blob … | PFA1 | footer payload (JSON) | payload size, 4 LE | flags, 4 | PFA1

The footer is read from the end of the file. The footer has the offset and length of each blob. This module does no I/O:
the caller passes ``read(offset, length)``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from esker.errors import Corrupt, Unsupported
from esker.iceberg.json_document import JsonObject, decode_json, decompress

ReadRange = Callable[[int, int], bytes]
"""``read(offset, length)`` returns the bytes there; fewer at the end of the file."""

MAGIC = b"PFA1"
TRAILER = struct.Struct("<iI4s")  # payload size, flags, magic
FOOTER_FRAME = len(MAGIC) + TRAILER.size  # a footer is its payload and these 16 bytes (J1)
PAYLOAD_COMPRESSED = 1  # bit 0 of the first flag byte; no other bit is defined yet

LARGEST_PAYLOAD = 64 << 20
LARGEST_BLOB = 256 << 20
_TAIL_GUESS = 8 << 10  # most footers fit, so one read is enough


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobMetadata:
    """The footer entry of one blob."""

    type: str
    fields: tuple[int, ...]  # ids of the fields that the blob was computed from
    snapshot_id: int  # -1: inherited (deletion vectors)
    sequence_number: int  # -1: inherited (deletion vectors)
    offset: int
    length: int  # as stored, compressed or not
    codec: str | None = None  # "lz4", "zstd" or an unknown name; None: not compressed
    properties: Mapping[str, str] = field(default_factory=dict)
    unknown: Mapping[str, Any] = field(default_factory=dict)  # unknown fields, kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """The content of a Puffin footer."""

    blobs: tuple[BlobMetadata, ...]
    size: int  # the whole footer: payload, both magics, size and flags (J1)
    properties: Mapping[str, str] = field(default_factory=dict)
    unknown: Mapping[str, Any] = field(default_factory=dict)


def read_footer(file: str, size: int, read: ReadRange) -> Footer:
    """The footer of a Puffin file of ``size`` bytes. Raises `Corrupt` if it is not valid."""
    if size < len(MAGIC) + FOOTER_FRAME:
        raise Corrupt(file, f"a Puffin file has at least {len(MAGIC) + FOOTER_FRAME} bytes, this one has {size}")
    tail = _read_exactly(file, read, max(0, size - _TAIL_GUESS), min(size, _TAIL_GUESS))
    payload_size, flags, magic = TRAILER.unpack_from(tail, len(tail) - TRAILER.size)
    if magic != MAGIC:
        raise Corrupt(file, f"a Puffin file ends with {MAGIC!r}, this one with {magic!r}")
    footer_size = payload_size + FOOTER_FRAME
    if payload_size < 0 or footer_size + len(MAGIC) > size or payload_size > LARGEST_PAYLOAD:
        raise Corrupt(file, f"the footer payload of {payload_size} bytes does not fit into a file of {size}")
    if footer_size > len(tail):
        tail = _read_exactly(file, read, size - footer_size, footer_size)
    footer = tail[len(tail) - footer_size :]
    if footer[: len(MAGIC)] != MAGIC:
        raise Corrupt(file, f"the footer must begin with {MAGIC!r}, not {footer[: len(MAGIC)]!r}")
    head = tail if len(tail) == size else _read_exactly(file, read, 0, len(MAGIC))
    if head[: len(MAGIC)] != MAGIC:
        raise Corrupt(file, f"a Puffin file begins with {MAGIC!r}, this one with {head[: len(MAGIC)]!r}")
    payload = _plain_payload(file, footer[len(MAGIC) : len(MAGIC) + payload_size], flags)
    return _footer(file, payload, footer_size, blobs_end=size - footer_size)


def read_blob(file: str, blob: BlobMetadata, read: ReadRange, *, limit: int = LARGEST_BLOB) -> bytes:
    """The decompressed blob. Raises `Corrupt` if it is incomplete or larger than ``limit``."""
    if blob.length > limit:
        raise Corrupt(file, f"the {blob.type} blob of {blob.length:,} bytes is above the limit of {limit:,}")
    what = f"the {blob.type} blob at {blob.offset}"
    content = _read_exactly(file, read, blob.offset, blob.length)
    match blob.codec:
        case None:
            return content
        case "lz4":
            return decompress(file, what, content, "lz4", limit=limit)
        case "zstd":
            return decompress(file, what, content, "zstd", limit=limit)
        case other:
            raise Unsupported(
                f"cannot read {what} of {file}: its compression codec {other!r} is not lz4 or zstd",
                feature=f"Puffin codec {other}",
                file=file,
            )


def _read_exactly(file: str, read: ReadRange, offset: int, length: int) -> bytes:
    content = read(offset, length)
    if len(content) != length:
        raise Corrupt(file, f"{length} bytes expected at {offset}, only {len(content)} found")
    return content


def _plain_payload(file: str, payload: bytes, flags: int) -> bytes:
    if flags & ~PAYLOAD_COMPRESSED:
        raise Unsupported(
            f"cannot read {file}: its Puffin footer has unknown flags {flags:#010x}",
            feature="unknown Puffin flags",
            file=file,
        )
    if flags & PAYLOAD_COMPRESSED:
        return decompress(file, "the footer payload", payload, "lz4", limit=LARGEST_PAYLOAD)
    return payload


def _footer(file: str, payload: bytes, size: int, *, blobs_end: int) -> Footer:
    document = JsonObject(file, "the footer payload", decode_json(file, payload, "the footer payload"))
    document.required("blobs")
    return Footer(
        blobs=tuple(_blob(blob, blobs_end) for blob in document.objects("blobs", "blob")),
        size=size,
        properties=document.strings("properties"),
        unknown=document.rest(),
    )


def _blob(blob: JsonObject, blobs_end: int) -> BlobMetadata:
    offset = blob.integer("offset", at_least=len(MAGIC))
    length = blob.integer("length", at_least=0)
    if offset + length > blobs_end:
        raise blob.corrupt(f"its {length} bytes at {offset} reach into the footer at {blobs_end}")
    blob.required("fields")
    return BlobMetadata(
        type=blob.string("type"),
        fields=blob.integers("fields"),
        snapshot_id=blob.integer("snapshot-id"),
        sequence_number=blob.integer("sequence-number"),
        offset=offset,
        length=length,
        codec=blob.string_or_none("compression-codec"),
        properties=blob.strings("properties"),
        unknown=blob.rest(),
    )


# ---------------------------------------------------------------- Writing


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBlob:
    """A blob to write: its content and its footer entry."""

    type: str
    content: bytes
    fields: tuple[int, ...] = ()
    snapshot_id: int = -1
    sequence_number: int = -1
    codec: Literal["lz4", "zstd"] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


def encode_puffin(
    blobs: Iterable[NewBlob], *, properties: Mapping[str, str] | None = None, compress_footer: bool = False
) -> tuple[bytes, Footer]:
    """A complete Puffin file, and its footer with the offset and length of every blob."""
    parts = [MAGIC]
    offset = len(MAGIC)
    placed: list[BlobMetadata] = []
    for blob in blobs:
        stored = _compress(blob.content, blob.codec)
        parts.append(stored)
        placed.append(_placed(blob, offset, len(stored)))
        offset += len(stored)
    payload = encode_payload(placed, properties or {})
    if compress_footer:
        payload = _compress(payload, "lz4")
    flags = PAYLOAD_COMPRESSED if compress_footer else 0
    parts += [MAGIC, payload, TRAILER.pack(len(payload), flags, MAGIC)]
    footer = Footer(blobs=tuple(placed), size=len(payload) + FOOTER_FRAME, properties=properties or {})
    return b"".join(parts), footer


def encode_payload(
    blobs: Iterable[BlobMetadata], properties: Mapping[str, str], unknown: Mapping[str, Any] | None = None
) -> bytes:
    """The footer payload as JSON, with the unknown fields in their old places."""
    document: dict[str, Any] = {"blobs": [_blob_json(blob) for blob in blobs]}
    if properties:
        document["properties"] = dict(properties)
    import msgspec  # late: workers that read vectors may not have it

    return msgspec.json.encode({**document, **(unknown or {})})


def _placed(blob: NewBlob, offset: int, length: int) -> BlobMetadata:
    return BlobMetadata(
        type=blob.type,
        fields=blob.fields,
        snapshot_id=blob.snapshot_id,
        sequence_number=blob.sequence_number,
        offset=offset,
        length=length,
        codec=blob.codec,
        properties=blob.properties,
    )


def _blob_json(blob: BlobMetadata) -> dict[str, Any]:
    document: dict[str, Any] = {
        "type": blob.type,
        "fields": list(blob.fields),
        "snapshot-id": blob.snapshot_id,
        "sequence-number": blob.sequence_number,
        "offset": blob.offset,
        "length": blob.length,
    }
    if blob.codec is not None:
        document["compression-codec"] = blob.codec
    if blob.properties:
        document["properties"] = dict(blob.properties)
    return {**document, **blob.unknown}


def _compress(content: bytes, codec: str | None) -> bytes:
    """One frame that records its content size, as the spec asks for both codecs."""
    match codec:
        case None:
            return content
        case "lz4":
            import lz4.frame

            compressed: bytes = lz4.frame.compress(content, store_size=True)
            return compressed
        case _:
            import pyarrow as pa

            zstd: bytes = pa.compress(content, codec=codec, asbytes=True)
            return zstd
