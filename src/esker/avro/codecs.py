"""Block compression: every codec inflates into a bounded buffer, and never more than was allowed."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from esker.errors import Unsupported

_zlib: Any
try:
    from isal import isal_zlib as _zlib  # about twice as fast, where it is installed
except ImportError:
    _zlib = zlib

Inflate = Callable[[memoryview, int], "bytes | memoryview"]
_XZ_MEMORY = 256 << 20
_ZSTD_STEP = 1 << 20
_SNAPPY_RATIO = 32  # a copy of 64 bytes takes three


class CodecError(ValueError):
    """A block does not inflate; whoever knows the file's name turns this into ``Corrupt``."""


def codec(name: str, *, file: str) -> Inflate:
    """The function that inflates a block of this codec to at most so many bytes."""
    try:
        return _CODECS[name]
    except KeyError:
        known = ", ".join(_CODECS)
        message = f"Cannot read {file}: its Avro codec {name!r} is none of {known}"
        raise Unsupported(message, feature=f"avro codec {name}", file=file) from None


def _null(data: memoryview, limit: int) -> memoryview:
    if len(data) > limit:
        raise _too_large(limit)
    return data


def _deflate(data: memoryview, limit: int) -> bytes:
    inflater = _zlib.decompressobj(wbits=-zlib.MAX_WBITS)
    try:
        out: bytes = inflater.decompress(data, limit + 1)
    except _zlib.error as error:
        raise CodecError(f"does not inflate: {error}") from None
    # What follows the stream is let be: some writers leave a piece of zlib's checksum there.
    return _whole(out, limit, ended=inflater.eof)


def _bzip2(data: memoryview, limit: int) -> bytes:
    inflater = bz2.BZ2Decompressor()
    try:
        out = inflater.decompress(data, limit + 1)
    except (OSError, EOFError) as error:
        raise CodecError(f"does not inflate: {error}") from None
    return _whole(out, limit, ended=inflater.eof)


def _xz(data: memoryview, limit: int) -> bytes:
    inflater = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
    try:
        out = inflater.decompress(data, limit + 1)
    except (lzma.LZMAError, EOFError) as error:
        raise CodecError(f"does not inflate: {error}") from None
    return _whole(out, limit, ended=inflater.eof)


def _snappy(data: memoryview, limit: int) -> bytes:
    """Snappy states its size up front; Avro adds a CRC-32 of what was compressed."""
    size, shift = 0, 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > limit:
        raise _too_large(limit)
    if size > _SNAPPY_RATIO * len(data):
        raise CodecError("states a size that snappy cannot reach")
    try:
        out: bytes = pa.decompress(pa.py_buffer(data[:-4]), decompressed_size=size, codec="snappy", asbytes=True)
    except (OSError, ValueError) as error:
        raise CodecError(f"does not inflate: {error}") from None
    if zlib.crc32(out) != int.from_bytes(data[-4:], "big"):
        raise CodecError("fails its snappy checksum")
    return out


def _zstandard(data: memoryview, limit: int) -> bytes:
    """Read as a stream: a frame need not state its size, and one that does may lie."""
    pieces, total = [], 0
    try:
        with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(data)), "zstd") as stream:
            while piece := stream.read(min(_ZSTD_STEP, limit + 1 - total)):
                pieces.append(piece)
                total += len(piece)
                if total > limit:
                    raise _too_large(limit)
    except (OSError, pa.ArrowException) as error:
        raise CodecError(f"does not inflate: {error}") from None
    return b"".join(pieces)


def _whole(out: bytes, limit: int, *, ended: bool) -> bytes:
    if len(out) > limit:
        raise _too_large(limit)
    if not ended:
        raise CodecError("ends in the middle of its compressed stream")
    return out


def _too_large(limit: int) -> CodecError:
    return CodecError(f"inflates to more than {limit} bytes")


_CODECS: dict[str, Inflate] = {
    "null": _null,
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": _bzip2,
    "xz": _xz,
}
