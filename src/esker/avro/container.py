"""The Avro container: a header, then compressed blocks. The header's sync marker ends each block.

Bytes come from memory or from a file, through the same two methods, ``take`` and ``long``. Both raise `Corrupt` at the
end of the bytes. A container whose last blocks are missing looks complete; an incomplete block is refused.
Decompression has a limit for every codec.
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

import pyarrow as pa

from esker.avro.schema import Record, SchemaError, parse_schema
from esker.errors import Corrupt, Unsupported

_zlib: Any
try:
    from isal import isal_zlib as _zlib  # about twice as fast, if it is installed
except ImportError:
    _zlib = zlib

Inflate = Callable[[memoryview, int], "bytes | memoryview"]
_XZ_MEMORY = 256 << 20
_ZSTD_STEP = 1 << 20
_SNAPPY_RATIO = 32  # a copy of 64 bytes needs three bytes


class CodecError(ValueError):
    """A block cannot be decompressed. The caller, which knows the file's name, raises ``Corrupt``."""


def codec(name: str, *, file: str) -> Inflate:
    """The function that decompresses a block of this codec, up to a limit. Raises `Unsupported` for an unknown
    codec."""
    try:
        return _CODECS[name]
    except KeyError:
        known = ", ".join(_CODECS)
        message = f"Cannot read {file}: its Avro codec {name!r} is not one of {known}"
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
    # Bytes after the stream are ignored: some writers leave a part of zlib's checksum there.
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
    """Decompress snappy. It records its size at the start. Avro adds a CRC-32 of the uncompressed data."""
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
    """Decompress as a stream: a frame need not record its size, and a recorded size may be wrong."""
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


# ---------------------------------------------------------------- Header and blocks


