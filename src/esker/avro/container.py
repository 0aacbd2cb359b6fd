"""The Avro container: a header, then blocks, each closed by the header's sync marker."""

from __future__ import annotations

from dataclasses import dataclass

from esker.avro.schema import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a file may ask for before it is refused."""

    header_bytes: int = 64 << 20     # the header's metadata, all of it
    block_bytes: int = 256 << 20     # one block, compressed or not
    container_bytes: int = 4 << 30   # all blocks of a container decoded whole, inflated
    batch_bytes: int = 128 << 20     # Arrow buffers after which a batch is closed


LIMITS = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a container says before its first block."""

    metadata: dict[str, bytes]       # with avro.schema and avro.codec
    schema: Record                   # the writer's schema
    codec: str
    sync: bytes
