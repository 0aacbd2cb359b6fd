"""Compressed sources as streams: gzip and zstd, detected by their first bytes, decompressed only as far as they are
read."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from enum import IntEnum
from typing import BinaryIO, Protocol

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
STEP = 1 << 18  # bytes that are decompressed at a time
_CHUNK = 1 << 18
LAYERS = 3  # of compression inside compression
_FED = 1 << 16  # bytes of a body that are given to zlib at a time: it copies the rest
_MEMBERS = 1000  # of a gzip body: each costs time, even an empty one


class Damaged(Exception):
    """A compressed stream that cannot be read further."""


class Readable(Protocol):
    """A source of bytes."""

    def read(self, size: int, /) -> bytes:
        """Return at most ``size`` bytes; none only at the end."""
        ...


class Limited:
    """The bytes of a file from its position to ``end``. The file may be longer: another process may be writing to
    it."""

    def __init__(self, file: BinaryIO, end: int) -> None:
        self._file = file
        self._left = end - file.tell()

    def read(self, size: int, /) -> bytes:
        """Return at most ``size`` bytes; none only at the end."""
        data = self._file.read(max(0, min(size, self._left)))
        self._left -= len(data)
        return data


class Stream:
    """A source with look-ahead; ``offset`` is the place of the next byte."""

    def __init__(self, source: Readable, *, offset: int = 0) -> None:
        self._source = source
        self._ahead = b""
        self._at = 0
        self._damage: Damaged | None = None
        self.offset = offset  # of the next byte

    def peek(self, size: int) -> bytes:
        """Return up to ``size`` of the next bytes; fewer only at the end, or before damage, which the next call
        raises."""
        if len(self._ahead) - self._at >= size:
            return self._ahead[self._at : self._at + size]
        have = self._ahead[self._at :]
        parts, length = [have], len(have)
        while length < size:
            more = self._more(max(_CHUNK, size - length))
            if not more:
                break
            parts.append(more)
            length += len(more)
        self._ahead, self._at = b"".join(parts), 0
        if not length and self._damage is not None:
            raise self._damage
        return self._ahead[:size]

    def _more(self, size: int) -> bytes:
        if self._damage is not None:
            return b""
        try:
            return self._source.read(size)
        except Damaged as damage:
            self._damage = damage
            return b""

    def read(self, size: int) -> bytes:
        """Return the next bytes; fewer only at the end."""
        if len(self._ahead) - self._at < size:
            self.peek(size)
        found = self._ahead[self._at : self._at + size]
        self._at += len(found)
        self.offset += len(found)
        return found

    def line(self, limit: int) -> bytes:
        """Return the bytes up to and including the next newline, or ``limit`` bytes of a longer line."""
        size = _CHUNK
        at = self._ahead.find(b"\n", self._at, self._at + limit)
        if at >= 0:
            return self.read(at + 1 - self._at)
        while True:
            ahead = self.peek(min(size, limit))
            at = ahead.find(b"\n")
            if at >= 0 or len(ahead) < size or size >= limit:
                return self.read(at + 1 if at >= 0 else len(ahead))
            size *= 4


class _Gunzip(io.RawIOBase):
    """Any number of gzip members, one after the other."""

    def __init__(self, source: Stream) -> None:
        super().__init__()
        self._source = source
        self._inflate = zlib.decompressobj(31)
        self._rest = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        """Return at most ``size`` bytes; none only at the end."""
        while True:
            data = self._rest or self._source.read(_CHUNK)
            if not data and (self._inflate.eof or not self._begun()):
                return b""
            if not data:
                raise Damaged("the gzip stream is cut off")
            if self._inflate.eof:
                self._inflate = zlib.decompressobj(31)
            try:
                found = self._inflate.decompress(data, size)
            except zlib.error as error:
                raise Damaged(f"the gzip stream is damaged: {error}") from None
            self._rest = self._inflate.unused_data if self._inflate.eof else self._inflate.unconsumed_tail
            if self._inflate.eof and not self._rest.strip(b"\0"):
                self._rest = b""  # padding, as in tape archives
            if found:
                return found

    def _begun(self) -> bool:
        return self._source.offset > 0


class _Unzstd(io.RawIOBase):
    """Any number of zstd frames, decompressed by Arrow."""

    def __init__(self, source: Stream) -> None:
        import pyarrow as pa

        super().__init__()
        self._failure: type[Exception] = pa.ArrowException
        self._inflate = pa.CompressedInputStream(pa.PythonFile(_Readable(source), mode="r"), "zstd")

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        """Return at most ``size`` bytes; none only at the end."""
        try:
            return bytes(self._inflate.read(size))
        except (OSError, self._failure) as error:
            raise Damaged(f"the zstd stream is damaged: {error}") from None


class _Readable(io.RawIOBase):
    """A stream with the interface that Arrow reads from."""

    def __init__(self, source: Stream) -> None:
        super().__init__()
        self._source = source

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        return self._source.read(size)


def is_packed(head: bytes) -> bool:
    """Whether a file with this beginning is compressed as a whole: then places in it are not places of its bytes."""
    return head.startswith((GZIP, ZSTD))


def unpacked(source: Stream) -> Stream | None:
    """The decompressed source; None if it is not compressed."""
    head = source.peek(4)
    if head[:2] == GZIP:
        return Stream(_Gunzip(source))
    if head == ZSTD:
        return Stream(_Unzstd(source))
    return None


def content_of(stream: Stream) -> Stream:
    """The content of a source under up to ``LAYERS`` of compression; the source itself if it is not compressed."""
    for _ in range(LAYERS):
        inner = unpacked(stream)
        if inner is None:
            break
        stream = inner
    return stream


def unpack_object(data: bytes, limit: int) -> bytes:
    """Decompress one small zstd object, of at most ``limit`` bytes. Raises ``Damaged``."""
    inner = unpacked(Stream(io.BytesIO(data)))
    if inner is None:
        return data
    found = inner.read(limit + 1)
    if len(found) > limit:
        raise Damaged(f"it decompresses to more than {limit} bytes")
    return found


class Coding(IntEnum):
    """The compression of a body sent over HTTP. The numbers are those in the spool's frames."""

    IDENTITY = 0
    GZIP = 1
    DEFLATE = 2


