"""Decompression that stops at a limit, so that a few bytes cannot fill the memory."""

from __future__ import annotations

from typing import Literal

from esker.errors import Corrupt

Codec = Literal["gzip", "lz4", "zstd"]

GZIP_MAGIC = b"\x1f\x8b"


def decompress(file: str, what: str, content: bytes, codec: Codec, *, limit: int) -> bytes:
    """The bytes that ``content`` holds under ``codec``; `Corrupt` if it is cut, broken or above ``limit``."""
    import pyarrow as pa  # late: metadata is seldom compressed, and this import is half of a short command's time

    try:
        stream = pa.input_stream(pa.BufferReader(content), compression=codec)
        plain: bytes = stream.read(limit + 1)
    except (OSError, pa.ArrowException) as error:
        raise Corrupt(file, f"{what} cannot be decompressed as {codec}: {error}") from None
    if len(plain) > limit:
        raise Corrupt(file, f"{what} decompresses to more than {limit:,} bytes")
    if not content:
        raise Corrupt(file, f"{what} is empty where a {codec} frame belongs")
    return plain