MAGIC = b"Obj\x01"
SYNC = 16
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a file may need before it is refused. Sizes are in bytes."""

    header: int = 16 << 20
    """All metadata of the header."""
    block: int = 256 << 20
    """One block, compressed or decompressed."""
    container: int = 4 << 30
    """All blocks, decompressed, of a container that is decoded as a whole."""
    batch: int = 128 << 20
    """If the Arrow buffers are larger, the batch ends at the next row or container."""
    buffers: int = 1 << 30
    """The largest size of the Arrow buffers of one batch."""


LIMITS = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The header of a container. ``metadata`` includes avro.schema and avro.codec."""

    metadata: dict[str, bytes]
    schema: Record
    codec: str
    sync: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One decompressed block. ``number`` counts from 0."""

    number: int
    rows: int
    data: bytes | memoryview


class Source(Protocol):
    """Where the bytes of a container come from."""

    file: str

    @property
    def remaining(self) -> int:
        """How many bytes are left."""

    def take(self, size: int, what: str) -> memoryview:
        """The next ``size`` bytes. ``what`` is their name in an error."""

    def long(self, what: str) -> int:
        """The next number, in zigzag encoding."""


class Memory:
    """A container in memory. `take` returns a view, not a copy."""

    def __init__(self, data: memoryview, file: str) -> None:
        self.file = file
        self._data = data
        self._at = 0

    @property
    def remaining(self) -> int:
        """How many bytes are left."""
        return len(self._data) - self._at

    def take(self, size: int, what: str) -> memoryview:
        """The next ``size`` bytes."""
        if not 0 <= size <= self.remaining:
            raise Corrupt(self.file, f"it ends inside {what}" if size > 0 else f"{what} has a negative size")
        start, self._at = self._at, self._at + size
        return self._data[start : self._at]

    @property
    def position(self) -> tuple[memoryview, int]:
        """The whole container, and where the next byte is."""
        return self._data, self._at

    def move_to(self, at: int) -> None:
        """Go on from another place."""
        self._at = at

    def long(self, what: str) -> int:
        """The next number, in zigzag encoding."""
        value, used = read_long(self._data[self._at : self._at + 10])
        if not used:
            short = self.remaining < 10
            raise Corrupt(self.file, f"it ends inside {what}" if short else f"{what} is no valid number")
        self._at += used
        return value


class Stream:
    """A container in a seekable file. Reads chunks ahead, so that there are few small reads."""

    def __init__(self, source: BinaryIO, file: str) -> None:
        self.file = file
        self._source = source
        self._end = source.seek(0, io.SEEK_END)
        source.seek(0)
        self._fetched = 0
        self._ahead = memoryview(b"")

    @property
    def remaining(self) -> int:
        """How many bytes are left."""
        return self._end - self._fetched + len(self._ahead)

    def take(self, size: int, what: str) -> memoryview:
        """The next ``size`` bytes."""
        if not 0 <= size <= self.remaining:
            raise Corrupt(self.file, f"it ends inside {what}" if size > 0 else f"{what} has a negative size")
        self._fill(size, what)
        taken, self._ahead = self._ahead[:size], self._ahead[size:]
        return taken

    def long(self, what: str) -> int:
        """The next number, in zigzag encoding."""
        self._fill(min(10, self.remaining), what)
        window = Memory(self._ahead, self.file)
        value = window.long(what)
        self._ahead = self._ahead[len(self._ahead) - window.remaining :]
        return value

    def _fill(self, size: int, what: str) -> None:
        if size <= len(self._ahead):
            return
        pieces = [bytes(self._ahead)]
        missing = max(size - len(self._ahead), min(_CHUNK, self._end - self._fetched))
        while missing > 0:
            piece = self._source.read(missing)
            if not piece:
                raise Corrupt(self.file, f"it ends inside {what}")
            pieces.append(piece)
            missing -= len(piece)
            self._fetched += len(piece)
        self._ahead = memoryview(b"".join(pieces))


def read_long(data: memoryview) -> tuple[int, int]:
    """A zigzag number and its length in bytes. The length is 0 if it does not end or does not fit 64 bits."""
    value = 0
    for used, byte in enumerate(data):
        value |= (byte & 0x7F) << (7 * used)
        if byte < 0x80:
            return ((value >> 1) ^ -(value & 1), used + 1) if value < 1 << 64 else (0, 0)
    return 0, 0


def read_head(source: Source, limits: Limits) -> Header:
    """The header, from the start of the source."""
    file = source.file
    if source.remaining < len(MAGIC) or bytes(source.take(len(MAGIC), "its magic")) != MAGIC:
        raise Corrupt(file, "it is not an Avro container: the magic bytes are missing")
    metadata = _metadata(source, limits)
    sync = bytes(source.take(SYNC, "its header"))
    if "avro.schema" not in metadata:
        raise Corrupt(file, "its header has no avro.schema")
    try:
        schema = parse_schema(metadata["avro.schema"])
        name = metadata.get("avro.codec", b"null").decode()
    except SchemaError as error:
        raise Corrupt(file, str(error)) from None
    except UnicodeDecodeError:
        raise Corrupt(file, "its avro.codec is not UTF-8") from None
    return Header(metadata=metadata, schema=schema, codec=name or "null", sync=sync)


@dataclass(frozen=True, slots=True)
class Start:
    """How a container in memory begins: the bytes before its sync marker, and its header."""

    data: bytes
    header: Header


def read_start(source: Memory, limits: Limits, last: Start | None) -> Start:
    """The start of a container. If it has the same bytes as the last one, they are not parsed again: manifests of one
    writer differ only in their sync marker."""
    data, _ = source.position
    if last is not None and bytes(data[: len(last.data)]) == last.data:
        source.move_to(len(last.data))
        head, sync = last.header, bytes(source.take(SYNC, "its header"))
        return Start(last.data, Header(metadata=head.metadata, schema=head.schema, codec=head.codec, sync=sync))
    header = read_head(source, limits)
    return Start(bytes(data[: len(data) - source.remaining - SYNC]), header)


def _metadata(source: Source, limits: Limits) -> dict[str, bytes]:
    file, what, left = source.file, "its header", limits.header
    metadata: dict[str, bytes] = {}
    while count := source.long(what):
        if count < 0:
            count = -count
            source.long(what)
        for _ in range(count):  # each turn reads at least two bytes, so the end of the bytes stops an absurd count
            pair = []
            for _ in range(2):
                size = source.long(what)
                left -= size
                if left < 0:
                    raise Corrupt(file, f"its header is larger than {limits.header} bytes")
                pair.append(bytes(source.take(size, what)))
            try:
                metadata[pair[0].decode()] = pair[1]
            except UnicodeDecodeError:
                raise Corrupt(file, "its header has a key that is not UTF-8") from None
    return metadata


def read_blocks(source: Source, header: Header, limits: Limits, *, number: int = 0) -> Iterator[Block]:
    """The blocks from the current position to the end, decompressed one at a time. The first has this number."""
    file = source.file
    inflate = codec(header.codec, file=file)
    while source.remaining:
        what = f"block {number}"
        rows, size = source.long(what), source.long(what)
        if rows < 0:
            raise Corrupt(file, f"{what} has a negative row count")
        if size > limits.block:
            raise Corrupt(file, f"{what} is larger than {limits.block} bytes")
        packed = source.take(size, what)
        if bytes(source.take(SYNC, what)) != header.sync:
            raise Corrupt(file, f"{what} is not closed by the sync marker")
        try:
            data = inflate(packed, limits.block)
        except CodecError as error:
            raise Corrupt(file, f"{what} {error}") from None
        yield Block(number=number, rows=rows, data=data)
        number += 1