def inflate_steps(data: bytes | bytearray, coding: Coding) -> Iterator[bytes]:
    """Decompress a body in pieces of at most ``STEP`` bytes, only as far as pieces are asked for.

    Raises ``Damaged`` if the body cannot be decompressed, after the pieces before the damage.
    """
    view = memoryview(data)
    if coding is Coding.IDENTITY:
        yield from (bytes(view[at : at + STEP]) for at in range(0, len(view), STEP))
        return
    window = 31 if coding is Coding.GZIP else 15
    inflate, at, rest, members = zlib.decompressobj(window), 0, b"", 1
    while rest or at < len(view):
        if not rest:
            rest, at = bytes(view[at : at + _FED]), at + _FED
        if inflate.eof:
            if coding is Coding.DEFLATE or members == _MEMBERS:
                raise Damaged("bytes follow its end" if members < _MEMBERS else f"it has more than {_MEMBERS} members")
            inflate, members = zlib.decompressobj(window), members + 1
        try:
            found = inflate.decompress(rest, STEP)
        except zlib.error as error:
            raise Damaged(str(error)) from None
        rest = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
        if found:
            yield found
    while not inflate.eof and (found := inflate.decompress(b"", STEP)):
        yield found
    if not inflate.eof:
        raise Damaged("it is cut off")


def inflated(data: bytes, coding: Coding, limit: int) -> bytes:
    """Decompress a whole body. Raises ``Damaged`` if it cannot be decompressed, or is longer than ``limit`` bytes."""
    if coding is Coding.IDENTITY:
        return data
    parts, size = [], 0
    for part in inflate_steps(data, coding):
        parts.append(part)
        size += len(part)
        if size > limit:
            raise Damaged(f"it decompresses to more than {limit} bytes")
    return b"".join(parts)
