"""Putting a Puffin file together (checklist T12): the other half of `esker.iceberg.puffin`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from esker.iceberg.puffin import FOOTER_FRAME, MAGIC, PAYLOAD_COMPRESSED, TRAILER, BlobMetadata, Footer


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBlob:
    """A blob to be written: its content and what the footer shall say of it."""

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
    """A whole Puffin file, and its footer with every blob's offset and length."""
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
    """The footer payload as JSON, fields of a later spec put back where they were."""
    document: dict[str, Any] = {"blobs": [_blob_json(blob) for blob in blobs]}
    if properties:
        document["properties"] = dict(properties)
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
    """One frame that states its content size, as the spec asks of both codecs."""
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
