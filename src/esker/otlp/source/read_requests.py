"""Reads requests from files and streams, one at a time and with its place, in any framing and compression.

Also whole requests without framing: messages of Kafka, values of a column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from esker.otlp.protocol.wire import Malformed, read_varint
from esker.otlp.source.decompress import LAYERS, Damaged, Limited, Stream, unpack_object, unpacked
from esker.otlp.source.framing import Begin, Framing, framing_of, is_json_object
from esker.otlp.source.requests import MAX_REQUEST, Request, Trouble
from esker.otlp.source.segment import read_segment
from esker.storage.failures import naming_failures

# ---------------------------------------------------------------- files and streams


KEPT = 1 << 16  # of bytes that are too many to keep
_SPACE = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"


def read_file(
    path: Path,
    *,
    source: str | None = None,
    limit: int = MAX_REQUEST,
    begin: Begin | None = None,
    end: int | None = None,
) -> Iterator[Request]:
    """The requests of a complete file, or of its first ``end`` bytes, from ``begin`` on."""
    with naming_failures("read", path), path.open("rb") as file:
        yield from read_requests(file, source=source or str(path), limit=limit, begin=begin, end=end)


def read_requests(
    source_: BinaryIO, *, source: str, limit: int = MAX_REQUEST, begin: Begin | None = None, end: int | None = None
) -> Iterator[Request]:
    """The requests of a complete stream, in order. Bytes that are not a request are returned as one with ``trouble``.

    With ``begin`` or ``end``, the stream must be seekable.
    """
    stream = Stream(source_ if end is None else Limited(source_, end))
    try:
        for _ in range(LAYERS):
            inner = unpacked(stream)
            if inner is None:
                break
            stream = inner
        framing = framing_of(stream, limit)
        lines = 0
        if begin is not None and begin.framing is framing:
            source_.seek(begin.at)
            stream, lines = Stream(source_ if end is None else Limited(source_, end), offset=begin.at), begin.lines
        yield from _requests(stream, framing, source, limit, lines)
    except Damaged as damage:
        trouble = Trouble("damaged_compression", f"{damage}; what comes after it is not read")
        yield Request(source=source, offset=stream.offset, data=b"", trouble=trouble)


def _requests(stream: Stream, framing: Framing, source: str, limit: int, lines: int) -> Iterator[Request]:
    match framing:
        case Framing.NOTHING:
            return
        case Framing.LINES:
            yield from _lines(stream, source, limit, lines)
        case Framing.DOCUMENT:
            yield Request(source=source, offset=0, data=stream.read(limit).removeprefix(_BOM), json=True, line=1)
        case Framing.VARINT:
            yield from _frames(stream, source, limit, _varint_size)
        case Framing.BIG_ENDIAN:
            yield from _frames(stream, source, limit, _big_endian_size)
        case Framing.SPOOL:
            yield from read_segment(stream, source, limit)
        case Framing.BARE:
            yield _bare(stream, source, limit)


def _bare(stream: Stream, source: str, limit: int) -> Request:
    data = stream.read(limit + 1)
    if len(data) > limit:
        return _too_large(source, 0, data, f"the file is one request of more than {limit} bytes")
    return Request(source=source, offset=0, data=data)


def _lines(stream: Stream, source: str, limit: int, number: int) -> Iterator[Request]:
    while True:
        offset = stream.offset
        line = stream.line(limit + 1)
        if not line:
            return
        number += 1
        if not line.endswith(b"\n") and len(line) > limit:
            yield _too_large(source, offset, line, f"line {number} is longer than {limit} bytes", line=number)
            while line and not line.endswith(b"\n"):
                line = stream.line(limit)
            continue
        data = (line.removeprefix(_BOM) if number == 1 else line).strip(_SPACE)
        if data:
            end = offset + len(line.rstrip(_SPACE))  # a line is complete without the characters that end it
            yield Request(source=source, offset=offset, data=data, json=True, end=end, line=number)


def _too_large(source: str, offset: int, data: bytes, sentence: str, *, line: int | None = None) -> Request:
    trouble = Trouble("too_large", f"{sentence}; only its first {KEPT} bytes are kept")
    return Request(source=source, offset=offset, data=data[:KEPT], line=line, trouble=trouble)


def _varint_size(stream: Stream) -> int | None:
    head = stream.peek(10)
    try:
        size, used = read_varint(head, 0, len(head))
    except Malformed:
        return None
    stream.read(used)
    return size


def _big_endian_size(stream: Stream) -> int | None:
    head = stream.peek(4)
    return int.from_bytes(stream.read(4), "big") if len(head) == 4 else None


def _frames(stream: Stream, source: str, limit: int, read_size: Callable[[Stream], int | None]) -> Iterator[Request]:
    while stream.peek(1):
        offset = stream.offset
        size = read_size(stream)
        if size is None:
            trouble = Trouble("truncated", "the file ends inside the length of a frame")
            yield Request(source=source, offset=offset, data=stream.read(KEPT), trouble=trouble)
            return
        if size > limit:
            yield _skipped(stream, source, offset, size, limit)
            continue
        data = stream.read(size)
        if len(data) < size:
            trouble = Trouble("truncated", f"the file ends {size - len(data)} bytes before the end of its last frame")
            yield Request(source=source, offset=offset, data=data, trouble=trouble)
            return
        if size:
            yield replace(_framed(source, offset, data, limit), end=stream.offset)


def _skipped(stream: Stream, source: str, offset: int, size: int, limit: int) -> Request:
    kept = stream.read(min(size, KEPT))
    left = size - len(kept)
    while left > 0 and (passed := stream.read(min(left, 1 << 20))):
        left -= len(passed)
    return _too_large(source, offset, kept, f"a frame of {size} bytes is longer than {limit}")


def _framed(source: str, offset: int, data: bytes, limit: int) -> Request:
    try:
        content = unpack_object(data, limit)
    except Damaged as damage:
        trouble = Trouble("damaged_compression", str(damage))
        return Request(source=source, offset=offset, data=data, trouble=trouble)
    return Request(source=source, offset=offset, data=content, json=is_json_object(content))


# ---------------------------------------------------------------- whole requests


def whole_request(data: bytes, *, source: str | None, offset: int | None, limit: int = MAX_REQUEST) -> Request:
    """One request in protobuf or JSON, which is detected; ``offset`` is None if it has no place."""
    if len(data) > limit:
        sentence = f"a request of {len(data)} bytes is longer than {limit}; only its first {KEPT} bytes are kept"
        return Request(source=source, offset=offset, data=data[:KEPT], trouble=Trouble("too_large", sentence))
    return Request(source=source, offset=offset, data=data, json=is_json_object(data))


def place_of(topic: str, partition: int) -> str:
    """The name of a partition of a topic as a source."""
    return f"{topic}/{partition}"
